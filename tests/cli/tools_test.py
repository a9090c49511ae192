"""make-bcache and bcache-super-show against the real ones of bcache-tools, and what they refuse."""

import json
import os
import re
import struct
import subprocess
import unittest

import support
from support import ScratchTest, run, superblock, ubcache

MIB = 1 << 20
UUID = re.compile(rb"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
SET = "11111111-2222-3333-4444-555555555555"


def ours(name):
    return os.path.join(support.BIN, name)


def spoken(result):
    """What a program said and its status, without what is random."""
    return (result.returncode, UUID.sub(b"UUID", result.stdout), UUID.sub(b"UUID", result.stderr))


class MakeBcacheLikeTheOriginal(ScratchTest):
    CASES = [
        "-C c", "-B b", "-C c -B b", "-B b b2 -C c", "-C c -B b -C c2", "-B -C c", "-C c -B",
        "-C c -b 4k", "-C c -b 64k", "-C c -b 64kB", "-C c -b 1M", "-C c -b 3k", "-C c -b 0",
        "-C c -b abc", "-C c -b 512", "-C c -b 16m", "-C c -b 32m", "-C c -b 1t", "-C c -b 0x1000",
        "-b4k -C c", "--bucket=8k -C c", "-C c -b 1k -w 4k", "-C c -w 3k", "-C c -w 512",
        "-C c -w 1k", "-B c -w 8k", "-B c -w 64k", "-B c -w 1M", "-B c -w 32m", "-B c -w 0",
        "-B b -o 8", "-B b -o 16", "-B b -o 17", "-B b -o 2048", "-B b --data_offset 100",
        "-B b -o abc", "-B b -o 20x", f"--cset-uuid {SET} -C c -B b", "--cset-uuid xx -C c",
        f"--cset-uuid {SET.replace('-', '')} -C c", f"--cset-uuid {SET}5 -C c",
        f"--cset-uuid {SET} --writeback --discard --cache_replacement_policy=fifo -C c -B b",
        "--cache_replacement_policy lru -C c", "--cache-replacement-policy=random -C c",
        "--writeback -B b", "-C c --wipe", "-C c --w", "-h", "--help -C c", "", "-C", "c", "-Cc",
        "-C -- c", "-b", "--bogus", "--bogus -C c", "-C nope", "-B nope -w 4k", "-C .", "-C tiny",
        "-B empty", "-C small -b 128k", "-C taken", "-B taken", "-B ext4", "-C gpt", "-B mbr",
    ]

    def lay_out(self):
        for name in ("c", "c2", "b", "b2", "taken", "ext4", "gpt", "mbr"):
            self.image(name, 64 * MIB)
        self.image("small", 10 * MIB)
        self.image("tiny", 2048)
        self.image("empty", 0)
        self.put("taken", 4096, superblock(version=3))
        self.put("ext4", 1024 + 56, b"\x53\xef")
        self.put("ext4", 1024 + 4, struct.pack("<I", 16384))
        self.put("mbr", 510, b"\x55\xaa")
        self.put("mbr", 446, struct.pack("<8BII", 0, 0, 2, 0, 0x83, 0, 0, 0, 2048, 8192))

    def put(self, name, offset, data):
        with open(self.path(name), "r+b") as file:
            file.seek(offset)
            file.write(data)

    def written(self):
        """Both superblocks' bytes without uuids and checksum, and the zeroed start."""
        found = {}
        for name in ("c", "c2", "b", "b2"):
            data = self.bytes_of(name, 8192)
            chosen_set = data[4152:4168] == bytes.fromhex(SET.replace("-", ""))
            found[name] = (data[:4096], data[4104:4136], chosen_set, data[4168:])
        return found

    @unittest.skipUnless(support.real("make-bcache"), "bcache-tools is not installed")
    def test_says_and_writes_the_same(self):
        for case in self.CASES:
            with self.subTest(case=case):
                self.lay_out()
                theirs = run("make-bcache", *case.split(), cwd=self.dir)
                their_bytes = self.written()
                self.lay_out()
                mine = run(ours("make-bcache"), *case.split(), cwd=self.dir)
                # getopt begins its complaints with argv[0], which is a path in our case.
                error = mine.stderr.replace(ours("make-bcache").encode(), b"make-bcache")
                mine.stderr = error
                self.assertEqual(spoken(mine), spoken(theirs))
                self.assertEqual(self.written(), their_bytes)

    def test_overwrites_a_superblock_only_when_told(self):
        self.lay_out()
        refused = run(ours("make-bcache"), "-C", "taken", cwd=self.dir)
        self.assertEqual(refused.returncode, 1)
        done = run(ours("make-bcache"), "--wipe-bcache", "-C", "taken", cwd=self.dir)
        self.assertEqual((done.returncode, done.stderr), (0, b""))


class SuperShowLikeTheOriginal(ScratchTest):
    CASES = [
        {}, {"magic": bytes(16)}, {"offset": 9}, {"wrong_sum": True}, {"flags": 7 << 2},
        {"version": 3, "flags": 7, "keys": 4, "d": (1, 2, 3, 4)}, {"version": 1, "flags": 1},
        {"version": 1, "flags": (2 << 61) | 2}, {"version": 4, "word184": 2048, "flags": 3},
        {"version": 4, "flags": 3 << 61}, {"version": 1, "flags": 9}, {"version": 5},
        {"version": 6}, {"version": 2}, {"version": 99}, {"version": 4, "keys": 1, "d": (5,)},
        {"version": 4, "d": (5,)}, {"version": 1, "keys": 1, "d": (5,)},
        {"version": 4, "keys": 2, "d": (0, 1)}, {"label": b"a b/c_d.e-f\xff%\n"},
        {"label": b"x" * 32}, {"block": 0, "bucket": 0, "first": 0, "word184": 0},
        {"word184": 2**63, "first": 65535, "bucket": 65535}, {"pos": 3, "nr_in_set": 4},
    ]

    def show(self, program, *arguments):
        result = run(program, *arguments, cwd=self.dir)
        result.stderr = result.stderr.replace(ours("bcache-super-show").encode(),
                                              b"bcache-super-show")
        return (result.returncode, result.stdout, result.stderr)

    @unittest.skipUnless(support.real("bcache-super-show"), "bcache-tools is not installed")
    def test_shows_the_same(self):
        commands = [["x"], ["-f", "x"], ["x", "-f"]]
        for case in self.CASES:
            with open(self.path("x"), "wb") as file:
                file.write(bytes(4096) + superblock(**case) + bytes(4096))
            for command in commands:
                with self.subTest(case=case, command=command):
                    self.assertEqual(self.show(ours("bcache-super-show"), *command),
                                     self.show("bcache-super-show", *command))

    @unittest.skipUnless(support.real("bcache-super-show"), "bcache-tools is not installed")
    def test_complains_the_same(self):
        self.image("short", 6351)
        with open(self.path("long"), "wb") as file:
            file.write(bytes(4096) + superblock()[:2256])
        for command in ([], ["-h"], ["-f"], ["a", "b"], ["nope"], ["short"], ["long"], ["."]):
            with self.subTest(command=command):
                self.assertEqual(self.show(ours("bcache-super-show"), *command),
                                 self.show("bcache-super-show", *command))

    def test_shows_the_golden_images_as_recorded(self):
        images = self.golden_images()
        if not images:
            self.skipTest("no golden images")
        for name, disk in images:
            with self.subTest(image=name, file=disk["file"]):
                self.unpack_start(name, disk, "x")
                code, text, _ = self.show(ours("bcache-super-show"), "-f", "x")
                self.assertEqual((code, text.decode()), (0, disk["super_show"]))

    def test_gives_the_golden_images_as_json_as_recorded(self):
        words = {"detached": "no cache"}  # where bcache-super-show's word is not that of sysfs
        for name, disk in self.golden_images():
            with self.subTest(image=name, file=disk["file"]):
                self.unpack_start(name, disk, "x")
                os.truncate(self.path("x"), disk["size"])
                result = ubcache("show", "--json", "x", cwd=self.dir)
                shown = json.loads(result.stdout)[0]
                facts = dict(re.findall(r"^(\S+)\t+(.*)$", disk["super_show"], re.M))
                bracketed = {key: word for key, value in facts.items()
                             for word in re.findall(r"\[(.*)\]", value)}
                self.assertEqual((result.returncode, shown["fault"]), (0, ""))
                self.assertEqual(shown["uuid"], facts["dev.uuid"])
                self.assertEqual(shown["set_uuid"], facts["cset.uuid"])
                self.assertEqual(int(shown["csum"], 16), int(facts["sb.csum"].split()[0], 16))
                self.assertEqual(str(shown["block_sectors"]), facts["dev.sectors_per_block"])
                if shown["type"] == "cache":
                    self.assertEqual(str(shown["bucket_sectors"]), facts["dev.sectors_per_bucket"])
                    self.assertEqual(shown["replacement"], bracketed["dev.cache.replacement"])
                else:
                    state = bracketed["dev.data.cache_state"]
                    self.assertEqual(shown["state"], words.get(state, state))
                    self.assertEqual(shown["cache_mode"], bracketed["dev.data.cache_mode"])
                    self.assertEqual(str(shown["data_offset_sectors"]),
                                     facts["dev.data.first_sector"])

    def unpack_start(self, name, disk, to):
        """The first 8 KiB of a golden image."""
        with open(self.path(to), "wb") as out:
            source = os.path.join(support.GOLDEN, name, disk["file"] + ".zst")
            unpack = subprocess.Popen(["zstd", "-dcq", "--long=26", source],
                                      stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            out.write(unpack.stdout.read(8192))
            unpack.stdout.close()
            unpack.wait()

    @staticmethod
    def golden_images():
        found = []
        names = sorted(os.listdir(support.GOLDEN)) if os.path.isdir(support.GOLDEN) else []
        for name in names:
            manifest = os.path.join(support.GOLDEN, name, "manifest.json")
            if not os.path.exists(manifest):
                continue
            with open(manifest) as file:
                disks = json.load(file)["disks"]
            found += [(name, disk) for disk in disks if disk.get("super_show")]
        return found


class UbcacheMake(ScratchTest):
    def test_chooses_buckets_that_suit_a_small_cache(self):
        self.image("c", 64 * MIB)
        made = ubcache("make", "-C", "c", "--json", cwd=self.dir)
        self.assertEqual(made.returncode, 0, made.stderr)
        device = json.loads(made.stdout)[0]
        self.assertEqual((device["bucket_sectors"], device["buckets"]), (128, 1024))

    def test_refuses_512_buckets_and_says_what_to_do(self):
        self.image("c", 256 * MIB)
        before = self.bytes_of("c", 8192)
        refused = ubcache("make", "-C", "c", "-b", "512k", cwd=self.dir)
        self.assert_one_line_error(refused, "c: ", "more than 512 buckets", "--bucket 256k",
                                   "buckets of 512 KiB need 262656 KiB")
        self.assertEqual(self.bytes_of("c", 8192), before)

    def test_refuses_a_device_that_is_too_small(self):
        self.image("c", 2 * MIB)
        self.assert_one_line_error(ubcache("make", "-C", "c", cwd=self.dir), "c: a cache needs",
                                   "use a larger device: buckets of 4 KiB need 2052 KiB")
        self.image("b", 8192)
        self.assert_one_line_error(ubcache("make", "-B", "b", cwd=self.dir), "larger device")

    def test_the_same_device_twice_is_called_that(self):
        self.image("c", 64 * MIB)
        self.image("b", 64 * MIB)
        os.symlink("c", self.path("link"))
        before = self.bytes_of("c", 8192)
        for line in ("-C c -B c", "-B c b c", "-C c -B ./c", "-C c -B link", "-B link b c"):
            with self.subTest(line=line):
                refused = ubcache("make", *line.split(), cwd=self.dir)
                self.assert_one_line_error(refused, "was given twice")
        self.assertEqual(self.bytes_of("c", 8192), before)

    def test_refuses_what_is_no_device(self):
        os.mkfifo(self.path("pipe"))
        for path, words in ((".", "is a directory"), ("/dev/null", "is a character device"),
                            ("pipe", "is a pipe"), ("nope", "No such file")):
            with self.subTest(path=path):
                made = ubcache("make", "-C", path, cwd=self.dir)
                self.assert_one_line_error(made, f"ubcache make: {path}: ", words)

    def test_clears_the_future_journal(self):
        with open(self.path("c"), "wb") as file:
            file.write(b"\xaa" * (64 * MIB))
        made = ubcache("make", "-C", "c", "-b", "64k", cwd=self.dir)
        self.assertEqual(made.returncode, 0, made.stderr)
        data = self.bytes_of("c")
        self.assertEqual(data[:4096], bytes(4096))
        for bucket in range(1, 1 + 8):
            self.assertEqual(data[bucket << 16:][:4096], bytes(4096))
        self.assertEqual(data[9 << 16:][:4096], b"\xaa" * 4096)

    def test_names_what_it_does_not_overwrite(self):
        self.image("b", 64 * MIB)
        if support.real("mkfs.ext4"):
            run("mkfs.ext4", "-q", self.path("b"))
            self.refused_naming("ext4")
        self.image("b", 64 * MIB)
        with open(self.path("b"), "r+b") as file:
            file.seek(446)
            file.write(struct.pack("<8BII", 0, 0, 2, 0, 0x83, 0, 0, 0, 2048, 8192))
            file.seek(510)
            file.write(b"\x55\xaa")
        self.refused_naming("dos (partition table)")
        with open(self.path("b"), "r+b") as file:
            file.seek(510)
            file.write(b"\0\0")
            file.seek(4096)
            file.write(superblock(version=1))
        self.refused_naming("already is a bcache device", "--wipe-bcache")

    def test_says_that_a_backing_device_is_dirty_and_where_the_rest_of_its_data_is(self):
        self.image("b", 64 * MIB)
        for state, dirty in ((0, False), (1, False), (2, True), (3, False)):
            with self.subTest(state=state):
                with open(self.path("b"), "r+b") as file:
                    file.seek(4096)
                    file.write(superblock(version=1, flags=state << 61))
                error = self.refused_naming("is a bcache", "--wipe-bcache")
                self.assertEqual("DIRTY" in error, dirty, error)
                self.assertEqual("serve --cache SSD --backing b " in error, dirty, error)
                set_uuid = "20212223-2425-2627-2829-2a2b2c2d2e2f"
                self.assertEqual(f"of set {set_uuid} has" in error, dirty, error)

    def refused_naming(self, *words):
        before = self.bytes_of("b")
        made = ubcache("make", "-B", "b", cwd=self.dir)
        self.assert_one_line_error(made, "b: ", *words)
        self.assertEqual(self.bytes_of("b"), before)
        return made.stderr.decode()

    def test_writes_nothing_if_one_of_the_devices_is_refused(self):
        self.image("c", 64 * MIB)
        self.image("b", 64 * MIB)
        with open(self.path("b"), "r+b") as file:
            file.seek(4096)
            file.write(superblock(version=1))
        before = self.bytes_of("c")
        self.assertEqual(ubcache("make", "-C", "c", "-B", "b", cwd=self.dir).returncode, 1)
        self.assertEqual(self.bytes_of("c"), before)

    @unittest.skipUnless(support.real("mkfs.ext4"), "no mkfs.ext4")
    def test_force_leaves_no_trace_of_a_file_system(self):
        self.image("b", 64 * MIB)
        run("mkfs.ext4", "-q", self.path("b"))
        made = ubcache("make", "-B", "b", "--force", cwd=self.dir)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertEqual(ubcache("make", "-B", "b", "--wipe-bcache", cwd=self.dir).returncode, 0)

    @unittest.skipUnless(support.real("flock"), "no flock program")
    def test_refuses_a_file_that_is_locked(self):
        self.image("c", 64 * MIB)
        refused = run("flock", self.path("c"), support.UBCACHE, "make", "-C", "c", cwd=self.dir)
        self.assert_one_line_error(refused, "c: is in use", "locked by")

    def test_tells_wrong_usage_from_refusal(self):
        self.image("c", 64 * MIB)
        self.assertEqual(ubcache("make", cwd=self.dir).returncode, 2)
        self.assertEqual(ubcache("make", "--bogus", "-C", "c", cwd=self.dir).returncode, 2)
        self.assertEqual(ubcache("make", "c", cwd=self.dir).returncode, 2)
        for command in ("make", "show", "serve", "status", "set", "attach", "detach", "flush",
                        "stop", "create-volume", "gc"):
            shown = ubcache(command, "--help")
            self.assertEqual(shown.returncode, 0, command)
            self.assertIn(b"Example", shown.stdout, command)


class WrongUsage(ScratchTest):
    def refused(self, line, *words, command=""):
        result = ubcache(*line.split(), cwd=self.dir)
        self.assert_one_line_error(result, *words, code=2)
        begin = f"ubcache {command}: " if command else "ubcache: "
        self.assertEqual(result.stderr.decode()[:len(begin)], begin)

    def test_unknown_command_is_named_with_what_may_have_been_meant(self):
        self.refused("sataus", "unknown command sataus", "did you mean status?")
        self.refused("st", "status or stop")
        self.refused("frobnicate", "unknown command frobnicate (see ubcache --help")
        self.refused("", "ubcache --help")

    def test_every_usage_error_is_one_line_with_the_same_begin_and_status(self):
        for line in ("--bogus status", "show", "status --bogus", "stop now", "set", "serve",
                     "serve --cache", "serve --cache x --set-option y", "set novalue",
                     "create-volume big", "make", "make --bogus", "make c", "make -b 3k -C c",
                     "make -o 3 -B c", "make --cset-uuid x -C c", "make -b"):
            with self.subTest(line=line):
                if line[0] == "-":
                    self.refused(line, "--bogus")
                else:
                    self.refused(line, command=line.split()[0])

    def test_what_is_refused_or_fails_begins_in_the_same_way(self):
        self.image("b", 64 * MIB)
        uuid = "01234567-89ab-cdef-0123-456789abcdef"
        for line in ("show b", "make -C nope", "serve --cache nope --control c.sock",
                     "status --control nope", "set a=b --control nope", "gc --control nope",
                     f"abandon {uuid} --control nope", f"abandon {uuid} --backing b",
                     "config --save x.toml --control nope", "assemble b --start no"):
            with self.subTest(line=line):
                failed = ubcache(*line.split(), cwd=self.dir)
                self.assertEqual(failed.returncode, 1)
                begin = f"ubcache {line.split()[0]}: "
                self.assertEqual(failed.stderr.decode()[:len(begin)], begin)


class Output(ScratchTest):
    def test_what_cannot_be_printed_is_an_error(self):
        self.image("c", 64 * MIB)
        commands = [[support.UBCACHE, "make", "-C", "c", "--wipe-bcache"],
                    [support.UBCACHE, "show", "c"], [support.UBCACHE, "show", "--json", "c"],
                    [support.UBCACHE, "--help"], [support.UBCACHE, "make", "--help"],
                    [ours("make-bcache"), "-C", "c", "--wipe-bcache"],
                    [ours("bcache-super-show"), "c"]]
        for command in commands:
            with self.subTest(command=command), open("/dev/full", "wb") as full:
                result = subprocess.run(command, cwd=self.dir, stdout=full, stderr=subprocess.PIPE)
                self.assert_one_line_error(result, "cannot write to standard output")

    def test_a_closed_standard_output_does_not_become_a_device(self):
        self.image("c", 64 * MIB)
        made = run("sh", "-c", f"{support.UBCACHE} make -C c --json >&-", cwd=self.dir)
        self.assert_one_line_error(made, "cannot write to standard output")
        self.assertEqual(self.bytes_of("c", 4096), bytes(4096))
        self.assertEqual(ubcache("show", "c", cwd=self.dir).returncode, 0)


class UbcacheShow(ScratchTest):
    def test_gives_all_fields_as_json(self):
        self.image("c", 64 * MIB)
        self.image("b", 64 * MIB)
        ubcache("make", "-C", "c", "-B", "b", "--writeback", "-l", "lab", cwd=self.dir)
        shown = json.loads(ubcache("show", "--json", "c", "b", cwd=self.dir).stdout)
        self.assertEqual([d["type"] for d in shown], ["cache", "backing"])
        self.assertEqual(shown[0]["set_uuid"], shown[1]["set_uuid"])
        self.assertEqual((shown[1]["cache_mode"], shown[1]["state"]), ("writeback", "no cache"))
        self.assertEqual(shown[1]["label"], "lab")

    def test_says_what_is_wrong_with_a_device(self):
        self.image("c", 64 * MIB)
        self.assert_one_line_error(ubcache("show", "c", cwd=self.dir), "c: ", "bad offset")
        self.image("empty", 0)
        self.image("small", 5000)
        os.mkfifo(self.path("pipe"))
        for path, words in ((".", "is a directory; a block device or an image file is expected"),
                            ("/dev/null", "is a character device"), ("pipe", "is a pipe"),
                            ("empty", "is empty; a bcache superblock lies 4 KiB behind"),
                            ("small", "has only 4.9 KiB; a bcache superblock"),
                            ("nope", "cannot be opened: No such file or directory")):
            with self.subTest(path=path):
                shown = ubcache("show", path, cwd=self.dir)
                self.assert_one_line_error(shown, f"ubcache show: {path}: {words}")
                shown = json.loads(ubcache("show", "--json", path, cwd=self.dir).stdout)
                self.assertEqual(shown[0]["device"], path)
                self.assertIn(words, shown[0]["fault"])


if __name__ == "__main__":
    unittest.main(verbosity=1)
