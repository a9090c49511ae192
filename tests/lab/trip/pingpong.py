"""Ping-pong: ubcache and the kernel take turns on the same sets, round after round, with random ends.

A tour is a handful of sets that share their boots. Some want what a short trip never sees: an index of two
levels above the leaves, a journal that goes round its buckets in every turn, generations that were all used
more than once (they have 8 bits). The others are drawn by chance. In each round ubcache compares, writes and
ends, in order or by SIGKILL; then the kernel does, in order or with its machine. In the last one ubcache or the
kernel writes everything back, and the backing images alone have to hold it.
"""
import dataclasses
import random
import time

from trip import model, plans, targets
from trip.cases import ALL_MODES, MIB, Case
from trip.fleet import MAX_DISKS, Fleet
from trip.host import HostError
from trip.journey import Journey

KIB = 1 << 10
ROUNDS = 4  # of a tour
MODES = ("writeback", "writeback", "writeback", "writethrough", "writearound", "none")
REUSES = 270  # of each bucket on average, before the kernel sees the set
DURABLE = 3000  # at most so many writes to get round the journal

SPECIAL = (
    Case("two levels above the leaves", style="scattered", bucket=4 * KIB, buckets=20000, writes=40000,
         backing_size=48 * MIB, depth=2, guest_writes=100),
    Case("all generations used up", bucket=32 * KIB, buckets=540, backing_size=24 * MIB),
    Case("journal goes round", bucket=16 * KIB, buckets=800, backing_size=12 * MIB),
    Case("journal goes round in blocks of 4096", bucket=64 * KIB, block=4096, backing_size=12 * MIB),
)


def draw(dice, number):
    """A set like none before."""
    return Case("random set %d" % number, block=dice.choice((512, 512, 4096)),
                bucket=dice.choice((16, 32, 64, 128, 512, 2048)) * KIB, buckets=dice.randrange(530, 900),
                backings=dice.choice((1, 1, 2, 3)), backing_size=dice.choice((6, 12, 40)) * MIB,
                flash_size=dice.choice((0, 0, 4)) * MIB, data_offset=dice.choice((16, 16, 64, 2048)),
                writes=dice.choice((150, 400)), front=dice.choice(("nbd", "nbd", "fuse")))


class Traveller(Journey):
    """A journey whose ends, modes and number of rounds are drawn as it goes."""

    def next_round(self, dice, guest_end, fill):
        """`fill`: the cache must have something in it afterwards."""
        self.case = dataclasses.replace(
            self.case, host_end=dice.choice(("stop", "kill", "kill")), guest_end=guest_end,
            mode="writeback" if fill else dice.choice(MODES), guest_modes=dice.choice(((), (), ALL_MODES)))

    def job(self, leg):
        last = leg == "last"
        return self._job(40 if last else self.case.guest_writes, None, self.case.guest_modes,
                         "stop" if last else self.case.guest_end, last and self.case.detach == "guest")

    def _work(self, daemon):
        if self.case.name == SPECIAL[1].name and self.legs <= 1:
            self._use_up_generations(daemon)
        elif self.case.name.startswith(SPECIAL[2].name):
            self._go_round_the_journal(daemon)
        super()._work(daemon)

    def _use_up_generations(self, daemon):
        """Overwrites a small range until each bucket was filled and freed more than 256 times."""
        self._set(daemon, "cache_mode=writeback", "writeback_running=0")
        volume = self.volumes[0]
        target = daemon.open(volume.backing)
        span = 4 * MIB // model.SECTOR
        steps = [model.Operation("write", first, model.MAX_SECTORS, 1)
                 for first in range(0, span, model.MAX_SECTORS)]
        contents = {generation: [model.extent(volume.model.tag, s.first, s.count, generation) for s in steps]
                    for generation in (1, 2)}
        total = self.case.bucket * self.case.buckets * REUSES
        passes = total // (span * model.SECTOR) // 2 * 2
        for number in range(passes):
            pending = contents[2 - number % 2]
            for at in range(0, len(steps), plans.AT_ONCE):
                target.write_all([(s.first, data) for s, data in zip(
                    steps[at:at + plans.AT_ONCE], pending[at:at + plans.AT_ONCE])])
        for step in steps:
            volume.model.apply(dataclasses.replace(step, generation=1))
        target.flush()
        volume.model.settle()
        target.close()
        through = daemon.volume(volume.backing)["stats"]["write_reasons"]["cached"]
        if through * model.MAX_SECTORS * model.SECTOR < 257 * self.case.bucket * self.case.buckets:
            raise HostError("only %d of %d writes went through the cache" % (through, passes * len(steps)))
        self._set(daemon, "cache_mode=" + self.case.mode)

    def _go_round_the_journal(self, daemon):
        """One journal entry for each write, more than it has blocks."""
        volume = self.volumes[0]
        target = daemon.open(volume.backing)
        dice = random.Random(self.seed + self.legs)
        block = self.case.block // model.SECTOR
        entries = min(256, self.case.buckets >> 7) * self.case.bucket // self.case.block
        for number in range(min(DURABLE, entries * 5 // 4)):
            first = dice.randrange(volume.model.sectors // block) * block
            operation = model.Operation("fua", first, block, self.legs * 100000 + 80000 + number)
            targets.perform(target, volume.model.tag, operation)
            volume.model.apply(operation)
        target.close()


class Tour(Fleet):
    def __init__(self, number, program, folder, options, progress):
        self.dice = random.Random("%d tour %d" % (options.seed, number))
        sets = list(SPECIAL)
        disks = sum(1 + case.backings for case in sets)
        while True:
            case = draw(self.dice, len(sets))
            disks += 1 + case.backings
            if disks > MAX_DISKS:
                break
            sets.append(case)
        sets = [dataclasses.replace(case, detach=self.dice.choice(("host", "guest"))) for case in sets]
        sets = [case for case in sets if options.only in case.name]
        self.dice.shuffle(sets)
        super().__init__(sets, program, folder, options, progress, Traveller)
        self.number = number
        for journey in self.journeys:
            journey.seed += 1_000_000 * number
        progress.expect(len(sets) * (2 * ROUNDS + 3))

    def travel(self):
        group = self.journeys
        for turn in range(ROUNDS):
            guest_end = self.dice.choice(("stop", "kill"))
            for journey in group:
                journey.next_round(self.dice, guest_end, fill=turn == 0)
            self._host(group, "round %d" % turn, Traveller.middle_leg if turn else Traveller.first_leg)
            self._guest(group, "round-%d" % turn)
        self._host(group, "last leg", Traveller.middle_leg)
        self._guest(group, "last")
        self._host(group, "end", Traveller.last_leg)
        for journey in group:
            self.progress.result("tour %d: %s" % (self.number, journey.case.name), journey.failure)
            if not journey.failure and not self.options.keep:
                journey.clean_up()


def play(program, folder, options, progress):
    """Tours until the rounds or the minutes are used up; at least one."""
    begin = time.monotonic()
    number = 0
    while True:
        tour = Tour(number, program, folder, options, progress)
        if not tour.journeys:
            return
        tour.travel()
        number += 1
        spent = time.monotonic() - begin
        if number * ROUNDS >= (options.rounds or 1 << 30) or progress.failed:
            return
        if not options.rounds and spent + spent / number > options.minutes * 60:
            return
