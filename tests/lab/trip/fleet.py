"""Many sets in few boots: the legs of a group of cases, side by side.

Cases share a boot if they want the same kernel and the same end of it. In a group whose machine is killed all
sets stay registered, and the cut comes while the last one is being written.
"""
import dataclasses
import os
import pickle
import random

from trip import kernel_log
from trip.journey import Journey
from vm import guest
from vm.machine import parse_disk

TOP = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
MAX_DISKS = 16  # of a microvm, with what else it needs


@dataclasses.dataclass
class Report:
    """What the guest said of one set."""
    begun: bool = False
    compared: bool = False
    done: bool = False
    problem: str = None
    flushed: dict = dataclasses.field(default_factory=dict)  # volume -> last step before a flush


def read_reports(output):
    reports = {}
    for line in output.splitlines():
        words = line.split(" ", 3)
        if words[0] != "@" or len(words) < 3:
            continue
        report = reports.setdefault(words[2], Report())
        if words[1] == "begin":
            report.begun = True
        elif words[1] == "compared":
            report.compared = True
        elif words[1] == "done":
            report.done = True
        elif words[1] == "problem":
            report.problem = words[3]
        elif words[1] == "flushed" and "\n" not in line:
            index, step = words[3].split()
            report.flushed[int(index)] = int(step)
    return reports


def groups(journeys):
    """Lists of journeys that share their boots."""
    open_groups = {}
    for journey in journeys:
        key = (journey.case.kernel, journey.case.guest_end)
        disks = len(journey.disks())
        current = open_groups.setdefault(key, [[]])
        if sum(len(j.disks()) for j in current[-1]) + disks > MAX_DISKS:
            current.append([])
        current[-1].append(journey)
    return [group for current in open_groups.values() for group in current]


class Fleet:
    def __init__(self, chosen, program, folder, options, progress, journey=Journey):
        self.folder = folder
        self.options = options
        self.progress = progress
        self.no_boot = None
        self.journeys = [journey(case, number, options.seed * 100 + number, program, folder)
                         for number, case in enumerate(chosen)]

    def travel(self):
        for group in groups(self.journeys):
            self._host(group, "first leg", Journey.first_leg)
            self._guest(group, "first")
            if self.no_boot and self.options.quick:
                return
            self._host(group, "middle leg", Journey.middle_leg)
            self._guest(group, "second")
            self._host(group, "last leg", Journey.last_leg)
            for journey in group:
                self.progress.result(journey.case.name, journey.failure)
                if not journey.failure and not self.options.keep:
                    journey.clean_up()

    def _host(self, group, where, work):
        for journey in group:
            if not journey.failure:
                journey.leg("host, " + where, lambda j=journey: work(j))
            self._step(journey, "host, " + where)

    def _step(self, journey, where):
        self.progress.step("%s: %s%s" % (journey.case.name, where, " FAILED" if journey.failure else ""))

    def _guest(self, group, turn):
        well = [j for j in group if not j.failure]
        if well:
            share = os.path.join(self.folder, "share")
            os.makedirs(share, exist_ok=True)
            for name in os.listdir(share):
                os.unlink(os.path.join(share, name))
            jobs = [journey.job(turn) for journey in well]
            with open(os.path.join(share, "job"), "wb") as file:
                pickle.dump(jobs, file)
            outcome = self._boot(well, jobs, share, turn)
            self._judge(well, jobs, share, outcome, turn)
        for journey in group:
            self._step(journey, "guest, %s turn" % turn)

    def _boot(self, journeys, jobs, share, turn):
        kill = jobs[-1]["end"] == "kill"
        dice = random.Random("%d %s" % (self.options.seed, turn))
        return guest.run(guest.Guest(
            script=os.path.join(TOP, "trip/in_guest.py"), kernel=journeys[0].case.kernel, mem="1536M",
            disks=[parse_disk(spec) for journey in journeys for spec in journey.disks()], share=share,
            timeout=self.options.timeout,
            kill_on="@ compared %s" % jobs[-1]["name"] if kill else None,
            kill_after=dice.uniform(0.5, 3)))

    def _judge(self, journeys, jobs, share, outcome, turn):
        if outcome.boot_seconds is None:
            self.no_boot = "the guest did not boot: " + outcome.complaint
        reports = read_reports(outcome.output)
        log = os.path.join(self.folder, "guest-%d-%s.log" % (journeys[0].number, turn))
        with open(log, "w", encoding="utf-8") as file:
            file.write(outcome.output + outcome.errors + outcome.complaint + outcome.console)
        # A machine that was killed had no time to say this itself.
        complaints = kernel_log.complaints(outcome.console.splitlines())
        if complaints and not any(report.problem for report in reports.values()):
            journeys[-1].failure = "guest, %s turn: %s, see %s" % (turn, " / ".join(complaints[:5]), log)
        for journey, job in zip(journeys, jobs):
            report = reports.get(job["name"], Report())
            if report.problem:
                journey.failure = "guest, %s turn: %s" % (turn, report.problem)
            elif job["end"] == "stop" and not report.done or not report.begun:
                journey.failure = "guest, %s turn: %s, see %s" % (
                    turn, self.no_boot or outcome.complaint or "did not get that far", log)
            else:
                journey.take_back(report, share, job["end"] == "stop")
