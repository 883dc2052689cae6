#!/usr/bin/env python3
"""Runs stock gRPC clients against the door of `grpc_host`, in a virtual environment of their own.

    run.py --host build/release/tests/grpc/grpc_host [--venv build/grpc-venv] [test names as for unittest]

It is not that of the end-to-end tests: tritonclient[all] holds protobuf below 5 and brings CUDA's packages, and
perf_analyzer needs CUDA's run-time library, some fifty megabytes that `make e2e` can do without. Made and used as that
one is (tests/e2e/run.py).
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))
import run as e2e  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", type=pathlib.Path, required=True)
    parser.add_argument("--venv", type=pathlib.Path, default=HERE.parents[1] / "build" / "grpc-venv")
    parser.add_argument("tests", nargs="*")
    args = parser.parse_args()
    python = e2e.make_venv(args.venv.resolve(), HERE / "requirements.txt")
    sanitizer = e2e.sanitizer_of(args.host)
    environment = {name: value for name, value in os.environ.items() if not name.lower().startswith(e2e.DROPPED)}
    environment.update(GRPC_HOST=str(args.host.resolve()), PYTHONUNBUFFERED="1", PYTHONDONTWRITEBYTECODE="1",
                       GRPC_VERBOSITY="NONE",
                       GRPC_SHORT="1" if sanitizer or os.environ.get("TUTTI_TEST_SHORT") == "1" else "")
    with tempfile.TemporaryDirectory() as reports:
        e2e.watch(environment, sanitizer, reports)
        command = [str(python), "-m", "unittest", *(args.tests or ["discover", "-s", str(HERE), "-p", "test_*.py"])]
        status = subprocess.run(command, env=environment, cwd=HERE, stdin=subprocess.DEVNULL).returncode
        for path in sorted(pathlib.Path(reports).glob("report*")):
            print(f"grpc: a sanitizer's report, {path.suffix[1:]}:\n{path.read_text(errors='replace')}", flush=True)
            status = status or 1
    return status


if __name__ == "__main__":
    sys.exit(main())
