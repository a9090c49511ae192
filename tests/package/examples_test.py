"""The set-ups of examples/ in a virtual machine with a stock kernel: made, filled, the machine ended or its
power cut, and everything found again by udev's rules and the initramfs script at the next boot.

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

    def boot(self, phase, example, *options):
        words = [LAB, "run", "--timeout", str(PATIENCE), "--share", f"{self.dir}/share", *options]
        for number in range(self.count):
            words += ["--disk", f"{self.dir}/disk{number}"]
        done = subprocess.run([*words, f"{HERE}/guest.sh", phase, example, UBCACHE], check=False,
                              capture_output=True, text=True)
        if done.returncode == NO_LAB:
            self.skipTest("the lab cannot boot here")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        if phase != "crash":
            self.assertIn(f"phase {phase} of {example}: done", done.stdout)

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
