"""Where the daemon's front ends are, and what becomes of them while it runs."""

import json
import os
import signal
import socket
import threading
import time
import unittest

import support
from served import MIB, PATIENCE, DaemonTest, qemu_io
from support import run, ubcache


class Writer(threading.Thread):
    """Writes here and there until it is told to end, or cannot."""

    def __init__(self, path):
        super().__init__(daemon=True)
        self.fd = os.open(path, os.O_WRONLY)
        self.writes, self.ending, self.error = 0, False, None
        self.start()

    def run(self):
        try:
            while not self.ending:
                os.pwrite(self.fd, b"w" * 65536, self.writes * 7 % 512 * 65536)
                self.writes += 1
        except OSError as error:
            self.error = error

    def wait_for(self, writes):
        goal = self.writes + writes
        while self.writes < goal and self.is_alive():
            time.sleep(0.01)

    def end(self):
        self.ending = True
        self.join(PATIENCE)


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

    @unittest.skipIf(os.path.exists("/dev/ublk-control"), "this machine has ublk")
    def test_export_is_chosen_and_the_choice_explained(self):
        if os.path.exists("/dev/fuse"):
            self.addCleanup(run, "umount", "-l", self.path("volumes"))
        said = self.start("--export", "auto")
        self.assertIn("ublk is not there (/dev/ublk-control: No such file", said)
        if os.path.exists("/dev/fuse"):
            self.assertIn(f"exports: files in {self.dir}/volumes", said)
            self.assertTrue(os.path.exists(self.path("volumes/home")))
        else:
            self.assertIn(f"exports: NBD on {self.dir}/nbd.sock", said)
        self.ask("stop")
        self.assertEqual(self.ended(), 0)
        refused = ubcache("serve", "--cache", "ssd", "--backing", "disk", "--control",
                          self.control, "--export", "ublk", cwd=self.dir)
        self.assert_one_line_error(refused, "--ublk: /dev/ublk-control: No such file")

    @unittest.skipUnless(support.real("qemu-io"), "qemu-io is not installed")
    def test_what_clients_are_told_can_be_used_from_anywhere(self):
        self.start("--nbd", "unix:a b.sock")
        line = self.ask("create-volume", "1M", "--label", "50% of a?b #1")
        uri = line.split()[-1]
        self.assertIn("/50%25%20of%20a%3Fb%20%231?socket=" + self.dir, uri)
        qemu_io(uri, "write -P 6 0 4k", "read -P 6 0 4k")

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

    @unittest.skipUnless(support.real("qemu-io"), "qemu-io is not installed")
    def test_a_removed_nbd_socket_comes_back(self):
        path = self.path("nbd.sock")
        self.start("--nbd", "unix:" + path)
        os.unlink(path)
        self.assertIn(f"{path}: the NBD socket was removed by somebody; it is there again",
                      self.daemon.stdout.readline())
        qemu_io(self.uri, "write -P 6 0 4k", "read -P 6 0 4k")
        self.ask("stop")
        self.assertEqual(self.ended(), 0)
        self.assertFalse(os.path.exists(path))

    @unittest.skipUnless(support.real("qemu-io"), "qemu-io is not installed")
    def test_an_export_is_found_by_name_uuid_and_newest_label(self):
        def uri(name):
            return f"nbd+unix:///{name}?socket={self.path('nbd.sock')}"

        self.start("--nbd", "unix:" + self.path("nbd.sock"))
        self.ask("create-volume", "1M", "--label", "fast")
        for volume, value in zip(self.status()["volumes"], (1, 2)):
            qemu_io(uri(volume["name"]), f"write -P {value} 0 4k")
            qemu_io(uri(volume["uuid"]), f"read -P {value} 0 4k")
        for label in ("faster", "fastest"):
            self.ask("set", "label=" + label, "--volume", "fast")
            qemu_io(uri(label), "read -P 2 0 4k")
        with self.assertRaises(AssertionError):
            qemu_io(uri("faster"), "read 0 4k")

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

    def test_a_flush_ends_though_a_client_keeps_writing(self):
        self.start("--fuse", "mnt")
        self.addCleanup(run, "umount", "-lq", self.path("mnt"))
        self.ask("set", "writeback_running=0", "sequential_cutoff=0")
        writer = Writer(self.path("mnt/home"))
        self.addCleanup(writer.end)
        writer.wait_for(200)
        self.assertGreater(self.volume()["dirty_bytes"], 0)
        self.ask("flush")
        self.assertTrue(writer.is_alive(), writer.error)
        writer.wait_for(200)
        self.assertGreater(self.volume()["dirty_bytes"], 0, "it is only for the time of the flush")
        self.assertIn("[writeback]", self.volume()["attributes"]["cache_mode"])
        self.ask("stop", "--flush")
        self.assertEqual(self.ended(), 0)
        shown = json.loads(ubcache("show", "--json", "disk", cwd=self.dir).stdout)[0]
        self.assertEqual(shown["state"], "clean")

    def test_a_directory_with_something_in_it_is_not_hidden(self):
        os.mkdir(self.path("full"))
        self.image("full/precious", 10)
        refused = ubcache("serve", "--cache", "ssd", "--control", self.control, "--fuse", "full",
                          cwd=self.dir)
        self.assert_one_line_error(refused, "--fuse: full: the directory is not empty")

    def test_unmounting_under_the_daemon_ends_the_files_and_nothing_else(self):
        self.start("--fuse", "mnt", "--nbd", "unix:" + self.path("nbd.sock"))
        self.addCleanup(run, "umount", "-lq", self.path("mnt"))
        self.assertEqual(self.volume()["file"], self.path("mnt/home"))
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


if __name__ == "__main__":
    unittest.main(verbosity=1)
