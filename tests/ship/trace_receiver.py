#!/usr/bin/env python3
"""Traces in a receiver that is not ours (R43): MLflow takes OTLP over HTTP, keeps the spans, and gives them back.

usage: trace_receiver.py [--tutti build/release/tutti] [--venv build/ship/trace-venv] [--requests 20]

A server sends the traces of chats with a W3C context and of chats without one, streams among them. MLflow must have each trace, with the
stages in order, one after another within the request, and with their times adding up to it; the request's own span lasts as long as its
client waited, or less. Everything listens on 127.0.0.1.
"""
import argparse
import json
import os
import pathlib
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/support"), str(ROOT / "tests/e2e")]
from harness import free_port  # noqa: E402
from virtual_environment import make_venv  # noqa: E402

MODEL = "smollm2-135m-instruct"
ROUTE, ROOT_SPAN = "/v1/chat/completions", "chat.completions"
STAGES = ["receive", "prepare", "queue", "prefill", "decode", "send"]
START_S, SEEN_S = 180, 120
BETWEEN_MS = 5  # of a request in which no stage runs, at the median
# Prints every trace that MLflow has, as it has them.
READ = """
import json, mlflow, sys
mlflow.set_tracking_uri(sys.argv[1])
traces = mlflow.search_traces(locations=["0"], return_type="list", max_results=500)
json.dump([[{"trace": each.trace_id, "id": each.span_id, "name": each.name, "parent": each.parent_id, "begin": each.start_time_ns,
             "end": each.end_time_ns, "tokens": each.attributes.get("gen_ai.usage.output_tokens")} for each in one.data.spans]
           for one in traces], sys.stdout)
"""


class Process:
    def __init__(self, name, port, command, folder, **environment):
        self.name, self.url, self.log = name, f"http://127.0.0.1:{port}", folder / f"{name}.log"
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                                            env={**os.environ, **environment}, start_new_session=True)

    def wait(self, path):
        end = time.monotonic() + START_S
        while time.monotonic() < end and self.process.poll() is None:
            try:
                urllib.request.urlopen(self.url + path, timeout=10).close()
                return
            except OSError:
                time.sleep(0.3)
        sys.exit(f"{self.name} did not start: {self.log.read_text()[-3000:]}")

    def stop(self):
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, number)
                self.process.wait(60)
                return
            except (ProcessLookupError, subprocess.TimeoutExpired):
                continue


def chat(server, number):
    """The ids of the trace and of its first span, the client's milliseconds, and the tokens that were generated."""
    body = {"model": MODEL, "max_tokens": 8 + number, "temperature": 0, "messages": [{"role": "user", "content": f"{number} " + "a river " * 40}]}
    headers = {"Content-Type": "application/json"}
    if number % 2:
        headers["traceparent"] = f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01"
    if number % 3 == 0:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    begin = time.monotonic()
    with urllib.request.urlopen(urllib.request.Request(server.url + ROUTE, json.dumps(body).encode(), headers), timeout=120) as answer:
        text, response = answer.read().decode(), answer.headers["traceresponse"].split("-")
    took_ms = (time.monotonic() - begin) * 1000
    if "traceparent" in headers and headers["traceparent"].split("-")[1] != response[1]:
        sys.exit(f"the answer names trace {response[1]}, the request {headers['traceparent']}")
    last = text if "stream" not in body else [each for each in text.splitlines() if '"usage":{' in each][-1].removeprefix("data: ")
    return response[1], response[2], took_ms, json.loads(last)["usage"]["completion_tokens"]


def check(spans, trace_id, root_id, took_ms, tokens):
    """Milliseconds of the request that belong to no stage."""
    root = next((each for each in spans if each["id"] == root_id), None)
    if root is None or root["name"] != ROOT_SPAN:
        sys.exit(f"trace {trace_id}: no first span {root_id}: {spans}")
    if root["tokens"] != tokens:
        sys.exit(f"trace {trace_id}: {root['tokens']} tokens, the answer had {tokens}")
    stages = sorted((each for each in spans if each["parent"] == root_id), key=lambda each: each["begin"])
    if [each["name"] for each in stages] != STAGES:
        sys.exit(f"trace {trace_id}: stages {[each['name'] for each in stages]}")
    edges = [root["begin"]] + [time_ns for each in stages for time_ns in (each["begin"], each["end"])] + [root["end"]]
    if edges != sorted(edges):
        sys.exit(f"trace {trace_id}: the stages overlap or leave the request: {edges}")
    prefill = stages[STAGES.index("prefill")]
    steps = [each for each in spans if each["parent"] == prefill["id"]]
    if not steps or any(not prefill["begin"] <= each["begin"] <= each["end"] <= prefill["end"] for each in steps):
        sys.exit(f"trace {trace_id}: steps of the prompt {steps}")
    lasted_ms = (root["end"] - root["begin"]) / 1e6
    if lasted_ms > took_ms:
        sys.exit(f"trace {trace_id}: the request lasted {lasted_ms} ms, its client waited for {took_ms} ms")
    return lasted_ms - sum(each["end"] - each["begin"] for each in stages) / 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tutti", type=pathlib.Path, default=ROOT / "build/release/tutti")
    parser.add_argument("--venv", type=pathlib.Path, default=ROOT / "build/ship/trace-venv", help="made if it is not there [build/ship/trace-venv]")
    parser.add_argument("--requests", type=int, default=20)
    args = parser.parse_args()
    if not args.tutti.exists():
        sys.exit(f"{args.tutti} is missing: make build")
    python = make_venv(args.venv, pathlib.Path(__file__).with_name("trace-requirements.txt"))
    folder, processes = pathlib.Path(tempfile.mkdtemp(prefix="trace-receiver-")), []
    try:
        port = free_port()
        receiver = Process("mlflow", port, [python.with_name("mlflow"), "server", "--backend-store-uri", f"sqlite:///{folder}/traces.db",
                                            "--default-artifact-root", folder, "--host", "127.0.0.1", "--port", port, "--workers", 1], folder)
        processes.append(receiver)
        receiver.wait("/health")
        port = free_port()
        server = Process("tutti", port, [args.tutti, "serve", MODEL, "--port", port, "--grpc-port", 0, "--store", "memory", "--traces-endpoint",
                                         receiver.url], folder, OTEL_EXPORTER_OTLP_HEADERS="x-mlflow-experiment-id=0")
        processes.append(server)
        server.wait("/readyz")
        asked = [chat(server, number) for number in range(args.requests)]

        end, found = time.monotonic() + SEEN_S, {}
        while time.monotonic() < end and not all(trace_id in found for trace_id, *_ in asked):
            done = subprocess.run([python, "-c", READ, receiver.url], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
            if done.returncode != 0:
                sys.exit(f"MLflow's client failed: {done.stderr[-3000:]}")
            # Its ids are those of OpenTelemetry behind a prefix.
            found = {spans[0]["trace"].removeprefix("0x").removeprefix("tr-"): spans for spans in json.loads(done.stdout) if spans}
        missing = [trace_id for trace_id, *_ in asked if trace_id not in found]
        if missing:
            sys.exit(f"MLflow has {len(asked) - len(missing)} of {len(asked)} traces: {server.log.read_text()[-2000:]}")
        between = sorted(check(found[trace_id], trace_id, *rest) for trace_id, *rest in asked)
        middle = between[len(between) // 2]
        print(f"MLflow has {len(asked)} of {len(asked)} traces, {sum(len(found[each[0]]) for each in asked)} spans; between the stages of a request "
              f"are {middle:.2f} ms at the median, {between[-1]:.2f} ms at most")
        if middle > BETWEEN_MS:
            sys.exit(f"the stages do not add up to the requests: {middle:.2f} ms are between them, at most {BETWEEN_MS} are expected")
    finally:
        for process in reversed(processes):
            process.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
