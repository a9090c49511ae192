"""Boots a guest, runs one script in it as root, and tells how it ended."""
import ctypes
import dataclasses
import os
import re
import selectors
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from vm import kernel, machine
from vm.kernel import LabError, say

EX_NOKILL = 123  # the text of kill_on never came
EX_TIMEOUT = 124
EX_LAB = 125     # no boot, or no status


@dataclasses.dataclass
class Guest:
    """What to boot; the options are those of `lab run`."""
    script: str
    args: list = dataclasses.field(default_factory=list)
    kernel: str = kernel.DEFAULT_KERNEL
    disks: list = dataclasses.field(default_factory=list)
    share: str = None
    env: dict = dataclasses.field(default_factory=dict)
    timeout: float = 600
    kill_on: str = None
    kill_after: float = 0
    net: bool = False
    mem: str = "1G"
    cpus: int = 2
    accel: str = "auto"
    machine: str = os.environ.get("LAB_MACHINE", "auto")
    append: list = dataclasses.field(default_factory=list)
    qemu: list = dataclasses.field(default_factory=list)
    verbose: bool = False
    run_dir: str = None
    on_output: object = None  # called with each piece of the script's output


@dataclasses.dataclass
class Outcome:
    status: int
    boot_seconds: float = None  # None: the script never began
    output: str = ""
    errors: str = ""
    console: str = ""
    complaint: str = ""  # why the lab failed, if it did


class _Watch:
    """Reads the guest's ports until it is over, or has to be ended."""

    def __init__(self, guest, ports):
        self.guest = guest
        self.begin = time.monotonic()
        self.boot = self.status = self.status_at = self.kill_at = None
        self.streams = {"out": bytearray(), "err": bytearray(), "ctl": bytearray()}
        self.selector = selectors.DefaultSelector()
        self.open = len(ports)
        for name, port in ports.items():
            self.selector.register(port, selectors.EVENT_READ, name)

    def follow(self):
        """"ended", "killed" or "timeout"."""
        deadline = self.begin + self.guest.timeout
        while self.open:
            now = time.monotonic()
            if self.kill_at is not None and now >= self.kill_at:
                return "killed"
            if now >= deadline:
                return "timeout"
            if self.status_at is not None and now > self.status_at + 10:
                break
            wake = min(deadline, self.kill_at or deadline) - now
            for key, _ in self.selector.select(max(0.01, min(wake, 1.0))):
                self._take(key)
        return "ended"

    def _take(self, key):
        data = key.fileobj.recv(65536)
        if not data:
            self.selector.unregister(key.fileobj)
            self.open -= 1
            return
        stream = self.streams[key.data]
        stream += data
        if key.data == "out":
            if self.guest.kill_on and self.kill_at is None:
                begin = max(0, len(stream) - len(data) - len(self.guest.kill_on))
                if self.guest.kill_on.encode() in stream[begin:]:
                    self.kill_at = time.monotonic() + self.guest.kill_after
            if self.guest.on_output:
                self.guest.on_output(data)
        elif key.data == "ctl":
            text = stream.decode()
            if "boot\n" in text and self.boot is None:
                self.boot = time.monotonic() - self.begin
            found = re.search(r"^rc (\d+)\n", text, re.M)
            if found and self.status is None:
                self.status, self.status_at = int(found.group(1)), time.monotonic()


def _die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def _kvm_key():
    try:
        return "%s %s %s" % (os.uname().release, os.stat("/dev/kvm").st_rdev, kernel.VERSION)
    except OSError:
        return None


def kvm_works(name, probe=True):
    """Whether a stock kernel boots with KVM here: found out once, as some hosts' KVM takes only their own."""
    key = _kvm_key()
    if key is None:
        return False
    path = os.path.join(kernel.CACHE, "kvm-probe")
    try:
        with open(path, encoding="utf-8") as file:
            known, _, answer = file.read().strip().rpartition(" ")
        if known == key:
            return answer == "yes"
    except OSError:
        pass
    if not probe:
        return None
    with tempfile.NamedTemporaryFile("w", prefix="lab-probe-", dir="/var/tmp") as script:
        script.write("echo kvm works\n")
        script.flush()
        outcome = run(Guest(script=script.name, kernel=name, accel="kvm", timeout=10))
    works = outcome.status == 0 and "kvm works" in outcome.output
    with open(path, "w", encoding="utf-8") as file:
        file.write("%s %s\n" % (key, "yes" if works else "no"))
    return works


def _clear_leftovers():
    for name in os.listdir("/var/tmp"):  # of a lab that was killed
        found = re.fullmatch(r"lab-(\d+)-\w+", name)
        if found and not os.path.exists("/proc/" + found.group(1)):
            shutil.rmtree(os.path.join("/var/tmp", name), ignore_errors=True)


def _write_command(guest, control):
    if not os.path.isfile(guest.script):
        raise LabError("no such script: " + guest.script)
    script = os.path.realpath(guest.script)
    with open(script, "rb") as file:
        executable = file.read(2) == b"#!" and os.access(script, os.X_OK)
    runner = [] if executable else ["/bin/bash"]
    with open(os.path.join(control, "cmd"), "w", encoding="utf-8") as file:
        file.write("export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"
                   "export HOME=/ LC_ALL=C.UTF-8 DM_DISABLE_UDEV=1 LAB_GUEST=1\n")
        for key, value in guest.env.items():
            file.write("export %s=%s\n" % (key, shlex.quote(value)))
        file.write("cd %s 2>/dev/null || cd /\n" % shlex.quote(os.getcwd()))
        file.write("exec %s\n" % " ".join(shlex.quote(w) for w in runner + [script] + guest.args))


def _judge(guest, watch, how, qemu_says, console):
    outcome = Outcome(status=watch.status, boot_seconds=watch.boot, console=console,
                      output=watch.streams["out"].decode(errors="replace"),
                      errors=watch.streams["err"].decode(errors="replace"))
    if how == "killed":
        outcome.status = 0
    elif how == "timeout":
        outcome.status = EX_TIMEOUT
        outcome.complaint = "stopped after %g s%s" % (
            guest.timeout, "" if watch.boot else "; the guest never came up")
    elif watch.status is None:
        outcome.status = EX_LAB
        outcome.complaint = "the guest ended without a status: " + qemu_says[-2000:]
    elif guest.kill_on:
        outcome.status = EX_NOKILL
        outcome.complaint = "never said %r (status %d)" % (guest.kill_on, watch.status)
    return outcome


def run(guest):
    """Boots `guest` and waits for its end. It dies with this process."""
    if guest.accel == "auto":
        guest.accel = "kvm" if kvm_works(guest.kernel) else "tcg"
    _clear_leftovers()
    guest.run_dir = tempfile.mkdtemp(prefix="lab-%d-" % os.getpid(), dir="/var/tmp")
    process, pairs = None, {}
    try:
        control = os.path.join(guest.run_dir, "ctl")
        os.mkdir(control)
        _write_command(guest, control)
        pairs = {name: socket.socketpair() for name in ("out", "err", "ctl")}
        words = machine.command(guest, {name: pair[1] for name, pair in pairs.items()})
        if guest.verbose:
            say(shlex.join(words))
        with open(os.path.join(guest.run_dir, "qemu.err"), "w+b") as qemu_log:
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=qemu_log,
                                       stderr=qemu_log, start_new_session=True,
                                       pass_fds=[pair[1].fileno() for pair in pairs.values()],
                                       preexec_fn=_die_with_parent)
            for pair in pairs.values():
                pair[1].close()
            watch = _Watch(guest, {name: pair[0] for name, pair in pairs.items()})
            how = watch.follow()
            if how == "ended":
                try:
                    process.wait(timeout=10)
                except subprocess.TimeoutExpired:
                    pass
            process.kill()
            process.wait()
            qemu_log.seek(0)
            qemu_says = qemu_log.read().decode(errors="replace")
        console = os.path.join(guest.run_dir, "console")
        text = ""
        if os.path.exists(console):
            with open(console, encoding="utf-8", errors="replace") as file:
                text = file.read()
        return _judge(guest, watch, how, qemu_says, text)
    finally:
        if process and process.poll() is None:
            process.kill()
            process.wait()
        for pair in pairs.values():
            pair[0].close()
        shutil.rmtree(guest.run_dir, ignore_errors=True)
