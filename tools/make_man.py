#!/usr/bin/env python3
"""Makes the man pages of the program and of each of its commands from what they say of themselves, by help2man.

    make_man.py --tutti build/release/tutti --out build/release/man
"""
import argparse
import gzip
import os
import pathlib
import re
import subprocess
import sys


def said(*command) -> str:
    return subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True).stdout


def page(tutti: pathlib.Path, command: str, summary: str, version: str) -> bytes:
    """One page, without the line that names its generator and the date of the build."""
    words = f"{tutti} {command}".strip()
    options = "--help-all" if command and "--help-all" in said(tutti, command, "--help") else "--help"
    text = said("help2man", "--no-info", "--no-discard-stderr", "--section=1", f"--name={summary}", f"--version-string={version}",
                f"--help-option={options}", words)
    title = f"tutti-{command}" if command else "tutti"
    text = re.sub(r'^\.TH \S+ "1" "[^"]*"', f'.TH {title.upper()} "1" ""', text, flags=re.MULTILINE)
    text = re.sub(r"^\.SH NAME\n\S+ ", f".SH NAME\n{title} ", text, flags=re.MULTILINE)
    return text.split("\n", 1)[1].encode()


def make(tutti: pathlib.Path, out: pathlib.Path) -> None:
    """Writes all pages into a folder."""
    os.environ["COLUMNS"] = "80"
    version = said(tutti, "--version").strip()
    listed = said(tutti, "--help").split("Subcommands:\n", 1)[1].split("\n\n", 1)[0]
    commands = re.findall(r"^  (\S+)\s+(\S.*)$", listed, re.MULTILINE)
    out.mkdir(parents=True, exist_ok=True)
    for command, summary in [("", "server of language and embedding models for many clients"), *commands]:
        path = out / f"{'-'.join(filter(None, ('tutti', command)))}.1.gz"
        path.write_bytes(gzip.compress(page(tutti.resolve(), command, summary[0].lower() + summary[1:], version), mtime=0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tutti", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    args = parser.parse_args()
    if not args.tutti.exists():
        sys.exit(f"make_man: no {args.tutti}")
    make(args.tutti, args.out)


if __name__ == "__main__":
    main()
