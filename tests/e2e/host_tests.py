"""Runs a folder's tests of stock clients against a host: a small program with one server and a simple backend.

What grpc/run.py, mqtt/run.py and broker/run.py have in common; they say what differs.
"""
import argparse
import os
import pathlib
import subprocess
import tempfile

import run as e2e
from virtual_environment import make_venv


def main(folder, words, venv, prefix, **more):
    """`folder`: the tests' own; `words`: what the script says of itself. `venv`: a folder of build/, to be made as the end-to-end
    tests make theirs. The tests find the host as {prefix}_HOST, {prefix}_SHORT where amounts are to be small, {prefix}_FULL where they are those of `make soak`, and `more`."""
    parser = argparse.ArgumentParser(description=words, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", type=pathlib.Path, required=True)
    parser.add_argument("--venv", type=pathlib.Path, default=folder.parents[1] / "build" / venv)
    parser.add_argument("tests", nargs="*")
    args = parser.parse_args()
    python = make_venv(args.venv.resolve(), folder / "requirements.txt")
    sanitizer = e2e.sanitizer_of(args.host)
    environment = {name: value for name, value in os.environ.items() if not name.lower().startswith(e2e.DROPPED)}
    environment.update({f"{prefix}_HOST": str(args.host.resolve()),
                        f"{prefix}_SHORT": "1" if sanitizer or os.environ.get("TUTTI_TEST_SHORT") == "1" else "",
                        f"{prefix}_FULL": os.environ.get("TUTTI_TEST_FULL", ""), **more},
                       PYTHONUNBUFFERED="1", PYTHONDONTWRITEBYTECODE="1")
    with tempfile.TemporaryDirectory() as reports:
        e2e.watch(environment, sanitizer, reports)
        command = [str(python), "-m", "unittest", *(args.tests or ["discover", "-s", str(folder), "-p", "test_*.py"])]
        status = subprocess.run(command, env=environment, cwd=folder, stdin=subprocess.DEVNULL).returncode
        return e2e.print_reports(reports, folder.name) or status
