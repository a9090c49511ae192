"""A world of bare volumes: NBD clients with many requests under way, and the history of every sector."""
import os
import selectors
import socket
import struct

from daemon import Failure
from history import History, Write
from trip import model, targets

SECTOR = model.SECTOR
NBD_ESHUTDOWN = 108


class Client(targets.Nbd):
    """Sends without waiting, and books each answer with the history."""

    def __init__(self, path, name, history, geometry, dice):
        super().__init__(path, name)
        self.history, self.geometry, self.dice = history, geometry, dice
        self.waiting = {}  # cookie -> (kind, Write or (first, count), time sent)
        self.incoming = bytearray()
        self.reads = 0

    def step(self):
        """One request, chosen by chance."""
        dice = self.dice
        kind = dice.choices(("write", "fua", "zeroes", "discard", "read"), (70, 3, 3, 3, 20))[0]
        if dice.randrange(self.geometry.flush_every) == 0:
            kind = "flush"
        if kind == "flush":
            self.send(self.FLUSH)
            self._expect(kind, None)
            return
        first, count = self._place()
        if kind == "read":
            self.reads += 1
            self.send(self.READ, first, count * SECTOR)
            self._expect(kind, (first, count))
            return
        value = {"zeroes": 0, "discard": model.DISCARDED}.get(kind, self.history.newest + 1)
        write = Write(first, count, value, kind == "fua")
        self.history.send(write)
        if kind in ("write", "fua"):
            data = model.extent(self.history.tag, first, count, value)
            self.send(self.WRITE, first, len(data), data, self.FUA if kind == "fua" else 0)
        else:
            self.send(self.ZEROES if kind == "zeroes" else self.TRIM, first, count * SECTOR)
        self._expect(kind, write)

    def _place(self):
        """Half of the requests go to a small part of the volume, so that much is overwritten."""
        block = self.geometry.block // SECTOR
        blocks = self.history.sectors // block
        longest = max(1, min(self.geometry.longest // block, blocks))
        count = self.dice.choice((1, 1, self.dice.randint(1, longest)))
        reach = blocks if self.dice.random() < 0.5 else max(longest, blocks // 16)
        return self.dice.randrange(reach - count + 1) * block, count * block

    def _expect(self, kind, what):
        self.waiting[self.cookie] = (kind, what, self.history.tick())

    def receive_some(self):
        """Takes what has arrived; False at the end of the connection."""
        try:
            piece = self.socket.recv(1 << 20)
        except ConnectionResetError:
            return False
        self.incoming += piece
        while self._take_one():
            pass
        if self.reads == 0:
            self.history.prune()
        return bool(piece)

    def _take_one(self):
        if len(self.incoming) < 16:
            return False
        magic, error, cookie = struct.unpack_from(">IIQ", self.incoming)
        if magic != 0x67446698 or cookie not in self.waiting:
            raise Failure("the server sent nonsense: %s" % self.incoming[:16].hex())
        kind, what, sent = self.waiting[cookie]
        length = what[1] * SECTOR if kind == "read" and not error else 0
        if len(self.incoming) < 16 + length:
            return False
        data = bytes(self.incoming[16:16 + length])
        del self.incoming[:16 + length]
        del self.waiting[cookie]
        self._book(kind, what, sent, error, data)
        return True

    def _book(self, kind, what, sent, error, data):
        self.reads -= kind == "read"
        if error:
            if error != NBD_ESHUTDOWN:
                raise Failure("error %d for a %s" % (error, kind))
        elif kind == "flush":
            self.history.flushed(sent)
        elif kind == "read":
            self.history.check_read(what[0], data, sent)
        else:
            self.history.acknowledge(what)


class Blocks:
    """The load on the volumes of one set, and the check after each death."""

    kind = "blocks"

    def __init__(self, folder, geometry, number, dice):
        self.folder, self.geometry, self.dice = folder, geometry, dice
        self.socket = os.path.join(folder, "nbd")
        self.options = ("--nbd", "unix:" + self.socket)
        sectors = geometry.backing_size // SECTOR
        self.histories = [History(number * 4 + i + 1, sectors) for i in range(geometry.backings)]
        self.clients = []

    def check(self, daemon):
        for history, name in zip(self.histories, self._names(daemon)):
            reader = targets.Nbd(self.socket, name)
            history.check_all(reader.read)
            reader.close()

    def _names(self, daemon):
        names = {os.path.basename(v["backing"]): v["name"] for v in daemon.status()["volumes"]}
        return [names["disk%d" % i] for i in range(len(self.histories))]

    def connect(self, daemon):
        self.clients = [Client(self.socket, name, history, self.geometry, self.dice)
                        for history, name in zip(self.histories, self._names(daemon))]

    def work(self, daemon):
        """Until the server is gone. All answers that it sent count."""
        with selectors.DefaultSelector() as selector:
            for client in self.clients:
                selector.register(client.socket, selectors.EVENT_READ, client)
            alive = list(self.clients)
            while alive:
                for client in list(alive):
                    if len(client.waiting) < self.geometry.depth and not self._send(client):
                        self._drain(client)
                        alive.remove(client)
                        selector.unregister(client.socket)
                full = all(len(c.waiting) >= self.geometry.depth for c in alive)
                for key, _ in selector.select(10 if full else 0) if alive else ():
                    if not key.data.receive_some():
                        alive.remove(key.data)
                        selector.unregister(key.fileobj)
        if not daemon.expected:
            raise Failure("the server hung up: %s" % daemon.said[-5:])

    @staticmethod
    def _send(client):
        try:
            client.step()
        except (BrokenPipeError, ConnectionResetError):
            return False
        return True

    @staticmethod
    def _drain(client):
        while client.receive_some():
            pass

    def leave(self):
        for client in self.clients:
            client.socket.close()
        for history in self.histories:
            history.crashed()
        self.clients = []

    def check_images(self):
        """With everything written back the backing images are enough."""
        for index, history in enumerate(self.histories):
            with open(os.path.join(self.folder, "disk%d" % index), "rb") as file:
                def read(first, count):
                    file.seek((self.geometry.data_offset + first) * SECTOR)
                    return file.read(count * SECTOR)
                history.check_all(read)

    def discard(self):
        for client in self.clients:
            client.socket.close()
