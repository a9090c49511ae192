"""A set that is served without one of its backing devices, of which it has dirty data."""

import unittest

import support
from served import MIB, DaemonTest, qemu_io
from support import ubcache


@unittest.skipUnless(support.real("qemu-io"), "qemu-io is not installed")
class Absent(DaemonTest):
    """`home` and `work` are both dirty, then `work` is away."""

    def setUp(self):
        super().setUp()
        self.image("other", 64 * MIB)
        made = ubcache("make", "-B", "other", "--writeback", "-l", "work", cwd=self.dir)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.start("--attach", backing=("disk", "other"))
        self.ask("set", "writeback_running=0")
        for name, size in (("home", "256k"), ("work", "512k")):
            qemu_io(self.uri.replace("home", name), f"write -P 0x33 0 {size}", "flush")
        self.uuid = [v["uuid"] for v in self.status()["volumes"] if v["name"] == "work"][0]
        self.ask("stop")
        self.assertEqual(self.ended(), 0)

    def assert_told(self, text):
        for word in ("HOLDS DIRTY DATA", "missing", self.uuid, "work", "512 KiB",
                     "'ubcache attach'", "'ubcache abandon"):
            self.assertIn(word, text)

    def test_start_tells_although_another_device_is_dirty_too(self):
        self.assert_told(self.start("--set-option", "writeback_running=0"))
        self.assertNotEqual(self.volume()["dirty_bytes"], 0)

    def test_status_tells_how_much_waits_for_which_device(self):
        self.start("--set-option", "writeback_running=0")
        text = self.ask("status")
        line = [line for line in text.splitlines() if "MISSING" in line]
        self.assertEqual(len(line), 1, text)
        for word in (self.uuid, "(work)", "512 KiB"):
            self.assertIn(word, line[0])
        absent = self.status()["set"]["absent"]
        self.assertEqual(absent, [{"uuid": self.uuid, "label": "work", "dirty_bytes": 512 << 10}])

    def test_flush_does_not_claim_all_data(self):
        self.start()
        said = self.ask("flush")
        self.assertNotIn("all data", said)
        self.assert_told(said)
        self.ask("attach", "other")
        self.assertIn("all data", self.ask("flush"))
        self.assertNotIn("MISSING", self.ask("status"))

    def test_stop_with_a_flush_tells_what_stays(self):
        self.start()
        said = self.ask("stop", "--flush")
        self.assertEqual(self.ended(), 0)
        self.assertIn("stopped", said)
        self.assert_told(said)


if __name__ == "__main__":
    unittest.main()
