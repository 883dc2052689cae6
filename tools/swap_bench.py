#!/usr/bin/env python3
"""Time between the tokens of running streams while another model is loaded and unloaded again and again.

    tools/swap_bench.py --tutti build/release/tutti [--model FILE] [--other FILE] [--streams 4] [--seconds 30]

Starts a server of its own with --model, and a folder with --other (by default the default model for both). Streams of --model run all
the time; their gaps are measured alone and during loads. The greedy texts of both phases must be equal. Run it on an idle machine;
the requirement is a ratio of P99 of at most 1.5. Exit status 1 if a request failed, a text differs, or the ratio is above --limit.
"""
import argparse
import contextlib
import http.client
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time

PROMPTS = ["Tell a long story about a fox.", "Describe the sea.", "How is bread made?", "Write about the stars.",
           "What is a river?", "Explain how a clock works.", "Name many animals.", "Tell the history of a small town."]


def stream(port, prompt, tokens, gaps, texts):
    """One streamed completion: the times between its events, and its text."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    body = {"model": "main", "messages": [{"role": "user", "content": prompt}], "max_tokens": tokens, "temperature": 0,
            "ignore_eos": True, "stream": True}
    connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    if response.status != 200:
        raise RuntimeError(f"{response.status} {response.read()[:300]}")
    text, last = "", None
    for line in response:
        if not line.startswith(b"data: {"):
            continue
        now = time.monotonic()
        choices = json.loads(line[6:])["choices"]
        delta = choices[0]["delta"].get("content") if choices else None
        if not delta:
            continue
        text += delta
        if last is not None:
            gaps.append(now - last)
        last = now
    texts.setdefault(prompt, set()).add(text)
    connection.close()


def post(port, path, body):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    text = response.read()
    connection.close()
    if response.status != 200:
        raise RuntimeError(f"{path}: {response.status} {text[:300]}")


@contextlib.contextmanager
def serving(*command):
    """The port of a server with a folder of models, while the context lasts."""
    server = subprocess.Popen([*command, "--port", "0", "--grpc-port", "0", "--store", "memory", "--log-level", "off"],
                              stdout=subprocess.PIPE, text=True)
    try:
        for line in server.stdout:
            found = re.search(r"models of .* at http://[^ ]*:(\d+)", line)
            if found:
                yield int(found.group(1))
                return
        sys.exit("the server did not start")
    finally:
        server.terminate()
        server.wait()


def phase(port, options, texts, swap):
    """(gaps, swaps, failures) of all streams for the time of a phase."""
    end = time.monotonic() + options.seconds
    gaps, failures, swaps = [], [], [0]

    def client(number):
        while time.monotonic() < end:
            try:
                stream(port, PROMPTS[number % len(PROMPTS)], options.tokens, gaps, texts)
            except (OSError, RuntimeError, http.client.HTTPException) as error:
                failures.append(repr(error))
                return

    def swapper():
        while time.monotonic() < end:
            try:
                post(port, "/v1/models/load", {"model": "other"})
                post(port, "/v1/models/unload", {"model": "other"})
                swaps[0] += 1
            except (OSError, RuntimeError, http.client.HTTPException) as error:
                failures.append(repr(error))
                return
    threads = [threading.Thread(target=client, args=(i,)) for i in range(options.streams)]
    if swap:
        threads.append(threading.Thread(target=swapper))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(gaps), swaps[0], failures


def percentile(values, share):
    return values[min(int(len(values) * share), len(values) - 1)] * 1e3 if values else float("nan")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cache = os.environ.get("TUTTI_CACHE") or os.path.expanduser("~/.cache/tutti")
    default = os.path.join(cache, "models", "SmolLM2-135M-Instruct.Q4_1.gguf")
    parser.add_argument("--tutti", required=True)
    parser.add_argument("--model", default=default)
    parser.add_argument("--other", default=default)
    parser.add_argument("--streams", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--limit", type=float, default=1.5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(os.path.abspath(options.other), os.path.join(folder, "other" + (pathlib.Path(options.other).suffix or "")))
        with serving(options.tutti, "serve", f"main={options.model}", "--models", folder, "--kv-cache-bytes", "256MiB") as port:
            texts = {}
            phase(port, argparse.Namespace(**{**vars(options), "seconds": 2}), texts, swap=False)
            alone, _, failures = phase(port, options, texts, swap=False)
            loading, swaps, more = phase(port, options, texts, swap=True)
    failures += more
    differing = [prompt for prompt, seen in texts.items() if len(seen) > 1]
    if failures or differing:
        sys.exit(f"failed requests: {failures[:3]}; texts that differ: {differing}")
    ratio = percentile(loading, 0.99) / percentile(alone, 0.99)
    for name, gaps in (("alone", alone), (f"with {swaps} loads", loading)):
        print(f"{name:>16}: {len(gaps)} gaps, P50 {percentile(gaps, 0.5):.2f} ms, P99 {percentile(gaps, 0.99):.2f} ms, "
              f"longest {gaps[-1] * 1e3:.2f} ms")
    print(f"P99 ratio {ratio:.2f}, limit {options.limit}")
    sys.exit(ratio > options.limit)


if __name__ == "__main__":
    main()
