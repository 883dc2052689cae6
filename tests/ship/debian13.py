#!/usr/bin/env python3
"""Builds Tutti in a clean Debian 13 and runs its suite there.

usage: debian13.py [--root FOLDER] [--whole | --only NAMES]

The system is made by debootstrap, once, and kept with its packages and what was compiled. It gets the committed tree, this
machine's models and certificates of authorities, and installs what `make` asks for. By default the unit tests run, and a
server answers a chat; --whole is `make test`; --only builds and runs the named test programs, separated by commas. Needs
root.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(SOURCE / "tests" / "e2e"), str(SOURCE / "tests" / "support")]
from clean_roots import AUTHORITIES, Root, chat, clean_root  # noqa: E402
from harness import free_port  # noqa: E402

PACKAGES = ("ca-certificates", "git", "make", "python3")
# Programs that start the whole program, emulate, or take minutes: --whole has them.
LONG = ("e2e.*|.*clients_test|arm64_test|pages_test|python_package_test|packages_test|package_test|parity_test|engine_sim|"
        "completion_test|grpc_hostile_test")


def run_inside(root, script):
    """The script in bash in the tree; its output is shown. Exits if it fails."""
    done = subprocess.run(root.command("bash", "-c", f"set -e; cd /src/tutti; {script}", machine=True, PIP_CERT=AUTHORITIES,
                                       SSL_CERT_FILE=AUTHORITIES), stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        sys.exit(f"failed in Debian 13 with exit status {done.returncode}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=SOURCE / "build/ship/debian13", help="[build/ship/debian13]")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--whole", action="store_true", help="the whole of `make test`")
    what.add_argument("--only", metavar="NAMES", help="these test programs")
    args = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("run it as root: it makes a root file system")
    begin, path = time.time(), args.root.resolve()
    root = Root(path) if path.exists() else Root.copy(clean_root(path.parent / "roots", "trixie", PACKAGES), path)
    try:
        root.take_tree(SOURCE)
        root.mount(pathlib.Path.home() / ".cache/tutti/models", "/root/.cache/tutti/models")
        run_inside(root, "grep PRETTY_NAME /etc/os-release")
        if args.whole:
            run_inside(root, "make test")
            ran = "the whole suite"
        elif args.only:
            names = args.only.split(",")
            run_inside(root, f"make test-deps; tools/build.sh release {' '.join(names)}; "
                             f"tools/run_tests.py build/release --only '{'|'.join(names)}'")
            ran = args.only
        else:
            run_inside(root, f"make test-deps; tools/build.sh release; tools/run_tests.py build/release --but '{LONG}'")
            port = free_port()
            server = root.start("/src/tutti/build/release/tutti", "serve", "smollm2-135m-instruct", "--port", port, "--grpc-port", 0)
            ran = f"unit tests, and a chat: {chat(port, alive=server.alive)!r}"
            server.stop()
    finally:
        root.close()
    print(f"Debian 13: {ran}, in {(time.time() - begin) / 60:.0f} minutes")


if __name__ == "__main__":
    main()
