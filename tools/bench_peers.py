#!/usr/bin/env python3
"""Tutti beside llama.cpp and OpenVINO GenAI on the same model file: installs the peers into a throw-away folder, runs
all of them in turn several times, takes the best of each, writes the table into docs/benchmarks.md and judges the gate.

Prefill: one prompt of 512 tokens. Decode: B prompts of 128 tokens, 64 new tokens each, output tokens per second of all
streams together. The gate: prefill >= 0.9 x OpenVINO GenAI, decode >= 1.5 x the better peer on the same file at every
batch, each capped at 85 % of what the machine's measured read rate and peaks allow for that file (`tutti bench engine`
computes that limit). llama.cpp on the file requantised to Q4_0 is shown beside it and gates nothing.
"""
import argparse
import datetime
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- bench-peers: begin -->", "<!-- bench-peers: end -->"
LLAMA_PACKAGE = ("llama-cpp-python", "0.3.36")
OPENVINO_PACKAGE = "openvino-genai==2026.4.1"
PREFILL, PROMPT, NEW = 512, 128, 64
TUTTI, LLAMA, LLAMA_Q4_0, OPENVINO = "Tutti", "llama.cpp", "llama.cpp, requantised to Q4_0", "OpenVINO GenAI"


def say(text):
    print(f"bench-peers: {text}", flush=True)


def run(command, log=None, **kwargs):
    """Runs a command; its output goes to `log` and, when it fails, to the terminal."""
    command = [str(part) for part in command]
    if log is None:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **kwargs)
    else:
        with open(log, "a") as out:
            done = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, text=True, **kwargs)
    if done.returncode != 0:
        tail = done.stderr if log is None else open(log).read()
        sys.exit(f"bench-peers: {' '.join(command)} failed ({done.returncode}):\n{(tail or '')[-3000:]}")
    return done.stdout


# --- peers ---

def install_environment(folder):
    python = folder / "venv" / "bin" / "python"
    if not python.exists():
        run([sys.executable, "-m", "venv", folder / "venv"])
    return python


def install_llama(folder, python, jobs, programs=("llama-batched-bench", "llama-bench", "llama-quantize")):
    """llama.cpp, native release build, from the source distribution that carries it."""
    binaries = folder / "llama-build" / "bin"
    if all((binaries / name).exists() for name in programs):
        return binaries
    name, version = LLAMA_PACKAGE
    log = folder / "llama-build.log"
    source = folder / "llama.cpp"
    if not source.exists():
        say(f"fetching the source of {name} {version}")
        run([python, "-m", "pip", "install", "--quiet", "scikit-build-core"], log)
        run([python, "-m", "pip", "download", "--quiet", "--no-binary", ":all:", "--no-build-isolation", "--no-deps",
             "--dest", folder, f"{name}=={version}"], log)
        archive = next(folder.glob(f"{name.replace('-', '_')}-{version}.tar.gz"))
        with tarfile.open(archive) as tar:
            tar.extractall(folder / "sdist")
        shutil.move(next((folder / "sdist").glob("*/vendor/llama.cpp")), source)
    say(f"building llama.cpp with {jobs} jobs (quarter of an hour on two cores); log in {log}")
    run(["cmake", "-G", "Ninja", "-S", source, "-B", folder / "llama-build", "-DCMAKE_BUILD_TYPE=Release",
         "-DGGML_NATIVE=ON", "-DBUILD_SHARED_LIBS=OFF", "-DLLAMA_CURL=OFF", "-DLLAMA_OPENSSL=OFF",
         "-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_EXAMPLES=OFF", f"-DLLAMA_BUILD_SERVER={'ON' if 'llama-server' in programs else 'OFF'}",
         "-DLLAMA_BUILD_TOOLS=ON", "-DLLAMA_USE_PREBUILT_UI=OFF"], log)
    run(["nice", "ninja", f"-j{jobs}", "-C", folder / "llama-build", *programs], log)
    return binaries


def install_openvino(folder, python):
    probe = subprocess.run([python, "-c", "import openvino_genai"], capture_output=True)
    if probe.returncode != 0:
        say(f"installing {OPENVINO_PACKAGE}")
        run([python, "-m", "pip", "install", "--quiet", OPENVINO_PACKAGE], folder / "openvino.log")


def requantise(folder, binaries, model):
    out = folder / f"{model.stem}.requantised-Q4_0.gguf"
    if not out.exists():
        partial = out.with_suffix(".part")
        run([binaries / "llama-quantize", "--allow-requantize", model, partial, "Q4_0"], folder / "quantize.log")
        partial.rename(out)
    return out


# --- one measurement each: {"prefill": tok/s, "decode": {batch: tok/s}} ---

def measure_llama(binaries, model, threads, batches):
    prefill = json.loads(run([binaries / "llama-bench", "-m", model, "-p", PREFILL, "-n", 0, "-t", threads, "-r", 1,
                              "-o", "json"]))
    context = max(batches) * (PROMPT + NEW)
    lines = run([binaries / "llama-batched-bench", "-m", model, "-c", context, "-b", 2048, "-ub", 512, "-npp", PROMPT,
                 "-ntg", NEW, "-npl", ",".join(map(str, batches)), "-t", threads, "-tb", threads,
                 "--output-format", "jsonl"])
    decode = {}
    for line in lines.splitlines():
        if line.startswith("{"):
            row = json.loads(line)
            decode[row["pl"]] = row["speed_tg"]
    return {"prefill": prefill[0]["avg_ts"], "decode": decode}


def measure_openvino(python, model, threads, batches):
    out = json.loads(run([python, ROOT / "tools" / "bench_peers_openvino.py", model, "--threads", threads, "--prefill",
                          PREFILL, "--prompt", PROMPT, "--gen", NEW, "--batch", ",".join(map(str, batches))]))
    return {"prefill": out["prefill"], "decode": {int(b): v for b, v in out["decode"].items()}}


def measure_tutti(binary, model, threads, batches):
    """Also the machine, and what it allows at most: {"limits": the same shape}."""
    def bench(prompt, new, batch):
        return json.loads(run([binary, "bench", "engine", model, "--prompt", prompt, "--gen", new, "--batch", batch,
                               "--repeat", 1, "--threads", threads, "--json", "-"]))
    prefill = bench(PREFILL, 1, 1)
    decode = bench(PROMPT, NEW, ",".join(map(str, batches)))
    first = prefill["rows"][0]
    return {"prefill": first["prefill_tok_s"],
            "decode": {row["batch"]: row["decode_tok_s"] for row in decode["rows"]},
            "limits": {"prefill": first["prefill_tok_s"] / first["prefill_fraction_of_limit"],
                       "decode": {row["batch"]: row["decode_tok_s"] / row["fraction_of_limit"]
                                  for row in decode["rows"]}},
            "machine": max((prefill["machine"], decode["machine"]), key=lambda m: m["int8_gops"])}


# --- judging and writing ---

def keep_best(best, one):
    """Joins a round into the best so far, figure by figure."""
    if not best:
        return one
    out = dict(best)
    out["prefill"] = max(best["prefill"], one["prefill"])
    out["decode"] = {b: max(best["decode"][b], one["decode"][b]) for b in best["decode"]}
    if "limits" in best:
        out["limits"] = keep_best(best["limits"], one["limits"])
        out["machine"] = max((best["machine"], one["machine"]), key=lambda m: m["int8_gops"])
    return out


def judge(best, batches):
    """Rows of the gate: (name, measured, required, how required came about, met)."""
    tutti, limits = best[TUTTI], best[TUTTI]["limits"]
    rows = []

    def row(name, measured, factor, peer_name, peer, limit):
        asked, cap = factor * peer, 0.85 * limit
        required = min(asked, cap)
        why = f"{factor} x {peer_name} {peer:,.0f}" if asked <= cap else f"85 % of the machine's {limit:,.0f}"
        rows.append((name, measured, required, why, measured >= required, measured / peer))

    if OPENVINO in best:
        row(f"prefill {PREFILL}", tutti["prefill"], 0.9, OPENVINO, best[OPENVINO]["prefill"], limits["prefill"])
    peers = [name for name in (LLAMA, OPENVINO) if name in best]
    for batch in batches:
        if peers:
            peer = max(peers, key=lambda name: best[name]["decode"][batch])
            row(f"decode {batch}", tutti["decode"][batch], 1.5, peer, best[peer]["decode"][batch],
                limits["decode"][batch])
    return rows


def table(best, gate, batches, rounds, model, load):
    machine = best[TUTTI]["machine"]
    lines = [f"{datetime.date.today():%Y-%m-%d}. {machine['cpu']}, {machine['threads']} threads of {machine['cores']} "
             f"cores, {machine['isa']}: reads {machine['read_gb_s']:.0f} GB/s, int8 {machine['int8_gops']:.0f} GOPS, "
             f"float32 {machine['f32_gflops']:.0f} GFLOPS. `{model.name}`, {PROMPT}-token prompts and {NEW} new tokens "
             f"for decode; output tokens/s, best of {rounds} rounds in turn; load average {load[0]:.1f} before and "
             f"{load[1]:.1f} after.", "",
             f"| | prefill {PREFILL} | " + " | ".join(f"decode B={b}" for b in batches) + " |",
             "|---" * (len(batches) + 2) + "|"]
    for name in (TUTTI, OPENVINO, LLAMA, LLAMA_Q4_0):
        if name in best:
            figures = [best[name]["prefill"]] + [best[name]["decode"][b] for b in batches]
            lines.append(f"| {name} | " + " | ".join(f"{v:,.0f}" for v in figures) + " |")
    limits = best[TUTTI]["limits"]
    lines.append("| what the read rate and the peaks allow | " +
                 " | ".join(f"{v:,.0f}" for v in [limits["prefill"]] + [limits["decode"][b] for b in batches]) + " |")
    lines += ["", "| gate | Tutti | x peer | needed | from | |", "|---|---|---|---|---|---|"]
    for name, measured, required, why, met, ratio in gate:
        verdict = "met" if met else f"short by {100 * (1 - measured / required):.0f} %"
        lines.append(f"| {name} | {measured:,.0f} | {ratio:.2f} | {required:,.0f} | {why} | {verdict} |")
    return "\n".join(lines)


def write_page(text, begin=BEGIN, end=END):
    """Between the marks of its place in the page."""
    page = PAGE.read_text()
    if begin not in page or end not in page:
        sys.exit(f"{PAGE} has no place for the table ({begin} ... {end})")
    head, rest = page.split(begin, 1)
    PAGE.write_text(head + begin + "\n" + text + "\n" + end + rest.split(end, 1)[1])


def peer_options(description):
    """What every comparison with a peer may be told."""
    cache = pathlib.Path(os.environ.get("TUTTI_CACHE", pathlib.Path.home() / ".cache" / "tutti"))
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path(tempfile.gettempdir()) / "tutti-peers",
                        help="where the peers go; used again if they are there, may be deleted at any time")
    parser.add_argument("--model", type=pathlib.Path, default=cache / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf")
    parser.add_argument("--tutti", type=pathlib.Path, default=ROOT / "build" / "release" / "tutti")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3, help="in turns")
    parser.add_argument("--jobs", type=int, default=2, help="of the build of llama.cpp")
    parser.add_argument("--no-write", action="store_true", help="leave docs/benchmarks.md alone")
    return parser


def main():
    parser = peer_options(__doc__)
    parser.add_argument("--batch", default="1,4,8,16,32")
    parser.add_argument("--peers", default="llama,openvino", help="some of: llama,openvino")
    parser.add_argument("--json", type=pathlib.Path, help="write every round's figures to this file")
    args = parser.parse_args()
    batches = [int(b) for b in args.batch.split(",")]
    peers = args.peers.split(",") if args.peers else []
    for path in (args.model, args.tutti):
        if not path.exists():
            sys.exit(f"bench-peers: {path} is not there; `make build models` brings it")

    folder = args.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    say(f"peers live in {folder}")
    python = install_environment(folder)
    engines = {TUTTI: lambda: measure_tutti(args.tutti, args.model, args.threads, batches)}
    if "openvino" in peers:
        install_openvino(folder, python)
        engines[OPENVINO] = lambda: measure_openvino(python, args.model, args.threads, batches)
    if "llama" in peers:
        binaries = install_llama(folder, python, args.jobs)
        q4_0 = requantise(folder, binaries, args.model)
        engines[LLAMA] = lambda: measure_llama(binaries, args.model, args.threads, batches)
        engines[LLAMA_Q4_0] = lambda: measure_llama(binaries, q4_0, args.threads, batches)

    load = [os.getloadavg()[0]]
    best, rounds = {}, []
    for number in range(args.rounds):
        this_round = {}
        for name, measure in engines.items():
            one = this_round[name] = measure()
            best[name] = keep_best(best.get(name), one)
            say(f"round {number + 1}/{args.rounds} {name}: prefill {one['prefill']:,.0f}, decode " +
                ", ".join(f"{b}: {one['decode'][b]:,.0f}" for b in batches))
        rounds.append(this_round)
    load.append(os.getloadavg()[0])
    if load[0] > 1:
        say(f"the machine was not quiet when this began (load average {load[0]:.1f})")

    gate = judge(best, batches)
    text = table(best, gate, batches, args.rounds, args.model, load)
    print(text)
    if args.json:
        args.json.write_text(json.dumps({"schema": "tutti.bench.peers.v1", "best": best, "rounds": rounds}, indent=1))
    if not args.no_write:
        write_page(text)
        say(f"written to {PAGE.relative_to(ROOT)}")
    missed = [row[0] for row in gate if not row[4]]
    say("gate met" if not missed else f"gate MISSED at: {', '.join(missed)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
