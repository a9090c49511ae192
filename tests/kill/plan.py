"""What a world looks like and how each of its rounds ends; a function of the seed."""
import dataclasses
import random

KIB, MIB = 1 << 10, 1 << 20
MODES = ("writeback", "writeback", "writeback", "writethrough", "writearound", "none")

# Moments of death. "stop" is the orderly end that has to be there, too.
ENDS = (("kill", 60), ("opening", 15), ("stopping", 12), ("stop", 6), ("two terms", 7))

# Commands that are under way meanwhile.
CHORES = (
    (), (), (),
    ("flush",), ("flush",), ("gc",), ("gc",), ("detach",),
    ("set", "cache_mode=writeback"), ("set", "cache_mode=writethrough"),
    ("set", "cache_mode=writearound"), ("set", "cache_mode=none"),
    ("set", "writeback_running=0"), ("set", "writeback_running=1", "writeback_percent=0"),
    ("set", "writeback_percent=40"), ("set", "cache_replacement_policy=fifo"),
    ("set", "sequential_cutoff=64k"), ("set", "journal_delay_ms=1"), ("set", "label=home"),
)


@dataclasses.dataclass(frozen=True)
class Geometry:
    mode: str
    block: int
    bucket: int
    buckets: int
    backings: int
    backing_size: int
    data_offset: int  # sectors
    depth: int        # requests under way
    longest: int      # sectors of a request
    flush_every: int  # requests

    @property
    def text(self):
        return "%s, %d x %dK buckets, blocks of %d, %d x %dM" % (
            self.mode, self.buckets, self.bucket >> 10, self.block, self.backings, self.backing_size >> 20)


def geometry(dice, for_files):
    block = dice.choice((512, 512, 4096))
    bucket = dice.choice((4, 8, 32, 64, 64, 128, 512)) * KIB
    buckets = dice.randrange(520, 800)
    if bucket <= 8 * KIB:  # leaves are that small as well: a deep index, if there is room for many keys
        buckets *= dice.choice((1, 16))
        block = 512  # four blocks to a bucket at least
    size = dice.choice((4, 12, 24, 40)) * MIB
    if for_files:
        bucket, size = dice.choice((64, 64, 128, 512)) * KIB, 320 * MIB
    return Geometry(
        mode=dice.choice(MODES), block=block, bucket=bucket, buckets=buckets,
        backings=1 if for_files else dice.choice((1, 1, 1, 2, 3)), backing_size=size,
        data_offset=dice.choice((16, 16, 64, 2048)), depth=dice.choice((1, 8, 16, 32)),
        longest=dice.choice((16, 64, 300, 1024)), flush_every=dice.choice((5, 30, 200)))


@dataclasses.dataclass(frozen=True)
class Round:
    end: str
    after: float  # seconds from the moment when it is ready; of "opening": from the start
    pause: float  # between the first and the second signal
    chore: tuple
    chore_after: float


def next_round(dice):
    end = dice.choices([e for e, _ in ENDS], [w for _, w in ENDS])[0]
    after = dice.uniform(0, 0.06) if end == "opening" else dice.choice((0.02, 0.15, 0.5, 1.2)) * dice.random()
    return Round(end, after, dice.uniform(0, 0.04), dice.choice(CHORES), after * dice.random())


def dice_of(seed, world):
    return random.Random("%d/%d" % (seed, world))
