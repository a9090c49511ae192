"""The daemon under a service manager: notifications, watchdog, log lines for the journal."""

import os
import signal
import socket
import subprocess
import unittest

import support
from served import PATIENCE, DaemonTest


class Notifications(DaemonTest):
    def setUp(self):
        super().setUp()
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(self.listener.close)
        self.listener.settimeout(PATIENCE)

    def listen(self, address, variable):
        self.listener.bind(address)
        return {"NOTIFY_SOCKET": variable}

    def until(self, last):
        """All messages up to `last`."""
        said = [self.listener.recv(4096).decode()]
        while said[-1] != last:
            said.append(self.listener.recv(4096).decode())
        return said

    def test_a_start_and_an_end_are_told_in_order(self):
        self.start(env=self.listen(self.path("notify"), self.path("notify")))
        opening = self.until("READY=1")
        self.assertIn("STATUS=opening ssd", opening)
        self.assertIn("EXTEND_TIMEOUT_USEC=60000000", opening)
        self.assertEqual(opening[-2], "STATUS=serving home")
        self.ask("stop")
        self.assertEqual(self.ended(), 0)
        self.assertEqual(self.until("EXTEND_TIMEOUT_USEC=60000000")[0], "STOPPING=1")

    def test_abstract_sockets_are_reached(self):
        name = f"ubcache-notify-{os.getpid()}"
        self.start(env=self.listen("\0" + name, "@" + name))
        self.until("READY=1")

    def test_the_watchdog_is_fed_only_if_it_is_for_this_process(self):
        env = self.listen(self.path("notify"), self.path("notify"))
        self.start(env={**env, "WATCHDOG_USEC": "20000"})
        self.until("READY=1")
        for _ in range(3):
            self.assertEqual(self.listener.recv(100), b"WATCHDOG=1")
        self.daemon.send_signal(signal.SIGTERM)
        self.until("STOPPING=1")
        self.assertEqual(self.ended(), 0)
        self.start(env={**env, "WATCHDOG_USEC": "20000", "WATCHDOG_PID": "1"})
        self.until("READY=1")
        self.ask("stop")
        self.assertNotIn("WATCHDOG=1", self.until("STOPPING=1"))

    def test_a_manager_that_does_not_read_stops_nothing(self):
        env = self.listen(self.path("notify"), self.path("notify"))
        self.start(env={**env, "WATCHDOG_USEC": "2000"})
        self.until("READY=1")
        for _ in range(20):  # the queue of the socket is full long before
            self.ask("gc")
        self.assertEqual(self.volume()["name"], "home")


class Log(DaemonTest):
    def serve_once(self, *options):
        """Lines of a daemon whose standard output and error are the journal's, as far as it knows."""
        reader, writer = os.pipe()
        info = os.fstat(writer)
        env = {**os.environ, "JOURNAL_STREAM": f"{info.st_dev}:{info.st_ino}"}
        daemon = subprocess.Popen(
            [support.UBCACHE, "serve", "--cache", "ssd", "--control", self.control, *options],
            cwd=self.dir, env=env, stdout=writer, stderr=writer)
        os.close(writer)
        with open(reader, encoding="utf-8") as lines:
            said = []
            for line in lines:
                said.append(line)
                if "ready" in line:
                    daemon.send_signal(signal.SIGTERM)
        return daemon.wait(PATIENCE), said

    def test_lines_for_the_journal_carry_their_priority(self):
        status, said = self.serve_once("--backing", "disk")
        self.assertEqual(status, 0)
        self.assertTrue(all(line.startswith("<6>") for line in said), said)
        self.assertEqual(said[-1], "<6>stopped\n")
        status, said = self.serve_once("--backing", "nowhere")
        self.assertEqual(status, 1)
        self.assertTrue(said[-1].startswith("<3>ubcache serve: nowhere"), said)

    def test_lines_for_anything_else_do_not(self):
        said = self.start("--nbd", "unix:nbd.sock", env={"JOURNAL_STREAM": "1:1"})
        self.assertNotIn("<6>", said)


if __name__ == "__main__":
    unittest.main(verbosity=1)
