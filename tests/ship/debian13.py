#!/usr/bin/env python3
"""Builds Tutti in a fresh Debian 13 and runs its suite there.

usage: debian13.py [--root FOLDER] [--whole] [--only REGEX]

The root is made by debootstrap (once; --root names it) and entered in namespaces of its own, so that no mount and no
process is left behind. It gets the committed tree, this machine's models and certificates of authorities, and installs
what `make` asks for. Without --whole, the unit tests run, and a server answers a chat; with it, `make test` as a whole.
Run as root.
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
AUTHORITIES = "etc/ssl/certs/ca-certificates.crt"
PREPARE = """
set -e
export DEBIAN_FRONTEND=noninteractive
apt-get update >/dev/null
apt-get install -y --no-install-recommends ca-certificates git make python3 >/dev/null
cp /tutti-authorities.crt /etc/ssl/certs/ca-certificates.crt
"""
CHAT = """
set -e
build/release/tutti serve smollm2-135m-instruct --port 18013 --grpc-port 0 > /tmp/server.log 2>&1 & server=$!
for i in $(seq 100); do build/release/tutti doctor --live http://127.0.0.1:18013 > /dev/null 2>&1 && break; sleep 0.2; done
python3 - <<'PYTHON'
import json, urllib.request
body = {"model": "smollm2-135m-instruct", "max_tokens": 8, "messages": [{"role": "user", "content": "Name a river."}]}
request = urllib.request.Request("http://127.0.0.1:18013/v1/chat/completions", json.dumps(body).encode(),
                                 {"content-type": "application/json"})
print("chat:", repr(json.load(urllib.request.urlopen(request, timeout=60))["choices"][0]["message"]["content"]))
PYTHON
kill -TERM $server
wait $server
"""


class Root:
    def __init__(self, folder):
        self.folder = folder

    def make(self):
        if (self.folder / "ready").exists():
            return
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["debootstrap", "--variant=minbase", "trixie", str(self.folder)], check=True, stdout=subprocess.DEVNULL)
        shutil.copy(f"/{AUTHORITIES}", self.folder / "tutti-authorities.crt")
        shutil.copy("/etc/resolv.conf", self.folder / "etc/resolv.conf")
        self.run(PREPARE, cwd="/")
        (self.folder / "ready").touch()

    def take_tree(self):
        tree = self.folder / "src/tutti"
        shutil.rmtree(tree, ignore_errors=True)
        tree.parent.mkdir(exist_ok=True)
        subprocess.run(["git", "clone", "-q", "--no-hardlinks", str(SOURCE), str(tree)], check=True)
        models = self.folder / "root/.cache/tutti/models"
        models.mkdir(parents=True, exist_ok=True)
        for model in (pathlib.Path.home() / ".cache/tutti/models").iterdir():
            if not (models / model.name).exists():
                (shutil.copytree if model.is_dir() else shutil.copy)(model, models / model.name)

    def run(self, script, cwd="/src/tutti"):
        """The script in bash inside the root; exits when it fails."""
        mounts = f"mount -t proc proc {self.folder}/proc && mount --rbind /dev {self.folder}/dev && mount -t sysfs sys {self.folder}/sys"
        environment = {"HOME": "/root", "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8",
                       "PIP_CERT": f"/{AUTHORITIES}", "SSL_CERT_FILE": f"/{AUTHORITIES}"}
        inside = ["env", "-i", *(f"{name}={value}" for name, value in environment.items()), "chroot", str(self.folder), "bash", "-c",
                  f"cd {cwd} && git config --global --add safe.directory '*' 2>/dev/null; {script}"]
        done = subprocess.run(["unshare", "--mount", "--pid", "--fork", "--kill-child", "bash", "-c", f'{mounts} && exec "$@"', "-", *inside],
                              stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            sys.exit(f"failed in Debian 13 with exit status {done.returncode}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=SOURCE / "build/ship/debian13", help="[build/ship/debian13]")
    parser.add_argument("--whole", action="store_true", help="the whole of `make test`")
    parser.add_argument("--only", help="test programs, a regular expression for tools/run_tests.py")
    args = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("run it as root: it makes a root file system")
    root = Root(args.root.resolve())
    begin = time.time()
    root.make()
    root.take_tree()
    root.run("grep PRETTY /etc/os-release; g++ --version 2>/dev/null | head -1; true")
    if args.whole:
        root.run("make test")
    else:
        root.run("make test-deps && tools/build.sh release")
        root.run(f"tools/run_tests.py build/release --only '{args.only}'" if args.only else
                 "tools/run_tests.py build/release --but 'e2e.*|.*clients_test|arm64_test|pages_test|python_package_test|packages_test|package_test|parity_test|engine_sim'")
        root.run(CHAT)
    print(f"Debian 13: {'the whole suite' if args.whole else 'built, unit tests and a chat'} in {(time.time() - begin) / 60:.0f} minutes")


if __name__ == "__main__":
    main()
