"""What the command line tests share: running our programs, scratch files, superblocks by hand."""

import os
import shutil
import struct
import subprocess
import tempfile
import unittest

UBCACHE = os.environ.get("UBCACHE", "ubcache")
BIN = os.path.dirname(UBCACHE)
GOLDEN = os.environ.get("UC_GOLDEN", "")
MAGIC = bytes.fromhex("c68573f64e1a45ca8265f57f48ba6d81")
ALL_ONES = 2**64 - 1


def run(*command, cwd=None, timeout=60, env=None):
    return subprocess.run(command, cwd=cwd, timeout=timeout, capture_output=True,
                          env={**os.environ, **(env or {})})


def ubcache(*arguments, **options):
    return run(UBCACHE, *arguments, **options)


def real(name):
    """The installed program of that name, or None."""
    path = os.environ["PATH"] + ":/usr/sbin:/sbin"
    return shutil.which(name, path=path)


class ScratchTest(unittest.TestCase):
    """Each test has a directory of its own, which is also where commands run."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="ubcache-cli-")
        self.addCleanup(scratch.cleanup)
        self.dir = scratch.name

    def path(self, name):
        return os.path.join(self.dir, name)

    def image(self, name, size):
        with open(self.path(name), "wb") as file:
            file.truncate(size)
        return name

    def bytes_of(self, name, limit=-1):
        with open(self.path(name), "rb") as file:
            return file.read(limit)

    def assert_one_line_error(self, result, *words, code=1):
        text = result.stderr.decode()
        self.assertEqual(result.returncode, code, text)
        self.assertEqual(len(text.strip().splitlines()), 1, text)
        for word in words:
            self.assertIn(word, text)


def _table():
    table = []
    for index in range(256):
        crc = index << 56
        for _ in range(8):
            crc = ((crc << 1) ^ 0x42F0E1EBA9EA3693 if crc >> 63 else crc << 1) & ALL_ONES
        table.append(crc)
    return table


_CRC = _table()


def crc64(data):
    crc = ALL_ONES
    for byte in data:
        crc = _CRC[(crc >> 56) ^ byte] ^ ((crc << 8) & ALL_ONES)
    return crc ^ ALL_ONES


def superblock(version=0, offset=8, magic=MAGIC, label=b"", flags=0, word184=512, block=8,
               bucket=1024, nr_in_set=1, pos=0, first=1, keys=0, d=(), wrong_sum=False):
    """The 4096 bytes of a superblock with these fields."""
    body = struct.pack("<QQ", offset, version) + magic
    body += bytes(range(16, 48)) + label.ljust(32, b"\0")
    body += struct.pack("<QQ", flags, 1) + bytes(64)
    body += struct.pack("<QHHHHIHH", word184, block, bucket, nr_in_set, pos, 0, first, keys)
    body += b"".join(struct.pack("<Q", bucket_number) for bucket_number in d)
    body = body.ljust(4088, b"\0")
    checksum = crc64(body[: 200 + 8 * min(keys, 256)]) ^ int(wrong_sum)
    return struct.pack("<Q", checksum) + body
