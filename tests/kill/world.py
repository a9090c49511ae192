"""One set on image files, with a load, that dies again and again."""
import os
import signal
import subprocess
import threading

import plan
from daemon import PATIENCE, Daemon, Failure


class World:
    def __init__(self, load_class, program, folder, seed, number):
        self.program, self.number = program, number
        self.dice = plan.dice_of(seed, number)
        self.folder = os.path.join(folder, "world%d" % number)
        os.makedirs(self.folder)
        self.geometry = plan.geometry(self.dice, load_class.kind != "blocks")
        self.load = load_class(self.folder, self.geometry, number, self.dice)
        self.lives = self.dice.randint(6, 16) if load_class.kind == "blocks" else self.dice.randint(4, 8)
        self.daemon = None
        self.kills = self.rounds = 0
        self.where = "making the set"

    # -- the story

    def run(self, go_on):
        """Until its lives are used up or go_on() says no."""
        self._make()
        while self.rounds < self.lives and go_on():
            self._round(plan.next_round(self.dice))
            self.rounds += 1
        self._last_round()

    def _make(self):
        geometry = self.geometry
        disks = ["disk%d" % i for i in range(geometry.backings)]
        self._image("ssd", geometry.bucket * geometry.buckets)
        for disk in disks:
            self._image(disk, geometry.backing_size + 512 * geometry.data_offset)
        made = subprocess.run(
            [self.program, "make", "-C", "ssd", "-B", *disks, "-b", str(geometry.bucket),
             "-w", str(geometry.block), "-o", str(geometry.data_offset)],
            cwd=self.folder, capture_output=True, text=True, timeout=PATIENCE, check=False)
        if made.returncode:
            raise Failure(made.stderr)
        self._start("cache_mode=" + geometry.mode)
        self.daemon.wait_ready()
        self.load.connect(self.daemon)
        self._stop()

    def _image(self, name, size):
        with open(os.path.join(self.folder, name), "wb") as file:
            file.truncate(size)

    def _start(self, *assignments):
        options = ["--cache", "ssd", "--attach", "--backing"]
        options += ["disk%d" % i for i in range(self.geometry.backings)]
        for assignment in ("sequential_cutoff=0", "congested_write_threshold_us=0", *assignments):
            options += ["--set-option", assignment]
        self.daemon = Daemon(self.program, self.folder, *options, *self.load.options)

    def _round(self, wish):
        self.where = "round %d: %s after %.3f s%s" % (
            self.rounds, wish.end, wish.after, ", %s under way" % " ".join(wish.chore) if wish.chore else "")
        self._start()
        if wish.end == "opening":
            self.daemon.signal_in(wish.after, signal.SIGKILL)
        elif self.daemon.wait_ready():
            self.load.check(self.daemon)
            self.load.connect(self.daemon)
            self._signals(wish)
            with Chore(self.daemon, wish):
                self.load.work(self.daemon)
        self.daemon.wait_end(killed=wish.end in ("kill", "opening", "stopping"))
        self.load.leave()
        self.kills += self.daemon.process.returncode == -signal.SIGKILL

    def _signals(self, wish):
        first = signal.SIGKILL if wish.end == "kill" else signal.SIGTERM
        self.daemon.signal_in(wish.after, first)
        if wish.end == "stopping":
            self.daemon.signal_in(wish.after + wish.pause, signal.SIGKILL)
        elif wish.end == "two terms":
            self.daemon.signal_in(wish.after + wish.pause, signal.SIGTERM)

    def _stop(self, *options):
        self.load.leave()
        self.daemon.expected = True
        if self.daemon.ask("stop", *options) is None:
            raise Failure("stop was refused: %s" % self.daemon.said[-5:])
        self.daemon.wait_end(killed=False)

    def _last_round(self):
        self.where = "last round: everything written back"
        self._start()
        self.daemon.wait_ready()
        self.load.check(self.daemon)
        self._stop("--flush")
        self.load.check_images()

    def discard(self):
        """However it ended: no process, no mount. The images stay."""
        if self.daemon:
            self.daemon.discard()
        self.load.discard()


class Chore:
    """A command that is given while the load goes on."""

    def __init__(self, daemon, wish):
        self.daemon, self.words = daemon, list(wish.chore)
        self.failure = None
        self.timer = threading.Timer(wish.chore_after, self._run) if wish.chore else None

    def _run(self):
        try:
            words = self.words
            if words == ["detach"]:
                words = ["detach", self.daemon.status()["volumes"][0]["name"]]
            if words == ["set", "label=home"]:
                words = words + ["--volume", self.daemon.status()["volumes"][0]["name"]]
            self.daemon.ask(*words)
        except (Failure, TypeError) as failure:  # TypeError: no status, it is gone
            if not self.daemon.expected:
                self.failure = failure

    def __enter__(self):
        if self.timer:
            self.timer.start()

    def __exit__(self, kind, *_):
        if not self.timer:
            return
        self.timer.cancel()
        if self.timer.ident is not None:
            self.timer.join()
        if self.failure and kind is None:
            raise self.failure
