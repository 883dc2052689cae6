#!/usr/bin/env python3
"""Builds the Python wheel (R40) from what the release preset compiled: build/wheel/tutti-*.whl.

    make_wheel.py [--build build/release] [--out build/wheel]

The build's own tools come from PyPI into build/wheel-venv. auditwheel puts the libraries that a Linux system need not have into the wheel
and names the oldest glibc it runs on.
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
from run import make_venv  # noqa: E402
import small_icu  # noqa: E402

MAX_BYTES = 30_000_000


def call(*command, **environment: str) -> None:
    """Runs a command with more variables. Prints what it said if it fails, and ends this program."""
    done = subprocess.run([str(part) for part in command], check=False, env={**os.environ, **environment}, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(f"{done.stdout}make_wheel: {' '.join(map(str, command[:4]))} ... failed")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release", help="where tutti_wheel_program is built")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build" / "wheel")
    args = parser.parse_args()
    out = args.out.resolve()
    python = make_venv(ROOT / "build" / "wheel-venv", ROOT / "python" / "build-requirements.txt")
    shutil.rmtree(out, ignore_errors=True)
    with tempfile.TemporaryDirectory() as work:
        package, raw = pathlib.Path(work, "python"), pathlib.Path(work, "raw")
        shutil.copytree(ROOT / "python", package, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("LICENSE", "THIRD_PARTY.md"):
            shutil.copy(ROOT / name, package)
        call("cmake", "--install", args.build, "--component", "python", "--prefix", package / "tutti")
        call(python, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-build-isolation", "--no-deps", "--wheel-dir", raw,
             package)
        (wheel,) = raw.glob("*.whl")
        icu = pathlib.Path(work, "icu")
        icu.mkdir()
        library = small_icu.make(package / "tutti" / "libtutti.so", icu)
        call(python, "-m", "auditwheel", "repair", "--strip", "--wheel-dir", out, wheel,
             PATH=f"{python.parent}:{os.environ['PATH']}", LD_LIBRARY_PATH=str(library.parent))
    (wheel,) = out.glob("*.whl")
    size = wheel.stat().st_size
    print(f"{wheel} ({size / 1e6:.1f} MB)")
    if size >= MAX_BYTES:
        sys.exit(f"the wheel must have less than {MAX_BYTES / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
