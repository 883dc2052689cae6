#!/usr/bin/env python3
"""Runs the test programs of one build folder and prints what took longest.

    tools/run_tests.py build/release                       every test
    tools/run_tests.py build/sanitized --only 'protocol_test|gguf_test'
    tools/run_tests.py build/tsan --shorten                real-model tests with small amounts (TUTTI_TEST_SHORT=1)

Prints each program as it ends, the output of those that fail, the ten slowest cases, the message of each failed case,
and one closing line. Exit status 1 if anything failed or nothing ran.

"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as xml


def slowest(folder, count):
    cases = []
    for path in folder.glob("*.xml"):
        for case in xml.parse(path).getroot().iter("testcase"):
            cases.append((float(case.get("time", 0)), f"{path.stem}: {case.get('classname')}.{case.get('name')}"))
    return sorted(cases, reverse=True)[:count], len(cases)


def failures(folder):
    """The first message of each failed case. The output of its program stands far above, in the middle of a long log.
    """
    for path in sorted(folder.glob("*.xml")):
        for case in xml.parse(path).getroot().iter("testcase"):
            found = case.find("failure")
            if found is not None:
                said = found.get("message") or found.text or ""
                yield f"{path.stem}: {case.get('classname')}.{case.get('name')}", said.strip()[:1000]


def skipped(folder):
    for path in folder.glob("*.xml"):
        for case in xml.parse(path).getroot().iter("testcase"):
            if case.get("result") == "skipped" or case.find("skipped") is not None:
                yield f"{path.stem}: {case.get('classname')}.{case.get('name')}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--only", help="regular expression over the names of test programs")
    parser.add_argument("--but", help="names of the tests to leave out")
    parser.add_argument("--jobs", default="2")
    parser.add_argument("--shorten", action="store_true", help="sets TUTTI_TEST_SHORT=1")
    args = parser.parse_args()

    times = args.build / "test-times"
    if times.exists():
        for old in times.glob("*.xml"):
            old.unlink()
    command = ["ctest", "--test-dir", str(args.build), "--output-on-failure", "-j", args.jobs]
    if args.only:
        command += ["-R", f"^({args.only})$"]
    if args.but:
        command += ["-E", f"^({args.but})$"]
    environment = dict(os.environ)
    if args.shorten:
        environment["TUTTI_TEST_SHORT"] = "1"
    begin = time.time()
    run = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                           errors="replace", stdin=subprocess.DEVNULL)
    ran = failed = 0
    programs = []
    for line in run.stdout:
        result = re.match(r"\s*\d+/\d+ Test +#\d+: (\S+) \.+.*?(Passed|Failed|\*\*\*\w+|Not Run).*?\s+([\d.]+) sec", line)
        if result:
            ran += 1
            failed += result.group(2) != "Passed"
            programs.append((float(result.group(3)), result.group(1)))
        print(line, end="", flush=True)
    run.wait()
    cases, total = slowest(times, 10)
    print("\nten slowest cases:")
    for seconds, name in cases:
        print(f"  {seconds:7.2f} s  {name}")
    print("programs by time: " + ", ".join(f"{name} {seconds:.0f} s" for seconds, name in sorted(programs)[::-1][:10]))
    for name in skipped(times):
        print("skipped:", name)
    for name, said in failures(times):
        print(f"FAILED {name}\n    " + said.replace("\n", "\n    "))
    if ran == 0:
        print("no test program ran")
    print(f"{args.build.name}: {ran} test programs with {total} cases in {time.time() - begin:.0f} s")
    print(f"{ran - failed} passed, {failed} failed")
    return 1 if run.returncode != 0 or failed or ran == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
