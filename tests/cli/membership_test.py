"""Volumes that come, go and come back, and the names that they have."""

import json
import os
import unittest

import support
from served import MIB, DaemonTest, qemu_io
from support import ubcache


class Membership(DaemonTest):
    make_options = ("--writeback",)

    def names(self):
        return {v["backing"] or "flash": v["name"] for v in self.status()["volumes"]}

    def test_names_do_not_depend_on_the_order_of_devices(self):
        self.image("other", 64 * MIB)
        made = ubcache("make", "-B", "other", cwd=self.dir)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.start("--attach", backing=("disk", "other"))
        first = self.names()
        self.ask("create-volume", "1M")
        self.ask("stop")
        self.assertEqual(self.ended(), 0)
        self.start(backing=("other", "disk"))
        second = self.names()
        self.assertEqual({k: second[k] for k in first}, first)
        self.assertEqual(sorted(second.values()), ["bcache0", "bcache1", "bcache2"])

    def test_detached_volume_is_attached_again_in_the_same_daemon(self):
        self.start()
        name = self.volume()["name"]
        self.ask("detach", name)
        self.assertEqual(self.volume()["state"], "no cache")
        self.ask("attach", "disk")
        self.assertEqual(self.volume()["state"], "clean")
        self.assertIn("is served already", self.ask("attach", "disk", code=1))
        self.ask("stop")
        self.assertEqual(self.ended(), 0)
        self.assertIn("from then on", self.daemon.stdout.read())
        self.start()
        self.assertEqual(self.volume()["state"], "clean")

    @unittest.skipUnless(os.path.exists("/dev/fuse"), "FUSE is not available")
    def test_device_that_shrank_below_its_dirty_data_is_refused(self):
        os.mkdir(self.path("mnt"))
        self.start("--set-option", "writeback_running=0", "--fuse", "mnt")
        with open(self.path("mnt/" + self.volume()["name"]), "r+b", buffering=0) as volume:
            volume.seek(120 * MIB)
            volume.write(b"x" * 65536)
        self.ask("stop")
        self.assertEqual(self.ended(), 0)
        with open(self.path("disk"), "r+b") as image:
            image.truncate(100 * MIB)
        refused = ubcache("serve", "--cache", "ssd", "--backing", "disk", "--control",
                          self.control, cwd=self.dir)
        self.assert_one_line_error(refused, "it has shrunk or is another device")

    @unittest.skipUnless(os.path.exists("/dev/fuse"), "FUSE is not available")
    def make_dirty(self):
        os.mkdir(self.path("mnt"))
        self.start("--set-option", "writeback_running=0", "--fuse", "mnt")
        volume = self.volume()
        with open(self.path("mnt/" + volume["name"]), "r+b", buffering=0) as file:
            file.write(b"x" * 65536)
        self.ask("stop")
        self.assertEqual(self.ended(), 0)
        return volume["uuid"]

    def test_set_goes_on_without_a_device_that_is_given_up(self):
        uuid = self.make_dirty()
        self.start(backing=())
        files = os.listdir(self.dir)
        told = self.ask("abandon", uuid)
        self.assertIn("64 KiB", told)
        self.assertIn("Nothing was given up", told)
        self.assertNotIn("list", json.loads(self.ask("abandon", uuid, "--json")))
        self.assertEqual(os.listdir(self.dir), files, "a look leaves nothing behind")
        self.assertIn("64 KiB", self.ask("abandon", uuid, "--discard-dirty"))
        with open(self.path(f"ubcache-lost-{uuid}.txt")) as lost:
            self.assertIn("8192 65536", lost.read())
        self.assertEqual(self.status()["set"]["buckets"]["dirty"], 0)
        self.assertIn("does not know", self.ask("abandon", uuid, code=1))
        self.ask("stop")
        self.assertEqual(self.ended(), 0)

    def test_device_whose_cache_is_lost_goes_on_with_a_new_one(self):
        uuid = self.make_dirty()
        os.unlink(self.path("ssd"))
        self.image("new", 64 * MIB)
        made = ubcache("make", "-C", "new", cwd=self.dir)
        self.assertEqual(made.returncode, 0, made.stderr)
        serve = ("serve", "--cache", "new", "--backing", "disk", "--attach", "--control",
                 self.control)
        self.assert_one_line_error(ubcache(*serve, cwd=self.dir), "dirty")
        give_up = ("abandon", uuid, "--backing", "disk")
        other = ("abandon", ("1" if uuid[0] == "0" else "0") + uuid[1:], "--backing", "disk", "--discard-dirty")
        self.assert_one_line_error(ubcache(*other, cwd=self.dir), "is the backing device " + uuid)
        told = ubcache(*give_up, cwd=self.dir)
        self.assertIn(b"Nothing was given up", told.stdout)
        self.assert_one_line_error(ubcache(*serve, cwd=self.dir), "dirty")
        done = ubcache(*give_up, "--discard-dirty", cwd=self.dir)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assert_one_line_error(ubcache(*give_up, "--discard-dirty", cwd=self.dir),
                                   "nothing to give up")
        self.start("--attach", cache="new")
        self.assertEqual(self.volume()["state"], "clean")

    def test_what_a_returned_cache_has_of_a_device_that_was_given_up_is_told(self):
        uuid = self.make_dirty()
        done = ubcache("abandon", uuid, "--backing", "disk", "--discard-dirty", cwd=self.dir)
        self.assertEqual(done.returncode, 0, done.stderr)
        said = self.start()
        self.assertIn("disk: it was used without this cache or its dirty data was given up", said)
        self.assertIn("dropped, 64 KiB of dirty data included", said)
        self.assertEqual(self.volume()["dirty_bytes"], 0)
        self.ask("stop")
        self.assertEqual(self.ended(), 0)
        self.assertNotIn("given up", self.start())

    def test_device_of_no_set_is_served_and_told_how_to_get_a_cache(self):
        self.image("other", 32 * MIB)
        self.assertEqual(ubcache("make", "-B", "other", cwd=self.dir).returncode, 0)
        self.assertIn("other: state no cache: runs without a cache; to cache it: ubcache attach, ",
                      self.start(backing=("disk", "other")))
        self.ask("attach", "other")
        self.assertEqual({v["state"] for v in self.status()["volumes"]}, {"clean"})

    @unittest.skipUnless(os.geteuid() == 0 and support.real("losetup") and
                         os.path.exists("/dev/loop-control"), "needs loop devices")
    def test_file_and_its_loop_device_are_one_device(self):
        def loop(name):
            made = support.run("losetup", "-f", "--show", name, cwd=self.dir)
            self.assertEqual(made.returncode, 0, made.stderr)
            device = made.stdout.decode().strip()
            self.addCleanup(support.run, "losetup", "-d", device)
            return device

        other = ("serve", "--control", self.path("other.sock"), "--nbd", "unix:other.nbd")
        self.start()
        ssd, disk = loop("ssd"), loop("disk")
        self.assert_one_line_error(ubcache(*other, "--cache", ssd, "--backing", disk, cwd=self.dir),
                                   "the file behind it")
        self.assert_one_line_error(ubcache("make", "-C", ssd, "--force", "--wipe-bcache", cwd=self.dir),
                                   "the file behind it")
        self.ask("stop")
        self.assertEqual(self.ended(), 0)
        refused = ubcache(*other, "--cache", "ssd", "--backing", "disk", cwd=self.dir)
        self.assert_one_line_error(refused, "ssd: in use by the loop device " + ssd)
        self.start(cache=ssd, backing=(disk,))
        self.ask("stop")
        self.assertEqual(self.ended(), 0)

    @unittest.skipUnless(support.real("qemu-io"), "qemu-io is not installed")
    def test_cache_image_that_is_cut_off_never_gives_zeroes_for_dirty_data(self):
        self.start("--nbd", "unix:nbd.sock", "--set-option", "writeback_running=0",
                   "--set-option", "cache_grace=0")
        uri = self.volume()["nbd"]
        qemu_io(uri, "write -P 7 0 512k", "flush")
        os.truncate(self.path("ssd"), 0)
        with self.assertRaises(AssertionError):
            qemu_io(uri, "write -P 9 30M 64k", "flush")  # makes the image grow again
        read = support.run("qemu-io", "-f", "raw", "-c", "read -P 7 0 512k", uri)
        self.assertIn(b"read failed", read.stdout + read.stderr)
        self.assertIn("out of reach", self.status()["set"]["failure"])


if __name__ == "__main__":
    unittest.main()
