"""The history must allow what a crash may leave, and nothing else."""
import os
import sys
import unittest

sys.path[:0] = [os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lab")]
sys.dont_write_bytecode = True
from history import History, Write  # noqa: E402
from trip.model import DISCARDED, Mismatch, content  # noqa: E402

TAG = 3


class HistoryTest(unittest.TestCase):
    def setUp(self):
        self.history = History(TAG, 8)

    def write(self, value, first=0, count=1, fua=False):
        write = Write(first, count, value, fua)
        self.history.send(write)
        self.history.newest = max(self.history.newest, value if value != DISCARDED else 0)
        return write

    def done(self, *arguments, **options):
        self.history.acknowledge(self.write(*arguments, **options))

    def flush(self):
        self.history.flushed(self.history.tick())
        self.history.prune()

    def left_by_a_crash(self, values):
        self.history.crashed()
        self.history.check_all(lambda first, count: b"".join(
            content(TAG, s, values.get(s, 0)) for s in range(first, first + count)))

    def assert_refused(self, values):
        with self.assertRaises(Mismatch):
            self.left_by_a_crash(values)

    def test_what_was_flushed_must_be_there(self):
        self.done(1)
        self.flush()
        self.assert_refused({})

    def test_what_was_not_flushed_may_be_there_or_not(self):
        for found in ({}, {0: 1}):
            self.setUp()
            self.done(1)
            self.left_by_a_crash(found)

    def test_a_flush_covers_only_what_was_acknowledged_when_it_was_sent(self):
        late = self.write(1)
        sent = self.history.tick()
        self.history.acknowledge(late)
        self.history.flushed(sent)
        self.left_by_a_crash({})

    def test_an_older_value_than_the_flushed_one_is_refused(self):
        self.done(1)
        self.done(2)
        self.flush()
        self.assert_refused({0: 1})

    def test_of_overlapping_writes_either_may_win(self):
        for winner in (1, 2):
            self.setUp()
            one, two = self.write(1), self.write(2)
            self.history.acknowledge(two)
            self.history.acknowledge(one)
            self.flush()
            self.left_by_a_crash({0: winner})

    def test_fua_needs_no_flush(self):
        self.done(1, fua=True)
        self.assert_refused({})

    def test_once_seen_a_value_stays(self):
        self.done(1)
        self.left_by_a_crash({})
        self.assert_refused({0: 1})

    def test_a_discarded_sector_may_hold_anything_older_but_no_other_sector(self):
        self.done(1)
        self.done(DISCARDED)
        self.left_by_a_crash({0: 1})
        with self.assertRaises(Mismatch):
            self.history.check_all(lambda first, count: content(TAG, 1, 1) * count)

    def test_a_read_sees_what_was_acknowledged_before_it_was_sent(self):
        self.done(1)
        self.history.check_read(0, content(TAG, 0, 1), self.history.tick())
        with self.assertRaises(Mismatch):
            self.history.check_read(0, content(TAG, 0, 0), self.history.tick())


if __name__ == "__main__":
    unittest.main()
