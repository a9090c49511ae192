"""The daemon in the path of other processes' I/O: its memory is locked, the kernel knows what it is."""

import ctypes
import resource
import unittest

from served import DaemonTest

PR_CAPBSET_DROP = 24
CAP_IPC_LOCK = 14
CAP_SYS_RESOURCE = 24
PF_MEMALLOC_NOIO = 0x80000  # /proc/PID/stat: allocations for this process start no I/O


class IoPath(DaemonTest):
    def locked_kib(self):
        with open(f"/proc/{self.daemon.pid}/status", encoding="ascii") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmLck"))

    def is_flusher(self):
        with open(f"/proc/{self.daemon.pid}/stat", encoding="ascii") as file:
            return int(file.read().rsplit(")", 1)[1].split()[6]) & PF_MEMALLOC_NOIO != 0

    @staticmethod
    def give_up(*capabilities, locked=None):
        """For the new process: without these, and with a limit on locked memory."""
        if locked is not None:
            resource.setrlimit(resource.RLIMIT_MEMLOCK, (locked, locked))
        for number in capabilities:
            ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, number, 0, 0, 0)

    def test_memory_is_locked_where_that_is_permitted(self):
        if "memory is not locked" in self.start():
            self.skipTest("not permitted here")
        self.assertGreater(self.locked_kib(), 1000)

    def test_the_kernel_is_told_where_that_is_permitted(self):
        if "I/O process" in self.start():
            self.skipTest("not permitted here")
        self.assertTrue(self.is_flusher())

    def test_one_line_says_what_is_not_permitted_and_service_goes_on(self):
        said = self.start(before_exec=lambda: self.give_up(CAP_IPC_LOCK, CAP_SYS_RESOURCE, locked=8 << 20))
        notes = [line for line in said.splitlines() if "memory is not locked" in line]
        self.assertEqual(len(notes), 1, said)
        self.assertIn("LimitMEMLOCK=infinity permits it, it is 8388608 now", notes[0])
        self.assertIn("CAP_SYS_RESOURCE", notes[0])
        self.assertEqual(self.locked_kib(), 0)
        self.assertFalse(self.is_flusher())
        self.ask("set", "cache_mode=writethrough")
        self.ask("stop")
        self.assertEqual(self.ended(), 0)


if __name__ == "__main__":
    unittest.main()
