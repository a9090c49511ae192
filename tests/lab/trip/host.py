"""ubcache on the host: makes sets on image files, serves them, ends in order or by SIGKILL."""
import json
import os
import re
import subprocess
import threading
import time

from trip.targets import File, Nbd

PATIENCE = 60
STOP_SECONDS = 20  # nothing that stop waits for takes long, not even on a busy machine
# Lines of the daemon that mean damage; a replayed journal and a blank cache are no news.
_BAD = re.compile(r"error|inconsist|bad|corrupt|missing|stale|invalid|fail|damag|wrong|CHECK", re.I)


class HostError(Exception):
    """A command of ours failed, or the daemon complained."""


class Ubcache:
    def __init__(self, program, folder):
        self.program = program
        self.folder = folder

    def run(self, *words):
        result = subprocess.run([self.program, *words], cwd=self.folder, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                timeout=PATIENCE, check=False)
        if result.returncode:
            raise HostError("ubcache %s: %s" % (" ".join(words), result.stderr.strip()))
        return result.stdout

    def serve(self, *options):
        return Daemon(self, *options)


class Daemon:
    """A running `ubcache serve`; leaves nothing behind when used with `with`."""

    def __init__(self, ubcache, *options, listen=None):
        self.ubcache = ubcache
        self.control = os.path.join(ubcache.folder, "control")
        self.socket = os.path.join(ubcache.folder, "nbd")
        self.mount = None
        words = [ubcache.program, "serve", "--control", self.control,
                 "--nbd", listen or "unix:" + self.socket, *options]
        if "--fuse" in options:
            self.mount = options[options.index("--fuse") + 1]
        self.said = []
        self.process = subprocess.Popen(words, cwd=ubcache.folder, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for line in self.process.stdout:
            self.said.append(line.rstrip())
            if line.startswith("ready"):
                break
        else:
            self.process.wait()
            raise HostError("the daemon did not start: " + " / ".join(self.said))
        self.reader = threading.Thread(target=self._drain, daemon=True)
        self.reader.start()

    def _drain(self):
        for line in self.process.stdout:
            self.said.append(line.rstrip())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.kill()

    def ask(self, command, *words):
        return self.ubcache.run(command, "--control", self.control, *words)

    def status(self):
        return json.loads(self.ask("status", "--json"))

    def volume(self, backing):
        """The volume of a backing image; None is the flash-only one."""
        for volume in self.status()["volumes"]:
            if volume["flash_only"] if backing is None else (
                    os.path.basename(volume["backing"]) == backing):
                return volume
        raise HostError("no volume for %s" % backing)

    def open(self, backing):
        volume = self.volume(backing)
        if self.mount:
            return File(volume["file"])
        return Nbd(self.socket, volume["name"])

    def complaints(self):
        found = [line for line in self.said if _BAD.search(line)]
        if self.process.poll() is None:
            state = self.status()
            found += [state["set"]["failure"]] if state["set"]["failure"] else []
            found += ["I/O errors: %s" % v["name"] for v in state["volumes"] if v["stats"]["io_errors"]]
        return found

    def stop(self):
        complaints = self.complaints()
        begin = time.monotonic()
        self.ask("stop")
        if self.process.wait(PATIENCE):
            raise HostError("the daemon ended with %d: %s" % (self.process.returncode, self.said[-5:]))
        self.reader.join()
        complaints += self.complaints()
        if time.monotonic() - begin > STOP_SECONDS:
            complaints.append("(%.0f s to stop)" % (time.monotonic() - begin))
        if complaints:
            raise HostError("the daemon said: " + " / ".join(complaints))

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.reader.join()
        if self.mount:  # the kernel keeps a dead file system until told
            subprocess.run(["fusermount3", "-u", "-z", self.mount], check=False,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
