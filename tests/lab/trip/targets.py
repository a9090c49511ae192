"""Places where operations are carried out: an NBD export, a file, a block device."""
import concurrent.futures
import fcntl
import mmap
import os
import socket
import struct

from trip import model

SECTOR = model.SECTOR


def perform_batch(target, tag, operations):
    """Operations side by side; they must not overlap."""
    if len(operations) > 1 and isinstance(target, Nbd):
        target.batch(tag, operations)
    elif len(operations) > 1 and isinstance(target, BlockDevice):
        list(target.workers.map(lambda operation: perform(target, tag, operation), operations))
    else:
        for operation in operations:
            perform(target, tag, operation)


def perform(target, tag, operation):
    if operation.kind == "flush":
        target.flush()
    elif operation.kind == "read":
        target.read(operation.first, operation.count)
    elif operation.kind == "discard":
        target.discard(operation.first, operation.count)
    elif operation.kind == "zeroes":
        target.zeroes(operation.first, operation.count)
    else:
        data = model.extent(tag, operation.first, operation.count, operation.generation)
        target.write(operation.first, data, fua=operation.kind == "fua")


class Nbd:
    """A client for NBD's fixed newstyle handshake with simple replies."""

    READ, WRITE, DISCONNECT, FLUSH, TRIM, ZEROES = 0, 1, 2, 3, 4, 6
    FUA = 1

    def __init__(self, path, export):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.cookie = 0
        magic, option_magic, _ = struct.unpack(">8s8sH", self._receive(18))
        assert (magic, option_magic) == (b"NBDMAGIC", b"IHAVEOPT")
        name = export.encode()
        self.socket.sendall(struct.pack(">I8sII", 3, b"IHAVEOPT", 1, len(name)) + name)
        self.size, self.flags = struct.unpack(">QH", self._receive(10))

    def _receive(self, length):
        data = bytearray()
        while len(data) < length:
            piece = self.socket.recv(length - len(data))
            if not piece:
                raise ConnectionError("the server hung up")
            data += piece
        return bytes(data)

    def send(self, command, first=0, length=0, data=b"", flags=0):
        """Sends without waiting; the reply has to be taken, or the server be killed."""
        self.cookie += 1
        self.socket.sendall(struct.pack(">IHHQQI", 0x25609513, flags, command, self.cookie,
                                        first * SECTOR, length) + data)

    def _ask(self, command, first=0, length=0, data=b"", flags=0):
        self.send(command, first, length, data, flags)
        magic, error, cookie = struct.unpack(">IIQ", self._receive(16))
        assert (magic, cookie) == (0x67446698, self.cookie)
        if error:
            raise OSError(error, "NBD command %d at sector %d" % (command, first))
        return self._receive(length) if command == self.READ else b""

    def read(self, first, count):
        return self._ask(self.READ, first, count * SECTOR)

    def write(self, first, data, fua=False):
        self._ask(self.WRITE, first, len(data), data, self.FUA if fua else 0)

    def batch(self, tag, operations):
        """Sends all, then takes the replies in the order in which they come. No reads."""
        pending = set()
        for operation in operations:
            length = operation.count * SECTOR
            if operation.kind in ("discard", "zeroes"):
                command = self.TRIM if operation.kind == "discard" else self.ZEROES
                self.send(command, operation.first, length)
            else:
                data = model.extent(tag, operation.first, operation.count, operation.generation)
                flags = self.FUA if operation.kind == "fua" else 0
                self.send(self.WRITE, operation.first, length, data, flags)
            pending.add(self.cookie)
        self._take(pending)

    def write_all(self, extents):
        """Side by side: a list of (first sector, data)."""
        pending = set()
        for first, data in extents:
            self.send(self.WRITE, first, len(data), data)
            pending.add(self.cookie)
        self._take(pending)

    def _take(self, pending):
        while pending:
            magic, error, cookie = struct.unpack(">IIQ", self._receive(16))
            assert magic == 0x67446698
            pending.remove(cookie)
            if error:
                raise OSError(error, "NBD request in a batch")

    def flush(self):
        self._ask(self.FLUSH)

    def discard(self, first, count):
        self._ask(self.TRIM, first, count * SECTOR)

    def zeroes(self, first, count):
        self._ask(self.ZEROES, first, count * SECTOR)

    def close(self):
        self.send(self.DISCONNECT)
        self.socket.close()


class File:
    """A volume as a file."""

    PUNCH = 0x02 | 0x01  # FALLOC_FL_PUNCH_HOLE, FALLOC_FL_KEEP_SIZE

    def __init__(self, path):
        self.file = os.open(path, os.O_RDWR)

    def read(self, first, count):
        return os.pread(self.file, count * SECTOR, first * SECTOR)

    def write(self, first, data, fua=False):
        done = os.pwrite(self.file, data, first * SECTOR)
        assert done == len(data)
        if fua:
            os.fsync(self.file)

    def flush(self):
        os.fsync(self.file)

    def discard(self, first, count):
        self.zeroes(first, count)

    def zeroes(self, first, count):
        self.write(first, bytes(count * SECTOR))

    def close(self):
        os.close(self.file)


class BlockDevice:
    """A kernel block device, without the page cache."""

    DISCARD, ZEROOUT = 0x1277, 0x127F

    def __init__(self, path):
        self.file = os.open(path, os.O_RDWR | os.O_DIRECT)
        self.workers = concurrent.futures.ThreadPoolExecutor(4)

    def read(self, first, count):
        aligned = mmap.mmap(-1, count * SECTOR)
        done = os.preadv(self.file, [aligned], first * SECTOR)
        assert done == len(aligned)
        return aligned[:]

    def write(self, first, data, fua=False):
        aligned = mmap.mmap(-1, len(data))
        aligned[:] = data
        done = os.pwritev(self.file, [aligned], first * SECTOR, os.RWF_DSYNC if fua else 0)
        assert done == len(data)

    def flush(self):
        os.fsync(self.file)

    def discard(self, first, count):
        fcntl.ioctl(self.file, self.DISCARD, struct.pack("QQ", first * SECTOR, count * SECTOR))

    def zeroes(self, first, count):
        fcntl.ioctl(self.file, self.ZEROOUT, struct.pack("QQ", first * SECTOR, count * SECTOR))

    def close(self):
        self.workers.shutdown()
        os.close(self.file)
