"""The daemon on image files: serve, status, set, attach, flush, detach, stop; and hostile input."""

import json
import os
import signal
import socket
import subprocess
import time
import unittest

import support
from support import ScratchTest, run, ubcache

MIB = 1 << 20
PATIENCE = 30  # seconds; only reached if something is broken


def qemu_io(uri, *commands):
    arguments = [word for command in commands for word in ("-c", command)]
    result = run("qemu-io", "-f", "raw", *arguments, uri)
    output = result.stdout + result.stderr
    if result.returncode != 0 or b"rror" in output or b"failed" in output:
        raise AssertionError(output.decode())


class DaemonTest(ScratchTest):
    """A set of one cache and one backing image; start() serves it."""

    make_options = ("--writeback", "-l", "home")

    def setUp(self):
        super().setUp()
        self.image("ssd", 64 * MIB)
        self.image("disk", 128 * MIB)
        made = ubcache("make", "-C", "ssd", "-B", "disk", *self.make_options, cwd=self.dir)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.control = self.path("control.sock")
        self.uri = "nbd+unix:///home?socket=" + self.path("nbd.sock")
        self.daemon = None

    def start(self, *options, backing=("disk",), env=None):
        command = [support.UBCACHE, "serve", "--cache", "ssd", "--control", self.control]
        for name in backing:
            command += ["--backing", name]
        self.daemon = subprocess.Popen(command + list(options), cwd=self.dir, text=True,
                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                       env={**os.environ, **(env or {})})
        self.addCleanup(self.kill, self.daemon)
        said = []
        for line in self.daemon.stdout:
            said.append(line)
            if line.startswith("ready"):
                return "".join(said)
        raise AssertionError("the daemon did not start: " + "".join(said))

    @staticmethod
    def kill(daemon):
        if daemon.poll() is None:
            daemon.kill()
        daemon.wait()
        daemon.stdout.close()

    def ask(self, command, *arguments, code=0):
        result = ubcache(command, "--control", self.control, *arguments, cwd=self.dir)
        self.assertEqual(result.returncode, code, result.stderr.decode())
        return result.stdout.decode() if code == 0 else result.stderr.decode()

    def status(self):
        return json.loads(self.ask("status", "--json"))

    def volume(self):
        return self.status()["volumes"][0]

    def ended(self):
        return self.daemon.wait(PATIENCE)


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
        self.assertIn("HOLDS DIRTY DATA", self.start(backing=()))
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
        line = self.ask("create-volume", "8M", "--label", "scratch")
        self.assertIn("scratch: 8 MiB", line)
        self.assertIn("cannot be detached", self.ask("detach", "scratch", code=1))
        uri = self.uri.replace("home", "scratch")
        qemu_io(uri, "write -P 9 1M 1M", "flush")
        self.ask("stop")
        self.ended()
        self.start(backing=())
        qemu_io(uri, "read -P 9 1M 1M", "read -P 0 4M 1M")
        self.assertTrue(self.volume()["flash_only"])

    def test_serves_over_tcp_on_the_loopback_interface(self):
        said = self.start("--nbd", "localhost:0")
        uri = next(word for word in said.split() if word.startswith("nbd://"))
        qemu_io(uri, "write -P 4 0 4k", "read -P 4 0 4k")
        refused = ubcache("serve", "--cache", "ssd", "--backing", "disk", "--nbd", "0.0.0.0:0",
                          "--control", self.path("other.sock"), cwd=self.dir)
        self.assert_one_line_error(refused)


class Paths(DaemonTest):
    def test_missing_directories_are_named_and_not_made(self):
        for option, value in (("--nbd", "unix:no/where/nbd.sock"), ("--fuse", "no/where/mnt"),
                              ("--control", "no/where/c.sock")):
            refused = ubcache("serve", "--cache", "ssd", "--backing", "disk", "--control",
                              self.control, option, value, cwd=self.dir)
            if option == "--control":
                refused = ubcache("serve", "--cache", "ssd", option, value, cwd=self.dir)
            self.assert_one_line_error(refused, f"{option} {value}: the directory no/where does not "
                                       "exist; create it first")
        refused = ubcache("serve", "--cache", "ssd", "--control", "ssd/c.sock", cwd=self.dir)
        self.assert_one_line_error(refused, "--control ssd/c.sock: ssd is not a directory")
        self.assertFalse(os.path.exists(self.path("no")))

    def test_a_removed_control_socket_comes_back(self):
        self.start()
        for _ in range(2):
            os.unlink(self.control)
            self.assertIn("control socket was removed by somebody; it is there again",
                          self.daemon.stdout.readline())
            self.assertEqual(self.volume()["name"], "home")
        self.ask("stop")
        self.assertEqual(self.ended(), 0)
        self.assertFalse(os.path.exists(self.control))

    def test_another_daemon_at_the_path_of_the_control_socket_is_left_alone(self):
        self.start()
        first = self.daemon
        os.unlink(self.control)
        self.image("c2", 64 * MIB)
        ubcache("make", "-C", "c2", cwd=self.dir)
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(self.control)
            other.listen(20)
            self.assertIn("cannot be made anew yet", first.stdout.readline())
            first.send_signal(signal.SIGTERM)
            self.assertEqual(first.wait(PATIENCE), 0)
            self.assertTrue(os.path.exists(self.control))


@unittest.skipUnless(os.path.exists("/dev/fuse") and os.geteuid() == 0, "no FUSE, or not root")
class Files(DaemonTest):
    def test_volumes_appear_as_files(self):
        said = self.start("--fuse", self.path("mnt"))
        self.addCleanup(run, "umount", "-lq", self.path("mnt"))
        self.assertIn("file " + self.path("mnt/home"), said)
        with open(self.path("mnt/home"), "r+b") as file:
            file.seek(MIB)
            file.write(b"\x77" * 4096)
            os.fsync(file.fileno())
        self.ask("stop", "--flush")
        self.assertEqual(self.ended(), 0)
        self.assertEqual(self.bytes_of("disk")[8192 + MIB:][:4096], b"\x77" * 4096)

    def test_a_directory_with_something_in_it_is_not_hidden(self):
        os.mkdir(self.path("full"))
        self.image("full/precious", 10)
        refused = ubcache("serve", "--cache", "ssd", "--control", self.control, "--fuse", "full",
                          cwd=self.dir)
        self.assert_one_line_error(refused, "--fuse: full: the directory is not empty")

    def test_unmounting_under_the_daemon_ends_the_files_and_nothing_else(self):
        self.start("--fuse", "mnt", "--nbd", "unix:" + self.path("nbd.sock"))
        self.addCleanup(run, "umount", "-lq", self.path("mnt"))
        self.assertEqual(self.volume()["file"], "mnt/home")
        self.assertEqual(run("umount", self.path("mnt")).returncode, 0)
        self.assertIn("mnt: was unmounted by somebody", self.daemon.stdout.readline())
        status = self.status()
        self.assertEqual(status["volumes"][0]["file"], "")
        self.assertIn("was unmounted", status["notes"][-1])
        self.assertNotIn("mnt", self.ask("status"))
        if support.real("qemu-io"):
            qemu_io(self.uri, "write -P 5 0 4k", "read -P 5 0 4k")
        self.ask("stop")
        self.assertEqual(self.ended(), 0)


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
            self.assert_one_line_error(made, "ubcache: make: the label ", code=2)
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
        self.start("--set-option", "sequential_cutoff=0", "--set-option", "journal_delay_ms=10")
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

    def test_tells_the_service_manager_when_it_is_ready(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
            listener.bind(self.path("notify"))
            listener.settimeout(PATIENCE)
            self.start(env={"NOTIFY_SOCKET": self.path("notify")})
            self.assertEqual(listener.recv(100), b"READY=1\n")

    def test_read_only_changes_no_byte(self):
        before = self.bytes_of("ssd"), self.bytes_of("disk")
        # A blank set cannot be served read-only, so it is served once before.
        self.start()
        self.ask("stop")
        self.ended()
        before = self.bytes_of("ssd"), self.bytes_of("disk")
        self.start("--read-only")
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

    def test_serve_explains_what_is_wrong(self):
        self.assert_one_line_error(self.serve("--cache", "nope"), "nope")
        self.image("blank", 64 * MIB)
        self.assert_one_line_error(self.serve("--cache", "blank", "--backing", "disk"), "blank")
        self.assert_one_line_error(self.serve("--cache", "ssd", "--backing", "blank"), "blank")
        self.assert_one_line_error(
            self.serve("--cache", "ssd", "--backing", "disk", "--nbd", "somewhere"), "HOST:PORT")
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
