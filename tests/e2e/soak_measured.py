"""Measured checks of `make soak`: they need minutes, or a machine that does nothing else, and so are not in `make test`.

Each prints its figures and judges them: the effect of a thousand stopped readers and of hostile constraints on other
streams, the effect of a busy process on the same machine on the time between tokens, and whether a proxy with a read
timeout stays connected over a prefill that is longer.
"""
import os
import select
import socket
import statistics
import subprocess
import sys
import threading
import time
import unittest

from harness import MODEL, Relay, ServerCase, eventually, figure, raw_request
from test_load import STORY, percentile


def gaps(port, seconds, model):
    """Times between what arrives of one stream after the other, each read at once."""
    body = {"model": model, "messages": STORY, "max_tokens": 4000, "ignore_eos": True, "stream": True, "seed": 1}
    out, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        with raw_request(port, "POST", "/v1/chat/completions", body) as stream:
            last = None
            while time.monotonic() < end and (data := stream.recv(1 << 16)):
                now = time.monotonic()
                if last is not None:
                    out.append(now - last)
                last = now
                if data.endswith(b"0\r\n\r\n"):
                    break
    return out


class StoppedReadersGaps(ServerCase):
    """The same stream with and without a thousand readers that have stopped, in turn."""
    TINY = True
    OPTIONS = ("--max-num-seqs", "32", "--queue", "2000", "--sched-queue-age-s", "0", "--kv-cache-bytes", "64MiB")
    READERS, ROUNDS, SECONDS, LIMIT = 1000, 5, 4, 1.2

    def stop_readers(self):
        readers = []
        for i in range(self.READERS):
            body = {"model": "tiny", "messages": STORY, "max_tokens": 8000, "ignore_eos": True, "stream": True, "seed": i}
            readers.append(raw_request(self.server.port, "POST", "/v1/chat/completions", body, receive_buffer=4096))
            self.addCleanup(readers[-1].close)
        paused = {"running": 0, "waiting": self.READERS}
        eventually(lambda: paused.items() <= self.server.load().items(), lambda: f"not all are paused: {self.server.load()}")
        return readers

    def test_others_notice_little(self):
        gaps(self.server.port, 2, "tiny")  # warm
        quiet, during = [], []
        for _ in range(self.ROUNDS):
            quiet.append(percentile(gaps(self.server.port, self.SECONDS, "tiny"), .99))
            self.server.wait_idle()
            readers = self.stop_readers()
            during.append(percentile(gaps(self.server.port, self.SECONDS, "tiny"), .99))
            self.assertEqual(self.server.metric("tutti_slow_reader_cancels_total"), 0, "they were paused all the time")
            for reader in readers:
                reader.close()
            self.server.wait_idle()
        ratio = statistics.median(during) / statistics.median(quiet)
        figure(f"others' gaps p99, {self.ROUNDS} rounds: {', '.join(f'{1e3 * t:.2f}' for t in quiet)} ms without and "
               f"{', '.join(f'{1e3 * t:.2f}' for t in during)} ms with {self.READERS} stopped readers; medians {ratio:.2f} x")
        self.assertLessEqual(ratio, self.LIMIT)


class BusyNeighbour(ServerCase):
    """Another process that takes all the processor time it gets, on cores that the compute threads use."""
    SECONDS, ROUNDS, LIMIT = 8, 3, 3.0

    def test_a_busy_process_does_not_stall_the_steps(self):
        gaps(self.server.port, 3, MODEL)  # warm
        medians, slowest, during = [], [], []
        for _ in range(self.ROUNDS):
            medians.append(statistics.median(gaps(self.server.port, self.SECONDS, MODEL)))
            # It also ends by itself, in case this test is killed.
            busy = subprocess.Popen([sys.executable, "-c", "import time\nend = time.time() + 60\nwhile time.time() < end: pass"])
            try:
                times = gaps(self.server.port, self.SECONDS, MODEL)
            finally:
                busy.kill()
                busy.wait()
            during.append(statistics.median(times))
            slowest.append(percentile(times, .99))
        quiet, median, p99 = (statistics.median(times) for times in (medians, during, slowest))
        # Compared with its own median: the other process's fair share of the cores makes every step longer, which is no
        # stall.
        figure(f"between tokens: median {quiet * 1e3:.1f} ms; with a busy process median {median * 1e3:.1f} ms, p99 {p99 * 1e3:.1f} ms "
               f"= {p99 / median:.2f} x its median, {p99 / quiet:.2f} x the quiet one; {os.cpu_count()} cores")
        self.assertLessEqual(p99, self.LIMIT * median)


class HostileGrammars(ServerCase):
    """A stream of free text while a client sends constraints that take as much work as the limits allow (R03)."""
    SECONDS, ROUNDS, LIMIT = 8, 5, 1.5
    # Each is compiled anew, because `number` makes it another text.
    SOURCES = (
        lambda number: {"guided_regex": f"{number}(a|b)*a(a|b){{40}}"},
        lambda number: {"guided_regex": f"{number}((a{{1,20}}){{1,20}}){{1,20}}"},
        lambda number: {"guided_regex": f"{number}(([a-z]|[a-f]|[0-9a-c]){{0,200}}x){{0,100}}"},
        lambda number: {"guided_json": {"enum": [f"{number}-{i}" for i in range(9000)]}},
        lambda number: {"guided_json": {"type": "object", "properties": {f"p{number}-{i}": {"type": "string"} for i in range(1500)}}},
        lambda number: {"guided_json": {"anyOf": [{"type": "object", "properties": {f"a{number}-{i}": {"type": "integer"}},
                                                   "required": [f"a{number}-{i}"]} for i in range(400)]}},
        lambda number: {"grammar": f'root ::= "{number}" ' + " ".join(f'("a{i}" | "b{i}")?' for i in range(2000))},
    )

    def send_constraints(self, stop, outcomes):
        number = 0
        while not stop.is_set():
            source = self.SOURCES[number % len(self.SOURCES)](number)
            number += 1
            status, _, text = self.server.post("/v1/chat/completions", {
                "model": MODEL, "messages": [{"role": "user", "content": "x"}], "max_tokens": 1, **source})
            outcomes.append((status, text))

    def test_a_stream_keeps_its_gaps(self):
        gaps(self.server.port, 3, MODEL)  # warm
        quiet, during, outcomes = [], [], []
        for _ in range(self.ROUNDS):
            quiet.append(percentile(gaps(self.server.port, self.SECONDS, MODEL), .99))
            stop = threading.Event()
            client = threading.Thread(target=self.send_constraints, args=(stop, outcomes))
            client.start()
            try:
                during.append(percentile(gaps(self.server.port, self.SECONDS, MODEL), .99))
            finally:
                stop.set()
                client.join()
        for status, text in outcomes:
            self.assertIn(status, (200, 400), text)
        ratio = statistics.median(during) / statistics.median(quiet)
        refused = sum(status == 400 for status, _ in outcomes)
        figure(f"gaps p99, {self.ROUNDS} rounds: {', '.join(f'{1e3 * t:.1f}' for t in quiet)} ms without and "
               f"{', '.join(f'{1e3 * t:.1f}' for t in during)} ms with {len(outcomes)} hostile constraints ({refused} refused); "
               f"medians {ratio:.2f} x")
        self.assertLessEqual(ratio, self.LIMIT)


class Proxy(Relay):
    """Passes bytes between clients and a port, and closes both sides if the port sends nothing for `timeout_s`."""

    def __init__(self, port, timeout_s):
        self.target, self.timeout_s = port, timeout_s
        self.timed_out = 0
        super().__init__()

    def serve(self, client):
        with client, socket.create_connection(("127.0.0.1", self.target)) as server:
            heard = time.monotonic()
            while True:
                left = heard + self.timeout_s - time.monotonic()
                if left <= 0:
                    self.timed_out += 1
                    return
                ready, _, _ = select.select([client, server], [], [], left)
                for side in ready:
                    data = side.recv(1 << 16)
                    if not data:
                        return
                    (server if side is client else client).sendall(data)
                    if side is server:
                        heard = time.monotonic()


class LongPrefillBehindAProxy(ServerCase):
    """One thread, scalar code and a prompt that takes it more than a minute."""
    OPTIONS = ("--isa", "scalar", "--threads", "1", "--context", "8192")
    TIMEOUT_S, PREFILL_S = 20, 60

    def proxy(self, port):
        proxy = Proxy(port, self.TIMEOUT_S)
        self.addCleanup(proxy.close)
        return proxy

    def prompt(self, tokens):
        return [1000 + (i * 7919) % 40000 for i in range(tokens)]

    def test_a_proxy_with_a_read_timeout_stays_connected(self):
        # The proxy does give up where nothing comes: a port that never answers.
        silent = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(silent.close)
        control = self.proxy(silent.getsockname()[1])
        waiting = socket.create_connection(("127.0.0.1", control.port))
        self.addCleanup(waiting.close)
        waiting.settimeout(3 * self.TIMEOUT_S)

        probe = 200
        begin = time.monotonic()
        self.server.post_json("/v1/completions", {"model": MODEL, "prompt": self.prompt(probe), "max_tokens": 1})
        tokens = min(8000, int(probe * 1.2 * self.PREFILL_S / (time.monotonic() - begin)))

        proxy = self.proxy(self.server.port)
        begin = time.monotonic()
        body = {"model": MODEL, "prompt": self.prompt(tokens)[::-1], "max_tokens": 8, "ignore_eos": True, "stream": True}
        stream = raw_request(proxy.port, "POST", "/v1/completions", body)
        self.addCleanup(stream.close)
        stream.settimeout(10 * self.TIMEOUT_S)
        text, comments, first = b"", [], None
        while not text.endswith(b"0\r\n\r\n"):
            data = stream.recv(1 << 16)
            self.assertTrue(data, f"closed after {time.monotonic() - begin:.0f} s: {text[-300:]}")
            text += data
            if first is None and b"data: " in data:
                first = time.monotonic() - begin
            elif first is None:
                comments.append(time.monotonic() - begin)
        figure(f"{tokens} tokens, first text after {first:.0f} s, before it the proxy heard something at "
               f"{', '.join(f'{t:.0f}' for t in comments)} s; its timeout is {self.TIMEOUT_S} s")
        self.assertGreater(first, self.PREFILL_S, "the prefill was long enough to show something")
        self.assertTrue(text.startswith(b"HTTP/1.1 200"), text[:80])
        self.assertGreaterEqual(text.count(b"\r\n:"), 3, text[:2000])
        self.assertIn(b'"finish_reason":"length"', text)
        self.assertIn(b"data: [DONE]", text)
        self.assertEqual(proxy.timed_out, 0)
        self.assertEqual(waiting.recv(1), b"", "the control was closed")
        self.assertEqual(control.timed_out, 1)


if __name__ == "__main__":
    unittest.main()
