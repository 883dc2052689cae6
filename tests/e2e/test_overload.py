"""Row N51: more load than the server can serve, as an open loop. `run.py --overload SECONDS` runs each level for that long with
the required limits. `make test` runs a few seconds of shorter requests with wider limits, as other programs share the machine:
a level must last many times as long as a request, else the answers that end within it say nothing about the rate."""
import json
import os
import subprocess
import tempfile
import threading
import time
import unittest

from harness import SANITIZER, RealModel, ServerCase, amount, figure, judged

SECONDS = float(os.environ.get("E2E_OVERLOAD", 0))  # of each level; 0: those of `make test`
FULL = SECONDS > 0
FACTORS = (1.2, 3, 10)
QUEUE = 16
TTFT_MS = 2000  # 16 places behind 8 sequences wait for two rounds of a request


class Resident:
    """Samples of a server's resident memory, with the time of each."""

    def __init__(self, server):
        self.server, self.samples, self.over = server, [], threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.over.wait(0.25):
            self.samples.append((time.monotonic(), self.server.resident_kib()))

    def stop(self):
        self.over.set()
        self.thread.join()

    def most(self, begin, end):
        return max(kib for at, kib in self.samples if begin <= at <= end)


class Overload(RealModel, ServerCase):
    # A cache that is soon full, so that what grows is something else.
    OPTIONS = ("--queue", str(QUEUE), "--kv-cache-bytes", "96MiB", "--http-access-log", "off")

    def bench(self, seconds, factors):
        """The figures of these levels, and the time at which the line of each level was printed."""
        with tempfile.TemporaryDirectory() as folder:
            out, times = os.path.join(folder, "overload.json"), {}
            command = [os.environ["E2E_BINARY"], "bench", "overload", "--url", self.server.url, "--seconds", str(seconds),
                       "--factors", ",".join(map(str, factors)), "--target-ttft-ms", str(TTFT_MS if FULL else 5 * TTFT_MS), "--json", out,
                       *([] if FULL else ["--back-within", "5", "--prompt-tokens", "16", "--max-tokens", "8"])]
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
                for line in process.stdout:
                    times[line.split(" x ")[0].strip()] = time.monotonic()
                    if FULL:
                        print("   ", line, end="", flush=True)
                errors = process.stderr.read()
            self.assertTrue(os.path.exists(out), errors)
            with open(out) as file:
                return json.load(file), [times[f"{factor:g}"] for factor in factors], errors

    def measure(self, resident, factors):
        """The rows of these levels, the most that was resident during each, and what the bench complains of."""
        begin, before = time.monotonic(), self.rejected()
        figures, ends, errors = self.bench(SECONDS or amount(2, 3, 4), factors)
        rows = figures["rows"]
        self.assertEqual([row["factor"] for row in rows], list(factors))
        peaks = [resident.most(*span) for span in zip([begin, *ends], ends)]
        for row, kib in zip(rows, peaks):
            figure(f"{row['factor']} x: {row['share_of_peak']:.1%} of {row['peak_req_s']:.1f} req/s, TTFT p99 "
                   f"{row['ttft_ms']['p99']:.0f} ms, {row['refused']} refused in {row['refusal_ms']['p50']:.2f} ms, p99 "
                   f"{row['refusal_ms']['p99']:.2f} ms, back after {row['back_s']:.1f} s, resident at most {kib} KiB")
        for row in rows:
            self.assertEqual(row["failed"], 0, errors)
            self.assertGreater(row["answered"], 0)
            if row["factor"] == FACTORS[-1]:
                self.assertGreater(row["refused"], row["answered"], "most of ten times the peak")
        self.assertEqual(self.rejected() - before, sum(row["refused"] for row in rows))
        self.server.wait_idle()
        return rows, peaks, errors

    def rejected(self):
        return self.server.metric("tutti_requests_rejected_total", code="queue_full")

    def too_slow(self, row):
        """Names of the values that miss the required limits, or those of `make test`."""
        missed = {"share_of_peak": row["share_of_peak"] < (0.9 if FULL else 0.5),
                  "ttft p99": row["ttft_ms"]["p99"] > (TTFT_MS if FULL else 5 * TTFT_MS),
                  "refusal p99": row["refusal_ms"]["p99"] > (10 if FULL else 100),
                  "back_s": row["back_s"] > 60}
        return [name for name, is_missed in missed.items() if is_missed]

    def test_what_exceeds_the_peak_is_refused_at_once(self):
        resident = Resident(self.server)
        self.addCleanup(resident.stop)
        rates_judged = judged("rates and times under overload", "latencies")
        rows, peaks, errors = self.measure(resident, FACTORS)
        if rates_judged:
            slow = [row for row in rows if self.too_slow(row)]
            # Another program of the suite may begin or end between two levels, which makes their peaks differ.
            tries = 0 if FULL else 3
            while slow and tries > 0:
                tries -= 1
                again, _, _ = self.measure(resident, [row["factor"] for row in slow])
                slow = [row for row in again if self.too_slow(row)]
            self.assertEqual([(row, self.too_slow(row)) for row in slow], [])
        if FULL:
            self.assertEqual(errors, "", "what the bench asks for")
        if judged("resident memory under overload", "a sanitizer keeps freed memory"):
            # Ten times the load may need this more than 1.2 times the load: 256 connections, no waiting requests.
            self.assertLessEqual(peaks[-1] - peaks[0], 16 << 10, f"KiB: {peaks}")
        self.assertFalse(SANITIZER and FULL, "the full amount is for the program as released")


if __name__ == "__main__":
    unittest.main()
