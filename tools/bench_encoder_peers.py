#!/usr/bin/env python3
"""Compares Tutti with sentence-transformers, ONNX Runtime and OpenVINO on the same weights: MiniLM and ModernBERT's shape.

The script installs the peers into a temporary folder and runs all engines in alternating rounds. It keeps the best rate of
each engine, writes the table into docs/benchmarks.md and judges the gate.

The figures are texts per second of one caller with 2 threads: 16 and 128 tokens, one text and 32 texts in a call. The gate:
int8 >= 1.5 x the fastest peer in each column, float32 >= 0.9 x the fastest float32 peer. Each required rate is capped at 85 %
of what the machine's measured peaks allow for the arithmetic alone. --http adds the rate of a server for 32 clients that send
one text of 16 tokens each to MiniLM: >= 70 % of the rate of 32 texts in a call, and >= 10 x sentence-transformers behind FastAPI.

The second model has the shape of ModernBERT base, generated weights and MiniLM's vocabulary. --models chooses between them.
"""
import argparse
import datetime
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import time

from bench_peers import gate_lines, gate_row, install_environment, peer_options, run, write_page

HERE = pathlib.Path(__file__).resolve().parent
BEGIN, END = "<!-- bench-encoder-peers: begin -->", "<!-- bench-encoder-peers: end -->"
PACKAGES = ["torch", "sentence-transformers", "onnx", "onnxruntime", "openvino", "fastapi", "uvicorn"]
CASES = ["16x1", "16x32", "128x1", "128x32"]
HEADS = ["16 tokens, one text", "16 tokens, 32 texts", "128 tokens, one text", "128 tokens, 32 texts"]
PEERS = {"torch": "sentence-transformers (torch, float32)", "onnx-f32": "ONNX Runtime float32",
         "onnx-int8": "ONNX Runtime dynamic int8", "openvino-f32": "OpenVINO float32",
         "openvino": "OpenVINO, its own choice of type"}
FLOAT_PEERS = ["torch", "onnx-f32", "openvino-f32"]
DTYPES = ["int8", "bf16", "f32"]
MODELS = {"minilm": "all-MiniLM-L6-v2", "modernbert": "ModernBERT base with generated weights and the vocabulary of MiniLM"}

SERVER = '''
import sys
from fastapi import FastAPI
from sentence_transformers import SentenceTransformer
import torch, uvicorn
torch.set_num_threads(int(sys.argv[3]))
model = SentenceTransformer(sys.argv[1], device="cpu")
app = FastAPI()

@app.post("/v1/embeddings")
def embeddings(body: dict):
    import base64
    texts = body["input"] if isinstance(body["input"], list) else [body["input"]]
    rows = model.encode(texts, show_progress_bar=False)
    return {"object": "list", "model": "m", "data": [
        {"object": "embedding", "index": i, "embedding": base64.b64encode(row.astype("<f4").tobytes()).decode()}
        for i, row in enumerate(rows)]}

uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="error")
'''


def say(text):
    print(f"bench-encoder-peers: {text}", flush=True)


def environment(folder, given):
    if given:
        return given
    python = install_environment(folder)
    stamp = folder / "encoders.installed"
    if not stamp.exists():
        say(f"installing {', '.join(PACKAGES)}")
        run([python, "-m", "pip", "install", "--quiet", *PACKAGES], folder / "encoders-install.log")
        stamp.touch()
    return python


def modernbert(args, python, folder):
    model = folder / "modernbert"
    if not (model / "1_Pooling" / "config.json").exists():
        say("writing a model with the shape of ModernBERT base")
        shutil.rmtree(model, ignore_errors=True)
        run([python, HERE / "bench_encoder_peer.py", "make-modernbert", args.model, model])
    return model


def work(config, tokens):
    """Billions of operations of one text: products and attention. No text is longer than a window."""
    width, wide, layers = config["hidden_size"], config["intermediate_size"], config["num_hidden_layers"]
    matrices = 3 if config["model_type"] == "modernbert" else 2
    return (2 * layers * tokens * (4 * width * width + matrices * width * wide) / 1e9, 4 * layers * tokens * tokens * width / 1e9)


def limit(config, machine, tokens, int8):
    """Texts a second if nothing but products and attention took time, at the measured peaks."""
    products, attention = work(config, tokens)
    return 1 / (products / machine["int8_gops" if int8 else "f32_gflops"] + attention / machine["f32_gflops"])


def measure_tutti(args, model, config, dtype, case):
    tokens, batch = map(int, case.split("x"))
    # As many requests as fill the time at 1,000 GOPS, which takes machines of today one to three times as long.
    requests = max(5, int(args.seconds * 1000 / sum(work(config, tokens)) / batch))
    out = json.loads(run([args.tutti, "bench", "encode", model, "--dtype", dtype, "--threads", args.threads,
                          "--concurrency", 1, "--texts", batch, "--tokens", tokens, "--requests", requests,
                          "--warmup", 3, "--json", "-"]))
    return out["rows"][0]["texts_s"], out["machine"]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def opened(port):
    """Whether something listens on the port, within a minute."""
    for _ in range(600):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return True
        time.sleep(0.1)
    return False


def http_rate(args, command, port, model):
    """Rate of `tutti bench encode --url` with 32 clients that send one text of 16 tokens each: the best of `args.rounds` runs."""
    server = subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        if not opened(port):
            sys.exit(f"bench-encoder-peers: {command[0]} did not open its port within a minute")
        time.sleep(2)
        load = [args.tutti, "bench", "encode", model, "--url", f"http://127.0.0.1:{port}", "--concurrency", 32,
                "--requests", args.http_requests, "--warmup", 100, "--json", "-"]
        return max(json.loads(run(load))["rows"][0]["texts_s"] for _ in range(args.rounds))
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()


def measure_http(args, python, folder):
    port = free_port()
    ours = http_rate(args, [args.tutti, "serve", args.model, "--port", port, "--threads", args.threads, "--log-level", "warn",
                           "--store", "memory"], port,
                     pathlib.Path(args.model).name)
    script = folder / "server.py"
    script.write_text(SERVER)
    port = free_port()
    theirs = http_rate(args, [python, script, args.model, port, args.threads], port, "m")
    return ours, theirs


def judge(best, limits):
    """Rows of the gate, see gate_row()."""
    rows = []
    for case, head in zip(CASES, HEADS):
        for dtype, factor, peers in (("int8", 1.5, list(PEERS)), ("f32", 0.9, FLOAT_PEERS)):
            peer = max((p for p in peers if p in best), key=lambda p: best[p][case], default=None)
            if peer is None:
                continue
            rows.append(gate_row(f"{dtype}, {head}", best["tutti " + dtype][case], limits[dtype][case], factor, PEERS[peer],
                                 best[peer][case]))
    return rows


def table(args, name, best, limits, machine, gate, http, load):
    lines = [f"Measured on {datetime.date.today():%Y-%m-%d}: {machine['cpu']}, {machine['threads']} threads on {machine['cores']} cores, "
             f"{machine['isa']}. Machine: int8 {machine['int8_gops']:.0f} GOPS, float32 {machine['f32_gflops']:.0f} GFLOPS. Model: "
             f"{name}. Figures are texts/s of one caller, the best of {args.rounds} alternating rounds. Load average: "
             f"{load[0]:.1f} before, {load[1]:.1f} after. Tutti and sentence-transformers tokenise the texts; the others get token ids.", "",
             "| | " + " | ".join(HEADS) + " |", "|---" * 5 + "|"]
    names = {**{"tutti " + d: f"Tutti {d}" for d in DTYPES}, **PEERS}
    for key, name in names.items():
        if key in best:
            lines.append(f"| {name} | " + " | ".join(f"{best[key][c]:,.0f}" for c in CASES) + " |")
    for dtype in ("int8", "f32"):
        lines.append(f"| limit from the {dtype} peak | " + " | ".join(f"{limits[dtype][c]:,.0f}" for c in CASES) + " |")
    lines += gate_lines(gate)
    if http:
        ours, theirs = http
        batch = best["tutti int8"]["16x32"]
        lines += ["", f"Over HTTP on the same cores, 32 clients that send one text of 16 tokens each: {ours:,.0f} texts/s, which is "
                  f"{100 * ours / batch:.0f} % of the in-process rate with 32 texts in a call (required: 70 %). sentence-transformers "
                  f"behind FastAPI: {theirs:,.0f} texts/s; Tutti reaches {ours / theirs:.1f} x that rate (required: 10 x)."]
    return "\n".join(lines)


def compare(args, python, folder, name):
    """The rates of all engines on one model, the table of them, and the gates that were missed."""
    model = modernbert(args, python, folder) if name == "modernbert" else pathlib.Path(args.model)
    config = json.loads((model / "config.json").read_text())
    work_folder = folder / f"work-{name}"
    work_folder.mkdir(exist_ok=True)
    load, best, rounds, machine = [os.getloadavg()[0]], {}, [], None
    for number in range(args.rounds):
        one = {}
        for dtype in DTYPES:
            one["tutti " + dtype] = {}
            for case in CASES:
                one["tutti " + dtype][case], seen = measure_tutti(args, model, config, dtype, case)
                if machine is None or seen["int8_gops"] > machine["int8_gops"]:
                    machine = seen
        for peer in filter(None, args.peers.split(",")):
            one[peer] = json.loads(run([python, HERE / "bench_encoder_peer.py", peer, model, work_folder, "--threads", args.threads,
                                        "--seconds", args.seconds]).strip().splitlines()[-1])
        for engine, rates in one.items():
            best[engine] = {c: max(rates[c], best.get(engine, rates)[c]) for c in CASES}
            say(f"{name}, round {number + 1}/{args.rounds} {engine}: " + ", ".join(f"{c} {rates[c]:,.0f}" for c in CASES))
        rounds.append(one)
    http = measure_http(args, python, folder) if args.http and name == "minilm" else None
    load.append(os.getloadavg()[0])
    limits = {dtype: {c: limit(config, machine, int(c.split("x")[0]), dtype == "int8") for c in CASES} for dtype in ("int8", "f32")}
    gate = judge(best, limits)
    missed = [row[0] for row in gate if not row[4]]
    if http and (http[0] < 0.7 * best["tutti int8"]["16x32"] or http[0] < 10 * http[1]):
        missed.append("HTTP")
    return {"model": name, "best": best, "rounds": rounds, "http": http, "missed": missed,
            "text": table(args, MODELS[name], best, limits, machine, gate, http, load)}


def main():
    parser = peer_options(__doc__, builds=False)
    parser.set_defaults(model=pathlib.Path(os.environ.get("TUTTI_CACHE", pathlib.Path.home() / ".cache" / "tutti")) / "models" / "all-minilm-l6-v2")
    parser.add_argument("--python", type=pathlib.Path, help="interpreter of an environment with the peers; no environment is created")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--seconds", type=float, default=2, help="duration of a case")
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--http", action="store_true")
    parser.add_argument("--http-requests", type=int, default=3000)
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    folder = args.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    python = environment(folder, args.python)
    parts = [compare(args, python, folder, name) for name in args.models.split(",")]
    text = "\n\n".join(part["text"] for part in parts)
    print(text)
    if args.json:
        args.json.write_text(json.dumps({"schema": "tutti.bench.encoder_peers.v2", "models": parts}, indent=1))
    if not args.no_write:
        write_page(text, BEGIN, END)
    missed = [f"{part['model']}: {point}" for part in parts for point in part["missed"]]
    say("gate met" if not missed else f"gate MISSED at: {', '.join(missed)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
