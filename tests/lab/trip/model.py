"""What a volume must hold, sector by sector, and the operations that change it.

Every sector says who it is: 32 times the pair (LE64 volume tag and sector number, LE64 generation). The
generation is the number of the operation that wrote it; 0 is a sector of zeroes. So a wrong sector tells
whether it is old, misplaced or garbage.

Both sides run the same operations: a plan is a function of its seed, so the host can work out what the
guest has done from the number of the last operation alone.
"""
import array
import dataclasses
import random
import struct

SECTOR = 512
CHUNK = 512  # sectors per comparison
MAX_SECTORS = 512  # of one operation
DISCARDED = 0xFFFFFFFF  # any older content


@dataclasses.dataclass(frozen=True)
class Operation:
    kind: str  # write, fua, zeroes, discard, flush, read
    first: int = 0
    count: int = 0
    generation: int = 0


def content(tag, sector, generation):
    if generation == 0:
        return bytes(SECTOR)
    return struct.pack("<QQ", tag << 48 | sector, generation) * 32


def extent(tag, first, count, generation):
    return b"".join(content(tag, s, generation) for s in range(first, first + count))


class Mismatch(Exception):
    """A sector holds what it must not."""


class Model:
    """Generations of a volume's sectors; a crash leaves several allowed ones where nothing was flushed."""

    def __init__(self, tag, sectors):
        self.tag = tag
        self.sectors = sectors
        self.latest = array.array("I", bytes(4 * sectors))
        self.newest = 0
        self.unsure = {}  # sector -> generations that a crash may leave

    def apply(self, operation):
        """`operation` was acknowledged (or, before a crash, may have been done in part)."""
        self.newest = max(self.newest, operation.generation)
        span = range(operation.first, operation.first + operation.count)
        if operation.kind in ("write", "fua", "zeroes", "discard"):
            value = {"zeroes": 0, "discard": DISCARDED}.get(operation.kind, operation.generation)
            for sector in span:
                self.unsure.setdefault(sector, {self.latest[sector]}).add(value)
                self.latest[sector] = value
        if operation.kind == "fua":
            for sector in span:
                self.unsure.pop(sector, None)
        elif operation.kind == "flush":
            self.settle()

    def settle(self):
        """All that was acknowledged is durable."""
        self.unsure.clear()

    def expected(self, first, count):
        zero = bytes(SECTOR)
        tag, latest = self.tag, self.latest
        return b"".join(
            zero if g in (0, DISCARDED) else struct.pack("<QQ", tag << 48 | s, g) * 32
            for s, g in enumerate(latest[first:first + count], first))

    def observed(self, first, data):
        """The generations in `data`; raises where that is no content of these sectors at all."""
        found = []
        for index in range(len(data) // SECTOR):
            sector = first + index
            piece = data[index * SECTOR:(index + 1) * SECTOR]
            who, generation = struct.unpack_from("<QQ", piece)
            if piece != content(self.tag, sector, generation):
                raise Mismatch("sector %d holds %s... instead of generation %s" % (
                    sector, piece[:24].hex(), self._name(self.latest[sector])))
            found.append(generation)
        return found

    def check(self, read, after_crash=False):
        """Compares all that `read(first, count)` returns. After a crash the model takes over what it sees."""
        wrong = []
        for first in range(0, self.sectors, CHUNK):
            count = min(CHUNK, self.sectors - first)
            data = read(first, count)
            if data != self.expected(first, count):
                wrong += self._differences(first, data, after_crash)
        if after_crash:
            self.settle()
        if wrong:
            raise Mismatch("%d wrong sectors: %s" % (len(wrong), "; ".join(wrong[:5])))

    def _differences(self, first, data, after_crash):
        wrong = []
        for sector, generation in enumerate(self.observed(first, data), first):
            allowed = {self.latest[sector]}
            if after_crash:
                allowed |= self.unsure.get(sector, set())
            if generation in allowed or (DISCARDED in allowed and generation <= self.newest):
                if after_crash and self.latest[sector] != DISCARDED:
                    self.latest[sector] = generation if generation in allowed else DISCARDED
                continue
            wrong.append("sector %d has generation %s instead of %s" % (
                sector, self._name(generation), " or ".join(self._name(g) for g in sorted(allowed))))
        return wrong

    @staticmethod
    def _name(generation):
        return {0: "0 (zeroes)", DISCARDED: "any (discarded)"}.get(generation, str(generation))


def mixed_plan(seed, sectors, block, count, generation, rewrite=True):
    """Writes of all sizes with overwrites, flushes, discards and reads between; ends with a flush."""
    dice = random.Random(seed)
    blocks = sectors // block
    recent = [0]
    for number in range(count):
        length = min(dice.choice((1, 1, 1, 2, 3, 8, 16, 31, 128, 300)), MAX_SECTORS // block, blocks)
        if rewrite and dice.random() < 0.3:  # around an earlier one: overlaps of every kind
            first = dice.choice(recent) + dice.randrange(-length, length + 1)
        else:
            first = dice.randrange(blocks)
        first = min(max(0, first), blocks - length)
        recent = (recent + [first])[-16:]
        kind = dice.choices(("write", "fua", "zeroes", "discard", "flush", "read"),
                            (70, 4, 3, 3, 8, 12))[0]
        if kind == "flush":
            yield Operation("flush")
        else:
            yield Operation(kind, first * block, length * block, generation + number)
    yield Operation("flush")


def scattered_plan(seed, sectors, block, count, generation):
    """One block here and there, so that no two keys join: the index grows deep. Ends with a flush."""
    dice = random.Random(seed)
    places = dice.sample(range(sectors // block // 2), min(count, sectors // block // 2))
    for number, place in enumerate(places):
        yield Operation("write", 2 * place * block, block, generation + number)
        if number % 500 == 499:
            yield Operation("flush")
    yield Operation("flush")
