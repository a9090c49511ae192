"""Sets that are put together from members that appear one by one: `assemble`, `serve --set`."""

import json
import os
import signal
import stat
import subprocess
import unittest

import support
from served import MIB, PATIENCE, DaemonTest, qemu_io
from support import ubcache


class AssembleTest(DaemonTest):
    def setUp(self):
        super().setUp()
        self.set = self.superblock("ssd")["set_uuid"]
        self.served_control = self.path(f"run/{self.set}/control.sock")
        os.mkdir(self.path("etc"))
        os.mkdir(self.path("bin"))
        self.configure("")

    def superblock(self, name):
        return json.loads(ubcache("show", "--json", name, cwd=self.dir).stdout)[0]

    def configure(self, text):
        with open(self.path(f"etc/{self.set}.conf"), "w", encoding="utf-8") as file:
            file.write(text)

    def fake(self, name):
        """A program that notes how it was called."""
        with open(self.path(f"bin/{name}"), "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\necho "{name} $*" >>{self.dir}/calls\n')
            os.fchmod(file.fileno(), stat.S_IRWXU)

    def calls(self):
        try:
            with open(self.path("calls"), encoding="utf-8") as file:
                return file.read().splitlines()
        except FileNotFoundError:
            return []

    def assemble(self, *words, start="no", code=0):
        done = ubcache("assemble", "--run-directory", self.path("run"), "--config-directory",
                       self.path("etc"), "--start", start, *words, cwd=self.dir,
                       env={"PATH": self.path("bin") + ":" + os.environ["PATH"]})
        self.assertEqual(done.returncode, code, done.stderr.decode())
        return (done.stdout if code == 0 else done.stderr).decode()

    def serve_set(self, *options):
        """Returns the daemon at once; it need not be ready."""
        daemon = subprocess.Popen(
            [support.UBCACHE, "serve", "--set", self.set, "--run-directory", self.path("run"),
             *options], cwd=self.dir, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.addCleanup(self.kill, daemon)
        self.daemon, self.control = daemon, self.served_control
        return daemon

    def until(self, *words):
        said = []
        for line in self.daemon.stdout:
            said.append(line)
            if all(word in line for word in words):
                return "".join(said)
        raise AssertionError("".join(said))

    def end(self):
        self.daemon.send_signal(signal.SIGTERM)
        self.assertEqual(self.ended(), 0)


class Recording(AssembleTest):
    def test_a_set_that_nobody_gave_to_ubcache_is_left_alone(self):
        os.unlink(self.path(f"etc/{self.set}.conf"))
        self.assertIn("left to the kernel", self.assemble("ssd", code=1))
        self.assertEqual(ubcache("assemble", "--describe", "--config-directory", self.path("etc"),
                                 "ssd", cwd=self.dir).stdout, b"")
        self.assertFalse(os.path.exists(self.path("run")))

    def test_udev_is_told_what_a_device_is(self):
        said = self.assemble("--describe", "disk")
        self.assertEqual(said, f"UBCACHE_SET={self.set}\n"
                         f"UBCACHE_UUID={self.superblock('disk')['uuid']}\nUBCACHE_TYPE=backing\n")
        self.image("blank", MIB)
        self.assertEqual(self.assemble("--describe", "blank", code=1), "")

    def test_foreign_signatures_at_the_end_do_not_hide_a_member(self):
        # An uberblock of ZFS in the fourth label, as libblkid looks for it.
        with open(self.path("disk"), "r+b") as file:
            for label in (128 * MIB - 512 * 1024, 128 * MIB - 256 * 1024):
                for slot in range(16):
                    file.seek(label + 128 * 1024 + slot * 1024)
                    file.write((0x00bab10c).to_bytes(8, "little"))
        self.assertIn("UBCACHE_TYPE=backing", self.assemble("--describe", "disk"))

    def test_the_service_starts_with_the_cache_whatever_the_order(self):
        self.fake("systemctl")
        self.assertIn("waits for its cache", self.assemble("disk", start="yes"))
        self.assertEqual(self.calls(), [])
        self.assertIn("service started", self.assemble("ssd", start="yes"))
        self.assertEqual(self.calls(),
                         [f"systemctl --no-block start ubcache@{self.set}.service"])

    def test_the_clock_for_going_on_alone_runs_only_where_that_was_asked_for(self):
        self.fake("systemd-run")
        self.assemble("disk", start="yes")
        self.assertEqual(self.calls(), [])
        self.configure('OPTIONS="--ublk"\nALONE_AFTER="90"\n')
        self.attach_once()
        self.assertIn("goes on without its cache device in 90 s",
                      self.assemble("disk", start="yes"))
        self.assertIn("--on-active=90", self.calls()[0])
        self.configure("ALONE_AFTER=soon\n")
        self.assertIn("ALONE_AFTER=soon: a number", self.assemble("disk", code=1))

    def attach_once(self):
        self.start()
        self.ask("stop")
        self.assertEqual(self.ended(), 0)


class Serving(AssembleTest):
    def test_a_set_without_its_cache_is_not_served(self):
        self.assemble("disk")
        daemon = self.serve_set()
        self.assertIn("its cache device has not appeared", daemon.stdout.read())
        self.assertEqual(daemon.wait(PATIENCE), 2)

    def test_members_that_are_there_are_served(self):
        for order in (("ssd", "disk"), ("disk", "ssd")):
            for name in order:
                self.assemble(name)
            self.serve_set()
            self.until("ready")
            self.assertEqual(self.volume()["state"], "clean")
            self.assertIn("is served", self.assemble("disk"))
            self.end()

    def test_a_late_backing_device_is_waited_for(self):
        self.assemble("ssd", "disk")
        self.serve_set()
        self.until("ready")
        self.end()
        os.unlink(self.path(f"run/{self.set}/backing-{self.superblock('disk')['uuid']}"))
        self.serve_set("--wait", "300")
        while not os.path.exists(self.served_control):
            self.assertIsNone(self.daemon.poll())
        self.assertEqual(self.status()["volumes"], [])
        self.assemble("disk")
        said = self.until("ready")
        self.assertIn("has appeared, served as home", said)
        self.assertEqual(self.volume()["name"], "home")
        self.end()

    def test_waiting_has_an_end(self):
        self.assemble("ssd", "disk")
        self.serve_set()
        self.until("ready")
        self.end()
        os.unlink(self.path(f"run/{self.set}/backing-{self.superblock('disk')['uuid']}"))
        self.serve_set("--wait", "0")
        self.assertIn("has not appeared", self.until("ready"))
        self.assemble("disk")
        self.until("has appeared, served as home")
        self.end()

    def test_a_name_that_belongs_to_another_device_now_is_passed_over(self):
        self.assemble("ssd", "disk")
        os.rename(self.path("disk"), self.path("moved"))
        self.image("disk", 128 * MIB)
        self.serve_set("--wait", "0")
        self.until("ready")
        self.assertEqual(self.status()["volumes"], [])
        self.end()


class Alone(AssembleTest):
    """Backing devices whose cache is missing."""

    def serve_once(self, *commands):
        self.start("--set-option", "writeback_running=0", "--set-option", "sequential_cutoff=0")
        if commands:
            qemu_io(self.uri, *commands)
        self.ask("stop")
        self.assertEqual(self.ended(), 0)

    def alone(self, *options):
        return subprocess.run(
            [support.UBCACHE, "serve", "--without-cache", "--backing", "disk", "--control",
             self.path("alone.sock"), *options], cwd=self.dir, check=False, capture_output=True,
            timeout=PATIENCE)

    @unittest.skipUnless(support.real("qemu-io"), "qemu-io is not installed")
    def test_a_dirty_device_is_never_started_alone(self):
        self.serve_once("write -P 9 0 64k")
        self.assertEqual(self.superblock("disk")["state"], "dirty")
        before = self.bytes_of("disk")
        self.assert_one_line_error(self.alone(), "disk: is dirty")
        self.assemble("disk")
        self.fake("systemctl")
        self.assertIn("disk: is dirty", self.assemble("--alone", self.set, start="yes", code=1))
        self.assertEqual(self.calls(), [])
        self.assertEqual(self.bytes_of("disk"), before)

    @unittest.skipUnless(support.real("qemu-io"), "qemu-io is not installed")
    def test_a_clean_device_goes_on_and_what_the_cache_had_is_never_used_again(self):
        self.start("--set-option", "sequential_cutoff=0")
        qemu_io(self.uri, "write -P 1 0 64k")
        self.ask("stop", "--flush")
        self.assertEqual(self.ended(), 0)
        self.assertEqual(self.superblock("disk")["state"], "clean")
        os.rename(self.path("ssd"), self.path("away"))
        self.assemble("disk")
        self.fake("systemctl")
        self.assemble("--alone", self.set, start="yes")
        self.assertEqual(len(self.calls()), 1)
        self.serve_set()
        self.until("ready")
        self.assertEqual(self.superblock("disk")["state"], "inconsistent")
        self.assertEqual(self.volume()["name"], "home")
        uri = f"nbd+unix:///home?socket={self.dir}/run/{self.set}/nbd.sock"
        qemu_io(uri, "read -P 1 0 64k", "write -P 2 0 64k", "flush")
        os.rename(self.path("away"), self.path("ssd"))
        self.assemble("ssd")
        self.until("the cache device has appeared")
        self.end()
        self.serve_set()
        self.until("ready")
        self.assertEqual(self.volume()["state"], "clean")
        qemu_io(uri, "read -P 2 0 64k")
        self.end()

    def test_read_only_and_cache_devices_are_refused(self):
        self.assertEqual(self.alone("--read-only").returncode, 2)
        refused = ubcache("serve", "--without-cache", "--backing", "ssd", "--control",
                          self.path("alone.sock"), cwd=self.dir)
        self.assert_one_line_error(refused, "ssd: this is a cache device")


if __name__ == "__main__":
    unittest.main(verbosity=1)
