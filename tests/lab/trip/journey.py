"""One set on its way between ubcache and the kernel.

    host    made, written, ended in order or by SIGKILL
    guest   the kernel reads all of it, writes more, ends in order or with its machine
    host    reads all of it, writes more, ends
    guest   reads all of it, writes a little more; detaches in some cases
    host    reads all of it, flushes and detaches; then the backing image alone has to hold the content

The models of the volumes travel along.
"""
import json
import os
import pickle
import shutil

from trip import model, plans, targets
from trip.host import HostError, Ubcache

SECTOR = model.SECTOR
NO_BYPASS = ("sequential_cutoff=0", "congested_read_threshold_us=0", "congested_write_threshold_us=0")
TAIL = 12  # writes under way when the daemon is killed


class Failure(Exception):
    """The case failed; the text says where and why."""


class Volume:
    def __init__(self, index, backing, sectors, tag):
        self.index = index
        self.backing = backing  # image, or None: flash-only
        self.model = model.Model(tag, sectors)
        self.plan = None


class Journey:
    def __init__(self, case, number, seed, program, folder):
        self.case = case
        self.number = number
        self.seed = seed
        self.folder = os.path.join(folder, "set%d" % number)
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)
        self.ubcache = Ubcache(program, self.folder)
        self.failure = None
        self.uuid = None
        self.legs = 0
        self.volumes = []
        for index in range(case.backings):
            self.volumes.append(Volume(index, "back%d" % index, case.backing_size // SECTOR,
                                       number * 8 + index + 1))
        if case.flash_size:
            self.volumes.append(Volume(case.backings, None, case.flash_size // SECTOR,
                                       number * 8 + case.backings + 1))

    # What both sides do

    def _new_plans(self, count, style="mixed"):
        self.legs += 1
        for volume in self.volumes:
            volume.plan = plans.Plan(
                style=style if volume.backing else "mixed", seed=self.seed * 1000 + self.legs * 10 + volume.index,
                sectors=volume.model.sectors, block=self.case.block // SECTOR, count=count,
                generation=self.legs * 100000)

    def _fail(self, where, error):
        self.failure = "%s: %s" % (where, error)

    # On the host

    def _image(self, name, size):
        with open(os.path.join(self.folder, name), "wb") as file:
            file.truncate(size)

    def make(self):
        case = self.case
        self._image("cache", case.bucket * case.buckets)
        backings = [v.backing for v in self.volumes if v.backing]
        for name in backings:
            self._image(name, case.backing_size + case.data_offset * SECTOR)
        geometry = ["-b", str(case.bucket), "-w", str(case.block), "-o", str(case.data_offset), "--json"]
        if case.attach != "serve":
            made = self.ubcache.run("make", "-C", "cache", "-B", *(backings[:1] if case.attach == "command" else backings),
                                    *geometry)
        else:
            made = self.ubcache.run("make", "-C", "cache", *geometry)
        apart = {"make": [], "serve": backings, "command": backings[1:]}[case.attach]
        if apart:
            self.ubcache.run("make", "-B", *apart, *geometry)
        self.uuid = json.loads(made)[0]["set_uuid"]

    def serve(self, attach=None):
        options = ["--cache", "cache"]
        backings = [v.backing for v in self.volumes if v.backing]
        if backings:
            options += ["--backing", *(backings[:1] if attach == "command" else backings)]
        if attach == "serve":
            options.append("--attach")
        if self.case.front == "fuse":
            mount = os.path.join(self.folder, "files")
            os.makedirs(mount, exist_ok=True)
            options += ["--fuse", mount]
        daemon = self.ubcache.serve(*options)
        if attach == "command":
            for name in backings[1:]:
                daemon.ask("attach", name)
        self._set(daemon, *NO_BYPASS)
        return daemon

    def _set(self, daemon, *assignments):
        for volume in self.volumes:
            if volume.backing:
                daemon.ask("set", *assignments, "--volume", daemon.volume(volume.backing)["name"])

    def first_leg(self):
        self.make()
        with self.serve(self.case.attach) as daemon:
            if self.case.flash_size:
                daemon.ask("create-volume", str(self.case.flash_size), "--label", "flash")
            self._set(daemon, "cache_mode=" + self.case.mode, "writeback_running=0")
            self._new_plans(self.case.writes, self.case.style)
            self._work(daemon)

    def middle_leg(self):
        with self.serve() as daemon:
            self._compare(daemon)
            self._set(daemon, "cache_mode=" + self.case.mode)
            self._new_plans(self.case.guest_writes)
            self._work(daemon)

    def last_leg(self):
        if self.case.detach == "host":
            with self.serve() as daemon:
                self._compare(daemon)
                for volume in self.volumes:
                    if volume.backing:
                        name = daemon.volume(volume.backing)["name"]
                        daemon.ask("flush", name)
                        daemon.ask("detach", name)
                daemon.stop()
        for volume in self.volumes:
            if volume.backing:
                self._check_image(volume)
        if self.case.flash_size and self.case.detach != "host":
            with self.ubcache.serve("--cache", "cache") as daemon:
                self._compare(daemon, [v for v in self.volumes if not v.backing])
                daemon.stop()

    def _check_image(self, volume):
        shown = json.loads(self.ubcache.run("show", "--json", volume.backing))[0]
        if shown["state"] != "no cache":
            raise HostError("%s is still %s" % (volume.backing, shown["state"]))
        with open(os.path.join(self.folder, volume.backing), "rb") as file:
            def read(first, count):
                file.seek((self.case.data_offset + first) * SECTOR)
                return file.read(count * SECTOR)
            volume.model.check(read)

    def _compare(self, daemon, volumes=None):
        for volume in volumes or self.volumes:
            target = daemon.open(volume.backing)
            try:
                volume.model.check(target.read, after_crash=True)
            finally:
                target.close()

    def _work(self, daemon):
        """The plans of all volumes, in turns; then the end that the case wants."""
        running = [(v, daemon.open(v.backing), plans.batches(v.plan)) for v in self.volumes]
        everything = list(running)
        while running:
            for entry in list(running):
                volume, target, batches = entry
                batch = next(batches, None)
                if batch is None:
                    running.remove(entry)
                    continue
                targets.perform_batch(target, volume.model.tag, [operation for _, operation in batch])
                for _, operation in batch:
                    volume.model.apply(operation)
        for volume, target, _ in everything:
            volume.model.check(target.read)
        if self.case.clean:
            daemon.ask("flush")
        if self.case.host_end == "kill":
            for volume, target, _ in everything:
                self._leave_under_way(volume, target)
            daemon.kill()
            return
        for volume, target, _ in everything:
            target.close()
            volume.model.settle()
        daemon.stop()

    def _leave_under_way(self, volume, target):
        """Writes that nobody waits for: each of their sectors may be there or not."""
        block = self.case.block // SECTOR
        plan = plans.Plan("mixed", self.seed + self.legs, volume.model.sectors, block, TAIL,
                          self.legs * 100000 + 90000)
        for _, operation in plans.steps(plan):
            if operation.kind not in ("write", "fua"):
                continue
            write = model.Operation("write", operation.first, operation.count, operation.generation)
            volume.model.apply(write)
            data = model.extent(volume.model.tag, write.first, write.count, write.generation)
            if isinstance(target, targets.Nbd):
                target.send(targets.Nbd.WRITE, write.first, len(data), data)
            else:
                target.write(write.first, data)

    # In the guest

    def disks(self):
        names = ["cache"] + [v.backing for v in self.volumes if v.backing]
        return ["%s:%s" % (os.path.join(self.folder, n), self.serial(n)) for n in names]

    def serial(self, name):
        return "%d-%s" % (self.number, name)

    def job(self, leg):
        """What the guest has to do in its first or second turn."""
        case, first = self.case, leg == "first"
        state = None
        if first and case.mode == "writeback":
            state = ("clean",) if case.clean and case.host_end == "stop" else ("dirty", "clean")
            if not case.clean and case.writes >= 300 and case.style == "mixed":
                state = ("dirty",)
        return self._job(case.guest_writes if first else 40, state, case.guest_modes if first else (),
                         case.guest_end if first else "stop", not first and case.detach == "guest")

    def _job(self, writes, state, modes, end, detach):
        """`state`: those that the cached volumes may be in when the guest begins; None: any."""
        self._new_plans(writes)
        volumes = [{"index": v.index, "disk": self.serial(v.backing) if v.backing else None,
                    "model": v.model, "plan": v.plan, "state": state if v.backing else None}
                   for v in self.volumes]
        return {"name": "set%d" % self.number, "number": self.number, "uuid": self.uuid,
                "cache": self.serial("cache"), "volumes": volumes, "modes": modes, "depth": self.case.depth,
                "end": end, "detach": detach}

    def take_back(self, report, share, ended):
        """The models follow what the guest reported; `ended` tells whether it ended this set in order."""
        for volume in self.volumes:
            path = os.path.join(share, "seen-%d-%d" % (self.number, volume.index))
            if os.path.exists(path):
                with open(path, "rb") as file:
                    volume.model = pickle.load(file)
            steps = [operation for _, operation in plans.steps(volume.plan)]
            durable = len(steps) if ended else report.flushed.get(volume.index, -1) + 1
            for operation in steps[:durable]:
                volume.model.apply(operation)
            for operation in steps[durable:]:
                if operation.kind == "fua":
                    operation = model.Operation("write", operation.first, operation.count,
                                                operation.generation)
                if operation.kind != "flush":
                    volume.model.apply(operation)
            if ended:
                volume.model.settle()

    def leg(self, where, work):
        """Runs one leg of a case that is still well; whether it is afterwards."""
        if self.failure:
            return False
        try:
            work()
        except (HostError, model.Mismatch, OSError, AssertionError) as error:
            self._fail(where, error)
        return not self.failure

    def clean_up(self):
        shutil.rmtree(self.folder, ignore_errors=True)
