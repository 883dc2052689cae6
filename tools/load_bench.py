#!/usr/bin/env python3
"""Time from a request for a model that is not loaded to its first token, of one file in several forms and servers.

    tools/load_bench.py --tutti build/release/tutti --model FILE.gguf [--llama-server FILE] [--rounds 5]

Serves a folder with the GGUF and its packed form, asks for one token, unloads the model, and so on in turns. With --llama-server, also
llama.cpp's server in its router mode with the same GGUF. The file is read once before, so that all of them find it in the page cache.
The table has the median and the range of the rounds. A load includes whatever the server does before it can answer, for llama.cpp the
start of a process.
"""
import argparse
import contextlib
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

from swap_bench import post, serving

TOKEN = {"prompt": "Once upon a time", "max_tokens": 1, "temperature": 0}


@contextlib.contextmanager
def llama_serving(program, folder, threads):
    """The port of llama.cpp's router, while the context lasts."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen([program, "--models-dir", folder, "--host", "127.0.0.1", "--port", str(port), "--threads", str(threads)],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(300):
            with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
                break
            if server.poll() is not None:
                sys.exit("llama-server did not start")
            time.sleep(0.1)
        yield port
    finally:
        server.terminate()
        server.wait()


def timed_load(port, unload, model):
    """Seconds from the request to its token. The model is unloaded again."""
    start = time.monotonic()
    post(port, "/v1/completions", {"model": model, **TOKEN})
    took = time.monotonic() - start
    start = time.monotonic()
    post(port, "/v1/completions", {"model": model, **TOKEN})
    loaded = time.monotonic() - start
    post(port, unload, {"model": model})
    time.sleep(1)  # llama.cpp answers before its process has ended
    return took - loaded


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tutti", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--llama-server")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as packed_folder, contextlib.ExitStack() as stack:
        gguf = pathlib.Path(folder) / "plain.gguf"
        gguf.symlink_to(os.path.abspath(options.model))
        packed = pathlib.Path(packed_folder) / "packed.tutti"
        subprocess.run([options.tutti, "pack", str(gguf), str(packed)], check=True, stdout=subprocess.DEVNULL)
        for file in (gguf, packed):
            file.read_bytes()
        both = stack.enter_context(tempfile.TemporaryDirectory())
        for file in (gguf, packed):
            (pathlib.Path(both) / file.name).symlink_to(file)
        port = stack.enter_context(serving(options.tutti, "serve", "--models", both, "--threads", str(options.threads),
                                           "--kv-cache-bytes", "256MiB"))
        forms = [("Tutti, GGUF", port, "/v1/models/unload", "plain"), ("Tutti, packed", port, "/v1/models/unload", "packed")]
        if options.llama_server:
            port = stack.enter_context(llama_serving(options.llama_server, folder, options.threads))
            forms.append(("llama.cpp's router, GGUF", port, "/models/unload", "plain"))
        seconds = {name: [] for name, *_ in forms}
        for round_number in range(options.rounds):
            for name, *form in forms:
                seconds[name].append(timed_load(*form))
                print(f"round {round_number + 1}: {name} {seconds[name][-1]:.2f} s", file=sys.stderr)
        print(f"| load of {gguf.stat().st_size / 1e9:.2f} GB | median, s | range, s |\n|---|---|---|")
        for name, values in seconds.items():
            print(f"| {name} | {statistics.median(values):.2f} | {min(values):.2f} to {max(values):.2f} |")


if __name__ == "__main__":
    main()
