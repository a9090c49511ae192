"""The attributes in the shape of /sys: what readers find there, and what writing to it does."""

import errno
import os
import re
import subprocess
import unittest
import urllib.request

import support
from served import DaemonTest, PATIENCE, eventually, qemu_io

FUSE = os.path.exists("/dev/fuse") and os.geteuid() == 0


@unittest.skipUnless(FUSE, "needs root and FUSE")
@unittest.skipUnless(support.real("qemu-io"), "qemu-io is not installed")
class SysDaemonTest(DaemonTest):
    """A daemon that shows its tree."""

    def start(self, *options, **named):
        self.root = self.path("sys")
        self.addCleanup(subprocess.run, ["umount", "-l", self.root], capture_output=True)
        said = super().start("--sys", self.root, "--set-option", "writeback_running=0", *options,
                             **named)
        self.uuid = self.status()["set"]["uuid"]
        self.set = f"{self.root}/fs/bcache/{self.uuid}"
        return said

    def read(self, path):
        with open(os.path.join(self.set, path), encoding="utf-8") as file:
            return file.read()

    def write(self, path, text):
        fd = os.open(os.path.join(self.set, path), os.O_WRONLY | os.O_TRUNC)
        try:
            return os.write(fd, text.encode())
        finally:
            os.close(fd)

    def error_of(self, path, text):
        with self.assertRaises(OSError) as raised:
            self.write(path, text)
        return raised.exception.errno


class TreeTest(SysDaemonTest):
    def test_links_lead_where_readers_expect_them_to(self):
        self.start()
        self.assertRegex(self.uuid, r"^[0-9a-f-]{36}$")
        self.assertEqual(os.readlink(f"{self.set}/bdev0"), "../../../block/disk/bcache")
        self.assertEqual(os.readlink(f"{self.set}/cache0"), "../../../block/ssd/bcache")
        self.assertEqual(os.readlink(f"{self.set}/bdev0/dev").split("/")[-1], "bcache0")
        backing = os.path.realpath(f"{self.set}/bdev0")
        self.assertEqual(os.path.realpath(f"{self.root}/block/bcache0/bcache"), backing)
        self.assertEqual(os.path.realpath(f"{backing}/cache"), os.path.realpath(self.set))
        self.assertEqual(os.path.realpath(f"{self.set}/cache0/set"), os.path.realpath(self.set))
        self.assertEqual(self.read("bdev0/../size"), f"{(128 << 20) // 512 - 16}\n")
        self.assertEqual(self.read("bdev0/dev/dev"), "0:0\n")

    def test_every_file_can_be_read_and_holds_a_line(self):
        self.start()
        count = 0
        for directory, _, files in os.walk(self.root):
            for name in files:
                path = os.path.join(directory, name)
                if os.path.islink(path) or not os.stat(path).st_mode & 0o444:
                    continue
                text = self.read(path)
                self.assertTrue(text.endswith("\n"), path)
                count += 1
        self.assertGreater(count, 100)

    def test_the_sizes_are_human_and_the_choices_in_brackets(self):
        self.start()
        self.assertEqual(self.read("bucket_size"), "64.0k\n")
        self.assertEqual(self.read("cache0/nbuckets"), "1024\n")
        self.assertEqual(self.read("bdev0/cache_mode"),
                         "writethrough [writeback] writearound none\n")
        self.assertEqual(self.read("cache0/cache_replacement_policy"), "[lru] fifo random\n")
        self.assertEqual(self.read("bdev0/label"), "home\n")
        self.assertEqual(self.read("bdev0/state"), "clean\n")

    def test_a_shell_writes_and_reads_as_in_sys(self):
        self.start()
        done = support.run("sh", "-c", "echo writearound > cache_mode && cat cache_mode",
                           cwd=f"{self.set}/bdev0")
        self.assertEqual(done.stdout, b"writethrough writeback [writearound] none\n", done.stderr)

    def test_values_are_those_of_now(self):
        self.start()
        self.assertEqual(self.read("bdev0/dirty_data"), "0.0k\n")
        qemu_io(self.uri, "write 0 64k", "flush")
        self.assertEqual(self.read("bdev0/dirty_data"), "64.0k\n")
        self.assertEqual(self.read("bdev0/state"), "dirty\n")
        self.assertEqual(self.read("stats_total/cache_misses"),
                         self.read("bdev0/stats_total/cache_misses"))

    def test_an_open_file_is_read_anew_from_its_start(self):
        self.start()
        fd = os.open(f"{self.set}/journal_delay_ms", os.O_RDONLY)
        self.addCleanup(os.close, fd)
        self.assertEqual(os.pread(fd, 100, 0), b"100\n")
        self.write("journal_delay_ms", "7")
        self.assertEqual(os.pread(fd, 100, 1), b"00\n")  # the rest of what it began to read
        self.assertEqual(os.pread(fd, 100, 0), b"7\n")

    def test_a_number_out_of_range_is_clamped_as_in_the_kernel(self):
        self.start()
        self.write("bdev0/writeback_percent", "99\n")
        self.assertEqual(self.read("bdev0/writeback_percent"), "40\n")
        self.write("journal_delay_ms", "100000")
        self.assertEqual(self.read("journal_delay_ms"), "65535\n")
        self.write("bdev0/writeback_rate", "0")
        self.assertEqual(self.read("bdev0/writeback_rate"), "0.5k\n")

    def test_refusals_have_the_errno_of_the_kernel(self):
        self.start()
        self.assertEqual(self.error_of("bdev0/cache_mode", "fast\n"), errno.EINVAL)
        self.assertEqual(self.error_of("bdev0/writeback_delay", "soon\n"), errno.EINVAL)
        self.assertEqual(self.error_of("bdev0/attach", self.uuid), errno.EINVAL)
        self.assertEqual(self.error_of("../register", "/nonexistent\n"), errno.EINVAL)
        self.assertEqual(self.error_of("flash_vol_create", "much"), errno.EINVAL)
        self.write("bdev0/detach", "1\n")
        self.assertTrue(eventually(lambda: not os.path.exists(f"{self.set}/bdev0")))
        other = self.uuid[:-1] + ("0" if self.uuid[-1] != "0" else "1")
        alone = f"{self.root}/block/disk/bcache"
        self.assertEqual(self.error_of(f"{alone}/attach", other), errno.ENOENT)

    def test_modes_are_those_of_sys(self):
        self.start()
        for name, mode in (("stop", 0o200), ("tree_depth", 0o444), ("journal_delay_ms", 0o644),
                           ("../register", 0o200)):
            self.assertEqual(os.stat(f"{self.set}/{name}").st_mode & 0o777, mode, name)

    def test_other_users_see_nothing(self):
        self.start()
        self.assertEqual(os.stat(self.dir).st_mode & 0o777, 0o700)
        os.chmod(self.dir, 0o755)
        denied = support.run("setpriv", "--reuid=65534", "--clear-groups", "cat",
                             f"{self.set}/tree_depth")
        self.assertIn(b"Permission denied", denied.stderr)

    def test_members_of_the_group_can_read_and_not_write(self):
        self.start("--group", "65534")
        os.chmod(self.dir, 0o755)
        script = 'cat "$0" && ! echo 5 2>/dev/null > "$0" && ls "$1"'
        for group, text in (("65534", b"100\nbypassed\n"), ("65533", b"")):
            done = support.run("setpriv", "--reuid=65534", "--regid=" + group, "--clear-groups",
                               "sh", "-c", script, f"{self.set}/journal_delay_ms",
                               f"{self.set}/stats_day")
            self.assertEqual(done.stdout[:13], text, done.stderr)
        self.assertEqual(self.read("journal_delay_ms"), "100\n")

    def test_detach_and_attach_by_echo(self):
        self.start()
        qemu_io(self.uri, "write -P 5 0 64k", "flush")
        self.write("bdev0/detach", "1\n")
        self.assertTrue(eventually(lambda: not os.path.exists(f"{self.set}/bdev0")))
        alone = f"{self.root}/block/disk/bcache"
        self.assertEqual(self.read(f"{alone}/state"), "no cache\n")
        self.assertFalse(os.path.lexists(f"{alone}/cache"))
        self.write(f"{alone}/attach", self.uuid + "\n")
        self.assertEqual(self.read(f"{alone}/state"), "clean\n")
        self.assertTrue(os.path.exists(f"{alone}/cache/tree_depth"))
        qemu_io(self.uri, "read -P 5 0 64k")

    def test_register_takes_a_device_of_the_set_into_service(self):
        self.start(backing=())
        self.assertFalse(os.path.exists(f"{self.set}/bdev0"))
        self.write("../register", self.path("disk") + "\n")
        self.assertEqual(self.read("bdev0/label"), "home\n")
        self.assertEqual(self.error_of("../register", self.path("disk")), errno.EINVAL)
        self.write("../register_quiet", self.path("disk"))

    def test_a_file_of_the_tree_is_no_device_and_nobody_waits_for_ever(self):
        self.start("--fuse", self.path("volumes"), "--nbd", "unix:" + self.path("nbd.sock"))
        self.addCleanup(subprocess.run, ["umount", "-l", self.path("volumes")],
                        capture_output=True)
        os.symlink(self.root, self.path("link"))
        for path in (self.set + "/tree_depth", self.path("link/fs"), self.path("volumes/home")):
            self.assertEqual(self.error_of("../register", path), errno.EINVAL)
            self.assertIn("by this daemon itself", self.ask("attach", path, code=1))

    def test_a_volume_made_by_echo_has_a_directory(self):
        self.start()
        self.write("flash_vol_create", "8M\n")
        self.assertEqual(self.read("volume1/size"), "8.0M\n")
        self.assertFalse(os.path.exists(f"{self.set}/volume1/cache_mode"))

    def test_stop_by_echo_ends_the_daemon_and_the_mount(self):
        self.start()
        self.write("stop", "1\n")
        self.assertEqual(self.ended(), 0)
        self.assertFalse(os.path.ismount(self.root))

    def test_without_the_tree_the_set_is_served_all_the_same(self):
        os.mkdir(self.path("full"))
        open(self.path("full/file"), "w", encoding="utf-8").close()
        failed = support.ubcache("serve", "--cache", "ssd", "--backing", "disk", "--control",
                                 self.path("c.sock"), "--sys", self.path("full"), cwd=self.dir)
        self.assert_one_line_error(failed, "--sys", "not empty")

    def test_an_open_file_of_a_volume_that_has_gone_is_an_error_not_a_crash(self):
        self.start()
        with open(f"{self.set}/bdev0/state", encoding="utf-8") as file:
            self.write("bdev0/detach", "1")
            self.assertTrue(eventually(lambda: not os.path.exists(f"{self.set}/bdev0")))
            file.read()
        self.assertEqual(self.status()["volumes"][0]["state"], "no cache")


class ReadersTest(SysDaemonTest):
    """Programs that read bcache's attributes read ours."""

    @unittest.skipUnless(support.real("prometheus-node-exporter"),
                         "prometheus-node-exporter is not installed")
    def test_node_exporter(self):
        self.start()
        qemu_io(self.uri, "write 0 64k", "read 0 64k", "flush")
        exporter = subprocess.Popen(
            [support.real("prometheus-node-exporter"), "--collector.disable-defaults",
             "--collector.bcache", "--collector.bcache.priorityStats", "--path.sysfs", self.root,
             "--web.listen-address=127.0.0.1:0"],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end, exporter)
        address = None
        for line in exporter.stderr:
            found = re.search(r"127\.0\.0\.1:(\d+)", line)
            if found and found.group(1) != "0":
                address = f"http://127.0.0.1:{found.group(1)}/metrics"
                break
        self.assertIsNotNone(address)
        with urllib.request.urlopen(address, timeout=PATIENCE) as answer:
            text = answer.read().decode()
        self.assertIn('node_scrape_collector_success{collector="bcache"} 1', text)
        self.assertIn(f'node_bcache_dirty_data_bytes{{backing_device="bdev0",uuid="{self.uuid}"}} '
                      '65536', text)
        self.assertIn(f'node_bcache_cache_hits_total{{backing_device="bdev0",uuid="{self.uuid}"}}',
                      text)
        self.assertIn("node_bcache_priority_stats_metadata_percent", text)

    def test_programs_with_sys_built_in_find_it_in_a_namespace_of_their_own(self):
        self.start()
        script = ('mount --bind "$0" /sys && cat /sys/fs/bcache/*-*/bdev0/state '
                  '/sys/block/bcache0/bcache/cache/tree_depth /sys/block/*/bcache/set/synchronous')
        done = support.run("unshare", "-m", "sh", "-c", script, self.root)
        if b"unshare" in done.stderr or b"mount:" in done.stderr:
            self.skipTest("no mount namespaces here")
        self.assertEqual(done.stdout.decode(), "clean\n0\n1\n", done.stderr)

    @staticmethod
    def end(process):
        process.kill()
        process.wait()
        process.stderr.close()


if __name__ == "__main__":
    unittest.main()
