"""A daemon on image files, for the tests that need one."""

import json
import os
import subprocess
import time

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


def eventually(said):
    """Polls what a daemon is about to do; a broken one costs PATIENCE seconds."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if said():
            return True
        time.sleep(0.05)
    return False


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

    def start(self, *options, cache="ssd", backing=("disk",), env=None, before_exec=None):
        command = [support.UBCACHE, "serve", "--cache", cache, "--control", self.control]
        for name in backing:
            command += ["--backing", name]
        self.daemon = subprocess.Popen(command + list(options), cwd=self.dir, text=True,
                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                       env={**os.environ, **(env or {})}, preexec_fn=before_exec)
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
