#!/usr/bin/env python3
"""Runs the tests of the Python package in a new virtual environment that has a wheel and what it asks for, and nothing else.

    run.py --build build/release [test names as for unittest]          builds the wheel first
    run.py --wheel build/wheel/tutti-*.whl --venv build/python-venv
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))
from virtual_environment import make_venv  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release", metavar="FOLDER")
    parser.add_argument("--wheel", type=pathlib.Path)
    parser.add_argument("--venv", type=pathlib.Path, default=ROOT / "build" / "python-venv")
    parser.add_argument("tests", nargs="*", default=["test_package", "test_ray", "test_types"])
    arguments = parser.parse_args()
    if arguments.wheel is None:
        folder = arguments.build / "wheel"
        subprocess.run([sys.executable, ROOT / "tools" / "make_wheel.py", "--build", arguments.build, "--out", folder], check=True)
        (arguments.wheel,) = folder.glob("*.whl")
    shutil.rmtree(arguments.venv, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", arguments.venv], check=True)
    python = arguments.venv / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--retries", "3", arguments.wheel],
                   check=True)
    types_python = make_venv(arguments.venv.with_name("types-venv"), HERE / "types-requirements.txt")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("TUTTI_", "PYTHON")) or name == "TUTTI_CACHE"}
    environment["TYPES_PYTHON"] = str(types_python.absolute())
    sys.exit(subprocess.run([python.absolute(), "-m", "unittest", *arguments.tests], cwd=HERE, env=environment, check=False).returncode)


if __name__ == "__main__":
    main()
