#!/usr/bin/env python3
"""Runs the slow checks before a release, one after another (`make check-ship`): builds and packs, then every script of this folder.

    run.py                             all of them; writes docs/checks/ship.md
    run.py --list                      names, limits and arguments
    run.py --only packages,site        some; the page is not written
    run.py --skip load_tools --no-make

A script passes with status 0. One that runs longer than its limit is ended and has failed, and so has one for which no time is left. What a
script prints is shown as it comes, and kept in build/ship/log. A new script needs no entry here, unless it wants arguments or more time.
"""
import argparse
import contextlib
import datetime
import os
import pathlib
import platform
import re
import signal
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PAGE = ROOT / "docs/checks/ship.md"
LOGS = ROOT / "build/ship/log"
MAKE = ["make", "--no-print-directory", "package", "image", "wheel", "docs-site"]
LIMIT_MIN = 60      # the whole run, on two cores
SCRIPT_LIMIT_S = 600
# Longest time in seconds, and arguments. FOLDER is the build folder, WHEEL the wheel that was built.
PLAN = {
    "make": (1800, []),
    "packages": (1500, ["--build", "FOLDER", "--reproducible"]),
    "site": (300, []),
    "rolling_restarts": (400, ["--tutti", "FOLDER/tutti"]),
    "ray_cluster": (900, ["--wheel", "WHEEL"]),
    "trace_receiver": (600, ["--tutti", "FOLDER/tutti"]),
    "first_answer": (1600, []),
    "debian13": (1800, []),
    "parts": (1800, []),
    "arm64_kernels": (900, []),
    "arm64": (1800, []),
    "load_tools": (1200, []),
    "compare_runs": (1200, ["--tutti", "FOLDER/tutti", "--wait", "120"]),
}
LAST = ["load_tools", "compare_runs"]  # they compare times, and want nothing to be left of the others
KEPT_LINES = 60


def scripts():
    found = sorted(path.stem for path in HERE.glob("*.py") if path != pathlib.Path(__file__).resolve())
    first = [name for name in ("packages", "site") if name in found]
    return first + [name for name in found if name not in first and name not in LAST] + [name for name in LAST if name in found]


def command(name, build):
    if name == "make":
        return MAKE
    wheels = sorted((build.parent / "wheel").glob("tutti-*.whl"))
    words = [word.replace("FOLDER", str(build)).replace("WHEEL", str(wheels[0] if wheels else "no-wheel")) for word in PLAN.get(name, (0, []))[1]]
    return [sys.executable, str(HERE / f"{name}.py"), *words]


def end(process):
    """The script with all that it started: it has a session of its own."""
    for number, wait_s in ((signal.SIGTERM, 60), (signal.SIGKILL, 20)):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return
        try:
            process.wait(wait_s)
        except subprocess.TimeoutExpired:
            continue
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # what it did not wait for
        return


def run(name, build, limit_s):
    """Status in words, seconds, and the lines that it printed."""
    LOGS.mkdir(parents=True, exist_ok=True)
    begun, lines = time.monotonic(), []
    # Without buffering, so that what it prints is seen when it is printed.
    process = subprocess.Popen(command(name, build), cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               errors="replace", start_new_session=True, env={**os.environ, "PYTHONUNBUFFERED": "1"})

    def copy():
        with open(LOGS / f"{name}.log", "w") as log, process.stdout:
            for line in process.stdout:
                lines.append(line.rstrip("\n"))
                log.write(line)
                log.flush()
                print(f"  {line}", end="", flush=True)

    reader = threading.Thread(target=copy, daemon=True)
    reader.start()
    try:
        status = process.wait(limit_s)
        said = "passed" if status == 0 else f"FAILED, status {status}"
    except subprocess.TimeoutExpired:
        said = f"FAILED, ended after {limit_s:.0f} s"
    finally:
        end(process)  # also what a script left behind
    reader.join(10)
    return said, time.monotonic() - begun, lines


def spelled(seconds):
    return f"{seconds:.0f} s" if seconds < 60 else f"{int(seconds) // 60} min {int(seconds) % 60} s"


def shown(line):
    """Without the time and the places of this machine."""
    line = re.sub(r"^\d\d:\d\d:\d\d ", "", line)
    line = line.replace(f"{ROOT}/", "").replace(str(ROOT), ".").replace(str(pathlib.Path.home()), "~")
    line = re.sub(r"/(tmp|var/tmp)/[^\s'\"),:]*", "FOLDER", line)
    return line.replace("`", "'")[:148].rstrip()


def words_of(lines):
    """The last line with words; a failure is told by the line that says so."""
    filled = [line for line in lines if line.strip()]
    return next((line for line in filled if "FAILED" in line), filled[-1] if filled else "")


def machine():
    model = re.search(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    name = re.search(r'^PRETTY_NAME="(.*)"$', pathlib.Path("/etc/os-release").read_text(), re.MULTILINE)
    return f"{os.cpu_count()} cores of {model.group(1) if model else platform.machine()}, {name.group(1) if name else platform.system()}"


def commit():
    done = subprocess.run(["git", "-C", str(ROOT), "describe", "--always", "--dirty=, with changes", "--abbrev=12"], capture_output=True, text=True,
                          check=False)
    return done.stdout.strip() or "no repository"


def write_page(results, seconds, before):
    failed = sum(said != "passed" for _, said, _, _ in results)
    text = [f"""# Run of make check-ship

Written by `tests/ship/run.py`; how to read the pages of checks: [checks.md](../checks.md).

{datetime.date.today()}, commit {before}, on {machine()}: {len(results)} steps, {failed} failed, in {spelled(seconds)}.

| step | result | time |
|---|---|---|"""]
    text += [f"| {name} | {said} | {spelled(took)} |" for name, said, took, _ in results]
    for name, _, _, lines in results:
        if name != "make" and lines:
            kept = [shown(line) for line in lines if line.strip()][-KEPT_LINES:]
            text += [f"\n## {name}\n\n```text", *kept, "```"]
    PAGE.write_text("\n".join(text) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release", metavar="FOLDER")
    parser.add_argument("--list", action="store_true", help="prints what would run")
    parser.add_argument("--only", metavar="NAMES", help="these alone, separated by commas")
    parser.add_argument("--skip", metavar="NAMES", default="", help="all but these")
    parser.add_argument("--no-make", action="store_true", help="takes the packages that are there")
    parser.add_argument("--limit", type=float, default=LIMIT_MIN, metavar="MINUTES", help=f"of all together [{LIMIT_MIN}]")
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    names, skipped = scripts(), arguments.skip.split(",") if arguments.skip else []
    for name in [*(arguments.only.split(",") if arguments.only else []), *skipped]:
        if name not in names:
            parser.error(f"no script {name}; there are {', '.join(names)}")
    chosen = [name for name in names if name not in skipped and (not arguments.only or name in arguments.only.split(","))]
    steps = ([] if arguments.no_make else ["make"]) + chosen
    if arguments.list:
        for name in steps:
            words = " ".join(command(name, build)[1:]).replace(f"{ROOT}/", "")
            print(f"{name:18} at most {spelled(PLAN.get(name, (SCRIPT_LIMIT_S,))[0]):14} {words}")
        return 0
    begun, results, before = time.monotonic(), [], commit()
    for name in steps:
        left = arguments.limit * 60 - (time.monotonic() - begun)
        print(f"{time.strftime('%H:%M:%S')} {name}", flush=True)
        if left < 1:
            results.append((name, "FAILED, no time was left", 0, []))
            continue
        results.append((name, *run(name, build, min(left, PLAN.get(name, (SCRIPT_LIMIT_S,))[0]))))
        if name == "make" and results[-1][1] != "passed":
            break
    seconds = time.monotonic() - begun
    print()
    for name, said, took, lines in results:
        print(f"{name:18} {said:34} {spelled(took):>14}   {shown(words_of(lines))[:100]}")
    failed = [name for name, said, _, _ in results if said != "passed"]
    if chosen == names and len(results) == len(steps) and not arguments.no_make:
        write_page(results, seconds, before)
        print(f"written: {PAGE.relative_to(ROOT)}")
    print(f"check-ship: {len(failed)} of {len(steps)} failed: {', '.join(failed)}" if failed else
          f"check-ship: {len(steps)} passed in {spelled(seconds)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
