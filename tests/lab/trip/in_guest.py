#!/usr/bin/env python3
"""Runs in the guest: gives sets to the kernel's bcache, compares what it reads, writes more, lets go.

The job is a pickled list of sets in the shared folder. What happened is said in lines "@ WORD SET ...":
the host works out the rest from the seeds.
"""
import glob
import os
import pickle
import subprocess
import sys
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.dont_write_bytecode = True
from trip import kernel_log, plans, targets  # noqa: E402

PATIENCE = 60
FILLS = 0.5  # seconds


class Complaint(Exception):
    pass


def say(word, name, *rest):
    print("@", word, name, *rest, flush=True)


def write_file(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(str(text))


def read_file(path):
    with open(path, encoding="ascii") as file:
        return file.read().strip()


def wait_for(what, test):
    end = time.monotonic() + PATIENCE
    while not test():
        if time.monotonic() > end:
            raise Complaint("timed out: " + what)
        time.sleep(0.05)


class KernelLog:
    def __init__(self):
        self.seen = 0

    def new_complaints(self):
        lines = subprocess.run(["dmesg"], stdout=subprocess.PIPE, text=True, errors="replace",
                               check=True).stdout.splitlines()
        fresh, self.seen = lines[self.seen:], len(lines)
        return kernel_log.complaints(fresh)


class KernelSet:
    """One set in the kernel."""

    def __init__(self, job):
        self.job = job
        self.uuid = job["uuid"]
        self.top = "/sys/fs/bcache/" + self.uuid
        self.devices = []  # (volume of the job, name of the block device)

    @staticmethod
    def disk(serial):
        return os.path.realpath("/dev/disk/by-id/virtio-" + serial)

    def register(self):
        before = set(glob.glob("/sys/block/bcache*"))
        write_file("/sys/fs/bcache/register", self.disk(self.job["cache"]))
        wait_for("the set", lambda: os.path.isdir(self.top))
        for volume in self.job["volumes"]:
            if volume["disk"]:
                write_file("/sys/fs/bcache/register", self.disk(volume["disk"]))
        wanted = len(self.job["volumes"])
        wait_for("its volumes", lambda: len(self._new(before)) >= wanted)
        for path in self._new(before):
            name = os.path.basename(path)
            backing = os.path.join(path, "bcache/backing_dev_name")
            disk = read_file(backing) if os.path.exists(backing) else None
            for volume in self.job["volumes"]:
                own = os.path.basename(self.disk(volume["disk"])) if volume["disk"] else None
                if own == disk:
                    self.devices.append((volume, name))
        if len(self.devices) != wanted:
            raise Complaint("%d of %d volumes came up" % (len(self.devices), wanted))

    @staticmethod
    def _new(before):
        return sorted(p for p in set(glob.glob("/sys/block/bcache*")) - before
                      if os.path.isdir(p + "/bcache") and os.path.exists("/dev/" + os.path.basename(p)))

    def cached(self):
        return [(v, n) for v, n in self.devices if v["disk"]]

    def configure(self):
        for name in ("congested_read_threshold_us", "congested_write_threshold_us"):
            write_file(os.path.join(self.top, name), 0)
        for volume, name in self.cached():
            here = "/sys/block/%s/bcache/" % name
            write_file(here + "sequential_cutoff", 0)
            state = read_file(here + "state")
            if volume["state"] and state not in volume["state"]:
                raise Complaint("%s is %s instead of %s" % (name, state, volume["state"]))
        if int(read_file(self.top + "/tree_depth")) < self.job["depth"]:
            raise Complaint("the index is flatter than %d" % self.job["depth"])

    def set_mode(self, mode):
        for _, name in self.cached():
            write_file("/sys/block/%s/bcache/cache_mode" % name, mode)

    def collect_garbage(self):
        write_file(self.top + "/internal/trigger_gc", 1)

    def read_races(self):
        return int(read_file(self.top + "/internal/cache_read_races"))

    def errors(self):
        found = []
        for path in glob.glob("/sys/block/bcache*/bcache/io_errors") + glob.glob(self.top + "/cache0/io_errors"):
            if read_file(path) not in ("0", "0.0k"):
                found.append("%s is %s" % (path, read_file(path)))
        return found

    def detach(self):
        for _, name in self.cached():
            here = "/sys/block/%s/bcache/" % name
            write_file(here + "writeback_percent", 0)
            write_file(here + "detach", 1)
        for _, name in self.cached():
            path = "/sys/block/%s/bcache/state" % name
            wait_for("detach of " + name, lambda path=path: read_file(path) == "no cache")

    def stop(self):
        # Reads are answered before what they missed is in the cache. A device that is freed meanwhile leaves
        # a bio behind, which the kernel reports as a bug of its own.
        time.sleep(FILLS)
        write_file(self.top + "/stop", 1)
        for _, name in self.devices:
            path = "/sys/block/%s/bcache/stop" % name
            try:
                write_file(path, 1)
            except OSError:
                pass  # gone already
        for _, name in self.devices:
            wait_for("end of " + name, lambda name=name: not os.path.exists("/sys/block/" + name))
        wait_for("end of the set", lambda: not os.path.exists(self.top))


class CachedDevice(targets.BlockDevice):
    """Reads again where the kernel lost a race of its own: the bucket of a clean extent was reused while it was
    read, which is an error if the same request touched a dirty one."""

    def __init__(self, name, kernel_set):
        super().__init__("/dev/" + name)
        self.kernel_set = kernel_set

    def read(self, first, count):
        while True:
            races = self.kernel_set.read_races()
            try:
                return super().read(first, count)
            except OSError:
                if self.kernel_set.read_races() == races:
                    raise


def work(kernel_set, job):
    """Compare, write in turns, compare again."""
    volumes = []
    for volume, name in kernel_set.devices:
        volumes.append((volume, volume["model"], CachedDevice(name, kernel_set)))
    for volume, expected, target in volumes:
        expected.check(target.read, after_crash=True)
        with open("/mnt/host/seen-%s-%d" % (job["number"], volume["index"]), "wb") as file:
            pickle.dump(expected, file)
    say("compared", job["name"])
    batches = {volume["index"]: plans.batches(volume["plan"]) for volume, _, _ in volumes}
    modes = iter(job["modes"])
    number = 0
    running = list(volumes)
    while running:
        if number % 30 == 0:
            mode = next(modes, None)
            if mode:
                kernel_set.set_mode(mode)
        for entry in list(running):
            volume, expected, target = entry
            batch = next(batches[volume["index"]], None)
            if batch is None:
                running.remove(entry)
                continue
            targets.perform_batch(target, expected.tag, [operation for _, operation in batch])
            for index, operation in batch:
                expected.apply(operation)
                if operation.kind == "flush":
                    say("flushed", job["name"], volume["index"], index)
        number += 1
    if job["modes"]:
        kernel_set.collect_garbage()
    for _, expected, target in volumes:
        expected.check(target.read)
        target.close()


def one_set(job, log):
    kernel_set = KernelSet(job)
    problem = None
    begin = time.monotonic()
    say("begin", job["name"])
    try:
        kernel_set.register()
        kernel_set.configure()
        work(kernel_set, job)
        if job["detach"]:
            kernel_set.detach()
        complaints = kernel_set.errors()
        if job["end"] == "stop":
            kernel_set.stop()
        complaints += log.new_complaints()
        if complaints:
            problem = " / ".join(complaints)
    except Exception as error:  # pylint: disable=broad-except  # whatever it is, the next set has its turn
        problem = "%s: %s" % (type(error).__name__, error)
        traceback.print_exc()
        problem = " / ".join([problem] + log.new_complaints())
    say("done", job["name"], "%.1f s" % (time.monotonic() - begin))
    if problem:
        say("problem", job["name"], problem.replace("\n", " "))


def main():
    with open("/mnt/host/job", "rb") as file:
        jobs = pickle.load(file)
    subprocess.run(["modprobe", "bcache"], check=True)
    log = KernelLog()
    log.new_complaints()
    for job in jobs:
        one_set(job, log)
    print("@ all done", flush=True)
    if any(job["end"] == "kill" for job in jobs):
        time.sleep(PATIENCE)


main()
