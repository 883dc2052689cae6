#!/usr/bin/env python3
"""Checks `tutti bench --compare` on this machine (N58): an unchanged program passes, one that is 10 % slower fails.

    compare_runs.py [--tutti build/release/tutti] [--runs 20] [--slower 5] [--slowdown 10] [--wait 600 | --busy]

Measures a baseline of `tutti bench engine` with the default model, then compares so many unchanged runs and so many with
`--inject-slowdown` with it, in turns. Before each run it waits until other programs use less than 4 % of the cores. A run during which
they used more is judged by no comparison: it is printed and repeated. Takes about a quarter of a minute for each run.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
# One thread, so that another program may have the other core.
WORK = ("engine", "smollm2-135m-instruct", "--threads", "1", "--prompt", "128", "--gen", "16", "--batch", "8", "--repeat", "10")
MOST_BUSY = 0.1  # the share of others above which a comparison judges nothing


def say(*words):
    print(time.strftime("%H:%M:%S"), *words, flush=True)


def core_seconds():
    """Used and all core time since the start of the machine, in ticks."""
    with open("/proc/stat") as file:
        fields = [int(text) for text in file.readline().split()[1:9]]
    return sum(fields) - fields[3] - fields[4], sum(fields)


def wait_idle(limit_s):
    end = time.monotonic() + limit_s
    while True:
        used, total = core_seconds()
        time.sleep(4)
        used_now, total_now = core_seconds()
        if (used_now - used) < 0.04 * (total_now - total):
            return
        if time.monotonic() > end:
            sys.exit(f"FAILED: other programs used the cores for {limit_s} s; nothing can be judged")


def run(tutti, folder, *more):
    """Status and report of one bench."""
    path = folder / "now.json"
    done = subprocess.run([tutti, "bench", *WORK, "--json", str(path), *more], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode not in (0, 1):
        sys.exit(f"FAILED: status {done.returncode}: {done.stderr}")
    return done.returncode, json.loads(path.read_text())


def middle_changes(report):
    return ", ".join(f"{100 * (figure['time_ratio'] - 1):+.1f}/{100 * (figure['best_time_ratio'] - 1):+.1f}"
                     for figure in report["comparison"]["figures"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tutti", default=str(ROOT / "build/release/tutti"))
    parser.add_argument("--runs", type=int, default=20, help="unchanged runs [20]")
    parser.add_argument("--slower", type=int, default=5, help="slower runs [5]")
    parser.add_argument("--slowdown", default="10", help="percent [10]")
    parser.add_argument("--busy", action="store_true", help="do not wait for an idle machine, and judge on a busy one (--allow-busy)")
    parser.add_argument("--wait", type=int, default=600, help="longest wait for an idle machine, in seconds [600]")
    args = parser.parse_args()
    tutti = os.path.abspath(args.tutti)
    failures = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        baseline = folder / "baseline.json"
        while True:
            if not args.busy:
                wait_idle(args.wait)
            _, report = run(tutti, folder)
            others = report["machine"].get("others_cpu", 0)
            figures = "; ".join(f"{figure['metric']} {figure['median']:.0f} ({figure['min']:.0f}-{figure['max']:.0f})" for figure in report["figures"])
            say(f"baseline: others used {100 * others:.1f} % of the cores; {figures}")
            if args.busy or others <= MOST_BUSY:
                break
        baseline.write_text(json.dumps(report))
        # The slower runs are spread over the unchanged ones.
        plan = [False] * args.runs
        for i in range(args.slower):
            plan.insert((i + 1) * len(plan) // (args.slower + 1), True)
        for number, slow in enumerate(plan, 1):
            for attempt in range(20):
                more = ["--inject-slowdown", args.slowdown] if slow else []
                if args.busy:
                    more.append("--allow-busy")
                else:
                    wait_idle(args.wait)
                status, report = run(tutti, folder, "--compare", str(baseline), *more)
                comparison = report["comparison"]
                kind = f"{args.slowdown} % slower" if slow else "unchanged"
                say(f"{number}/{len(plan)} {kind}: status {status}, {comparison['slower']} slower and {comparison['undecided']} undecided of "
                    f"{len(comparison['figures'])} figures after {comparison['measurements']} measurements; time middle/best % "
                    f"{middle_changes(report)}; others {100 * report['machine'].get('others_cpu', 0):.1f} %")
                if args.busy or status == 1 or report["machine"].get("others_cpu", 0) <= MOST_BUSY:
                    break
            else:
                failures.append(f"run {number} was disturbed 20 times")
            if status != (1 if slow else 0):
                failures.append(f"run {number}, {kind}: status {status}")
    for failure in failures:
        print("FAILED:", failure)
    say(f"{args.runs} unchanged and {args.slower} slower runs, {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
