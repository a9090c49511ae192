#!/usr/bin/env python3
"""Writes files in a folder of the cached volume and tells in a log outside of it what must be there.

A line is written after fsync has returned: "have NAME SHA256" or "gone NAME". Before a file is replaced or
deleted, "maybe NAME SHA256" or "maybe NAME -" says that from now on the other state may be there as well.
Ends at the first error: the daemon behind the file system is gone.
usage: writer.py FOLDER LOG SEED NAME-PREFIX
"""
import hashlib
import os
import random
import sys

LIMIT = 60  # files of one writer that are kept


class Writer:
    def __init__(self, folder, log, seed, prefix):
        self.folder, self.prefix = folder, prefix
        self.log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.dice = random.Random(seed)
        self.directory = os.open(folder, os.O_RDONLY)
        self.names = []
        self.count = 0

    def say(self, *words):
        os.write(self.log, (" ".join(words) + "\n").encode())

    def path(self, name):
        return os.path.join(self.folder, name)

    def data(self):
        return self.dice.randbytes(self.dice.choice((100, 4096, 60_000, 700_000)) + self.dice.randrange(5000))

    def put(self, name, data):
        with open(self.path(name), "wb") as file:
            for at in range(0, len(data), 50_000):
                file.write(data[at:at + 50_000])
            file.flush()
            os.fsync(file.fileno())

    def create(self):
        name = "%s-%d" % (self.prefix, self.count)
        self.count += 1
        data = self.data()
        self.put(name, data)
        os.fsync(self.directory)
        self.say("have", name, hashlib.sha256(data).hexdigest())
        self.names.append(name)

    def replace(self):
        name, data = self.dice.choice(self.names), self.data()
        digest = hashlib.sha256(data).hexdigest()
        self.put(name + ".new", data)
        self.say("maybe", name, digest)
        os.rename(self.path(name + ".new"), self.path(name))
        os.fsync(self.directory)
        self.say("have", name, digest)

    def delete(self):
        name = self.names.pop(self.dice.randrange(len(self.names)))
        self.say("maybe", name, "-")
        os.unlink(self.path(name))
        os.fsync(self.directory)
        self.say("gone", name)

    def step(self):
        choice = self.dice.random()
        if len(self.names) > LIMIT or (choice < 0.15 and self.names):
            self.delete()
        elif choice < 0.4 and self.names:
            self.replace()
        else:
            self.create()


def main():
    try:
        writer = Writer(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
        while True:
            writer.step()
    except OSError:
        sys.exit(0)


main()
