#!/usr/bin/env python3
"""Compares answers under JSON schemas from Tutti and from llama.cpp's server, in alternating rounds on the same model file.

Each schema of tests/e2e/schemas.py (or every Nth) is sent to both over HTTP as `response_format` of type json_schema, sampled
with a seed, by one client and by eight at once. The table has output tokens per second and the share of answers that satisfy
their schema, checked by PyPI's jsonschema. Answers that were cut by their length and schemas that a server refused are
counted separately.

Writes the table into docs/benchmarks.md. It has no gate; it fails if an answer of Tutti does not satisfy its schema.
"""
import concurrent.futures
import datetime
import json
import os
import pathlib
import sys
import time
import urllib.error
import urllib.request

from bench_peers import ROOT, install_environment, install_llama, peer_options, run, say, write_page
from peer_process import PATIENCE_S, Process, llama_server

BEGIN, END = "<!-- bench-structured-peers: begin -->", "<!-- bench-structured-peers: end -->"
TUTTI, LLAMA = "Tutti", "llama-server"
JSONSCHEMA = "jsonschema[format]==4.26.0"
CLIENTS = (1, 8)


def ask(port, model, schema, seed, tokens):
    """(status, text, finish reason, output tokens)"""
    body = {"model": model, "max_tokens": tokens, "temperature": 0.8, "seed": seed,
            "messages": [{"role": "user", "content": "Give me an example as JSON of this schema: " + json.dumps(schema)}],
            "response_format": {"type": "json_schema", "json_schema": {"name": "it", "schema": schema, "strict": True}}}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/chat/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            told = json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(errors="replace"), "", 0
    choice = told["choices"][0]
    return 200, choice["message"]["content"] or "", choice["finish_reason"], told["usage"]["completion_tokens"]


def satisfies(text, schema):
    import jsonschema
    try:
        jsonschema.validate(json.loads(text), schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
    except (ValueError, jsonschema.ValidationError, RecursionError):
        return False
    return True


def measure(port, model, schemas, clients, tokens):
    """Counts, seconds and faults of one server in one round."""
    counts = {"tokens": 0, "valid": 0, "invalid": 0, "cut": 0, "refused": 0}
    faults = []
    begin = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        answers = list(pool.map(lambda numbered: ask(port, model, numbered[1], numbered[0], tokens), enumerate(schemas)))
    seconds = time.perf_counter() - begin
    for schema, (status, text, reason, count) in zip(schemas, answers):
        counts["tokens"] += count
        if status != 200:
            kind = "refused"
        elif reason == "length":
            kind = "cut"
        else:
            kind = "valid" if satisfies(text, schema) else "invalid"
        counts[kind] += 1
        if kind in ("refused", "invalid"):
            faults.append((kind, schema, text))
    return counts, seconds, faults


def main():
    parser = peer_options(__doc__)
    parser.add_argument("--every", type=int, default=1, help="use every Nth schema only")
    parser.add_argument("--tokens", type=int, default=120, help="maximum tokens of an answer")
    args = parser.parse_args()
    folder = args.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    python = install_environment(folder)
    if pathlib.Path(sys.prefix).resolve() != (folder / "venv").resolve():  # again, with the validator
        run([python, "-m", "pip", "install", "--quiet", JSONSCHEMA])
        os.execv(python, [str(python), str(pathlib.Path(__file__).resolve()), *sys.argv[1:]])
    binaries = install_llama(folder, python, args.jobs, ("llama-server",))
    for path in ("tests/e2e", "tests/broker"):
        sys.path.insert(0, str(ROOT / path))
    from broker import free_port
    from schemas import SCHEMAS
    schemas = SCHEMAS[::args.every]
    best, totals, faults = {}, {}, []
    for number in range(args.rounds):
        for name in (TUTTI, LLAMA):
            port = free_port()
            if name == TUTTI:
                server = Process([args.tutti, "serve", "model=" + str(args.model), "--port", port, "--grpc-port", 0, "--threads", args.threads,
                                  "--max-num-seqs", max(CLIENTS), "--store", "memory"], lambda p: "serving" in p.printed(), folder / "tutti.log")
            else:
                server = llama_server(binaries, args.model, port, max(CLIENTS), args.threads, folder / "llama-server.log", ("--jinja",))
            try:
                measure(port, "model", schemas[:4], 4, 16)  # warm
                for clients in CLIENTS:
                    counts, seconds, wrong = measure(port, "model", schemas, clients, args.tokens)
                    rate = counts["tokens"] / seconds
                    best[name, clients] = max(best.get((name, clients), 0), rate)
                    total = totals.setdefault(name, dict.fromkeys(counts, 0))
                    for kind, count in counts.items():
                        total[kind] += count
                    faults += [(name, *one) for one in wrong]
                    say(f"round {number + 1}/{args.rounds} {name}, {clients} clients: {rate:,.0f} tokens/s, {counts}")
            finally:
                server.stop()
    for name, kind, schema, text in faults:
        say(f"{name}, {kind}: {json.dumps(schema)[:200]} -> {text[:200]!r}")
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "")
    asked = len(schemas) * len(CLIENTS) * args.rounds
    lines = [f"Measured on {datetime.date.today():%Y-%m-%d}: {cpu}, {args.threads} threads. Model file: `{args.model.name}`. {len(schemas)} schemas, at "
             f"most {args.tokens} tokens in an answer, temperature 0.8, the best of {args.rounds} alternating rounds. Clients run on the same "
             f"cores. Shares refer to {asked} requests for each server.",
             "", "| | tokens/s, 1 client | tokens/s, 8 clients | valid | not valid | cut by length | refused |", "|---|---|---|---|---|---|---|"]
    for name in (TUTTI, LLAMA):
        total = totals[name]
        shares = " | ".join(f"{100 * total[kind] / asked:.1f} %" for kind in ("valid", "invalid", "cut", "refused"))
        lines.append(f"| {name} | {best[name, 1]:,.0f} | {best[name, 8]:,.0f} | {shares} |")
    lines += ["", f"Tutti / llama-server: {best[TUTTI, 1] / best[LLAMA, 1]:.2f} x with one client, "
                  f"{best[TUTTI, 8] / best[LLAMA, 8]:.2f} x with eight."]
    text = "\n".join(lines)
    print(text)
    if not args.no_write:
        write_page(text, BEGIN, END)
        say("written to docs/benchmarks.md")
    return 1 if totals[TUTTI]["invalid"] else 0


if __name__ == "__main__":
    sys.exit(main())
