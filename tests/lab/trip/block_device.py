"""The kernel's block layer as a client of ubcache's block devices (ublk), in the guest alone."""
import os

from vm import guest

NAME = "ublk block devices: file systems, RAID, killed daemons"
WEIGHT = 8
TOP = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


def trip(program, folder, options, progress):
    outcome = guest.run(guest.Guest(script=os.path.join(TOP, "trip/block_device.sh"), args=[program],
                                    timeout=options.timeout, mem="3G"))
    failure = None
    if outcome.status or "all steps passed" not in outcome.output:
        last = (outcome.complaint + "\n" + outcome.output + outcome.errors).strip().splitlines()[-10:]
        failure = " / ".join(last)
    progress.step(NAME, WEIGHT)
    progress.result(NAME, failure)
