"""The metrics endpoint, and that the dashboard and alert rules use only what it has."""

import json
import os
import re
import socket
import subprocess
import unittest

import support
from served import DaemonTest, PATIENCE, qemu_io

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/monitoring")


class MetricsTest(DaemonTest):
    def start(self, *options, **named):
        self.metrics = self.path("metrics.sock")
        return super().start("--metrics", "unix:" + self.metrics, "--set-option",
                             "writeback_running=0", *options, **named)

    def send(self, *parts, end=False):
        """All that the server answers to these bytes."""
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(PATIENCE)
            client.connect(self.metrics)
            answer = b""
            try:
                for part in parts:
                    client.sendall(part)
                if end:
                    client.shutdown(socket.SHUT_WR)
                while chunk := client.recv(65536):
                    answer += chunk
            except (BrokenPipeError, ConnectionResetError):
                pass
            return answer.decode()

    def scrape(self, accept="text/plain"):
        request = f"GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\n\r\n"
        head, body = self.send(request.encode()).split("\r\n\r\n", 1)
        self.assertIn("200 OK", head)
        self.assertIn(f"Content-Length: {len(body)}", head)
        return body

    def names(self, body):
        return {re.match(r"\w+", line).group() for line in body.split("\n")
                if line and line[0] != "#"}


@unittest.skipUnless(support.real("qemu-io"), "qemu-io is not installed")
class Scraping(MetricsTest):
    def value(self, body, name, *labels):
        for line in body.split("\n"):
            if line.startswith(name + "{") and all(label in line for label in labels):
                return float(line.split(" ")[-1])
        raise AssertionError(f"no {name} with {labels}")

    def test_counts_and_latencies_of_requests(self):
        self.start()
        qemu_io(self.uri, "write 0 64k", "read 0 64k", "read 1M 4k", "flush")
        body = self.scrape()
        self.assertEqual(self.value(body, "ubcache_volume_cache_hits_total", 'volume="home"'), 1)
        self.assertEqual(self.value(body, "ubcache_volume_dirty_data_bytes"), 65536)
        self.assertEqual(self.value(body, "ubcache_volume_requests_total", 'op="write"',
                                    'reason="cached"'), 1)
        latency = "ubcache_volume_device_latency_seconds"
        for device, op in (("cache", "read"), ("cache", "write"), ("backing", "read")):
            labels = (f'device="{device}"', f'op="{op}"')
            count = self.value(body, latency + "_count", *labels)
            self.assertGreaterEqual(count, 1)
            self.assertEqual(self.value(body, latency + "_bucket", 'le="+Inf"', *labels), count)
            self.assertGreater(self.value(body, latency + "_sum", *labels), 0)
            buckets = [float(line.split(" ")[-1]) for line in body.split("\n")
                       if line.startswith(latency + "_bucket") and all(x in line for x in labels)]
            self.assertEqual(buckets, sorted(buckets))
            self.assertEqual((buckets[0], buckets[-2]), (0, count))  # 1 us ... 17 s
        self.assertEqual(self.value(body, "ubcache_set_failed"), 0)
        self.assertEqual(self.value(body, "ubcache_set_congested_read_threshold_seconds"), 0.002)

    @unittest.skipUnless(support.real("promtool"), "promtool is not installed")
    def test_promtool_finds_nothing_to_say(self):
        self.start()
        qemu_io(self.uri, "write 0 64k", "read 0 64k")
        done = subprocess.run([support.real("promtool"), "check", "metrics"], text=True,
                              input=self.scrape(), capture_output=True, timeout=PATIENCE)
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))

    def test_openmetrics_for_who_asks_for_it(self):
        self.start()
        body = self.scrape("application/openmetrics-text; version=1.0.0")
        self.assertTrue(body.endswith("\n# EOF\n"))
        types = dict(re.findall(r"^# TYPE (\w+) (\w+)$", body, re.M))
        self.assertEqual(types["ubcache_volume_cache_hits"], "counter")
        for name in self.names(body):
            family = re.sub(r"_(total|bucket|sum|count)$", "", name)
            self.assertIn(family if family in types else name, types)

    def test_a_label_cannot_break_a_line(self):
        self.start()
        self.ask("set", 'label=a"b\\c')
        self.ask("stop")
        self.ended()
        self.start()
        self.assertIn('volume="a\\"b\\\\c"', self.scrape())

    def test_a_tcp_address_beyond_the_loopback_has_to_be_allowed(self):
        refused = support.ubcache("serve", "--cache", "ssd", "--control", self.path("c.sock"),
                                  "--metrics", "0.0.0.0:0", cwd=self.dir)
        self.assert_one_line_error(refused, "--metrics-anywhere")
        said = DaemonTest.start(self, "--metrics", "localhost:0")
        self.assertRegex(said, r"metrics: http://127\.0\.0\.1:\d+/metrics")


class HostileClients(MetricsTest):
    def test_other_requests_are_refused(self):
        self.start()
        for request, status in (("GET / HTTP/1.1", "404"), ("POST /metrics HTTP/1.1", "405"),
                                ("GET /metrics", "400"), ("\0\0\0", "400"), ("", "400")):
            answer = self.send(request.encode() + b"\r\n\r\n")
            self.assertTrue(answer.startswith(f"HTTP/1.1 {status} "), (request, answer))

    def test_a_head_without_end_is_cut_off(self):
        self.start()
        answer = self.send(*[b"X" * 1000] * 64)
        self.assertTrue(answer == "" or answer.startswith("HTTP/1.1 431 "), answer)
        self.assertEqual(self.send(b"GET /metrics HTTP/1.1\r\n", end=True), "")
        self.scrape()

    def test_silent_clients_do_not_keep_others_out_for_ever(self):
        self.start()
        silent = [socket.socket(socket.AF_UNIX) for _ in range(20)]
        for client in silent:
            self.addCleanup(client.close)
            client.connect(self.metrics)
        self.scrape()  # when the first have been cut off
        self.ask("stop")
        self.assertEqual(self.ended(), 0)


class Examples(MetricsTest):
    def used(self, name):
        with open(os.path.join(EXAMPLES, name), encoding="utf-8") as file:
            return set(re.findall(r"\bubcache_\w+", file.read()))

    def test_dashboard_and_alerts_use_metrics_that_there_are(self):
        self.start()
        have = self.names(self.scrape())
        for name in ("dashboard.json", "alerts.yml"):
            used = self.used(name)
            self.assertGreater(len(used), 3)
            self.assertEqual(used - have, set(), name)

    def test_the_dashboard_is_json_with_a_query_in_every_panel(self):
        with open(os.path.join(EXAMPLES, "dashboard.json"), encoding="utf-8") as file:
            panels = json.load(file)["panels"]
        self.assertTrue(all(panel["targets"][0]["expr"] for panel in panels))
        self.assertEqual(len({panel["id"] for panel in panels}), len(panels))

    @unittest.skipUnless(support.real("promtool"), "promtool is not installed")
    def test_promtool_accepts_the_alert_rules(self):
        rules = os.path.join(EXAMPLES, "alerts.yml")
        done = support.run(support.real("promtool"), "check", "rules", rules)
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
