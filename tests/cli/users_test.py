"""Who may do what: an ordinary user on image files, and the group that may use a daemon's sockets."""

import grp
import os
import pwd
import stat
import subprocess
import unittest

import support
from served import DaemonTest, qemu_io
from support import run


def as_user(name, groups=()):
    """For preexec_fn: root becomes that user, in no group but these."""
    def become():
        os.setgroups([grp.getgrnam(group).gr_gid for group in groups])
        os.setgid(pwd.getpwnam(name).pw_gid)
        os.setuid(pwd.getpwnam(name).pw_uid)
    return become


def mode_of(path):
    info = os.stat(path)
    return stat.S_IMODE(info.st_mode), info.st_gid


@unittest.skipUnless(os.geteuid() == 0, "only root can become others")
class Group(DaemonTest):
    def setUp(self):
        super().setUp()
        os.chmod(self.dir, 0o755)

    def ask_as(self, name, *groups):
        return subprocess.run([support.UBCACHE, "status", "--control", self.control],
                              capture_output=True, check=False, cwd=self.dir,
                              preexec_fn=as_user(name, groups)).returncode

    def test_sockets_are_for_their_user_alone(self):
        self.start()
        self.assertEqual(mode_of(self.control)[0], 0o600)
        self.assertEqual(mode_of(self.path("nbd.sock"))[0], 0o600)
        self.assertEqual(self.ask_as("nobody", "users"), 1)

    def test_members_of_the_group_may_connect_and_no_others(self):
        self.start("--group", "users")
        users = grp.getgrnam("users").gr_gid
        self.assertEqual(mode_of(self.control), (0o660, users))
        self.assertEqual(mode_of(self.path("nbd.sock")), (0o660, users))
        self.assertEqual(self.ask_as("nobody", "users"), 0)
        self.assertEqual(self.ask_as("nobody"), 1)

    def test_a_control_socket_that_came_back_is_for_the_group_too(self):
        self.start("--group", "users")
        os.unlink(self.control)
        self.assertIn("it is there again", self.daemon.stdout.readline())
        self.assertEqual(mode_of(self.control)[0], 0o660)

    def test_an_unknown_group_is_refused(self):
        self.assert_one_line_error(
            support.ubcache("serve", "--cache", "ssd", "--group", "nosuch", cwd=self.dir),
            "--group nosuch: there is no such group", code=2)


@unittest.skipUnless(os.geteuid() == 0, "only root can become others")
class OrdinaryUser(DaemonTest):
    """All but making the images, which setUp() did: a new set as nobody is made in the test."""

    def setUp(self):
        super().setUp()
        user = pwd.getpwnam("nobody")
        for name in (".", "ssd", "disk"):
            os.chown(self.path(name), user.pw_uid, user.pw_gid)

    def command_as_nobody(self, *words):
        done = subprocess.run([support.UBCACHE, *words], capture_output=True, check=False, text=True,
                              cwd=self.dir, preexec_fn=as_user("nobody"))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_serves_image_files(self):
        self.command_as_nobody("make", "--wipe-bcache", "-C", "ssd", "-B", "disk", "--writeback",
                               "-l", "home")
        self.command_as_nobody("show", "ssd", "disk")
        self.start(before_exec=as_user("nobody"))
        if support.real("qemu-io"):
            os.environ["HOME"] = self.dir
            qemu_io(self.uri, "write -P 7 0 64k", "read -P 7 0 64k")
        control = ("--control", self.control)
        for words in (("status",), ("set", "sequential_cutoff=0"), ("gc",),
                      ("create-volume", "1M", "--label", "extra"), ("flush",),
                      ("stop", "--flush")):
            self.command_as_nobody(words[0], *control, *words[1:])
        self.assertEqual(self.ended(), 0)
        if support.real("qemu-io"):
            self.assertEqual(self.bytes_of("disk")[8192:8192 + 65536], b"\x07" * 65536)

    def test_shows_volumes_as_files_where_users_may_mount(self):
        if not os.path.exists("/dev/fuse") or not support.real("fusermount3"):
            self.skipTest("no FUSE")
        said = self.start("--fuse", "mnt", before_exec=as_user("nobody"))
        self.addCleanup(run, "umount", "-lq", self.path("mnt"))
        self.assertIn("file " + self.path("mnt/home"), said)
        self.command_as_nobody("stop", "--control", self.control)
        self.assertEqual(self.ended(), 0)


if __name__ == "__main__":
    unittest.main(verbosity=1)
