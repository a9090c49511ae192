"""The daemon when its surroundings fail: no space, read-only devices, impatient signals, bad clients, little memory."""

import contextlib
import os
import random
import resource
import signal
import socket
import struct
import subprocess
import sys
import time
import unittest

TESTS = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
sys.path += [os.path.join(TESTS, "cli"), os.path.join(TESTS, "lab")]
sys.dont_write_bytecode = True
import support  # noqa: E402
from daemon_test import MIB, PATIENCE, DaemonTest  # noqa: E402
from support import run, ubcache  # noqa: E402
from trip import targets  # noqa: E402

QUICK = 10  # seconds; an end in order takes far less, also on a busy machine
WRITE = 1
MAGIC = 0x25609513


def root_can(*command):
    return os.geteuid() == 0 and run(*command).returncode == 0


class Client(targets.Nbd):
    def pattern(self, byte, first, count):
        self.write(first, bytes([byte]) * (count * 512))


class FailuresTest(DaemonTest):
    def client(self):
        client = Client(self.path("nbd.sock"), "home")
        self.addCleanup(client.socket.close)
        return client

    def start(self, *options, **more):
        return super().start("--set-option", "sequential_cutoff=0",
                             "--set-option", "congested_write_threshold_us=0", *options, **more)

    def assert_pattern(self, client, byte, first, count):
        self.assertEqual(client.read(first, count), bytes([byte]) * (count * 512))


class Signals(FailuresTest):
    def dirty(self, size):
        client = self.client()
        for at in range(0, size, MIB):
            client.pattern(at // MIB + 1, at // 512, 2048)
        client.flush()

    def assert_still_dirty(self, size):
        self.start("--set-option", "writeback_running=0")
        self.assertEqual(self.volume()["state"], "dirty")
        client = self.client()
        for at in range(0, size, MIB):
            self.assert_pattern(client, at // MIB + 1, at // 512, 2048)

    def test_sigterm_with_much_dirty_data_stops_at_once_and_keeps_it(self):
        self.start("--set-option", "writeback_running=0")
        self.dirty(20 * MIB)
        before = self.volume()["dirty_bytes"]
        self.assertGreaterEqual(before, 20 * MIB)
        begin = time.monotonic()
        self.daemon.send_signal(signal.SIGTERM)
        self.assertEqual(self.ended(), 0)
        self.assertLess(time.monotonic() - begin, QUICK)
        self.assert_still_dirty(20 * MIB)
        # Write-back had the time between opening and the option.
        self.assertGreater(self.volume()["dirty_bytes"], before // 2)

    def test_sigterm_while_everything_is_being_written_back(self):
        self.start("--set-option", "writeback_running=0")
        self.dirty(20 * MIB)
        self.ask("set", "writeback_percent=0", "writeback_running=1")
        flush = subprocess.Popen([support.UBCACHE, "flush", "--control", self.control],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.daemon.send_signal(signal.SIGTERM)
        self.assertEqual(self.ended(), 0)
        flush.wait(PATIENCE)
        self.start()
        client = self.client()
        for at in range(20):
            self.assert_pattern(client, at + 1, at * 2048, 2048)

    def test_sigterm_twice_is_sigterm(self):
        for pause in (0, 0.003, 0.02):
            self.start()
            self.client().pattern(5, 0, 64)
            self.daemon.send_signal(signal.SIGTERM)
            time.sleep(pause)
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.daemon.pid, signal.SIGINT)
            self.assertEqual(self.ended(), 0)

    def test_sigterm_while_it_opens(self):
        for delay in (0, 0.002, 0.005, 0.01, 0.02):
            daemon = subprocess.Popen(
                [support.UBCACHE, "serve", "--cache", "ssd", "--backing", "disk", "--control", self.control],
                cwd=self.dir, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            self.addCleanup(daemon.stderr.close)
            time.sleep(delay)
            daemon.send_signal(signal.SIGTERM)
            # Before it has taken over the signal, the signal ends it.
            self.assertIn(daemon.wait(PATIENCE), (0, -signal.SIGTERM), daemon.stderr.read())
        self.start()


class Clients(FailuresTest):
    def serving(self):
        client = self.client()
        client.pattern(8, 4096, 8)
        self.assert_pattern(client, 8, 4096, 8)
        client.close()

    def test_nonsense_ends_the_connection_and_nothing_else(self):
        self.start()
        dice = random.Random(1)
        for number in range(60):
            with socket.socket(socket.AF_UNIX) as other:
                other.connect(self.path("nbd.sock"))
                with contextlib.suppress(OSError):
                    if number % 3:
                        other.sendall(struct.pack(">I8sII", 3, b"IHAVEOPT", dice.choice((1, 6, 7, 99)),
                                                  dice.choice((0, 4, 1 << 31))))
                    other.sendall(dice.randbytes(dice.randrange(1, 5000)))
        client = self.client()
        client.socket.sendall(struct.pack(">IHHQQI", MAGIC, 0, 77, 1, 1 << 63, 1 << 31))
        self.serving()

    def test_a_client_killed_in_the_middle_of_its_requests(self):
        self.start()
        self.client().pattern(1, 0, 2048)
        script = ("import sys; sys.path.append(%r); from trip.targets import Nbd; c = Nbd(%r, 'home')\n"
                  "while True:\n for at in range(0, 2048, 128): c.send(1, at, 65536, b'\\2' * 65536)"
                  % (sys.path[-1], self.path("nbd.sock")))
        for pause in (0.2, 0.3):
            other = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.DEVNULL)
            time.sleep(pause)
            other.kill()
            other.wait()
            self.serving()
        data = self.client().read(0, 2048)
        self.assertEqual(data.count(b"\1") + data.count(b"\2"), len(data))
        for at in range(0, len(data), 512):  # no sector is half of this and half of that
            self.assertEqual(len(set(data[at:at + 512])), 1)

    def test_a_request_cut_off_in_its_payload_changes_nothing(self):
        self.start()
        client = self.client()
        client.pattern(3, 0, 128)
        client.socket.sendall(struct.pack(">IHHQQI", MAGIC, 0, WRITE, 9, 0, 65536) + b"\4" * 60000)
        client.socket.close()
        self.assert_pattern(self.client(), 3, 0, 128)


class Space(FailuresTest):
    """Image files with holes on a file system that is too small for them."""

    def setUp(self):
        if not root_can("mount", "--version"):
            self.skipTest("mounting needs root")
        super().setUp()
        self.small = self.path("small")
        os.mkdir(self.small)
        if run("mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", self.small).returncode:
            self.skipTest("no tmpfs")
        self.addCleanup(run, "umount", "-l", self.small)
        for name in ("ssd", "disk"):
            with open(self.path(name), "rb") as source, open(self.path("small/" + name), "wb") as file:
                for at in iter(lambda: source.read(4096), b""):
                    if at.strip(b"\0"):
                        file.seek(source.tell() - len(at))
                        file.write(at)
                file.truncate(os.path.getsize(self.path(name)))
            os.unlink(self.path(name))
            os.symlink("small/" + name, self.path(name))

    def test_no_space_for_images_costs_nothing_that_was_flushed(self):
        self.start()
        client = self.client()
        kept = 0
        refused = None
        for at in range(0, 120 * MIB, MIB):
            try:
                client.pattern(at // MIB % 255 + 1, at // 512, 2048)
                client.flush()
                kept = at + MIB
            except (OSError, ConnectionError) as error:
                refused = error
                break
        self.assertIsNotNone(refused, "more went in than there is room")
        self.assertGreater(kept, 4 * MIB)
        self.daemon.send_signal(signal.SIGTERM)
        self.ended()
        self.assertEqual(run("mount", "-o", "remount,size=400m", self.small).returncode, 0)
        self.start()
        client = self.client()
        for at in range(0, kept, MIB):
            self.assert_pattern(client, at // MIB % 255 + 1, at // 512, 2048)
        client.pattern(9, 0, 2048)
        client.flush()
        self.ask("stop", "--flush")
        self.assertEqual(self.ended(), 0)

    def test_a_full_disk_for_the_log_is_no_reason_to_end(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            self.daemon = subprocess.Popen(
                [support.UBCACHE, "serve", "--cache", "ssd", "--backing", "disk", "--control", self.control],
                cwd=self.dir, stdout=full, stderr=full)
            end = time.monotonic() + PATIENCE
            while ubcache("status", "--control", self.control).returncode and time.monotonic() < end:
                time.sleep(0.02)
            self.client().pattern(1, 0, 8)
            self.ask("stop")
            self.assertEqual(self.ended(), 0)


class ReadOnlyDevices(FailuresTest):
    def loop(self, name, *options):
        result = run("losetup", "-f", "--show", *options, self.path(name))
        if result.returncode:
            self.skipTest("no loop device is free")
        device = result.stdout.decode().strip()
        self.addCleanup(run, "losetup", "-d", device)
        return device

    def setUp(self):
        if not root_can("losetup", "-f"):
            self.skipTest("loop devices need root")
        super().setUp()
        self.start()
        self.client().pattern(7, 0, 64)
        self.ask("stop")
        self.ended()

    def serve(self, cache, disk, *options):
        return ubcache("serve", "--cache", cache, "--backing", disk, "--control", self.control, *options,
                       cwd=self.dir)

    def test_are_refused_with_a_reason(self):
        self.assert_one_line_error(self.serve(self.loop("ssd", "-r"), "disk"), "/dev/loop")
        self.assert_one_line_error(self.serve("ssd", self.loop("disk", "-r")), "/dev/loop")

    def test_can_be_read(self):
        command = [support.UBCACHE, "serve", "--read-only", "--control", self.control,
                   "--cache", self.loop("ssd", "-r"), "--backing", self.loop("disk", "-r")]
        self.daemon = subprocess.Popen(command, cwd=self.dir, text=True, stdout=subprocess.PIPE,
                                       stderr=subprocess.STDOUT)
        self.addCleanup(self.kill, self.daemon)
        for line in self.daemon.stdout:
            if line.startswith("ready"):
                break
        client = self.client()
        self.assert_pattern(client, 7, 0, 64)
        with self.assertRaises(OSError):
            client.pattern(1, 0, 8)
        self.ask("stop")
        self.assertEqual(self.ended(), 0)


@unittest.skipUnless(support.real("fio"), "fio is not installed")
class Memory(FailuresTest):
    LIMIT = 256 * MIB
    make_options = ("--writeback", "-l", "home", "-w", "512", "-b", "64k")

    def start(self, *options, **more):
        resource.setrlimit(resource.RLIMIT_DATA, (self.LIMIT, resource.RLIM_INFINITY))
        try:
            return super().start(*options, **more)
        finally:
            resource.setrlimit(resource.RLIMIT_DATA, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    def peak(self):
        with open("/proc/%d/status" % self.daemon.pid, encoding="ascii") as file:
            return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmHWM"))

    def fill(self, seconds):
        result = run("fio", "--name=fill", "--ioengine=nbd", "--rw=randwrite", "--bs=512", "--iodepth=64",
                     "--uri=" + self.uri, "--time_based", "--runtime=%d" % seconds, "--norandommap", "--randrepeat=0",
                     "--size=100m", timeout=60 + seconds)
        if b"engine nbd not loadable" in result.stdout + result.stderr:
            self.skipTest("fio has no NBD engine")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_a_large_index_fits_into_a_quarter_of_a_gigabyte(self):
        self.start("--set-option", "writeback_running=0")
        for _ in range(10):  # a busy machine writes less in a turn
            self.fill(4)
            if self.volume()["dirty_bytes"] > 10 * MIB:
                break
        self.assertGreater(self.volume()["dirty_bytes"], 10 * MIB)  # at least 20,000 extents of a sector
        self.kill(self.daemon)
        self.start("--set-option", "writeback_running=0")
        client = self.client()
        for at in range(0, 100 * MIB, MIB):
            client.read(at // 512, 2048)
        self.assertLess(self.peak(), self.LIMIT)
        self.ask("flush")
        self.ask("gc")
        self.ask("stop")
        self.assertEqual(self.ended(), 0)


if __name__ == "__main__":
    unittest.main(verbosity=1)
