"""A `bridge_host` process: commands in, events out."""
import json
import os
import pathlib
import queue
import signal
import subprocess
import tempfile
import threading
import time

from broker import PASSWORDS, PATIENCE_S


class Host:
    """A bridge to the broker `at` as the user llmserver. `settings` are those of host.cc; None takes one away."""

    def __init__(self, at, connect=True, **settings):
        self.folder = tempfile.TemporaryDirectory()
        self.secret = secret = pathlib.Path(self.folder.name, "password")
        secret.touch(mode=0o600)
        secret.write_text(settings.pop("password", PASSWORDS["llmserver"]) + "\n")
        self.log_path = pathlib.Path(self.folder.name, "log")
        given = {"broker": at.url, "client_id": "tutti-test", "username": "llmserver", "password_file": secret,
                 "filters": "llm/v1/+/+/in", "sink": "accept", "log": self.log_path, **settings}
        words = [f"{key}={value}" for key, value in given.items() if value is not None]
        self.process = subprocess.Popen([os.environ["BRIDGE_HOST"], *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)
        self.events = {}  # a queue for each kind
        self.lock = threading.Lock()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        if connect:
            self.next("connected")

    def _read(self):
        for line in self.process.stdout:
            event = json.loads(line)
            self._queue(event["event"]).put(event)

    def _queue(self, kind):
        with self.lock:
            return self.events.setdefault(kind, queue.Queue())

    def next(self, kind, timeout=PATIENCE_S):
        """The next event of a kind; fails where none comes."""
        try:
            return self._queue(kind).get(timeout=timeout)
        except queue.Empty:
            raise AssertionError(f"no {kind} within {timeout} s; log: {self.log()}") from None

    def many(self, kind, count, timeout=PATIENCE_S):
        return [self.next(kind, timeout) for _ in range(count)]

    def rest(self, kind):
        """The events that have already arrived."""
        events, waiting = [], self._queue(kind)
        while not waiting.empty():
            events.append(waiting.get())
        return events

    def do(self, what, **order):
        self.process.stdin.write(json.dumps({"do": what, **order}) + "\n")
        self.process.stdin.flush()

    def statistics(self):
        self.do("statistics")
        return self.next("statistics")

    def until(self, right, timeout=PATIENCE_S):
        """Waits for statistics for which `right` is true."""
        end = time.monotonic() + timeout
        while True:
            now = self.statistics()
            if right(now):
                return now
            assert time.monotonic() < end, f"still {now}; log: {self.log()}"
            time.sleep(0.02)

    def log(self):
        return self.log_path.read_text() if self.log_path.exists() else ""

    def stop(self, limit_ms=10_000):
        """The event that reports the result of Stop()."""
        self.do("stop", limit_ms=limit_ms)
        event = self.next("stopped")
        self.process.wait(PATIENCE_S)
        return event

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(PATIENCE_S)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.reader.join(PATIENCE_S)
        self.process.stdin.close()
        self.process.stdout.close()
        self.folder.cleanup()
