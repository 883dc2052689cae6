"""perf_analyzer from the wheel of Triton's clients, with short measurement windows."""
import os
import pathlib
import re
import subprocess
import sys
import unittest

from host import SHORT, HostCase

WINDOW_MS = "250"
LEVELS = (1, 8) if SHORT else (1, 2, 4, 8)


class PerfAnalyzer(HostCase):
    SETTINGS = {"name": "triton"}

    def addresses(self):
        """Protocols that the host speaks, and where: one test for all of them."""
        return {"grpc": self.host.url, "http": self.host.http_url}

    def analyze(self, protocol, url, *words):
        program = pathlib.Path(sys.executable).parent / "perf_analyzer"
        library = next(pathlib.Path(sys.prefix).glob("lib/python*/site-packages/nvidia/cuda_runtime/lib"))
        environment = dict(os.environ, LD_LIBRARY_PATH=str(library))
        # Three windows of any spread: this checks the protocol, not the machine's speed.
        done = subprocess.run([str(program), "-i", protocol, "-u", url, "-p", WINDOW_MS, "-r", "3", "-s", "999", *words],
                              env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_it_measures_one_to_eight_calls_at_once(self):
        for protocol, url in self.addresses().items():
            for level in LEVELS:
                out = self.analyze(protocol, url, "-m", "simple", "--concurrency-range", f"{level}:{level}")
                rates = re.findall(r"^Concurrency: (\d+), throughput: ([\d.]+)", out, re.M)
                self.assertEqual([int(found) for found, _ in rates], [level], out)
                self.assertGreater(float(rates[0][1]), 10)
                # The server's own statistics, which the tool asks for before and after.
                self.assertGreater(int(re.search(r"Successful request count: (\d+)", out).group(1)), 0, out)
                self.assertGreater(int(re.search(r"Inference count: (\d+)", out).group(1)), 0, out)

    def test_it_goes_through_a_range(self):
        for protocol, url in self.addresses().items():
            out = self.analyze(protocol, url, "-m", "simple", "--concurrency-range", "1:3:2", "-a")
            self.assertEqual(re.findall(r"^Concurrency: (\d+),", out, re.M), ["1", "3"], out)

    def test_it_measures_shapes_and_texts(self):
        for protocol, url in self.addresses().items():
            self.analyze(protocol, url, "-m", "simple_identity", "--shape", "INPUT0:4")
            self.analyze(protocol, url, "-m", "cross", "--shape", "documents:4")

    def test_it_measures_sequences_on_a_stream(self):
        self.analyze("grpc", self.host.url, "-m", "simple_sequence", "--sequence-length", "5", "--streaming")


if __name__ == "__main__":
    unittest.main()
