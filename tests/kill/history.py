"""What a volume may hold when many requests are under way and the server dies.

Every write has three times: sent, acknowledged, and covered by a flush (or FUA). Write B is after write A if B
was sent after A was acknowledged; otherwise they overlapped and either may win. A sector may hold the value of
any write that no covered write is after. What is read while the server lives is held to more: nothing that an
acknowledged write is after.

A value is the number of the write; 0 stands for zeroes, DISCARDED for anything older.
"""
import array
import struct

from trip.model import DISCARDED, SECTOR, Mismatch, content

CHUNK = 1024  # sectors


class Write:
    __slots__ = ("first", "count", "value", "fua", "sent", "acked", "durable")

    def __init__(self, first, count, value, fua=False):
        self.first, self.count, self.value, self.fua = first, count, value, fua
        self.sent = self.acked = None
        self.durable = False

    def after(self, other):
        return other.acked is not None and self.sent > other.acked


def _settled_write(value):
    write = Write(0, 0, value)
    write.sent = write.acked = -1
    write.durable = True
    return write


class History:
    def __init__(self, tag, sectors):
        self.tag, self.sectors = tag, sectors
        self.settled = array.array("I", bytes(4 * sectors))
        self.open = {}  # sector -> writes whose value it may have, where that is not settled
        self.uncovered = []
        self.newest = 0
        self.now = 0

    def tick(self):
        self.now += 1
        return self.now

    # What happens while the server lives.

    def send(self, write):
        write.sent = self.tick()
        self.newest = max(self.newest, write.value if write.value != DISCARDED else 0)
        self.uncovered.append(write)
        for sector in range(write.first, write.first + write.count):
            if sector not in self.open:
                self.open[sector] = [_settled_write(self.settled[sector])]
            self.open[sector].append(write)

    def acknowledge(self, write):
        write.acked = self.tick()
        write.durable = write.fua

    def flushed(self, sent):
        """A flush that was sent at the time `sent` has its answer."""
        for write in self.uncovered:
            if write.acked is not None and write.acked < sent:
                write.durable = True

    def prune(self):
        """Drops what cannot be seen any more. Not while reads are under way: they may have seen it."""
        covered = [w for w in self.uncovered if w.durable]
        self.uncovered = [w for w in self.uncovered if not w.durable]
        for sector in {s for w in covered for s in range(w.first, w.first + w.count)}:
            writes = self.open.get(sector, ())
            left = [w for w in writes if not any(o.durable and o.after(w) for o in writes)]
            if len(left) == 1 and left[0].durable:
                self.settled[sector] = left[0].value
                del self.open[sector]
            elif left:
                self.open[sector] = left

    def check_read(self, first, data, sent):
        """What a read returned that was sent at the time `sent`."""
        def seen(writes):
            return [w for w in writes if not any(
                o.after(w) and o.acked is not None and o.acked < sent for o in writes)]
        self._check(first, data, seen, None)

    # What happens after it died.

    def crashed(self):
        self.prune()

    def check_all(self, read):
        """Compares everything that `read(first, count)` returns, and takes over what it sees."""
        def take(sector, value, allowed):
            self.settled[sector] = DISCARDED if DISCARDED in allowed else value
        for first in range(0, self.sectors, CHUNK):
            count = min(CHUNK, self.sectors - first)
            self._check(first, read(first, count), lambda writes: writes, take)
        self.open.clear()
        self.uncovered.clear()

    def _check(self, first, data, choose, take):
        count = len(data) // SECTOR
        if not any(s in self.open for s in range(first, first + count)) and data == self._plain(first, count):
            return
        wrong = []
        for sector in range(first, first + count):
            piece = data[(sector - first) * SECTOR:(sector - first + 1) * SECTOR]
            who, value = struct.unpack_from("<QQ", piece)
            writes = self.open.get(sector)
            allowed = {w.value for w in choose(writes)} if writes else {self.settled[sector]}
            known = piece == content(self.tag, sector, value)
            if known and (value in allowed or DISCARDED in allowed and value <= self.newest):
                if take:
                    take(sector, value, allowed)
                continue
            found = value if known else "garbage (%x %x)" % (who, value)
            wrong.append("sector %d holds %s instead of %s" % (
                sector, found, " or ".join("any" if v == DISCARDED else str(v) for v in sorted(allowed))))
        if wrong:
            raise Mismatch("%d wrong sectors: %s" % (len(wrong), "; ".join(wrong[:6])))

    def _plain(self, first, count):
        zero = bytes(SECTOR)
        return b"".join(zero if v in (0, DISCARDED) else struct.pack("<QQ", self.tag << 48 | s, v) * 32
                        for s, v in enumerate(self.settled[first:first + count], first))
