"""Settings files: the defaults, what a daemon starts with, and saving what it has."""

import json
import re
import unittest

import support
from served import DaemonTest
from support import ubcache


class SettingsTest(DaemonTest):
    def defaults(self):
        done = ubcache("config", "--defaults")
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.decode()

    def settings(self, text, name="settings.toml"):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)

    def value(self, name):
        return self.ask("get", name).rstrip("\n")

    def test_the_defaults_are_what_a_daemon_has(self):
        uncommented = re.sub(r"(?m)^# (?=\w+ = )", "", self.defaults())
        self.start()
        before = self.ask("get", "--json")
        self.ask("stop")
        self.ended()
        self.start("--config", self.settings(uncommented))
        after = json.loads(self.ask("get", "--json"))
        count = 0
        for name, value in {**json.loads(before)["set"],
                            **json.loads(before)["volumes"]["home"]}.items():
            if value.get("setting"):
                now = {**after["set"], **after["volumes"]["home"]}[name]
                self.assertEqual(now, value, name)
                self.assertIn(name.removeprefix("internal/") + " = ", uncommented)
                count += 1
        self.assertGreater(count, 15)

    def test_a_file_sets_what_the_command_line_does_not(self):
        path = self.settings('[set]\njournal_delay_ms = 50\ncache_grace = 5\n'
                             '[volume]\nsequential_cutoff = "1M"\nwriteback_running = false\n'
                             '[volumes.home]\nwriteback_percent = 20\n'
                             '[volumes.other]\nwriteback_delay = 3\n')
        self.start("--config", path, "--set-option", "cache_grace=7")
        self.assertEqual(self.value("journal_delay_ms"), "50")
        self.assertEqual(self.value("cache_grace"), "7")
        self.assertEqual(self.value("sequential_cutoff"), "1.0M")
        self.assertEqual(self.value("writeback_running"), "0")
        self.assertEqual(self.value("writeback_percent"), "20")
        self.assertEqual(self.value("writeback_delay"), "30")

    def test_what_was_saved_is_there_after_a_restart(self):
        self.start()
        self.ask("set", "writeback_percent=25", "sequential_cutoff=12345", "journal_delay_ms=7",
                 "idle_max_writeback_rate=0")
        self.assertIn("saved to", self.ask("config", "--save", "saved.toml"))
        self.ask("stop")
        self.ended()
        self.start("--config", self.path("saved.toml"))
        self.assertEqual(self.value("writeback_percent"), "25")
        self.assertEqual(self.value("sequential_cutoff"), "12.0k")
        self.assertEqual(self.value("journal_delay_ms"), "7")
        self.assertEqual(self.value("idle_max_writeback_rate"), "0")
        saved = self.ask("config", "--save", "-")
        self.assertEqual(saved.count(" = "), 4)
        self.assertNotIn("writeback_delay", saved)

    def refusal(self, text):
        path = self.settings(text)
        refused = ubcache("serve", "--cache", "ssd", "--control", self.control, "--config", path,
                          cwd=self.dir)
        self.assertNotEqual(refused.returncode, 0)
        said = refused.stderr.decode()
        self.assertEqual(len(said.strip().split("\n")), 1, said)
        return said

    def test_a_mistake_is_named_with_its_line(self):
        self.assertIn("settings.toml:2", self.refusal("[set]\njournal_delay_ms = \n"))
        self.assertIn("did you mean journal_delay_ms?",
                      self.refusal("[set]\njournal_delay = 5\n"))
        self.assertIn("out of range", self.refusal("[volume]\nwriteback_percent = 99\n"))
        self.assertIn("settings.toml:2 ", self.refusal("[volume]\nwriteback_percent = 99\n"))
        self.assertIn("[volumes.NAME]", self.refusal("[volumen]\nwriteback_percent = 9\n"))
        self.assertIn("a number or a text", self.refusal("[volume]\nwriteback_percent = [1]\n"))
        self.assertIn("can be set", self.refusal("[set]\nstop = 1\n"))
        self.assertIn("No such file", ubcache("serve", "--cache", "ssd", "--config", "none",
                                              cwd=self.dir).stderr.decode())


if __name__ == "__main__":
    unittest.main()
