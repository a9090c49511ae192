"""One file system on one cached volume, in a directory of its own."""

import fcntl
import hashlib
import json
import mmap
import os
import random
import shutil
import signal
import struct
import subprocess
import tempfile
import time

MIB = 1 << 20
DATA_OFFSET = 16 * 512
PATIENCE = 60  # seconds; only reached if something is broken

# What fio does everywhere: reads and writes of all sizes at any sector, each block with a checksum that
# is compared a little later and at the end.
FIO = ["--rw=randrw", "--rwmixwrite=70", "--bsrange=512-1m", "--blockalign=512", "--direct=1",
       "--ioengine=libaio", "--iodepth=16", "--verify=crc32c", "--verify_fatal=1",
       "--verify_backlog=200", "--verify_state_save=0", "--do_verify=1", "--fsync=50",
       "--output-format=terse", "--group_reporting"]


class Failure(Exception):
    pass


class DiscardModel:
    """Writes, discards and zeroes at random on a block device, compared with a copy in memory."""

    SIZE = 48 * MIB
    LONGEST = MIB
    BLKDISCARD, BLKZEROOUT = 0x1277, 0x127F

    def __init__(self, device, rng):
        self.random = rng
        self.device = os.open(device, os.O_RDWR | os.O_DIRECT)
        self.buffer = mmap.mmap(-1, self.LONGEST)  # aligned, as O_DIRECT wants it
        self.expected = bytearray(self.SIZE)

    def run(self, seconds):
        self.clear(self.BLKZEROOUT, 0, self.SIZE)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for _ in range(20):
                self.step()
            self.compare()
        os.close(self.device)

    def step(self):
        sectors = 1 << self.random.randrange(12)
        length = min(self.LONGEST, 512 * self.random.randint(1, sectors))
        at = 512 * self.random.randrange((self.SIZE - length) // 512 + 1)
        choice = self.random.random()
        if choice < 0.5:
            data = self.random.randbytes(length)
            self.buffer[:length] = data
            with memoryview(self.buffer) as view:
                os.pwritev(self.device, [view[:length]], at)
            self.expected[at:at + length] = data
        else:
            # Through a file of the FUSE export discarded sectors read as zeroes.
            self.clear(self.BLKDISCARD if choice < 0.8 else self.BLKZEROOUT, at, length)

    def clear(self, request, at, length):
        fcntl.ioctl(self.device, request, struct.pack("QQ", at, length))
        self.expected[at:at + length] = bytes(length)

    def compare(self):
        for at in range(0, self.SIZE, self.LONGEST):
            os.preadv(self.device, [self.buffer], at)
            if self.buffer[:] != self.expected[at:at + self.LONGEST]:
                raise Failure(f"after discards and writes: bytes from {at} are not as written")


class Case:
    def __init__(self, program, kind, mode, options):
        self.program, self.kind, self.mode, self.options = program, kind, mode, options
        self.random = random.Random(options.seed)
        self.dir = tempfile.mkdtemp(prefix="ubcache-fs-")
        self.fuse = os.path.join(self.dir, "volumes")
        self.mount_point = os.path.join(self.dir, "fs")
        self.control = os.path.join(self.dir, "control.sock")
        self.daemon = self.loop = None
        self.sums = {}  # of files that were fsynced

    def __enter__(self):
        os.mkdir(self.mount_point)
        return self

    def __exit__(self, kind, value, trace):
        self.try_run("umount", "-l", self.mount_point)
        if self.loop:
            self.try_run("losetup", "-d", self.loop)
        if self.daemon and self.daemon.poll() is None:
            self.daemon.kill()
            self.daemon.wait()
        self.try_run("umount", "-l", self.fuse)
        if self.options.keep:
            print("images are in " + self.dir)
        else:
            shutil.rmtree(self.dir, ignore_errors=True)

    # -- programs

    def try_run(self, *command, timeout=PATIENCE):
        try:
            return subprocess.run(command, cwd=self.dir, stdout=subprocess.PIPE, text=True,
                                  stderr=subprocess.STDOUT, timeout=timeout, check=False)
        except subprocess.TimeoutExpired as late:
            raise Failure(f"{' '.join(command)}: no end after {timeout:.0f} s") from late

    def must(self, *command, timeout=PATIENCE):
        result = self.try_run(*command, timeout=timeout)
        if result.returncode != 0:
            raise Failure(f"{' '.join(command)}: status {result.returncode}\n{result.stdout}")
        return result.stdout

    def fio(self, target, *arguments):
        self.must("fio", "--name=job", "--filename=" + target, *FIO,
                  f"--randseed={self.random.randrange(1 << 31)}", *arguments,
                  timeout=PATIENCE + 20 * self.options.seconds)

    # -- the daemon

    def image(self, name, size):
        with open(os.path.join(self.dir, name), "wb") as file:
            file.truncate(size)

    def serve(self):
        self.daemon = subprocess.Popen(
            [self.program, "serve", "--cache", "ssd", "--backing", "disk", "--fuse", self.fuse,
             "--control", self.control, "--attach", "--set-option", "sequential_cutoff=0",
             "--set-option", "cache_mode=" + self.mode],
            cwd=self.dir, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        said = ""
        for line in self.daemon.stdout:
            said += line
            if line.startswith("ready"):
                return
        raise Failure("the daemon did not start: " + said)

    def stop(self, *options):
        self.must(self.program, "stop", "--control", self.control, *options)
        if self.daemon.wait(PATIENCE) != 0:
            raise Failure(f"the daemon ended with status {self.daemon.returncode}")

    def kill(self):
        self.daemon.send_signal(signal.SIGKILL)
        self.daemon.wait()

    def volume(self):
        status = json.loads(self.must(self.program, "status", "--json", "--control", self.control))
        return status["volumes"][0]

    # -- the loop device and what is on it

    def attach_loop(self, file=None, offset=0):
        file = file or os.path.join(self.fuse, "volume")
        self.loop = self.must("losetup", "-f", "--show", "--direct-io=on", "-o", str(offset),
                              file).strip()

    def detach_loop(self):
        self.must("losetup", "-d", self.loop)
        self.loop = None

    def mount(self):
        self.must("mount", "-t", self.kind, self.loop, self.mount_point)

    def unmount(self):
        self.must("umount", self.mount_point)

    def make_file_system(self):
        # No discard of the whole device: what fio left there before is part of the test.
        if self.kind == "ext4":
            self.must("mkfs.ext4", "-q", "-F", "-E", "nodiscard", self.loop)
        else:
            self.must("mkfs.xfs", "-q", "-f", "-K", self.loop)

    def check_file_system(self):
        if self.kind == "ext4":
            self.must("e2fsck", "-fn", self.loop)
        else:
            self.must("xfs_repair", "-n", self.loop)

    # -- files

    def write_files(self, count):
        for _ in range(count):
            name = f"kept-{len(self.sums)}"
            data = self.random.randbytes(self.random.randrange(1, 700_000))
            with open(os.path.join(self.mount_point, name), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            self.sums[name] = hashlib.sha256(data).hexdigest()
        directory = os.open(self.mount_point, os.O_RDONLY)
        os.fsync(directory)
        os.close(directory)

    def check_files(self, when):
        for name, expected in self.sums.items():
            try:
                with open(os.path.join(self.mount_point, name), "rb") as file:
                    found = hashlib.sha256(file.read()).hexdigest()
            except OSError as error:
                raise Failure(f"{when}: {error}") from error
            if found != expected:
                raise Failure(f"{when}: {name} has other contents")

    # -- the story

    def run(self):
        self.image("ssd", 96 * MIB)
        self.image("disk", 400 * MIB)
        self.must(self.program, "make", "-C", "ssd", "-B", "disk", "-b", "64k", "-l", "volume")
        self.serve()
        self.attach_loop()
        self.bare_device()
        self.make_file_system()
        self.mount()
        self.inside()
        self.unmount()
        self.check_file_system()
        self.restart()
        self.crash()
        self.alone()

    def bare_device(self):
        self.fio(self.loop, "--size=160m", "--time_based", f"--runtime={self.options.seconds * 1000:.0f}ms")
        self.fio(self.loop, "--rw=randtrimwrite", "--size=12m")
        DiscardModel(self.loop, self.random).run(self.options.seconds / 2)

    def inside(self):
        self.write_files(8)
        self.fio(os.path.join(self.mount_point, "job"), "--size=40m", "--time_based",
                 f"--runtime={self.options.seconds * 1000:.0f}ms")
        self.must("fstrim", self.mount_point)
        self.write_files(8)
        self.check_files("after fio")

    def restart(self):
        self.detach_loop()
        self.stop()
        self.serve()
        self.attach_loop()
        self.mount()
        self.check_files("after a restart")

    # Somebody else writes while the daemon dies.
    def crash(self):
        os.unlink(os.path.join(self.mount_point, "job"))
        noise = subprocess.Popen(
            ["fio", "--name=noise", "--filename=" + os.path.join(self.mount_point, "noise"),
             "--rw=randwrite", "--bsrange=512-256k", "--blockalign=512", "--size=64m",
             "--time_based", "--runtime=600", "--fsync=20"],
            cwd=self.dir, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            self.write_files(8)
            time.sleep(self.random.random() / 4)
            self.kill()
            noise.wait(PATIENCE)
        finally:
            noise.kill()
            noise.wait()
        self.unmount()
        self.detach_loop()
        self.serve()
        self.attach_loop()
        self.mount()
        self.check_files("after the daemon was killed")
        self.unmount()
        self.check_file_system()

    # With everything written back the disk needs no cache.
    def alone(self):
        if self.volume()["stats"]["reads"] == 0:
            raise Failure("no request went through the volume")
        self.detach_loop()
        self.stop("--flush")
        self.attach_loop(os.path.join(self.dir, "disk"), DATA_OFFSET)
        self.check_file_system()
        self.mount()
        self.check_files("on the backing device alone")
        self.unmount()
        self.detach_loop()
