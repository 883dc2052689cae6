#!/usr/bin/env python3
"""Runs the end-to-end tests against a built `tutti`, in a virtual environment with the stock clients.

    run.py --tutti build/release/tutti [--venv build/e2e-venv] [test names as for unittest]

The environment is made once for each content of requirements.txt. The default model must be in the cache folder
(`make models`).
"""
import argparse
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


def make_venv(folder: pathlib.Path) -> pathlib.Path:
    """The python of an environment that has requirements.txt installed."""
    wanted = hashlib.sha256((HERE / "requirements.txt").read_bytes()).hexdigest()
    stamp = folder / "requirements.sha256"
    python = folder / "bin" / "python"
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    shutil.rmtree(folder, ignore_errors=True)
    print(f"e2e: making {folder}", flush=True)
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "5",
               "-r", str(HERE / "requirements.txt")]
    if subprocess.run(install).returncode != 0:
        sys.exit("e2e: the stock clients could not be installed with pip; see above")
    stamp.write_text(wanted)
    return python


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tutti", type=pathlib.Path, required=True)
    parser.add_argument("--venv", type=pathlib.Path, default=HERE.parents[1] / "build" / "e2e-venv")
    parser.add_argument("tests", nargs="*")
    args = parser.parse_args()
    python = make_venv(args.venv.resolve())
    # The program refuses TUTTI_* variables that it does not know, and clients must not find others' settings.
    environment = {name: value for name, value in os.environ.items()
                   if name == "TUTTI_CACHE" or not name.lower().startswith(("tutti_", "openai_", "http_proxy", "all_proxy"))}
    environment.update(E2E_BINARY=str(args.tutti.resolve()), PYTHONUNBUFFERED="1", PYTHONDONTWRITEBYTECODE="1")
    command = [str(python), "-m", "unittest", "--durations", "10"] if sys.version_info >= (3, 12) else [str(python), "-m", "unittest"]
    names = args.tests or ["discover", "-s", str(HERE), "-p", "test_*.py"]
    return subprocess.run(command + names, env=environment, cwd=HERE).returncode


if __name__ == "__main__":
    sys.exit(main())
