"""`ubcache serve` as a process that may be killed at any moment, also before it is ready."""
import json
import os
import signal
import subprocess
import threading
import time

from trip.host import _BAD as DAMAGE

PATIENCE = 60  # seconds; only reached if something is broken


class Failure(Exception):
    pass


class Daemon:
    def __init__(self, program, folder, *options):
        self.program, self.folder = program, folder
        self.control = os.path.join(folder, "control")
        self.ready = threading.Event()
        self.said = []
        self.expected = False  # its end was asked for
        self.timers = []
        self.process = subprocess.Popen(
            [program, "serve", "--control", self.control, *options], cwd=folder, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.said.append(line.rstrip())
            if line.startswith("ready"):
                self.ready.set()
        self.ready.set()  # or never will be

    def wait_ready(self):
        """Whether it serves now; if not, then because it was killed."""
        if not self.ready.wait(PATIENCE):
            raise Failure("not ready after %d s: %s" % (PATIENCE, self.said[-5:]))
        if any(line.startswith("ready") for line in self.said):
            return True
        if not self.expected:
            raise Failure("did not start: %s" % self.said[-5:])
        return False

    def signal_in(self, seconds, number):
        """Sends a signal after a while, whatever the process does then."""
        def send():
            self.expected = True
            if self.process.poll() is None:
                self.process.send_signal(number)
        timer = threading.Timer(seconds, send)
        self.timers.append(timer)
        timer.start()

    def ask(self, *words):
        """A command to it: standard output, or None if its end came between."""
        try:
            result = subprocess.run([self.program, *words, "--control", self.control], cwd=self.folder,
                                    stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                    timeout=PATIENCE, check=False)
        except subprocess.TimeoutExpired as late:
            raise Failure("%s: no answer after %d s" % (" ".join(words), PATIENCE)) from late
        if result.returncode == 0:
            return result.stdout
        if self.expected:
            return None
        raise Failure("%s: %s" % (" ".join(words), result.stderr.strip()))

    def status(self):
        return json.loads(self.ask("status", "--json"))

    def wait_end(self, killed):
        """The end that was asked for, in time and with the status that belongs to it."""
        begin = time.monotonic()
        try:
            status = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired as late:
            raise Failure("did not end within %d s: %s" % (PATIENCE, self.said[-5:])) from late
        for timer in self.timers:
            timer.cancel()
        self.reader.join()
        self.process.stdout.close()
        if status != 0 and not (killed and status == -signal.SIGKILL):
            raise Failure("ended with %d: %s" % (status, self.said[-8:]))
        damage = [line for line in self.said if DAMAGE.search(line)]
        if damage:
            raise Failure("the daemon said: " + " / ".join(damage))
        return time.monotonic() - begin

    def discard(self):
        """Leaves no process behind, however things stand."""
        for timer in self.timers:
            timer.cancel()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.reader.join()
