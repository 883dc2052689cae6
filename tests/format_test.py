#!/usr/bin/env python3
"""The C++ sources are formatted: no line is wider than 100 columns, and clang-format 14 would change nothing.

The second is judged only where clang-format-14 is installed (it is no package the build needs); the first
everywhere. A line with a string on it may be wider, because nothing breaks a raw string. --write formats instead.

The scripts that the Makefile runs by their names alone can be executed: `make bench-structured-peers` once could not.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys

COLUMNS = 100
SUFFIXES = (".cc", ".h", ".inc")
FOLDERS = ("src", "include", "tests", "examples")
TOOL = "clang-format-14"


def sources(root):
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in SUFFIXES and "third_party" not in path.parts:
                yield path


def too_wide(path):
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if len(line) > COLUMNS and '"' not in line:
            yield f"{path}:{number} has {len(line)} columns, more than {COLUMNS}"


def formatted(path):
    name = path.with_suffix(".cc") if path.suffix == ".inc" else path  # C++ too, which the suffix does not show
    return subprocess.run([TOOL, f"--assume-filename={name}"], input=path.read_bytes(),
                          capture_output=True, check=True).stdout


def changed(paths):
    """The files that the tool may change: one process reads hundreds of files, in a tenth of the time of one process
    each."""
    suspects = [path for path in paths if path.suffix == ".inc"]
    files = [path for path in paths if path.suffix != ".inc"]
    chunks = [files[i:i + 200] for i in range(0, len(files), 200)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        runs = pool.map(lambda chunk: subprocess.run([TOOL, "--dry-run", *chunk], capture_output=True, text=True, check=True), chunks)
    for run in runs:
        named = set(re.findall(r"^(\S+):\d+:\d+: warning: code should be clang-formatted", run.stderr, re.M))
        suspects += [path for path in files if str(path) in named]
    return suspects


def not_executable(root):
    recipes = [line for line in (root / "Makefile").read_text().splitlines() if line.startswith("\t")]
    scripts = {name for line in recipes for name in re.findall(r"(?:^\t@?(?:exec )?|&& |; )(tools/[\w.]+)", line)}
    if not scripts:
        yield "no script found in the Makefile"
    for name in sorted(scripts):
        if not os.access(root / name, os.X_OK):
            yield f"{name} is run by the Makefile and is not executable"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--write", action="store_true", help="format every source file")
    args = parser.parse_args()
    paths = list(sources(args.source))
    faults = [fault for path in paths if not args.write for fault in too_wide(path)]
    faults += not_executable(args.source)
    tool = shutil.which(TOOL) is not None
    if args.write and not tool:
        print(f"format: {TOOL} is not installed")
        return 1
    if tool:
        suspects = paths if args.write else changed(paths)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for path, text in zip(suspects, pool.map(formatted, suspects)):
                if text == path.read_bytes():
                    continue
                if args.write:
                    path.write_bytes(text)
                else:
                    faults.append(f"{path}: `make fmt` would change it")
    if not paths:
        faults.append("no source files found: wrong --source?")
    for fault in faults:
        print("format:", fault)
    print(f"format: {len(paths)} files, {len(faults)} faults" + ("" if tool else f", {TOOL} not asked"))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
