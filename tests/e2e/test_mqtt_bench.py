"""`tutti bench mqtt` at small sizes on the real model: its checks pass, and it reports its figures."""
import json
import os
import subprocess
import tempfile
import unittest

from harness import STEP_S, default_model


class Bench(unittest.TestCase):
    def test_every_part_is_answered_and_reported(self):
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "mqtt.json")
            done = subprocess.run([os.environ["E2E_BINARY"], "bench", "mqtt", default_model(), "--concurrency", "1,10", "--requests", "10",
                                   "--rounds", "1", "--tokens", "8", "--pairs", "1", "--pair-tokens", "8", "--bursts", "2", "--turns", "3",
                                   "--sessions", "20", "--json", out], capture_output=True, text=True, timeout=10 * STEP_S)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            with open(out) as file:
                figures = json.load(file)
        self.assertEqual(figures["schema"], "tutti.bench.mqtt.v1")
        self.assertTrue(figures["passed"])
        self.assertEqual([level["clients"] for level in figures["levels"]], [1, 10])
        for level in figures["levels"]:
            for way in ("mqtt", "http"):
                self.assertEqual((level[way]["answers"], level[way]["failed"]), (10, 0))
                self.assertGreater(level[way]["ttft_ms"]["p50"], 0)
            self.assertGreater(level["mqtt"]["accepted_ms"]["p50"], 0)
        self.assertEqual(figures["bursts"], {"repeats": 2, "in_order": 2})
        self.assertEqual(figures["dialog"]["turns"], 3)
        self.assertGreater(figures["dialog"]["cached_share"], 0)
        self.assertGreater(figures["holds"]["count"], 0)
        self.assertEqual(len(figures["gates"]), 4)
        self.assertIn("not judged", done.stdout)  # a smaller size has no gates
