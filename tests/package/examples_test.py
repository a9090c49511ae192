"""Whole machines, in a virtual machine with a stock kernel.

The set-ups of examples/: made, filled, the machine ended or its power cut, and everything found again by
udev's rules and the initramfs script at the next boot. And systemd, from the events of the devices over a
mount to the shutdown.

Skipped where there is no lab (tests/lab), or a program that an example needs.
"""

import os
import shutil
import subprocess
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
LAB = os.path.join(os.path.dirname(HERE), "lab", "lab")
UBCACHE = os.path.abspath(os.environ.get("UBCACHE", "build/release/apps/ubcache/ubcache"))
PATIENCE = 280  # seconds for a boot, on a busy machine without KVM
NO_LAB = 125


def lab_is_there():
    return subprocess.run([LAB, "info"], capture_output=True, check=False, text=True).stdout.count(
        "not set up") < 2


@unittest.skipUnless(shutil.which("udevadm"), "udev is not installed")
@unittest.skipUnless(lab_is_there(), "the lab is not set up: make lab")
class Examples(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="ubcache-examples-", dir="/var/tmp")
        self.addCleanup(scratch.cleanup)
        self.dir = scratch.name
        os.mkdir(os.path.join(self.dir, "share"))

    def disks(self, *megabytes):
        for number, size in enumerate(megabytes):
            with open(f"{self.dir}/disk{number}", "wb") as file:
                file.truncate(size << 20)
        self.count = len(megabytes)

    def run_guest(self, *words, options=()):
        words = [f"{HERE}/{words[0]}", *words[1:]]
        command = [LAB, "run", "--timeout", str(PATIENCE), "--share", f"{self.dir}/share", *options]
        for number in range(self.count):
            command += ["--disk", f"{self.dir}/disk{number}"]
        done = subprocess.run(command + words, check=False, capture_output=True, text=True)
        if done.returncode == NO_LAB:
            self.skipTest("the lab cannot boot here")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def boot(self, phase, example, *options):
        said = self.run_guest("guest.sh", phase, example, UBCACHE, options=options)
        if phase != "crash":
            self.assertIn(f"phase {phase} of {example}: done", said)

    def shared(self, name):
        with open(f"{self.dir}/share/{name}", encoding="utf-8") as file:
            return file.read()

    @unittest.skipUnless(os.path.exists("/lib/systemd/systemd"), "systemd is not installed")
    def test_systemd_starts_the_set_mounts_from_it_and_stops_it_after_the_mount(self):
        self.disks(320, 400)
        said = self.run_guest("systemd_guest.sh", UBCACHE)
        inside, daemon = self.shared("inside.log"), self.shared("daemon.log")
        self.assertIn("StatusText=serving home", inside)
        self.assertIn("/mnt/data is a mountpoint", inside, self.shared("systemd.log"))
        self.assertTrue(daemon.endswith("stopping\nstopped\n"), daemon)
        self.assertNotIn("in use", daemon, "stopped under a mounted file system")
        self.assertRegex(said, "state: +clean")

    def test_ssd_and_disk_with_ext4_outlives_a_power_cut(self):
        self.disks(320, 400)
        self.boot("crash", "ssd-and-disk", "--kill-on", "cut the power")
        self.boot("again", "ssd-and-disk")

    def test_three_disks_with_foreign_labels_are_all_found_again(self):
        self.disks(320, 64, 64, 64)
        self.boot("begin", "three-disks-zfs")
        self.boot("again", "three-disks-zfs")

    @unittest.skipUnless(shutil.which("mdadm"), "mdadm is not installed")
    @unittest.skipUnless(shutil.which("mkfs.xfs"), "mkfs.xfs is not installed")
    def test_raid6_of_seven_disks_with_xfs_is_found_again(self):
        self.disks(320, *[80] * 7)
        self.boot("begin", "raid6-xfs")
        self.boot("again", "raid6-xfs")


if __name__ == "__main__":
    unittest.main(verbosity=1)
