"""A `tutti serve` process for tests, and small helpers over plain sockets and http.client.

This module alone holds what a sanitized program changes: times, amounts, the model, and the checks that are not judged.

"""
import atexit
import functools
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

import tiny_model

MODEL = "smollm2-135m-instruct"
SANITIZER = os.environ.get("E2E_SANITIZER", "")  # "address", "thread", or none; run.py looks into the program
STAND_IN = bool(SANITIZER) or "E2E_STAND_IN" in os.environ  # see default_model(); the latter by `run.py --stand-in`
STAND_IN_AT_START = STAND_IN
LONGER = 3 if STAND_IN else 1  # for answers that must last while something else happens: its tokens come fast
SLOWER = {"": 1, "address": 2, "thread": 3}[SANITIZER]  # for limits that only a hang may meet
START_LIMIT_S = 180 * SLOWER  # a loaded machine packs the weights slowly
STEP_S = 60 * SLOWER          # longest wait for something that takes milliseconds on an idle machine
AMOUNT = os.environ.get("E2E_AMOUNT", "normal")


def amount(short, normal, full):
    """How much of a load: in slow (sanitized) builds, in `make test`, in `make soak`."""
    return {"short": short, "normal": normal, "full": full}[AMOUNT]


def figure(text):
    """A measured figure, shown where there is time to read it."""
    if AMOUNT == "full":
        print("   ", text, flush=True)


def judged(what, reason, by=("address", "thread")):
    """Whether a check makes sense in a program sanitized by one of `by`; run.py lists those that did not."""
    if SANITIZER not in by:
        return True
    with open(os.path.join(os.environ["E2E_REPORTS"], "left-out"), "a") as out:
        out.write(f"{what}: {reason}\n")
    return False


def grpc_streams():
    """Leaves out a test or class in which the program's threads meet in streams of gRPC."""
    return unittest.skipUnless(judged("calls over gRPC", "ThreadSanitizer does not see how the library hands over their data",
                                      by=("thread",)), "sanitized")


def sanitizer_report(pid):
    """The sanitizer's reports about a process. Deletes them, so that they do not make run.py fail."""
    text = ""
    for path in pathlib.Path(os.environ["E2E_REPORTS"]).glob(f"report*.{pid}"):
        text += path.read_text(errors="replace")
        path.unlink()
    return text


def default_model():
    """The name of the default model, or a file of that name with few weights for tests in which the real weights would
    only cost time. In `make test` they would take half of the time of these tests; under ThreadSanitizer they take 10 s
    to load and 0.2 s a token. Tests of model, runner and parity use the real weights in sanitized builds, and so do the
    classes of RealModel here with EVEN_SANITIZED."""
    return stand_in() if STAND_IN else MODEL


class RealModel:
    """A base for classes whose checks need the default model's own words or speed: they get its weights in `make test` too."""
    EVEN_SANITIZED = False  # where they take long

    @classmethod
    def setUpClass(cls):
        use_stand_in(bool(SANITIZER) and not cls.EVEN_SANITIZED)
        cls.addClassCleanup(use_stand_in, STAND_IN_AT_START)
        super().setUpClass()


def use_stand_in(use):
    global STAND_IN
    STAND_IN = use


@functools.cache
def stand_in(seed=1):
    """The default model's tokenizer and template over few weights: quick to load and to answer, in words that mean nothing."""
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    path = os.path.join(folder.name, MODEL + ".gguf")
    cache = os.environ.get("TUTTI_CACHE") or os.path.expanduser("~/.cache/tutti")
    tiny_model.write_stand_in(path, os.path.join(cache, "models", "SmolLM2-135M-Instruct.Q4_1.gguf"), seed)
    return path


class Server:
    """Serves the default model, or `model`, on a free port until stop(). `model` "": none, for `--models`."""

    def __init__(self, *options, model=None, environment=None, wait=True):
        models = [] if model == "" else [model or default_model()]
        self.command = [os.environ["E2E_BINARY"], "serve", *models, "--port", "0", *options]
        self.environment = dict(os.environ, **(environment or {}))
        self.start()
        # A port that a test found free may be taken since, and be it by this program's own `--port 0`.
        for _ in range(3 if wait else 0):
            if self.ready.wait(START_LIMIT_S) and self.port is None and "Address already in use" in self.log():
                self.process.wait()
                self.errors.close()
                self.start()
        if wait:
            self.wait_ready()

    def start(self):
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=self.errors, text=True, env=self.environment)
        self.port = None
        self.output = []
        self.ready = threading.Event()
        process, ready = self.process, self.ready

        def read():
            for line in process.stdout:
                self.output.append(line)
                found = re.search(r"serving .* at (https?)://[^ ]*:(\d+)", line)
                if found:
                    self.port = int(found.group(2))
                    ready.set()
            ready.set()

        self.reader = threading.Thread(target=read, daemon=True)
        self.reader.start()

    def wait_ready(self):
        if not self.ready.wait(START_LIMIT_S) or self.port is None:
            self.process.kill()
            self.process.wait()
            raise RuntimeError(f"tutti serve did not start: {''.join(self.output)}{self.log()}")

    def wait_listening(self):
        """Until the port is open, which it is before the model answers."""
        def listening():
            found = re.search(r"http\.listening.*?:(\d+)", self.log())
            self.port = int(found.group(1)) if found else None
            return found or self.process.poll() is not None
        eventually(listening, self.log)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def log(self):
        # Not by seek(): the program writes through the same file description.
        return os.pread(self.errors.fileno(), 1 << 26, 0).decode(errors="replace")

    def expect_log(self, *patterns):
        """Waits until the log has each of them, and returns it. The program writes its log from a thread of its own, so
        a line may come after the answer to the request that caused it."""
        for pattern in patterns:
            eventually(lambda: re.search(pattern, self.log()), lambda: f"no {pattern!r} in the log:\n{self.log()}")
        return self.log()

    def resident_kib(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status).group(1))

    def cpu_s(self):
        """Processor time of all threads so far."""
        total = 0
        for task in pathlib.Path(f"/proc/{self.process.pid}/task").iterdir():
            total += int((task / "schedstat").read_text().split()[0])
        return total / 1e9

    def stop(self):
        """SIGTERM; the exit status. A report of a sanitizer is an error, however the process ended."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(STEP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        finally:
            self.reader.join(STEP_S)
            self.process.stdout.close()
            log = self.log()
            self.errors.close()
            report = sanitizer_report(self.process.pid)
            if "runtime error: " in log:  # gcc's UndefinedBehaviorSanitizer writes no file when combined with another sanitizer
                report += log
            if report:
                raise AssertionError(f"exit status {self.process.poll()}; {report}")

    def request(self, method, path, body=None, headers=None):
        """(status, headers, body text) of one request on a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=STEP_S)
        try:
            data = None if body is None else body if isinstance(body, (bytes, str)) else json.dumps(body)
            connection.request(method, path, data, {"Content-Type": "application/json", **(headers or {})})
            response = connection.getresponse()
            return response.status, response.headers, response.read().decode()
        finally:
            connection.close()

    def get(self, path, **kwargs):
        return self.request("GET", path, **kwargs)

    def post(self, path, body, **kwargs):
        return self.request("POST", path, body, **kwargs)

    def post_json(self, path, body):
        status, _, text = self.post(path, body)
        if status != 200:
            raise AssertionError(f"{path}: {status} {text[:500]}")
        return json.loads(text)

    def load(self):
        return json.loads(self.get("/load")[2])

    def metric(self, name, **labels):
        """The sum of a metric over the series that have these labels."""
        total = 0.0
        for line in self.get("/metrics")[2].splitlines():
            if re.match(re.escape(name) + r"[{ ]", line) and all(f'{k}="{v}"' in line for k, v in labels.items()):
                total += float(line.rsplit(" ", 1)[1])
        return total

    def models(self):
        return [model["id"] for model in json.loads(self.get("/v1/models")[2])["data"]]

    def wait_models(self, count):
        """Until all that were named are served; the first of them makes the server ready."""
        eventually(lambda: len(self.models()) == count, lambda: f"served: {self.models()}", START_LIMIT_S)

    def wait_idle(self):
        """Until nothing runs, nothing waits and no block is held."""
        eventually(lambda: all(self.load()[key] == 0 for key in ("running", "waiting", "kv_blocks_used")),
                   lambda: f"still busy: {self.load()}")


class Relay:
    """Accepts connections on a free port, and calls serve(client) for each, on a thread of its own."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def close(self):
        self.listener.close()


def eventually(condition, message=lambda: "condition", limit_s=STEP_S):
    end = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(message())
        time.sleep(0.01)


def events(text):
    """The events of a stream, each without its last line end. Comments, which a server with nothing to say sends to be
    seen alive, are none."""
    return [event for event in text.split("\n\n") if event and not event.startswith(":")]


def free_port():
    """A port of 127.0.0.1 on which no process listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def make_key(store, name, *options):
    """The secret of a new key of a store."""
    done = subprocess.run([os.environ["E2E_BINARY"], "keys", "create", name, "--store", store, "--json", *options],
                          capture_output=True, text=True, timeout=STEP_S)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["secret"]


def raw_request(port, method, path, body, receive_buffer=None):
    """A connected socket that has sent a request and read nothing."""
    connection = socket.socket()
    connection.settimeout(STEP_S)
    if receive_buffer:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    connection.connect(("127.0.0.1", port))
    data = json.dumps(body).encode()
    head = (f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(data)}\r\n\r\n")
    connection.sendall(head.encode() + data)
    return connection


def stopped_at_call(folder, call, kind="kill"):
    """The environment of a program that is killed, or finds its disk full, at one call that changes files. With `call` 0 it counts them
    into the file `count` of the folder."""
    library = os.path.join(folder, "stop_at_call.so")
    if not os.path.exists(library):
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stop_at_call.cc")
        subprocess.run(["c++", "-O1", "-std=c++20", "-fPIC", "-shared", "-o", library, source], check=True)
    return {"LD_PRELOAD": library, "STOP_CALL": str(call), "STOP_KIND": kind, "STOP_COUNT": os.path.join(folder, "count")}


class ServerCase(unittest.TestCase):
    """One server for the tests of a class."""
    OPTIONS = ()
    ENVIRONMENT = {}
    TINY = False  # the generated checkpoint instead of the default model

    @classmethod
    def setUpClass(cls):
        model = None
        if cls.TINY:
            folder = tempfile.TemporaryDirectory()
            cls.addClassCleanup(folder.cleanup)
            model = os.path.join(folder.name, "tiny.gguf")
            tiny_model.write(model)
        cls.server = Server(*cls.OPTIONS, model=model, environment=cls.ENVIRONMENT)

    @classmethod
    def tearDownClass(cls):
        status = cls.server.stop()
        assert status == 0, f"exit status {status} after SIGTERM"
