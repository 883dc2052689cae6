#!/usr/bin/env python3
"""Runs the end-to-end tests against a built `tutti`, in a virtual environment with the stock clients.

    run.py --tutti build/release/tutti [--venv build/e2e-venv] [test names as for unittest]
    run.py --tutti build/release/tutti --soak 600      the full amounts, then canaries until 600 s are over

The environment is made once for each content of requirements.txt and each Python; that needs pip's package index,
later runs do not. The default model must be in the cache folder (`make models`). TUTTI_TEST_SHORT=1 shortens the
loads, for builds that are many times slower.
"""
import argparse
import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
KEPT = ("TUTTI_CACHE",)
DROPPED = ("tutti_", "openai_", "http_proxy", "https_proxy", "all_proxy", "e2e_")


def make_venv(folder: pathlib.Path) -> pathlib.Path:
    """The python of an environment that has requirements.txt installed."""
    requirements = (HERE / "requirements.txt").read_text()
    wanted = hashlib.sha256((sys.version + requirements).encode()).hexdigest()
    stamp = folder / "requirements.sha256"
    python = folder / "bin" / "python"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.with_suffix(".lock"), "w") as lock:  # two build folders may share it
        fcntl.flock(lock, fcntl.LOCK_EX)
        if stamp.exists() and stamp.read_text() == wanted and python.exists():
            return python
        shutil.rmtree(folder, ignore_errors=True)
        print(f"e2e: installing {' '.join(requirements.split())} into {folder}", flush=True)
        if subprocess.run([sys.executable, "-m", "venv", str(folder)]).returncode != 0:
            sys.exit("e2e: no virtual environment; `make deps` installs what Python needs for it")
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input",
                   "--retries", "3", "--timeout", "20", "-r", str(HERE / "requirements.txt")]
        if subprocess.run(install).returncode != 0:
            sys.exit("e2e: the stock clients could not be installed (pip's words are above). Their installation needs "
                     "pip's package index once; with it reachable, `make e2e` tries again.")
        stamp.write_text(wanted)
    return python


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tutti", type=pathlib.Path, required=True)
    parser.add_argument("--venv", type=pathlib.Path, default=HERE.parents[1] / "build" / "e2e-venv")
    parser.add_argument("--soak", type=float, metavar="SECONDS", help="full amounts instead of those of `make test`")
    parser.add_argument("tests", nargs="*")
    args = parser.parse_args()
    python = make_venv(args.venv.resolve())
    # The program refuses TUTTI_* variables that it does not know, and clients must not find others' settings.
    environment = {name: value for name, value in os.environ.items()
                   if name in KEPT or not name.lower().startswith(DROPPED)}
    environment.update(E2E_BINARY=str(args.tutti.resolve()), PYTHONUNBUFFERED="1", PYTHONDONTWRITEBYTECODE="1")
    if os.environ.get("TUTTI_TEST_SHORT") == "1":
        environment["E2E_AMOUNT"] = "short"
    command = [str(python)]
    if args.soak is not None:
        environment["E2E_AMOUNT"] = "full"
        command += ["soak.py", str(args.soak)]
    else:
        command += ["-m", "unittest", *(["--durations", "10"] if sys.version_info >= (3, 12) else [])]
        command += args.tests or ["discover", "-s", str(HERE), "-p", "test_*.py"]
    return subprocess.run(command, env=environment, cwd=HERE).returncode


if __name__ == "__main__":
    sys.exit(main())
