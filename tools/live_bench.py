#!/usr/bin/env python3
"""What watchers of the live state cost: output tokens/s of running requests with and without them.

    tools/live_bench.py --tutti build/release/tutti [--model FILE] [--streams 8] [--seconds 10] [--pairs 5] [--watchers 1]

Starts a server of its own. Requests run all the time, in a closed loop. Phases alternate: without a watcher, and with --watchers streams of
/admin/events?interval_ms=250, one of which also asks for the trace of a request once a second. The greedy texts of both kinds of phases
must be equal. Prints the median of the ratios of neighbouring phases, in which drifts of the machine cancel out. Run it on an idle machine;
the requirement is a loss below 1 %. Exit status 1 if a request failed, a text differs, or the loss is above --limit.
"""
import argparse
import http.client
import json
import re
import statistics
import subprocess
import sys
import threading
import time

PROMPTS = ["Tell a long story about a fox.", "Describe the sea.", "How is bread made?", "Write about the stars.",
           "What is a river?", "Explain how a clock works.", "Name many animals.", "Tell the history of a small town."]


def call(port, method, path, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request(method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    text = response.read()
    headers = response.headers
    connection.close()
    if response.status != 200:
        raise RuntimeError(f"{path}: {response.status} {text[:300]}")
    return headers, json.loads(text)


class Load:
    """Requests in a closed loop until stop()."""

    def __init__(self, port, streams, texts):
        self.port, self.texts, self.failures, self.last_id = port, texts, [], None
        self.stopped = threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(i,)) for i in range(streams)]
        for thread in self.threads:
            thread.start()

    def run(self, i):
        number = i
        try:
            while not self.stopped.is_set():
                prompt = PROMPTS[number % len(PROMPTS)]
                number += 1
                headers, answer = call(self.port, "POST", "/v1/completions", {
                    "model": "main", "prompt": prompt, "max_tokens": 100, "temperature": 0, "ignore_eos": True})
                self.last_id = headers["x-request-id"]
                self.texts.setdefault(prompt, set()).add(answer["choices"][0]["text"])
        except (RuntimeError, OSError) as error:
            self.failures.append(str(error))

    def stop(self):
        self.stopped.set()
        for thread in self.threads:
            thread.join()


class Watchers:
    def __init__(self, port, count, load):
        self.stopped = threading.Event()
        self.events = 0
        self.threads = [threading.Thread(target=self.watch, args=(port,)) for _ in range(count)]
        self.threads.append(threading.Thread(target=self.trace, args=(port, load)))
        for thread in self.threads:
            thread.start()

    def watch(self, port):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("GET", "/admin/events?interval_ms=250")
        response = connection.getresponse()
        while not self.stopped.is_set() and response.readline():
            self.events += 1
        connection.close()

    def trace(self, port, load):
        while not self.stopped.wait(1):
            if load.last_id:
                call(port, "GET", f"/admin/requests/{load.last_id}")

    def stop(self):
        self.stopped.set()
        for thread in self.threads:
            thread.join()


def tokens(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith("tutti_output_tokens_total{"))


def rate(port, seconds):
    begin, before = time.monotonic(), tokens(port)
    time.sleep(seconds)
    after = tokens(port)
    return (after - before) / (time.monotonic() - begin)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tutti", default="build/release/tutti")
    parser.add_argument("--model", default="smollm2-135m-instruct")
    parser.add_argument("--streams", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--watchers", type=int, default=1)
    parser.add_argument("--limit", type=float, default=0.01)
    options = parser.parse_args()
    server = subprocess.Popen([options.tutti, "serve", f"main={options.model}", "--port", "0", "--grpc-port", "0", "--store", "memory",
                               "--log-level", "off", "--max-num-seqs", str(options.streams)], stdout=subprocess.PIPE, text=True)
    try:
        port = None
        for line in server.stdout:
            found = re.search(r"serving .* at http://[^ ]*:(\d+)", line)
            if found:
                port = int(found.group(1))
                break
        if port is None:
            sys.exit("the server did not start")
        texts, ratios = {}, []
        load = Load(port, options.streams, texts)
        time.sleep(2)
        for i in range(options.pairs):
            rates = {}
            # Each order equally often: the machine may become slower or faster all the time.
            for watched in ((False, True) if i % 2 == 0 else (True, False)):
                watchers = Watchers(port, options.watchers, load) if watched else None
                time.sleep(0.5)
                rates[watched] = rate(port, options.seconds)
                if watchers is not None:
                    watchers.stop()
                    if watchers.events < options.seconds:
                        sys.exit("the watchers saw too little")
            ratios.append(rates[True] / rates[False])
            print(f"{rates[False]:.1f} tokens/s alone, {rates[True]:.1f} watched, ratio {ratios[-1]:.4f}", flush=True)
        load.stop()
    finally:
        server.terminate()
        server.wait()
    different = [prompt for prompt, found in texts.items() if len(found) > 1]
    if load.failures or different:
        sys.exit(f"failed: {load.failures[:3]}, different texts: {different}")
    loss = 1 - statistics.median(ratios)
    print(f"watched by {options.watchers}: {loss:.2%} fewer tokens/s (median of {options.pairs}, {min(ratios):.4f} to {max(ratios):.4f})")
    return 1 if loss > options.limit else 0


if __name__ == "__main__":
    sys.exit(main())
