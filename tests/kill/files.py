"""A world with a file system: FUSE export, loop device, ext4 or XFS, and writers that fsync what they write.

What a dead FUSE server leaves behind has to go first: the file system above it, the loop device, the mount.
"""
import hashlib
import os
import shutil
import subprocess
import sys
import time

from daemon import PATIENCE, Failure

TOP = os.path.dirname(os.path.realpath(__file__))
WRITERS = 2
GONE = "-"


class Files:
    kind = None

    def __init__(self, folder, geometry, number, dice):
        self.folder, self.geometry, self.dice = folder, geometry, dice
        self.fuse = os.path.join(folder, "volumes")
        self.mount_point = os.path.join(folder, "fs")
        self.log = os.path.join(folder, "written")
        self.options = ("--fuse", self.fuse)
        self.loop = None
        self.mounted = self.made = False
        self.writers = []
        self.turn = 0
        os.mkdir(self.mount_point)

    # -- programs

    def try_run(self, *command):
        try:
            return subprocess.run(command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, timeout=PATIENCE, check=False)
        except subprocess.TimeoutExpired as late:
            raise Failure("%s: no end after %d s" % (" ".join(command), PATIENCE)) from late

    def must(self, *command):
        result = self.try_run(*command)
        if result.returncode:
            raise Failure("%s: status %d: %s" % (" ".join(command), result.returncode, result.stdout[-2000:]))
        return result.stdout

    # -- the volume, as a file system

    def connect(self, daemon):
        """Loop device and mount; the first time the file system is made."""
        if self.mounted:
            return
        self._attach_loop(os.path.join(self.fuse, os.listdir(self.fuse)[0]), 0)
        if not self.made:
            self.make()
            self.made = True
        self._mount()

    def check(self, daemon):
        """Replays the file system's log, compares the files, and looks for damage; leaves it mounted."""
        self.connect(daemon)
        self._check_files()
        self.must("umount", self.mount_point)
        self.mounted = False
        self.look_for_damage()
        self._mount()

    def _attach_loop(self, file, offset):
        self.loop = self.must("losetup", "-f", "--show", "--direct-io=on", "-o", str(offset), file).strip()

    def _mount(self):
        self.must("mount", "-t", self.kind, self.loop, self.mount_point)
        self.mounted = True

    def leave(self):
        """Nothing of it stays mounted; what can be written is written, if the daemon lives."""
        for writer in self.writers:
            writer.terminate()
            self._end_of(writer)
        self.writers = []
        if self.mounted and self.try_run("umount", self.mount_point).returncode:
            self.must("umount", "-l", self.mount_point)
        self.mounted = False
        if self.loop:
            self._detach_loop()

    def _detach_loop(self):
        self.must("losetup", "-d", self.loop)
        end = time.monotonic() + PATIENCE
        name = os.path.basename(self.loop)
        while os.path.exists("/sys/block/%s/loop" % name):  # a busy one goes when its last user does
            if time.monotonic() > end:
                raise Failure("%s stays busy" % self.loop)
            time.sleep(0.01)
        self.loop = None

    @staticmethod
    def _end_of(writer):
        try:
            writer.wait(PATIENCE)
        except subprocess.TimeoutExpired as late:
            raise Failure("a writer hangs") from late

    def discard(self):
        for writer in self.writers:
            writer.kill()
        self.try_run("umount", "-l", self.mount_point)
        if self.loop:
            self.try_run("losetup", "-d", self.loop)
        while self.try_run("umount", "-l", self.fuse).returncode == 0:
            pass

    # -- the load

    def work(self, daemon):
        """Writers until the daemon is gone. A file system whose device dies must not keep them."""
        self.turn += 1
        for number in range(WRITERS):
            self.writers.append(subprocess.Popen(
                [sys.executable, os.path.join(TOP, "writer.py"), self.mount_point, self.log,
                 str(self.dice.randrange(1 << 30)), "%d-%d" % (self.turn, number)],
                stdin=subprocess.DEVNULL))
        daemon.process.wait()
        for writer in self.writers:
            self._end_of(writer)
        self.writers = []

    # -- what must be there

    def _states(self):
        """name -> the digests that it may have; GONE: no such file."""
        states = {}
        if os.path.exists(self.log):
            with open(self.log, encoding="ascii") as file:
                for line in file:
                    word, name, *rest = line.split()
                    if word == "have":
                        states[name] = {rest[0]}
                    elif word == "gone":
                        states[name] = {GONE}
                    else:
                        states[name].add(rest[0])
        return states

    def _check_files(self):
        states = self._states()
        wrong = []
        for name, allowed in states.items():
            path = os.path.join(self.mount_point, name)
            try:
                with open(path, "rb") as file:
                    found = hashlib.sha256(file.read()).hexdigest()
            except FileNotFoundError:
                found = GONE
            except OSError as error:
                found = str(error)
            if found not in allowed:
                wrong.append("%s is %s instead of %s" % (name, found, " or ".join(allowed)))
            states[name] = {found}
        if wrong:
            raise Failure("%d files of %d: %s" % (len(wrong), len(states), "; ".join(wrong[:5])))
        self._write_log(states)

    def _write_log(self, states):
        """What was seen stays, and what is gone need not be looked for for ever."""
        names = sorted(name for name, found in states.items() if found != {GONE})
        extra = set(os.listdir(self.mount_point)) - {"lost+found", *names}
        for name in extra:
            os.unlink(os.path.join(self.mount_point, name))
        for name in names[:-2 * 60]:  # room for the next round
            os.unlink(os.path.join(self.mount_point, name))
        with open(self.log, "w", encoding="ascii") as file:
            for name in names[-2 * 60:]:
                file.write("have %s %s\n" % (name, next(iter(states[name]))))

    def check_images(self):
        self._attach_loop(os.path.join(self.folder, "disk0"), 512 * self.geometry.data_offset)
        self.look_for_damage()
        self._mount()
        self._check_files()
        self.leave()


class Ext4(Files):
    kind = "ext4"
    tools = ("mkfs.ext4", "e2fsck")

    def make(self):
        self.must("mkfs.ext4", "-q", "-F", "-E", "nodiscard", self.loop)

    def look_for_damage(self):
        self.must("e2fsck", "-fn", self.loop)


class Xfs(Files):
    kind = "xfs"
    tools = ("mkfs.xfs", "xfs_repair")

    def make(self):
        self.must("mkfs.xfs", "-q", "-f", "-K", self.loop)

    def look_for_damage(self):
        self.must("xfs_repair", "-n", self.loop)


def missing(kind):
    """Why worlds of this kind cannot run here, or None."""
    if os.geteuid() != 0:
        return "mounting needs root"
    if not os.path.exists("/dev/fuse"):
        return "no /dev/fuse"
    if subprocess.run(["losetup", "-f"], capture_output=True, check=False).returncode:
        return "no loop device is free"
    for tool in kind.tools:
        if not shutil.which(tool):
            return tool + " is not installed"
    return None
