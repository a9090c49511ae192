"""The udev rules on loop devices, by `udevadm test`: members of sets that were given to ubcache are
its own, whatever else is on them, and the kernel's bcache keeps the others.

The rules are those of the tree with the paths of the test in them, among the system's; mounts of a
namespace of its own hide what udev would leave behind.
"""

import json
import os
import shutil
import subprocess
import tempfile
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
UBCACHE = os.path.abspath(os.environ.get("UBCACHE", "build/release/apps/ubcache/ubcache"))
MIB = 1 << 20
PRIVATE = """
set -e
mkdir -p /run/udev /dev/disk
mount -t tmpfs none /run/udev
mount -t tmpfs none /dev/disk
mkdir /run/udev/rules.d
cp "$1"/rules/* /run/udev/rules.d/
exec udevadm test --action=add "/sys/class/block/$2"
"""


def possible():
    if os.geteuid() != 0:
        return "only root has loop devices"
    if not shutil.which("udevadm") or not os.path.exists("/usr/lib/udev/rules.d"):
        return "udev is not installed"
    if subprocess.run(["losetup", "-f"], capture_output=True, check=False).returncode != 0:
        return "no loop devices"
    if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode != 0:
        return "no mount namespaces"
    return ""


@unittest.skipIf(possible(), possible())
class Rules(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="ubcache-rules-")
        self.addCleanup(scratch.cleanup)
        self.dir = scratch.name
        for name in ("rules", "etc", "run"):
            os.mkdir(os.path.join(self.dir, name))
        for name in os.listdir(TOP + "/packaging/udev"):
            with open(f"{TOP}/packaging/udev/{name}", encoding="utf-8") as file:
                text = file.read()
            text = text.replace("/usr/bin/ubcache assemble",
                                f"{UBCACHE} assemble --config-directory {self.dir}/etc "
                                f"--run-directory {self.dir}/run --start no")
            with open(f"{self.dir}/rules/{name}", "w", encoding="utf-8") as file:
                file.write(text)
        # As bcache-tools has it, where that is not installed.
        if not os.path.exists("/usr/lib/udev/rules.d/69-bcache.rules"):
            with open(f"{self.dir}/rules/69-bcache.rules", "w", encoding="utf-8") as file:
                file.write('SUBSYSTEM=="block", ENV{ID_FS_TYPE}=="bcache", '
                           'RUN+="bcache-register $tempnode"\n')
        self.run_checked("truncate", "-s", "64M", "ssd")
        self.run_checked("truncate", "-s", "64M", "disk")
        self.run_checked(UBCACHE, "make", "-C", "ssd", "-B", "disk")
        shown = json.loads(self.run_checked(UBCACHE, "show", "--json", "disk"))[0]
        self.uuid, self.set = shown["uuid"], shown["set_uuid"]

    def run_checked(self, *command):
        done = subprocess.run(command, cwd=self.dir, capture_output=True, check=False, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def give_to_ubcache(self):
        open(f"{self.dir}/etc/{self.set}.conf", "w").close()

    def event(self, image):
        """What udev makes of the image as a loop device: properties, and programs to run."""
        device = self.run_checked("losetup", "-f", "--show", image).strip()
        self.addCleanup(self.run_checked, "losetup", "-d", device)
        said = self.run_checked("unshare", "-m", "sh", "-c", PRIVATE, "sh", self.dir,
                                os.path.basename(device))
        lines = said.splitlines()
        runs = [line for line in lines if line.startswith("run: ")]
        return dict(line.split("=", 1) for line in lines if "=" in line[:40]), " ".join(runs)

    def test_a_set_that_nobody_gave_away_stays_the_kernels(self):
        properties, runs = self.event("disk")
        self.assertNotIn("UBCACHE_SET", properties)
        self.assertEqual(properties["ID_FS_TYPE"], "bcache")
        self.assertIn("bcache-register", runs)

    def test_members_of_a_set_of_ubcache_are_not_registered_with_the_kernel(self):
        self.give_to_ubcache()
        for image in ("ssd", "disk"):
            properties, runs = self.event(image)
            self.assertEqual(properties["UBCACHE_SET"], self.set)
            self.assertEqual(properties["ID_FS_TYPE"], "ubcache_member")
            self.assertIn("assemble", runs)
            self.assertNotIn("bcache-register", runs)
        self.assertIn("/dev/disk/by-uuid/" + self.uuid, properties["DEVLINKS"])

    def test_a_second_signature_at_the_end_changes_nothing(self):
        self.give_to_ubcache()
        with open(f"{self.dir}/disk", "r+b") as file:
            for label in (64 * MIB - 512 * 1024, 64 * MIB - 256 * 1024):
                for slot in range(16):
                    file.seek(label + 128 * 1024 + slot * 1024)
                    file.write((0x00bab10c).to_bytes(8, "little"))
        self.assertIn("ambivalent", subprocess.run(
            ["blkid", "-p", "disk"], cwd=self.dir, capture_output=True, check=False,
            text=True).stderr)
        properties, runs = self.event("disk")
        self.assertEqual(properties["UBCACHE_UUID"], self.uuid)
        self.assertIn("assemble", runs)


if __name__ == "__main__":
    unittest.main(verbosity=1)
