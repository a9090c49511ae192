"""The cache device goes away under a running daemon and comes back.

It is a file in the FUSE mount of another daemon, which is killed and started again: what had the file
open is dead for good then, as with a device that was pulled, and the path leads to a new file.
"""

import hashlib
import os
import socket
import subprocess
import unittest

import support
from served import MIB, DaemonTest
from support import run, ubcache

BLOCK = 65536


def fuse_works():
    return os.path.exists("/dev/fuse") and support.real("fusermount3")


@unittest.skipUnless(fuse_works(), "FUSE is not available")
class CacheDevice(DaemonTest):
    def setUp(self):
        super().setUp()
        self.image("outer.ssd", 96 * MIB)
        self.image("outer.disk", 80 * MIB)
        made = ubcache("make", "-C", "outer.ssd", "-B", "outer.disk", "-l", "outer", cwd=self.dir)
        self.assertEqual(made.returncode, 0, made.stderr)
        os.mkdir(self.path("outer"))
        self.addCleanup(run, "umount", "-l", self.path("outer"))
        self.start_outer()
        os.unlink(self.path("ssd"))
        os.symlink("outer/outer", self.path("ssd"))
        made = ubcache("make", "-C", "ssd", cwd=self.dir)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.image("disk", 128 * MIB)
        made = ubcache("make", "-B", "disk", "--writeback", "-l", "home", cwd=self.dir)
        self.assertEqual(made.returncode, 0, made.stderr)
        os.mkdir(self.path("mnt"))
        self.addCleanup(run, "umount", "-l", self.path("mnt"))

    def start_outer(self):
        command = [support.UBCACHE, "serve", "--cache", "outer.ssd", "--backing", "outer.disk",
                   "--fuse", "outer", "--control", self.path("outer.sock")]
        self.outer = subprocess.Popen(command, cwd=self.dir, text=True, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT)
        self.addCleanup(self.kill, self.outer)
        for line in self.outer.stdout:
            if line.startswith("ready"):
                return
        raise AssertionError("the outer daemon did not start")

    def start_inner(self, grace, **options):
        self.start("--attach", "--fuse", "mnt", "--set-option", f"cache_grace={grace}",
                   "--set-option", "writeback_running=0", "--set-option", "sequential_cutoff=0",
                   **options)
        self.addCleanup(self.ended)
        self.addCleanup(self.daemon.kill)

    def write_all(self):
        """Fsynced data of which the backing device has nothing; returns their digest."""
        data = os.urandom(32 * BLOCK)
        fd = os.open(self.path("mnt/home"), os.O_WRONLY)
        for at in range(0, len(data), BLOCK):
            os.pwrite(fd, data[at:at + BLOCK], at)
        os.fsync(fd)
        os.close(fd)
        self.assertEqual(self.volume()["dirty_bytes"], len(data))
        return hashlib.sha256(data).hexdigest()

    def reader(self):
        return subprocess.Popen(["dd", "if=mnt/home", f"bs={BLOCK}", "count=32", "status=none"],
                                cwd=self.dir, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def wait_for_outage(self):
        while not self.status()["set"]["failure"]:
            pass
        self.assertIn("out of reach", self.ask("status"))

    @staticmethod
    def status_lines(listener):
        """What systemd was told in status lines, each other than the one before."""
        told = []
        try:
            while True:
                message = listener.recv(4096).decode()
                if message.startswith("STATUS="):
                    told.append(message)
        except BlockingIOError:
            return told

    def test_reads_of_dirty_data_wait_for_the_device(self):
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(listener.close)
        listener.bind(self.path("notify"))
        self.start_inner(grace=300, env={"NOTIFY_SOCKET": self.path("notify")})
        digest = self.write_all()
        self.kill(self.outer)
        reader = self.reader()
        self.wait_for_outage()
        self.assertIsNone(reader.poll())
        run("umount", "-l", self.path("outer"))
        self.start_outer()
        out, err = reader.communicate(timeout=60)
        self.assertEqual(reader.returncode, 0, err)
        self.assertEqual(hashlib.sha256(out).hexdigest(), digest)
        self.assertEqual(self.status()["set"]["failure"], "")
        listener.setblocking(False)
        told = self.status_lines(listener)
        self.assertIn("its set is held", " ".join(told))
        self.assertEqual(told[-1], "STATUS=serving home")
        self.ask("flush")
        self.assertEqual(self.volume()["dirty_bytes"], 0)

    def test_reads_of_dirty_data_fail_after_the_grace_time(self):
        self.start_inner(grace=0)
        self.write_all()
        self.kill(self.outer)
        reader = self.reader()
        out, err = reader.communicate(timeout=60)
        self.assertNotEqual(reader.returncode, 0)
        self.assertEqual(out, b"")
        self.assertIn(b"nput/output error", err)

    def test_volume_goes_on_without_its_cache_when_a_human_says_so(self):
        self.start_inner(grace=300)
        self.write_all()
        uuid = self.volume()["uuid"]
        refused = self.ask("abandon", uuid, "--discard-dirty", code=1)
        self.assertIn("in service", refused)
        self.assertFalse(os.path.exists(self.path(f"ubcache-lost-{uuid}.txt")), "nothing was lost")
        self.kill(self.outer)
        reader = self.reader()
        self.wait_for_outage()
        said = self.ask("abandon", uuid, "--list", "seen.txt")
        self.assertIn("2 MiB", said)
        self.assertIn("Nothing was given up", said)
        self.assertIn("File exists", self.ask("abandon", uuid, "--discard-dirty", "--list",
                                              "seen.txt", code=1))
        self.assertIn("goes on", self.ask("abandon", uuid, "--discard-dirty"))
        out, err = reader.communicate(timeout=60)
        self.assertEqual(reader.returncode, 0, err)
        self.assertEqual(out, bytes(32 * BLOCK), "what the backing device has")
        with open(self.path(f"ubcache-lost-{uuid}.txt")) as lost:
            ranges = [line.split() for line in lost if not line.startswith("#")]
        self.assertEqual(sum(int(length) for _, length in ranges), 32 * BLOCK)
        self.assertEqual(min(int(first) for first, _ in ranges), 8192, "the data offset")
        with open(self.path("mnt/home"), "r+b") as volume:
            volume.write(b"new" * 1000)


if __name__ == "__main__":
    unittest.main()
