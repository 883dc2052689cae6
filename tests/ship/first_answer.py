#!/usr/bin/env python3
"""From a clone to an answer on a new machine (row R45): `make serve` in a clean Debian 12 root that has git and make only.

Packages, the model and the program are fetched and built from nothing, with an empty compiler cache, until a chat is answered. The time is
printed, not judged: it depends on the machine, its mirror and its package index. Needs root, debootstrap and the network.
"""
import argparse
import pathlib
import sys
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(SOURCE / "tests/support"), str(SOURCE / "tests/e2e")]

from clean_roots import AUTHORITIES, Root, chat, clean_root  # noqa: E402
from harness import free_port  # noqa: E402

BUILD_LIMIT_S = 1500


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=pathlib.Path, default=SOURCE / "build/ship/roots", help="folder with clean systems [build/ship/roots]")
    args = parser.parse_args()
    (SOURCE / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=SOURCE / "build") as folder:
        root = Root.copy(clean_root(args.cache, "bookworm", ("git", "make", "ca-certificates")), pathlib.Path(folder, "root"))
        root.take_tree(SOURCE)
        port = free_port()
        begin = time.monotonic()
        server = root.start("make", "-C", "/src/tutti", "serve", f"ARGS=--port {port}", PIP_CERT=AUTHORITIES)
        try:
            text = chat(port, alive=server.alive, limit_s=BUILD_LIMIT_S)
            seconds = time.monotonic() - begin
        finally:
            root.close()
    print(f"{seconds:.0f} s from `make serve` to the answer {text!r}; 360 are asked for on two cores")


if __name__ == "__main__":
    main()
