"""The Debian package: built from the tree around a program that exists, looked at, installed into a
root of its own, upgraded, removed and purged."""

import glob
import os
import shutil
import subprocess
import tempfile
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
UBCACHE = os.path.abspath(os.environ.get("UBCACHE", "build/release/apps/ubcache/ubcache"))

FILES = {
    "etc/ubcache/",
    "usr/bin/ubcache",
    "usr/libexec/ubcache/make-bcache",
    "usr/libexec/ubcache/bcache-super-show",
    "usr/lib/systemd/system/ubcache@.service",
    "usr/lib/systemd/system-shutdown/ubcache.shutdown",
    "usr/lib/udev/rules.d/61-ubcache.rules",
    "usr/lib/udev/rules.d/68-ubcache-assemble.rules",
    "usr/share/initramfs-tools/hooks/ubcache",
    "usr/share/initramfs-tools/scripts/local-block/ubcache",
    "usr/share/bash-completion/completions/ubcache",
    "usr/share/man/man8/ubcache.8.gz",
    "usr/share/man/man8/ubcache-boot.8.gz",
    "usr/share/doc/ubcache/copyright",
    "usr/share/doc/ubcache/examples/ubcache.conf.example",
}
TOOLS = ("dh", "dpkg-deb", "scdoc", "lintian")


def run(*command, cwd=TOP, env=None):
    done = subprocess.run(command, cwd=cwd, capture_output=True, check=False, text=True,
                          env={**os.environ, **(env or {})})
    if done.returncode != 0:
        raise AssertionError(f"{command}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def copy_tree(target):
    listing = run("git", "-c", "safe.directory=*", "ls-files", "-co", "--exclude-standard",
                  "debian", "docs", "examples", "packaging", "Makefile", "LICENSE", "README.md")
    for name in listing.splitlines():
        if os.path.isfile(os.path.join(TOP, name)):
            os.makedirs(os.path.dirname(os.path.join(target, name)), exist_ok=True)
            shutil.copy(os.path.join(TOP, name), os.path.join(target, name))


def missing_tool():
    return next((tool for tool in TOOLS if shutil.which(tool) is None), None)


@unittest.skipIf(missing_tool(), f"{missing_tool()} is not installed")
class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory(prefix="ubcache-package-")
        cls.addClassCleanup(cls.scratch.cleanup)
        cls.tree = os.path.join(cls.scratch.name, "tree")
        copy_tree(cls.tree)
        cls.package = cls.build()

    @classmethod
    def build(cls):
        run("debian/rules", "binary", cwd=cls.tree,
            env={"DEB_RULES_REQUIRES_ROOT": "no", "UBCACHE_BINARY": UBCACHE, "MAKEFLAGS": ""})
        built = [p for p in glob.glob(cls.tree + "/build/deb/*.deb") if "dbgsym" not in p]
        return max(built, key=os.path.getmtime)

    def test_has_what_belongs_to_it_and_nothing_at_strange_places(self):
        listing = run("dpkg-deb", "-c", self.package).splitlines()
        names = {line.split()[5].removeprefix("./") for line in listing}
        self.assertEqual(FILES - names, set())
        strange = [n for n in names if n and not n.startswith(("usr/", "etc/"))]
        self.assertEqual(strange, [])
        self.assertTrue(all(line.split()[1] == "root/root" for line in listing))

    def test_lintian_has_nothing_to_say(self):
        self.assertEqual(run("lintian", "--allow-root", "--fail-on", "error,warning",
                             self.package).strip(), "")

    def test_manual_page_names_every_command(self):
        with open(os.path.join(TOP, "docs/man/ubcache.8.scd"), encoding="utf-8") as file:
            page = file.read()
        usage = run(UBCACHE, "--help").split("Subcommands:")[1].splitlines()
        commands = [line.split()[0] for line in usage if line.startswith("  ")]
        self.assertGreater(len(commands), 10)
        for command in commands:
            self.assertIn(f"*{command}*", page)

    def dpkg(self, root, *words):
        run("dpkg", "--root", root, "--force-depends", "--force-not-root",
            "--force-script-chrootless", "--log=/dev/null", *words, env={"LC_ALL": "C"})

    def test_is_installed_upgraded_and_purged_without_traces(self):
        root = os.path.join(self.scratch.name, "root")
        os.makedirs(root + "/var/lib/dpkg/info")
        os.makedirs(root + "/var/lib/dpkg/updates")
        open(root + "/var/lib/dpkg/status", "w").close()
        before = self.files_below(root)
        self.dpkg(root, "-i", self.package)
        self.assertTrue(os.access(root + "/usr/bin/ubcache", os.X_OK))
        self.assertIn("ubcache", run(root + "/usr/bin/ubcache", "--version"))
        config = root + "/etc/ubcache/2f0c8a4e-90c1-4f0b-8a4f-5a4f0f3f9d11.conf"
        with open(config, "w", encoding="utf-8") as file:
            file.write("INITRAMFS=yes\n")
        self.dpkg(root, "-i", self.next_version())
        self.assertTrue(os.path.exists(config), "an upgrade keeps what the administrator wrote")
        self.dpkg(root, "-r", "ubcache")
        self.assertTrue(os.path.exists(config), "so does a removal")
        self.assertFalse(os.path.exists(root + "/usr/bin/ubcache"))
        self.dpkg(root, "-P", "ubcache")
        self.assertEqual(self.files_below(root) - before, set())

    @staticmethod
    def files_below(root):
        """All but dpkg's own."""
        return {os.path.join(folder, name) for folder, _, names in os.walk(root) for name in names
                if not folder.startswith(root + "/var/lib/dpkg")}

    def next_version(self):
        changelog = self.tree + "/debian/changelog"
        with open(changelog, encoding="utf-8") as file:
            text = file.read()
        with open(changelog, "w", encoding="utf-8") as file:
            file.write(text.replace("(0.", "(1000.", 1))
        return self.build()


class Completion(unittest.TestCase):
    def complete(self, *words):
        script = (f"source {TOP}/packaging/completion/ubcache; COMP_WORDS=({' '.join(words)}); "
                  f'COMP_CWORD={len(words) - 1}; _ubcache; echo "${{COMPREPLY[@]}}"')
        path = os.path.dirname(UBCACHE) + ":" + os.environ["PATH"]
        return run("bash", "-c", script, env={"PATH": path}).split()

    def test_words_are_those_of_the_help(self):
        self.assertEqual(self.complete("ubcache", "st"), ["status", "stop"])
        self.assertEqual(self.complete("ubcache", "make", "--wip"), ["--wipe-bcache"])
        self.assertIn("--without-cache", self.complete("ubcache", "serve", "--wi"))


class Install(unittest.TestCase):
    def test_parts_below_another_prefix_name_the_program_there(self):
        with tempfile.TemporaryDirectory(prefix="ubcache-install-") as root:
            run("make", "install", f"DESTDIR={root}", "PREFIX=/usr/local", f"BINARY={UBCACHE}",
                env={"MAKEFLAGS": ""})
            for name in ("etc/systemd/system/ubcache@.service",
                         "etc/udev/rules.d/61-ubcache.rules",
                         "etc/udev/rules.d/68-ubcache-assemble.rules",
                         "etc/initramfs-tools/hooks/ubcache",
                         "usr/lib/systemd/system-shutdown/ubcache.shutdown"):
                with open(os.path.join(root, name), encoding="utf-8") as file:
                    text = file.read()
                self.assertIn("/usr/local/bin/ubcache", text, name)
                self.assertNotIn("/usr/bin/ubcache", text, name)
            self.assertTrue(os.access(root + "/usr/local/bin/ubcache", os.X_OK))


if __name__ == "__main__":
    unittest.main(verbosity=1)
