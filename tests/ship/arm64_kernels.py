#!/usr/bin/env python3
"""Runs the kernels' tests for 64-bit Arm under emulation, with those that take minutes (tests/arm64/run.py --whole)."""
import pathlib
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]

sys.exit(subprocess.run([sys.executable, SOURCE / "tests/arm64/run.py", "--build", SOURCE / "build/ship/arm64-kernels", "--whole"]).returncode)
