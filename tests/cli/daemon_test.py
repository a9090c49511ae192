"""The daemon on image files: serve, status, set, attach, flush, detach, stop; and hostile input."""

import json
import os
import resource
import signal
import socket
import subprocess
import time
import unittest

import support
from served import MIB, PATIENCE, DaemonTest, eventually, qemu_io
from support import run, ubcache

@unittest.skipUnless(support.real("qemu-io"), "qemu-io is not installed")
class Serving(DaemonTest):
    def test_a_volume_from_write_to_an_image_without_cache(self):
        said = self.start()
        self.assertIn("home: 128.0 MiB, NBD " + self.uri, said)
        self.ask("set", "writeback_running=0")
        qemu_io(self.uri, "write -P 0x5a 1M 256k", "write -P 0xa5 64M 64k", "flush")
        self.assertEqual(self.volume()["state"], "dirty")
        self.assertGreaterEqual(self.volume()["dirty_bytes"], 320 << 10)
        self.assertIn("0 bytes", self.ask("flush", "home") and self.ask("status"))
        qemu_io(self.uri, "read -P 0x5a 1M 256k")
        self.ask("stop")
        self.assertEqual(self.ended(), 0)
        data = self.bytes_of("disk")
        self.assertEqual(data[8192 + MIB:][:256 << 10], b"\x5a" * (256 << 10))
        self.assertEqual(data[8192 + 64 * MIB:][:64 << 10], b"\xa5" * (64 << 10))

    def test_a_set_without_its_disk_says_that_dirty_data_waits(self):
        self.start()
        self.ask("set", "writeback_running=0")
        qemu_io(self.uri, "write -P 0x33 0 256k", "flush")
        self.ask("stop")
        self.assertEqual(self.ended(), 0)
        self.image("other", 32 * MIB)
        ubcache("make", "-B", "other", "-l", "other", cwd=self.dir)
        for options in ({"backing": ()}, {"backing": ("other",)}):
            self.assertIn("HOLDS DIRTY DATA of a device that is missing",
                          self.start("--attach", **options))
            self.assertIn("HOLDS DIRTY DATA of a device that is missing", self.ask("flush"))
            self.ask("stop")
            self.assertEqual(self.ended(), 0)
        self.start()
        qemu_io(self.uri, "read -P 0x33 0 256k")

    def test_data_survives_a_killed_daemon(self):
        self.start()
        qemu_io(self.uri, "write -P 0x11 0 512k", "flush")
        self.kill(self.daemon)
        self.start()
        qemu_io(self.uri, "read -P 0x11 0 512k")
        self.daemon.send_signal(signal.SIGTERM)
        self.assertEqual(self.ended(), 0)

    def test_detach_writes_back_and_lets_go(self):
        self.start()
        qemu_io(self.uri, "write -P 0x22 0 64k", "flush")
        self.ask("detach", "home")
        qemu_io(self.uri, "read -P 0x22 0 64k")
        self.ask("stop")
        self.assertEqual(self.ended(), 0)
        shown = json.loads(ubcache("show", "--json", "disk", cwd=self.dir).stdout)[0]
        self.assertEqual(shown["state"], "no cache")
        self.assertEqual(self.bytes_of("disk")[8192:][:64 << 10], b"\x22" * (64 << 10))

    def test_every_request_has_a_reason(self):
        self.start()
        qemu_io(self.uri, "write -P 1 0 64k", "read 0 64k", "read 8M 4k")
        stats = self.volume()["stats"]
        self.assertEqual(sum(stats["read_reasons"].values()), stats["reads"])
        self.assertGreaterEqual(sum(stats["write_reasons"].values()), 1)
        self.assertIn("went through the cache", self.ask("status"))

    def test_progress_does_not_claim_what_failed(self):
        def small_files():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (96 * MIB, resource.RLIM_INFINITY))
        self.start(before_exec=small_files)
        self.ask("set", "writeback_running=0")
        qemu_io(self.uri, "write -P 1 1M 64k", "write -P 2 100M 64k", "flush")
        failed = ubcache("flush", "--control", self.control, cwd=self.dir)
        self.assertEqual(failed.returncode, 1)
        self.assertIn(b"ubcache flush: home: write-back fails: the backing device disk: ",
                      failed.stderr)
        self.assertIn(b"File too large; 64 KiB stay dirty", failed.stderr)
        self.assertNotIn(b"100%", failed.stderr)
        self.assertEqual(failed.stdout, b"")
        self.assertEqual(self.volume()["dirty_bytes"], 64 << 10)
        self.assertIn("FAILS: the backing device disk: ", self.ask("status"))
        self.assertIn("File too large", self.volume()["writeback_failure"])
        self.assertNotEqual(self.volume()["stats"]["io_errors"], 0)
        self.assertIn("home: write-back fails: ", self.daemon.stdout.readline())
        resource.prlimit(self.daemon.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        self.ask("flush")
        self.assertEqual(self.volume()["writeback_failure"], "")
        self.assertIn("home: write-back works again", self.daemon.stdout.readline())
        self.assertEqual(self.ask("stop").strip(), "stopped")

    def test_what_is_refused_at_once_shows_no_progress(self):
        self.start()
        self.ask("set", "writeback_running=0")
        qemu_io(self.uri, "write -P 1 1M 64k", "flush")
        self.ask("stop")
        self.ended()
        self.start("--read-only")
        for command in (["flush"], ["flush", "home"], ["detach", "home"], ["stop", "--flush"]):
            refused = ubcache(*command, "--control", self.control, cwd=self.dir)
            self.assert_one_line_error(refused, "home: the set is served read-only")
        self.ask("stop")
        self.ended()
        self.start()
        self.ask("detach", "home")
        refused = ubcache("detach", "home", "--control", self.control, cwd=self.dir)
        self.assert_one_line_error(refused, "home: is not attached")
        flushed = ubcache("flush", "home", "--control", self.control, cwd=self.dir)
        self.assertEqual((flushed.returncode, flushed.stderr), (0, b""))

    def test_stop_does_not_wait_for_a_flush(self):
        self.start()
        self.ask("set", "writeback_running=0", "sequential_cutoff=0")
        qemu_io(self.uri, "write -P 3 0 32M", "flush")
        flush = subprocess.Popen([support.UBCACHE, "flush", "--control", self.control],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.ask("stop")
        self.assertEqual(self.ended(), 0)
        flush.wait(PATIENCE)
        self.start()
        qemu_io(self.uri, "read -P 3 0 32M")

    def test_volumes_that_live_on_the_cache_alone(self):
        self.start()
        self.assertEqual(self.ask("create-volume", "0", code=1),
                         "ubcache create-volume: the size must be 512 bytes or more\n")
        for size in ("8E", "18446744073709551615"):
            self.assertIn("must be below 8 EiB", self.ask("create-volume", size, code=1))
        line = self.ask("create-volume", "8M", "--label", "scratch")
        self.assertIn("scratch: 8 MiB", line)
        self.assertIn("cannot be detached", self.ask("detach", "scratch", code=1))
        self.assertIn("nowhere to write it back to", self.ask("flush", "scratch", code=1))
        uri = self.uri.replace("home", "scratch")
        qemu_io(uri, "write -P 9 1M 1M", "flush")
        said = self.ask("flush")
        self.assertIn("all data that was dirty is on the backing devices", said)
        self.assertIn("1 MiB of cache-only volumes stay where they live", said)
        self.assertEqual(json.loads(self.ask("flush", "--json"))["flash_only_bytes"], MIB)
        self.assertEqual(self.status()["set"]["flash_only_bytes"], MIB)
        self.assertIn("1 MiB in the cache, which is its only place", self.ask("status"))
        self.assertIn("dirty data or of cache-only volumes", self.ask("status"))
        self.ask("stop")
        self.ended()
        self.start(backing=())
        qemu_io(uri, "read -P 9 1M 1M", "read -P 0 4M 1M")
        self.assertTrue(self.volume()["flash_only"])

    def test_a_volume_larger_than_the_cache_is_noted(self):
        self.start()
        self.assertNotIn("note", self.ask("create-volume", "8M", "--label", "small"))
        self.assertNotIn("overcommitted", self.ask("status"))
        said = self.ask("create-volume", "1G", "--label", "large")
        self.assertIn("may grow to 1.0 GiB, but it can hold 6", said)
        self.assertIn("overcommitted cache-only volumes may grow to 1.0 GiB", self.ask("status"))
        facts = self.status()["set"]
        self.assertEqual(facts["flash_only_size_bytes"], (1 << 30) + 8 * MIB)
        self.assertLess(facts["data_capacity_bytes"], 64 * MIB)
        notes = json.loads(self.ask("create-volume", "1M", "--json"))["notes"]
        self.assertIn("may grow to", notes[0])

    def test_serves_over_tcp_on_the_loopback_interface(self):
        said = self.start("--nbd", "localhost:0")
        uri = next(word for word in said.split() if word.startswith("nbd://"))
        qemu_io(uri, "write -P 4 0 4k", "read -P 4 0 4k")
        self.ask("stop")
        self.ended()
        refused = ubcache("serve", "--cache", "ssd", "--backing", "disk", "--nbd", "0.0.0.0:0",
                          "--control", self.path("other.sock"), cwd=self.dir)
        self.assert_one_line_error(refused, "not a loopback address; --nbd-anywhere allows others")


class SeveralBackingDevices(DaemonTest):
    def test_are_served_side_by_side_under_different_names(self):
        for name in ("second", "third"):
            self.image(name, 32 * MIB)
            ubcache("make", "-B", name, "-l", "home", cwd=self.dir)
        self.start("--attach", backing=("disk", "second", "third"))
        volumes = self.status()["volumes"]
        names = [v["name"] for v in volumes]
        self.assertEqual((names[0], len(set(names))), ("home", 3))
        self.assertEqual([v["state"] for v in volumes], ["clean"] * 3)
        self.assertIn("name one with --volume", self.ask("set", "label=away", code=1))
        self.ask("set", "label=away", "--volume", names[1])
        self.assertEqual([v["label"] for v in self.status()["volumes"]], ["home", "away", "home"])
        self.ask("set", "cache_replacement_policy=fifo")
        self.ask("stop")
        self.ended()
        shown = json.loads(ubcache("show", "--json", "ssd", "second", cwd=self.dir).stdout)
        self.assertEqual((shown[0]["replacement"], shown[1]["label"]), ("fifo", "away"))


class Administration(DaemonTest):
    def test_attributes_take_suffixes_and_are_all_checked_first(self):
        self.start()
        self.ask("set", "sequential_cutoff=8M", "writeback_percent=20", "cache_mode=writethrough")
        attributes = self.volume()["attributes"]
        self.assertEqual(attributes["sequential_cutoff"], "8.0M")
        self.assertEqual(attributes["writeback_percent"], "20")
        self.assertEqual(attributes["cache_mode"], "[writethrough] writeback writearound none")
        self.ask("set", "sequential_cutoff=1048576", "--volume", "home")
        self.assertEqual(self.volume()["attributes"]["sequential_cutoff"], "1.0M")
        refused = self.ask("set", "writeback_percent=5", "cache_mode=fast", code=1)
        self.assertIn("writethrough, writeback, writearound or none", refused)
        self.assertEqual(self.volume()["attributes"]["writeback_percent"], "20")
        self.assertIn("no attribute", self.ask("set", "bogus=1", code=1))
        self.assertIn("did you mean cache_mode?", self.ask("set", "cachemode=none", code=1))
        self.assertIn("KEY=VALUE", self.ask("set", "cache_mode", code=2))
        self.assertIn("there are: home", self.ask("set", "label=x", "--volume", "y", code=1))

    def test_values_out_of_range_are_refused_with_the_range(self):
        refused = ubcache("serve", "--cache", "ssd", "--control", self.control, "--set-option",
                          "sequential_cutoff=9G", cwd=self.dir)
        self.assert_one_line_error(
            refused, "--set-option sequential_cutoff: 9G is out of range 0..4294967295")
        self.start()
        before = self.volume()["attributes"]
        refused = self.ask("set", "writeback_delay=5", "sequential_cutoff=9G", code=1)
        self.assertIn("sequential_cutoff: 9G is out of range 0..4294967295 bytes", refused)
        self.assertIn("out of range 0..40", self.ask("set", "writeback_percent=90", code=1))
        self.assertEqual(self.volume()["attributes"], before)

    def test_a_new_label_is_noted_to_name_things_at_the_next_start(self):
        self.start()
        self.assertIn("until the next start", self.ask("set", "label=away"))
        self.assertIn("notes", json.loads(self.ask("set", "label=away", "--json")))
        self.assertEqual((self.volume()["name"], self.volume()["label"]), ("home", "away"))
        for bad in ("a/b", "a\tb", "..", "x" * 32):
            self.assertIn("label: the label ", self.ask("set", "label=" + bad, code=1))
            self.assertIn("the label ", self.ask("create-volume", "1M", "--label", bad, code=1))
            made = ubcache("make", "-B", "new", "-l", bad, cwd=self.dir)
            self.assert_one_line_error(made, "ubcache make: the label ", code=2)
        self.ask("stop")
        self.ended()
        self.assertIn("away: ", self.start())

    def test_set_options_pass_over_volumes_that_have_no_such_attribute(self):
        self.start()
        self.ask("create-volume", "1M", "--label", "scratch")
        self.ask("stop")
        self.ended()
        self.start("--set-option", "cache_mode=writearound")
        self.assertEqual([v["cache_mode"] for v in self.status()["volumes"] if not v["flash_only"]],
                         ["writearound"])

    def test_set_options_at_the_start(self):
        self.start("--set-option", "sequential_cutoff=0", "--set-option", "journal_delay_ms=10",
                   "--set-option", "cache_replacement_policy=fifo")
        self.assertEqual(self.status()["set"]["cache_attributes"]["cache_replacement_policy"],
                         "lru [fifo] random")
        self.assertEqual(self.volume()["attributes"]["sequential_cutoff"], "0.0k")
        self.assertEqual(self.status()["set"]["attributes"]["journal_delay_ms"], "10")

    def test_attach_takes_free_devices_and_refuses_others(self):
        self.start()
        self.image("second", 32 * MIB)
        self.assertIn("second", self.ask("attach", "second", code=1))
        ubcache("make", "-B", "second", "-l", "other", cwd=self.dir)
        self.assertIn("other: ", self.ask("attach", "second"))
        names = [volume["name"] for volume in self.status()["volumes"]]
        self.assertEqual(names, ["home", "other"])

    def test_stop_by_command_and_by_signal(self):
        self.start()
        self.assertEqual(self.ask("stop", "--flush").strip(), "stopped")
        self.assertEqual(self.ended(), 0)
        for number in (signal.SIGTERM, signal.SIGINT):
            self.start()
            self.daemon.send_signal(number)
            self.assertEqual(self.ended(), 0)

    def test_read_only_changes_no_byte(self):
        before = self.bytes_of("ssd"), self.bytes_of("disk")
        # A blank set cannot be served read-only, so it is served once before.
        self.start()
        self.assertNotIn("read-only", self.ask("status"))
        self.ask("stop")
        self.ended()
        before = self.bytes_of("ssd"), self.bytes_of("disk")
        self.start("--read-only")
        self.assertIn("\n  read-only ", self.ask("status"))
        self.assertTrue(json.loads(self.ask("status", "--json"))["set"]["read_only"])
        self.ask("stop")
        self.assertEqual(self.ended(), 0)
        self.assertEqual((self.bytes_of("ssd"), self.bytes_of("disk")), before)


class Refusals(DaemonTest):
    def serve(self, *options):
        return ubcache("serve", "--control", self.control, *options, cwd=self.dir)

    def test_without_a_daemon_says_what_to_do(self):
        for command in (["status"], ["gc"], ["set", "a=b"], ["flush"], ["stop"],
                        ["attach", "x"], ["detach", "x"], ["create-volume", "1G"]):
            result = ubcache(*command, "--control", self.path("nobody.sock"), cwd=self.dir)
            self.assert_one_line_error(result, "nobody.sock", "ubcache serve")

    def test_attach_is_not_for_members_of_another_set_and_does_not_claim_to_be(self):
        self.image("ssd2", 64 * MIB)
        self.assertEqual(ubcache("make", "-C", "ssd2", cwd=self.dir).returncode, 0)
        self.start()  # which makes the disk a member
        self.ask("stop")
        self.assertEqual(self.ended(), 0)
        refused = self.serve("--cache", "ssd2", "--backing", "disk", "--attach")
        self.assert_one_line_error(refused, "disk: it belongs to cache set ", "detach")
        text = " ".join(ubcache("serve", "--help").stdout.decode().split())
        self.assertNotIn("or to another one", text)
        self.assertIn("members of another set are refused", text)

    def test_serve_explains_what_is_wrong(self):
        self.assert_one_line_error(self.serve("--cache", "nope"), "nope")
        self.image("blank", 64 * MIB)
        self.assert_one_line_error(self.serve("--cache", "blank", "--backing", "disk"), "blank")
        self.assert_one_line_error(self.serve("--cache", "ssd", "--backing", "blank"), "blank")
        self.assert_one_line_error(
            self.serve("--cache", "ssd", "--backing", "disk", "--nbd", "somewhere"),
            "ubcache serve: --nbd somewhere: use unix:PATH or HOST:PORT", code=2)
        self.assertEqual(self.serve("--backing", "disk").returncode, 2)

    def test_the_same_device_twice_is_called_that(self):
        self.image("other", 32 * MIB)
        ubcache("make", "-B", "other", cwd=self.dir)
        os.symlink("disk", self.path("link"))
        for backings in (("ssd",), ("disk", "disk"), ("disk", "link"), ("disk", "other", "./disk")):
            options = [word for name in backings for word in ("--backing", name)]
            refused = self.serve("--cache", "ssd", *options)
            self.assert_one_line_error(refused, backings[-1] + ": was given twice")
        self.start()
        for name, words in (("disk", "is served already"), ("link", "is served already, as disk"),
                            ("ssd", "is served already")):
            self.assertIn(self.path(name) + ": " + words, self.ask("attach", name, code=1))
        self.ask("attach", "other")
        self.assertIn("is served already", self.ask("attach", "other", code=1))

    def test_a_refused_device_is_named_once(self):
        self.image("blank", 64 * MIB)
        for options in (("--cache", "blank"), ("--cache", "ssd", "--backing", "blank")):
            refused = self.serve(*options)
            self.assert_one_line_error(refused, "ubcache serve: blank: superblock")
            self.assertEqual(refused.stderr.count(b"blank"), 1)

    def test_a_cache_file_that_is_cut_off_is_called_that(self):
        self.start("--set-option", "cache_grace=1")
        os.truncate(self.path("ssd"), 20 * MIB)
        run("qemu-io", "-f", "raw", "-c", "write -P 1 0 64k", "-c", "flush", self.uri)  # notices it
        words = "ssd is out of reach for "
        self.assertTrue(eventually(lambda: words in self.status()["set"]["failure"]))
        cut_off = "(the file is shorter than when it was opened: somebody has cut it off; "
        self.assertTrue(eventually(lambda: cut_off in self.status()["set"]["failure"]))
        self.kill(self.daemon)
        self.assert_one_line_error(self.serve("--cache", "ssd", "--backing", "disk"),
                                   "ssd: superblock: ", "it is 20480 KiB long, but its superblock "
                                   "says 65536 KiB: it was cut off", "ubcache abandon")

    @unittest.skipUnless(os.path.exists(os.path.join(support.BIN, "make-bcache")), "no make-bcache")
    def test_a_cache_with_too_few_buckets_says_what_would_be_enough(self):
        self.image("small", 64 * MIB)
        made = run(os.path.join(support.BIN, "make-bcache"), "-C", "small", cwd=self.dir)
        self.assertEqual(made.returncode, 0)
        self.assert_one_line_error(self.serve("--cache", "small"), "small: superblock",
                                   "it has 128 buckets and needs 513", "use --bucket 64k",
                                   "buckets of 512 KiB need 262656 KiB")

    def test_a_second_daemon_is_refused(self):
        self.start()
        self.assert_one_line_error(self.serve("--cache", "ssd", "--backing", "disk"), "--control")
        other = ubcache("serve", "--control", self.path("other.sock"), "--cache", "ssd",
                        "--backing", "disk", cwd=self.dir)
        self.assert_one_line_error(other, "ssd")
        made = ubcache("make", "--wipe-bcache", "-C", "ssd", cwd=self.dir)
        self.assert_one_line_error(made, "ssd: is in use")

    def test_hostile_lines_are_bounded(self):
        self.start()
        for text in (b"nonsense\n", b"[1]\n", b"{}\n", b'{"op":7}\n', b'{"op":"set"}\n',
                     b'{"op":"set","values":[1]}\n', b'{"op":"set","values":{"cache_mode":{}}}\n',
                     b'{"op":"flush","volume":"nobody"}\n', b'{"op":"create-volume"}\n',
                     b"[" * 60000 + b"\n", b"\xff\xfe\n", b'{"op":"create-volume","size_bytes":-1}\n'):
            answer = json.loads(self.send(text))
            self.assertFalse(answer["ok"], text[:40])
            self.assertTrue(answer["error"], text[:40])
        self.assertIn("too long", json.loads(self.send(b"x" * 200000))["error"])
        crowd = [self.connect() for _ in range(20)]
        self.assertTrue(any(self.turned_away(client) for client in crowd[16:]))
        for client in crowd:
            client.close()
        for _ in range(100):  # the daemon notices at its own pace
            if "volumes" in self.try_status():
                return
            time.sleep(0.05)
        self.fail("the daemon no longer answers")

    def connect(self):
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(PATIENCE)
        client.connect(self.control)
        return client

    def send(self, text):
        with self.connect() as client:
            try:
                client.sendall(text)
            except BrokenPipeError:
                pass
            return client.makefile("rb").readline()

    @staticmethod
    def turned_away(client):
        return b"too many connections" in client.makefile("rb").readline()

    def try_status(self):
        return ubcache("status", "--json", "--control", self.control).stdout.decode()


if __name__ == "__main__":
    unittest.main(verbosity=1)
