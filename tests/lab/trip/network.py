"""A file system over nbd-client: the stock kernel as a client of ubcache's NBD server."""
import os

from trip.host import Daemon, HostError, Ubcache
from vm import guest
from vm.machine import parse_disk

NAME = "ext4 over nbd-client, then on the kernel's bcache"
WEIGHT = 8
TOP = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
MIB = 1 << 20


def _image(path, size):
    with open(path, "wb") as file:
        file.truncate(size)


def _boot(options, share, net, disks, arguments):
    outcome = guest.run(guest.Guest(
        script=os.path.join(TOP, "trip/file_system.sh"), args=arguments, share=share, net=net,
        disks=[parse_disk(spec) for spec in disks], timeout=options.timeout))
    if outcome.status:
        raise HostError("guest: %s" % " / ".join(
            (outcome.complaint + "\n" + outcome.output + outcome.errors).strip().splitlines()[-8:]))


def _travel(program, folder, options):
    ubcache = Ubcache(program, folder)
    _image(os.path.join(folder, "cache"), 64 * MIB)
    _image(os.path.join(folder, "disk"), 96 * MIB)
    ubcache.run("make", "-C", "cache", "-B", "disk", "--writeback", "-b", "64k", "-w", "4k")
    sums = os.path.join(folder, "sums")
    os.makedirs(sums)
    for end in ("kill", "stop"):
        with Daemon(ubcache, "--cache", "cache", "--backing", "disk", listen="127.0.0.1:0") as daemon:
            daemon.ask("set", "sequential_cutoff=0", "writeback_running=0")
            uri = daemon.volume("disk")["nbd"]
            port = uri.split("//")[1].split("/")[0].rsplit(":", 1)[1]
            _boot(options, sums, True, [], ["network", port, daemon.volume("disk")["name"], end])
            if end == "kill":
                daemon.kill()
            else:
                daemon.stop()
    disks = [os.path.join(folder, "cache") + ":cache", os.path.join(folder, "disk") + ":disk"]
    _boot(options, sums, False, disks, ["bcache"])
    ubcache.run("show", "cache", "disk")


def trip(program, folder, options, progress):
    own = os.path.join(folder, "network")
    os.makedirs(own)
    failure = None
    try:
        _travel(program, own, options)
    except (HostError, OSError) as error:
        failure = str(error)
    progress.step(NAME, WEIGHT)
    progress.result(NAME, failure)
