#!/usr/bin/env python3
"""Foreign load tools against `tutti serve`, and their figures compared with those of `tutti bench` (N57).

    load_tools.py [--tutti build/release/tutti] [--rounds 5] [--tools vllm,guidellm,aiperf,perf-grpc,perf-http,perf-openai]

Installs `vllm bench serve`, GuideLLM, AIPerf and perf_analyzer in throw-away environments (about 9 GB under build/load-tools: PyTorch from
PyPI brings CUDA's libraries), unmodified. Each tool puts the same load on one server in turns with `tutti bench`: chats with prompts of 64
common words and 64 tokens out, or short texts to vectors over KServe; new prompts in each turn. The server has one thread, so that a load
generator in Python has a core of its own. The medians of the rounds must agree within --within percent: TTFT and output tokens/s of chats,
requests/s and latency of vectors. A tool that fails, or whose figures do not agree, fails the script. Everything listens on 127.0.0.1.
"""
import argparse
import hashlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
MODEL, ENCODER = "smollm2-135m-instruct", "all-minilm-l6-v2"
MODEL_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
WORDS = ("the time people water light house story river small large early young local first second under world part number city group state work "
         "life year place hand school night point").split()
# What each environment holds: lists of arguments of pip.
ENVIRONMENTS = {
    "torch": (("-r", str(HERE / "load-requirements.txt")), ("--no-deps", "vllm==0.33.0")),
    "aiperf": (("aiperf==0.13.0",),),
    "perf": (("tritonclient[all]==2.48.0", "nvidia-cuda-runtime-cu12==12.9.79"),),
}


def say(*words):
    print(time.strftime("%H:%M:%S"), *words, flush=True)


class ToolFailed(Exception):
    """A tool did not complete; the text has the end of what it printed."""


def environment(folder, name):
    """The folder of the tool's programs; the environment is made if it is not there with the same content."""
    venv, installs = folder / name, ENVIRONMENTS[name]
    content = repr(installs) + "".join(pathlib.Path(words[1]).read_text() for words in installs if words[0] == "-r")
    wanted, stamp = hashlib.sha256((sys.version + content).encode()).hexdigest(), venv / "content.sha256"
    if not stamp.exists() or stamp.read_text() != wanted:
        shutil.rmtree(venv, ignore_errors=True)
        say(f"installing {name} into {venv}")
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        for words in installs:
            subprocess.run([str(venv / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check", *words], check=True)
        stamp.write_text(wanted)
    return venv / "bin"


def run(command, limit_s=300, **more):
    command = [str(word) for word in command]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=limit_s, **more)
    if done.returncode != 0:
        raise ToolFailed(f"{' '.join(command)}: status {done.returncode}\n{(done.stdout + done.stderr)[-3000:]}")
    return done.stdout


class Load:
    """A server, the load on it and the tools; every method that measures returns figures by name."""

    def __init__(self, args, folder, http_port, grpc_port):
        self.args, self.folder = args, folder
        self.address, self.grpc = f"127.0.0.1:{http_port}", f"127.0.0.1:{grpc_port}"
        self.url = f"http://{self.address}"
        self.turn = 0

    def tools(self, name):
        return environment(self.args.environments, name)

    def tokenizer(self):
        """The model's tokenizer as a folder of files, which the tools read; made by transformers from the GGUF."""
        path = self.folder / "tokenizer"
        if not path.exists():
            cache = pathlib.Path(os.environ.get("TUTTI_CACHE") or pathlib.Path.home() / ".cache" / "tutti") / "models"
            run([self.tools("torch") / "python", "-c", "import sys, transformers\n"
                 f"transformers.AutoTokenizer.from_pretrained(sys.argv[1], gguf_file='{MODEL_FILE}').save_pretrained(sys.argv[2])", cache, path])
        return path

    def prompts(self, make):
        """A file of new prompts, a line each; `make` gives the line's object."""
        self.turn += 1
        rng = random.Random(self.turn)
        path = self.folder / f"prompts-{self.turn}.jsonl"
        path.write_text("".join(json.dumps(make(" ".join(rng.choices(WORDS, k=self.args.prompt_tokens)))) + "\n" for _ in range(self.args.requests)))
        return path

    def own(self, *words):
        self.turn += 1
        path = self.folder / "own.json"
        run([self.args.tutti, "bench", *words, "--seed", self.turn, "--json", path])
        return json.loads(path.read_text())["rows"][0]

    def tutti(self, clients):
        row = self.own("serve", "--url", self.url, "--model", MODEL, "--concurrency", clients, "--requests", self.args.requests,
                       "--prompt-tokens", self.args.prompt_tokens, "--max-tokens", self.args.max_tokens)
        return {"TTFT ms": row["ttft_ms"]["p50"], "tokens/s": row["output_tok_s"], "E2E ms": row["e2e_ms"]["p50"]}

    def vllm(self, clients):
        result = self.folder / "vllm.json"
        run([self.tools("torch") / "vllm", "bench", "serve", "--backend", "openai-chat", "--base-url", self.url, "--endpoint", "/v1/chat/completions",
             "--model", MODEL, "--tokenizer", self.tokenizer(), "--dataset-name", "custom", "--dataset-path", self.prompts(lambda text: {"prompt": text}),
             "--skip-chat-template", "--custom-output-len", self.args.max_tokens, "--num-prompts", self.args.requests, "--max-concurrency", clients,
             "--ignore-eos", "--num-warmups", "1", "--save-result", "--result-filename", result], env=dict(os.environ, HF_HUB_OFFLINE="1"))
        found = json.loads(result.read_text())
        if found["completed"] != self.args.requests or found["total_output_tokens"] != self.args.requests * self.args.max_tokens:
            raise ToolFailed(f"vllm: {found['completed']} answers with {found['total_output_tokens']} tokens")
        return {"TTFT ms": found["median_ttft_ms"], "tokens/s": found["output_throughput"]}

    def guidellm(self, clients):
        result = self.folder / "guidellm.json"
        data = self.prompts(lambda text: {"prompt": text, "output_tokens_count": self.args.max_tokens})
        run([self.tools("torch") / "guidellm", "run", "--backend", f"kind=openai_http,target={self.url},model={MODEL}", "--profile",
             f"kind=concurrent,streams={clients}", "--constraint", f"kind=max_requests,count={self.args.requests}", "--tokenizer",
             f"kind=hf_auto,model={self.tokenizer()}", "--data", f"kind=json_file,path={data}", "--output", f"kind=json,path={result}",
             "--disable-console-interactive"], env=dict(os.environ, HF_HUB_OFFLINE="1"))
        benchmark = json.loads(result.read_text())["benchmarks"][0]
        done = benchmark["requests"]["successful"]
        tokens = sum(request["output_metrics"]["text_tokens"] for request in done)
        if len(done) != self.args.requests or tokens != self.args.requests * self.args.max_tokens:
            raise ToolFailed(f"guidellm: {len(done)} answers with {tokens} tokens")
        times = [(request["request_start_time"], request["request_end_time"]) for request in done]
        return {"TTFT ms": benchmark["metrics"]["time_to_first_token_ms"]["successful"]["median"],
                "tokens/s": tokens / (max(end for _, end in times) - min(start for start, _ in times))}

    def aiperf(self, clients):
        artifacts = self.folder / "aiperf"
        shutil.rmtree(artifacts, ignore_errors=True)
        run([self.tools("aiperf") / "aiperf", "profile", "--model", MODEL, "--url", self.url, "--endpoint-type", "chat", "--streaming", "--concurrency",
             clients, "--request-count", self.args.requests, "--input-file", self.prompts(lambda text: {"text": text}), "--custom-dataset-type",
             "single_turn", "--tokenizer", self.tokenizer(), "--extra-inputs", f"max_tokens:{self.args.max_tokens}", "--extra-inputs", "ignore_eos:true",
             "--use-server-token-count", "--ui", "none", "--output-artifact-dir", artifacts])
        found = json.loads((artifacts / "profile_export_aiperf.json").read_text())
        if found["request_count"]["avg"] != self.args.requests:
            raise ToolFailed(f"aiperf: {found['request_count']} answers")
        return {"TTFT ms": found["time_to_first_token"]["p50"], "tokens/s": found["output_token_throughput"]["avg"]}

    def perf_analyzer(self, *words):
        programs = self.tools("perf")
        library = next(programs.parent.glob("lib/python*/site-packages/nvidia/cuda_runtime/lib"))
        out = run([programs / "perf_analyzer", *words], env=dict(os.environ, LD_LIBRARY_PATH=str(library)))
        rate, mean = re.search(r"throughput: ([\d.]+) infer/sec, latency (\d+) usec", out).groups()
        return {"requests/s": float(rate), "mean ms": int(mean) / 1e3}

    def perf_openai(self, clients):
        """Whole answers: this perf_analyzer streams over gRPC only."""
        data = self.folder / "openai.json"
        rng = random.Random(self.turn)
        self.turn += 1
        data.write_text(json.dumps({"data": [{"payload": [{
            "model": MODEL, "max_tokens": self.args.max_tokens, "ignore_eos": True,
            "messages": [{"role": "user", "content": " ".join(rng.choices(WORDS, k=self.args.prompt_tokens))}]}]} for _ in range(self.args.requests)]}))
        return self.perf_analyzer("-m", MODEL, "--service-kind", "openai", "--endpoint", "v1/chat/completions", "-u", self.address, "--input-data", data,
                                  "--async", "--concurrency-range", clients, "--request-count", self.args.requests)

    def tutti_whole(self, clients):
        """The same load as perf_openai, streamed: a whole answer is there when the stream ends."""
        row = self.own("serve", "--url", self.url, "--model", MODEL, "--concurrency", clients, "--requests", self.args.requests,
                       "--prompt-tokens", self.args.prompt_tokens, "--max-tokens", self.args.max_tokens)
        return {"requests/s": row["req_s"], "mean ms": 1e3 * clients / row["req_s"]}

    def perf_kserve(self, protocol, clients):
        data = self.folder / "texts.json"
        rng = random.Random(self.turn)
        data.write_text(json.dumps({"data": [{"text": [" ".join(rng.choices(WORDS, k=14))]} for _ in range(500)]}))
        return self.perf_analyzer("-m", ENCODER, "-i", protocol, "-u", self.grpc if protocol == "grpc" else self.address, "--shape", "text:1",
                                  "--input-data", data, "--concurrency-range", clients, "-p", "2000", "-r", "3", "-s", "999")

    def tutti_kserve(self, protocol, clients):
        where = ("grpc", "--url", f"grpc://{self.grpc}") if protocol == "grpc" else ("encode", "--url", self.url)
        row = self.own(where[0], ENCODER, *where[1:], "--kserve", "--concurrency", clients, "--tokens", "16", "--requests", "4000", "--warmup", "200")
        return {"requests/s": row["requests"] / row["seconds"], "mean ms": row["latency_ms"]["mean"]}


# A tool's measurement, and that of `tutti bench` with the same load.
PAIRS = {
    "vllm": (Load.vllm, Load.tutti),
    "guidellm": (Load.guidellm, Load.tutti),
    "aiperf": (Load.aiperf, Load.tutti),
    "perf-openai": (Load.perf_openai, Load.tutti_whole),
    "perf-grpc": (lambda load, clients: load.perf_kserve("grpc", clients), lambda load, clients: load.tutti_kserve("grpc", clients)),
    "perf-http": (lambda load, clients: load.perf_kserve("http", clients), lambda load, clients: load.tutti_kserve("http", clients)),
}


def compare(load, name, clients, args):
    """The lines of a table of this tool, and what is wrong."""
    foreign, own = PAIRS[name]
    seen = {"tool": [], "tutti": []}
    for round_number in range(args.rounds):
        # The first of a round changes, so that a drift of the machine meets both.
        order = ("tool", "tutti") if round_number % 2 == 0 else ("tutti", "tool")
        for who in order:
            seen[who].append((foreign if who == "tool" else own)(load, clients))
    failures = []
    for figure in seen["tool"][0]:
        values = {who: [one[figure] for one in measured] for who, measured in seen.items()}
        medians = {who: statistics.median(list_of) for who, list_of in values.items()}
        ratio = medians["tool"] / medians["tutti"]
        agrees = abs(ratio - 1) <= args.within / 100
        say(f"| {name} | {clients} | {figure} | {medians['tool']:.1f} ({min(values['tool']):.1f}-{max(values['tool']):.1f}) | {medians['tutti']:.1f} "
            f"({min(values['tutti']):.1f}-{max(values['tutti']):.1f}) | {ratio:.3f} | {'agree' if agrees else 'DIFFER'} |")
        if not agrees:
            failures.append(f"{name} with {clients} clients: {figure} is {ratio:.3f} x that of tutti bench")
    return failures


def start_server(args):
    command = [args.tutti, "serve", MODEL, ENCODER, "--port", "0", "--grpc-port", str(args.grpc_port), "--store", "memory", "--threads", "1",
               "--http-access-log", "off"]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    found = next((match for line in process.stdout if (match := re.search(r"serving .* at http://127.0.0.1:(\d+)", line))), None)
    if found is None:
        sys.exit(f"FAILED: {' '.join(command)} did not start: status {process.wait()}")
    return process, int(found[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tutti", default=str(ROOT / "build/release/tutti"))
    parser.add_argument("--environments", type=pathlib.Path, default=ROOT / "build/load-tools", help="folder of the environments [build/load-tools]")
    parser.add_argument("--tools", default=",".join(PAIRS), help="names of PAIRS, separated by commas [all]")
    parser.add_argument("--clients", default="1,4", help="concurrent requests, separated by commas [1,4]")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each tool and of tutti bench [5]")
    parser.add_argument("--requests", type=int, default=40, help="chats in a turn [40]")
    parser.add_argument("--prompt-tokens", type=int, default=64, help="words of each prompt [64]")
    parser.add_argument("--max-tokens", type=int, default=64, help="tokens of each answer [64]")
    parser.add_argument("--within", type=float, default=5, help="percent of difference between medians that is allowed [5]")
    parser.add_argument("--grpc-port", type=int, default=18181)
    args = parser.parse_args()
    args.tutti = os.path.abspath(args.tutti)
    folder = args.environments / "work"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    say(f"load average {os.getloadavg()[0]:.2f}, {os.cpu_count()} cores")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("FAILED: ended by SIGTERM"))  # the server is stopped below
    process, port = start_server(args)
    failures = []
    try:
        load = Load(args, folder, port, args.grpc_port)
        say("| tool | clients | figure | tool: median (range) | tutti bench: median (range) | ratio | |")
        for name in args.tools.split(","):
            for clients in map(int, args.clients.split(",")):
                try:
                    failures += compare(load, name, clients, args)
                except (ToolFailed, subprocess.TimeoutExpired) as failure:
                    failures.append(f"{name} with {clients} clients: {failure}")
                    say(f"| {name} | {clients} | FAILED |")
    finally:
        process.terminate()
        process.wait()
    say(f"load average {os.getloadavg()[0]:.2f}")
    for failure in failures:
        print("FAILED:", failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
