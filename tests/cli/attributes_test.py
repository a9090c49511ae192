"""Attributes: reading, setting and the commands among them, as `ubcache get` and `set` do."""

import json
import os
import unittest

import support
from served import DaemonTest, eventually, qemu_io


@unittest.skipUnless(support.real("qemu-io"), "qemu-io is not installed")
class AttributesTest(DaemonTest):
    def get(self, *arguments):
        return self.ask("get", *arguments).rstrip("\n")

    def test_one_value_stands_alone_in_the_kernels_format(self):
        self.start()
        self.assertEqual(self.get("cache_mode", "--volume", "home"),
                         "writethrough [writeback] writearound none")
        self.assertEqual(self.get("sequential_cutoff"), "4.0M")
        self.assertEqual(self.get("writeback_percent"), "10")
        self.assertEqual(self.get("state"), "clean")
        self.assertEqual(self.get("tree_depth"), "0")
        self.assertEqual(self.get("cutoff_writeback"), "40")
        self.assertEqual(self.get("readahead_cache_policy"), "[all] meta-only")
        self.assertEqual(self.get("feature_incompat"), "large_bucket")
        self.assertEqual(self.get("running"), "1")

    def test_several_values_say_whose_they_are(self):
        self.start()
        lines = self.get("bucket_size", "dirty_data").split("\n")
        self.assertEqual(lines, ["set: bucket_size = 64.0k", "cache: bucket_size = 64.0k",
                                 "home: dirty_data = 0.0k"])

    def test_all_values_as_json_have_units(self):
        self.start()
        answer = json.loads(self.ask("get", "--json"))
        delay = answer["set"]["journal_delay_ms"]
        self.assertIn("journal entry", delay.pop("meaning"))
        self.assertEqual(delay, {"value": "100", "number": 100, "unit": "milliseconds",
                                 "setting": True, "writable": True})
        self.assertEqual(answer["volumes"]["home"]["sequential_cutoff"]["number"], 4 << 20)
        for window in ("total", "five_minute", "hour", "day"):
            self.assertIn(f"stats_{window}/cache_hits", answer["set"])
            self.assertIn(f"stats_{window}/bypassed", answer["volumes"]["home"])

    def test_an_unknown_name_is_refused_with_a_better_one(self):
        self.start()
        self.assertIn("did you mean cache_mode?", self.ask("get", "cache_mod", code=1))
        self.assertIn("only be set", self.ask("get", "trigger_gc", code=1))

    def test_text_of_several_lines_has_the_kernels_names_and_tabs(self):
        self.start()
        stats = self.get("priority_stats").split("\n")
        self.assertEqual([line.split("\t")[0] for line in stats],
                         ["Unused:", "Clean:", "Dirty:", "Metadata:", "Average:",
                          "Sectors per Q:", "Quantiles:"])
        self.assertRegex(stats[0], r"^Unused:\t\t\d+%$")
        self.assertRegex(stats[6], r"^Quantiles:\t\[(\d+ ){30}\d+\]$")
        debug = self.get("writeback_rate_debug").split("\n")
        self.assertRegex(debug[0], r"^rate:\t\t\d+\.\d[kM]/sec$")
        self.assertRegex(debug[6], r"^next io:\t-?\d+ms$")
        self.assertEqual(len(debug), 7)

    def test_every_setting_can_be_set_to_what_it_is(self):
        self.start()
        answer = json.loads(self.ask("get", "--json"))
        settings = {**answer["set"], **answer["volumes"]["home"]}
        for name, value in settings.items():
            if value.get("setting"):
                self.ask("set", f"{name}={value['number']}")

    def test_fragment_terms_stay_ascending(self):
        self.start()
        self.ask("set", "writeback_rate_fp_term_low=500")
        self.assertEqual(self.get("writeback_rate_fp_term_low"), "10")

    def test_clear_stats_begins_the_total_anew(self):
        self.start()
        qemu_io(self.uri, "write 0 64k", "read 0 64k")
        self.assertNotEqual(self.get("stats_total/cache_hits", "--volume", "home"), "0")
        self.ask("set", "clear_stats=1", "--volume", "home")
        self.assertEqual(self.get("stats_total/cache_hits", "--volume", "home"), "0")

    def test_garbage_collection_fills_in_what_it_saw(self):
        self.start()
        qemu_io(self.uri, "write 0 64k", "write 1M 32k", "flush")
        self.assertEqual(self.get("average_key_size"), "0.0k")
        self.ask("set", "trigger_gc=1")
        self.assertTrue(eventually(lambda: self.get("average_key_size") == "48.0k"))
        self.assertEqual(self.get("btree_nodes"), "1")

    def test_detach_is_begun_and_attach_joins_the_set_again(self):
        self.start()
        uuid = self.status()["set"]["uuid"]
        qemu_io(self.uri, "write -P 7 0 64k", "flush")
        self.assertIn("attached already",
                      self.ask("set", f"attach={uuid}", "--volume", "home", code=1))
        self.ask("set", "detach=1", "--volume", "home")
        self.assertTrue(eventually(lambda: self.get("state") == "no cache"))
        wrong = uuid[:-1] + ("0" if uuid[-1] != "0" else "1")
        self.assertIn("not the uuid",
                      self.ask("set", f"attach={wrong}", "--volume", "home", code=1))
        self.ask("set", f"attach={uuid}", "--volume", "home")
        self.assertEqual(self.get("state"), "clean")
        qemu_io(self.uri, "read -P 7 0 64k")

    def test_a_flash_only_volume_has_a_size_and_no_cache_mode(self):
        self.start()
        self.ask("set", "flash_vol_create=8M")
        names = [v["name"] for v in self.status()["volumes"]]
        flash = [name for name in names if name != "home"][0]
        self.assertEqual(self.get("size", "--volume", flash), "8.0M")
        self.assertIn("volumes of this kind have none",
                      self.ask("set", "cache_mode=none", "--volume", flash, code=1))
        self.assertNotIn("writeback_percent",
                         json.loads(self.ask("get", "--json"))["volumes"][flash])

    def test_stop_ends_the_daemon_and_unregister_writes_back_first(self):
        self.start()
        self.ask("set", "stop=1")
        self.assertEqual(self.ended(), 0)
        self.start()
        qemu_io(self.uri, "write -P 9 0 64k", "flush")
        self.ask("set", "unregister=1")
        self.assertEqual(self.ended(), 0)
        shown = support.ubcache("show", "disk", cwd=self.dir).stdout.decode()
        self.assertIn("[detached]", shown)
        data = self.bytes_of("disk", 8192 + 65536)[8192:]
        self.assertEqual(data, b"\x09" * 65536)

    def test_the_manual_has_a_line_for_every_attribute(self):
        self.start()
        answer = json.loads(self.ask("get", "--json"))
        manual = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/operations.md")
        with open(manual, encoding="utf-8") as file:
            text = file.read()
        names = {*answer["set"], *answer["cache"], *answer["volumes"]["home"]}
        missing = [name for name in names
                   if f"`{name.removeprefix('internal/')}`" not in text
                   and not name.startswith("stats_")]
        self.assertEqual(missing, [])


if __name__ == "__main__":
    unittest.main()
