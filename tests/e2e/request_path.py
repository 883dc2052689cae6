#!/usr/bin/env python3
"""Counts the modules that a request crosses, by running it under callgrind: those of src/ in which an instruction ran.

    build/e2e-venv/bin/python tests/e2e/request_path.py --tutti build/profile/tutti [--list]

The program needs lines of its sources (`cmake --preset release -B build/profile -DCMAKE_CXX_FLAGS=-g1`) and valgrind. A module
is a header and its source. Each path is run three times before it is counted, over few weights; what an idle server runs in
the same time is counted apart. MAP of ARCHITECTURE.md has the figures.
"""
import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent


def modules_of(dump):
    """The modules of src/ with a cost of their own in a file of callgrind."""
    names, modules = {}, set()
    current = None
    skip = False  # the cost of a call follows its `calls=`, and belongs to what was called
    for line in dump.read_text(errors="replace").splitlines():
        found = re.match(r"(fl|fi|fe)=\((\d+)\)(?: (.*))?$", line)
        if found:
            if found.group(3):
                names[found.group(2)] = found.group(3)
            current = names.get(found.group(2), "")
        elif line.startswith("calls="):
            skip = True
        elif re.match(r"[+*-]?\d*[ +*-]", line) and re.search(r" \d+$", line):
            source = re.search(r"/src/(.*)\.(?:cc|h|inc)$", current or "")
            if not skip and source and "/proto/" not in current:
                modules.add(source.group(1))
            skip = False
    return modules


class Counted:
    """A server under callgrind."""

    def __init__(self, server, folder):
        self.server, self.folder = server, folder

    def control(self, *options):
        subprocess.run(["callgrind_control", *options, str(self.server.process.pid)], check=True, capture_output=True)

    def during(self, action):
        self.control("--zero")
        before = set(self.folder.glob("out.*"))
        action()
        time.sleep(2)
        self.control("--dump")
        time.sleep(1)
        new = set(self.folder.glob("out.*")) - before
        return set().union(*map(modules_of, new))

    def count(self, name, action, listed):
        idle = self.during(lambda: time.sleep(3))
        for _ in range(3):
            action()
        time.sleep(2)
        run = self.during(action)
        areas = collections.Counter(module.split("/")[0] for module in run)
        print(f"{name}: {len(run)} modules, {len(run - idle)} without those of an idle server; "
              + ", ".join(f"{area} {count}" for area, count in sorted(areas.items())), flush=True)
        if listed:
            print("  " + "\n  ".join(sorted(run - idle)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tutti", type=pathlib.Path, required=True)
    parser.add_argument("--list", action="store_true", help="the modules too")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        wrapper = folder / "tutti"
        wrapper.write_text(f'#!/bin/sh\nexec valgrind -q --tool=callgrind --callgrind-out-file={folder}/out "{args.tutti.resolve()}" "$@"\n')
        wrapper.chmod(0o755)
        os.environ.update(E2E_BINARY=str(wrapper), E2E_STAND_IN="1", E2E_REPORTS=name, TUTTI_GRPC_PORT="0", TUTTI_STORE="memory")
        sys.path.insert(0, str(HERE))
        from encoder_models import EMBEDDER
        from harness import MODEL, Server
        from test_mqtt import Chat, mqtt_port, serve

        server = serve()
        counted = Counted(server, folder)
        chat = {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 8, "stream": True}
        counted.count("streamed chat over HTTP", lambda: server.post("/v1/chat/completions", chat), args.list)
        job = {"model": MODEL, "prompt": "Hi", "max_tokens": 1}
        accepted = lambda: server.post("/v1/completions", job, headers={"Prefer": "respond-async"})
        counted.count("durable job, accepted and run", accepted, args.list)
        user = Chat(mqtt_port(server), "ada")
        numbers = iter(range(100))

        def turn():
            user.say("Hi", f"m-{next(numbers)}")
            user.turn()
        counted.count("message over MQTT", turn, args.list)
        user.close()
        server.stop()
        server = Server(model=EMBEDDER)
        text = json.dumps({"model": EMBEDDER, "input": "Hi"})
        Counted(server, folder).count("embedding over HTTP", lambda: server.post("/v1/embeddings", text), args.list)
        server.stop()


if __name__ == "__main__":
    main()
