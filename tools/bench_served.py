#!/usr/bin/env python3
"""Cost of serving: `tutti bench serve` over HTTP streaming at 32 clients, compared with `tutti bench engine` with 32 prompts
at once, in turns on the same cores, which the client uses too.

Output tokens per second, prompts and answers in one time for both. A host may change its speed between two runs: the
gate, served >= 92 % of the engine, is judged by the best of each and every pair is printed.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading

import bench_peers

PROMPT, NEW = 128, 128
GATE = 0.92


def engine(binary, model, clients, file):
    """Output tokens per second of `clients` prompts and their answers."""
    bench_peers.run([binary, "bench", "engine", model, "--prompt", PROMPT, "--gen", NEW, "--batch", clients, "--repeat", 2,
                     "--json", file])
    row = json.loads(file.read_text())["rows"][0]
    # The first token of an answer comes with the prompt.
    seconds = clients * (PROMPT / row["prefill_tok_s"] + NEW / row["decode_tok_s"])
    return clients * (NEW + 1) / seconds


def served(binary, model, clients, requests, file):
    """Output tokens per second over HTTP."""
    server = subprocess.Popen([binary, "serve", model, "--port", "0", "--max-num-seqs", str(clients), "--store", "memory"],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    watchdog = threading.Timer(300, server.kill)
    watchdog.start()
    try:
        url = next((word for line in server.stdout for word in line.split() if word.startswith("http://")), None)
        if url is None:
            sys.exit("bench-served: the server did not start")
        bench_peers.run([binary, "bench", "serve", "--url", url, "--concurrency", clients, "--requests", requests,
                         "--prompt-tokens", PROMPT - 1, "--max-tokens", NEW + 1, "--completions", "--json", file])
    finally:
        watchdog.cancel()
        server.terminate()
        server.wait()
    row = json.loads(file.read_text())["rows"][0]
    if row["completed"] != requests:
        sys.exit(f"bench-served: {row['completed']} of {requests} requests were answered")
    return row["output_tok_s"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tutti", default=bench_peers.ROOT / "build" / "release" / "tutti")
    parser.add_argument("--model", default="smollm2-135m-instruct")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--requests", type=int, default=160, help="of each turn")
    parser.add_argument("--turns", type=int, default=9)
    args = parser.parse_args()
    inside, outside = [], []
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "figures.json"
        for turn in range(args.turns):
            inside.append(engine(args.tutti, args.model, args.clients, file))
            outside.append(served(args.tutti, args.model, args.clients, args.requests, file))
            print(f"bench-served: turn {turn + 1} of {args.turns}: engine {inside[-1]:.0f}, served {outside[-1]:.0f} tokens/s, "
                  f"{outside[-1] / inside[-1]:.2f}", flush=True)
    best = max(outside) / max(inside)
    print(f"best of each: engine {max(inside):.0f}, served {max(outside):.0f}: {best:.2f}, {GATE} needed; medians "
          f"{statistics.median(inside):.0f} and {statistics.median(outside):.0f}: "
          f"{statistics.median(outside) / statistics.median(inside):.2f}")
    return 0 if best >= GATE else 1


if __name__ == "__main__":
    sys.exit(main())
