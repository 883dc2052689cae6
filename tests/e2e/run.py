#!/usr/bin/env python3
"""Runs the end-to-end tests against a built `tutti`, in a virtual environment with the stock clients.

    run.py --tutti build/release/tutti [--venv build/e2e-venv] [test names as for unittest]
    run.py --tutti build/release/tutti --soak 600      the full amounts, then canaries until 600 s are over
    run.py --tutti build/release/tutti --kills 1000    so many random kills of brokers, servers and subscribers of MQTT
    run.py --tutti build/release/tutti --overload 600  so many seconds of 1.2, 3 and 10 times the load that can be served

The environment is made once for each content of requirements.txt and each Python; that needs pip's package index,
later runs do not. The default model must be in the cache folder (`make models`). TUTTI_TEST_SHORT=1 shortens the
loads, and so does a sanitized program, which run.py recognises; TUTTI_TEST_FULL=1 makes them those of `make soak`.
Every report of a sanitizer, of any process, is printed and fails the run; checks that make no sense in a sanitized
program are listed, and with --left-out FILE written there as the skipped cases of a JUnit report. The slowest files and
cases are printed at the end; with --left-out the times of all cases are written to another report in the same folder.
"""
import argparse
import mmap
import os
import pathlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
from virtual_environment import make_venv  # noqa: E402

KEPT = ("TUTTI_CACHE", "E2E_JOB_KILLS", "E2E_BATCH_KILLS", "E2E_BATCH_LINES", "E2E_FILE_MIB",
        "E2E_MIXED_KILLS", "E2E_PAGE_S", "E2E_BROWSER")  # the amounts of single checks
# gRPC's port and the store have defaults, but tests run several servers at once, perhaps along with a developer's own.
GIVEN = {"TUTTI_GRPC_PORT": "0", "TUTTI_STORE": "memory"}
DROPPED = ("tutti_", "openai_", "http_proxy", "https_proxy", "all_proxy", "e2e_")


def sanitizer_of(program: pathlib.Path) -> str:
    """The one it was built with, by the run-time library's first function."""
    with open(program, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        return next((name for name, symbol in (("address", b"__asan_init"), ("thread", b"__tsan_init")) if text.find(symbol) >= 0), "")


def watch(environment: dict, sanitizer: str, reports: str) -> None:
    """Lets a program's sanitizers write into files of `reports`, as standard error of many processes is not read.

    No test expects the exit status, so that it fails those that see no report.
    """
    common = f"exitcode=86:log_path={reports}/report"
    options = {"thread": {"TSAN_OPTIONS": f"halt_on_error=1:suppressions={HERE.parent / 'tsan.supp'}:{common}"},
               "address": {"ASAN_OPTIONS": common, "UBSAN_OPTIONS": "print_stacktrace=1:exitcode=86"}}
    for name, value in options.get(sanitizer, {}).items():
        environment[name] = ":".join(filter(None, (environment.get(name), value)))


def print_reports(reports: str, name: str) -> int:
    """Prints the sanitizers' reports in the folder; 1 if there are any."""
    paths = sorted(pathlib.Path(reports).glob("report*"))
    for path in paths:
        print(f"{name}: a sanitizer's report, {path.suffix[1:]}:\n{path.read_text(errors='replace')}", flush=True)
    return 1 if paths else 0


def write_left_out(path: pathlib.Path, lines: list) -> None:
    suite = xml.Element("testsuite", name="e2e_test")
    for line in lines:
        xml.SubElement(xml.SubElement(suite, "testcase", classname="e2e", name=line), "skipped")
    xml.ElementTree(suite).write(path)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tutti", type=pathlib.Path, required=True)
    parser.add_argument("--venv", type=pathlib.Path, default=HERE.parents[1] / "build" / "e2e-venv")
    parser.add_argument("--soak", type=float, metavar="SECONDS", help="full amounts instead of those of `make test`")
    parser.add_argument("--kills", type=int, metavar="N", help="test_mqtt_kills alone, with N kills")
    parser.add_argument("--overload", type=float, metavar="SECONDS", help="test_overload alone, each level so long")
    parser.add_argument("--left-out", type=pathlib.Path, metavar="FILE", help="where to write the checks left out")
    parser.add_argument("--but", metavar="FILES", default="", help="those to leave out, separated by commas")
    parser.add_argument("--part", metavar="K/N", help="every Nth file, from the Kth on (1 to N)")
    parser.add_argument("--stand-in", action="store_true", help="few weights for the default model's, where no check needs those")
    parser.add_argument("tests", nargs="*")
    args = parser.parse_args()
    python = make_venv(args.venv.resolve(), HERE / "requirements.txt")
    # The program refuses TUTTI_* variables that it does not know, and clients must not find others' settings.
    environment = {name: value for name, value in os.environ.items()
                   if name in KEPT or not name.lower().startswith(DROPPED)}
    environment.update(GIVEN, E2E_BINARY=str(args.tutti.resolve()), PYTHONUNBUFFERED="1", PYTHONDONTWRITEBYTECODE="1")
    if args.stand_in:
        environment["E2E_STAND_IN"] = "1"
    sanitizer = sanitizer_of(args.tutti)
    if sanitizer or os.environ.get("TUTTI_TEST_SHORT") == "1":
        environment["E2E_AMOUNT"] = "short"
    elif os.environ.get("TUTTI_TEST_FULL") == "1":
        environment["E2E_AMOUNT"] = "full"
    command = [str(python)]
    if args.soak is not None:
        environment["E2E_AMOUNT"] = "full"
        command += ["soak.py", str(args.soak)]
    else:
        # timed.py prints the slowest cases and writes the times of all into the folder of the other test programs' reports.
        command += ["timed.py", str(args.left_out.with_name("cases_" + args.left_out.name).resolve()) if args.left_out else ""]
        if args.kills is not None:
            environment["E2E_KILLS"] = str(args.kills)
            args.tests = ["test_mqtt_kills"]
        if args.overload is not None:
            environment.update(E2E_OVERLOAD=str(args.overload), E2E_AMOUNT="full")
            args.tests = ["test_overload"]
        but = args.but.split(",")
        tests = args.tests or [path.stem for path in sorted(HERE.glob("test_*.py")) if path.stem not in but]
        if args.part:
            first, step = map(int, args.part.split("/"))
            if not 1 <= first <= step:
                parser.error("--part takes K/N with K from 1 to N")
            tests = tests[first - 1::step]
        command += tests
    if args.left_out:
        args.left_out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as reports:
        environment.update(E2E_SANITIZER=sanitizer, E2E_REPORTS=reports)
        watch(environment, sanitizer, reports)
        status = subprocess.run(command, env=environment, cwd=HERE).returncode
        status = print_reports(reports, "e2e") or status
        left_out = pathlib.Path(reports, "left-out")
        lines = sorted(set(left_out.read_text().splitlines())) if left_out.exists() else []
        for line in lines:
            print("e2e: not judged:", line)
        if args.left_out:
            write_left_out(args.left_out, lines)
    return status


if __name__ == "__main__":
    sys.exit(main())
