#!/usr/bin/env python3
"""Builds the program without some of its parts (cmake/Parts.cmake), and asks each build for what it has and has not.

usage: parts.py [--build FOLDER] [--keep]

First the preset `serve`, from which all parts are left out, then one build for each part that is left out alone. They
share a folder, so that the compiler sees only what differs. Each must serve a chat, list its parts' refusals with the
option of the build, and link none of the libraries that it does without. Prints what was seen; exit status 1 on the
first failure.
"""
import argparse
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(SOURCE / "tests" / "e2e"), str(SOURCE / "tests" / "support")]
import clean_roots  # noqa: E402
from harness import free_port  # noqa: E402

MODEL = "smollm2-135m-instruct"
PARTS = ("GRPC", "MQTT", "RABBITMQ", "BENCH")
# Arguments that ask for a part.
REFUSED = {
    "GRPC": [["serve", MODEL, "--port", "0", "--grpc-port", "8081"], ["serve", "--role", "frontend", "--port", "0"]],
    "MQTT": [["serve", MODEL, "--port", "0", "--mqtt-port", "1883"],
             ["serve", MODEL, "--port", "0", "--mqtt-url", "mqtt://127.0.0.1:1883"],
             ["chat", "--mqtt", "mqtt://127.0.0.1:1883"]],
    "RABBITMQ": [["serve", "--role", "frontend", "--port", "0", "--broker-backend", "rabbitmq", "--broker-url", "amqp://127.0.0.1"]],
    "BENCH": [["bench", "kernels"]],
}
LIBRARIES = {"GRPC": "libgrpc", "RABBITMQ": "librabbitmq"}


def run(command, **more):
    return subprocess.run([str(part) for part in command], check=True, text=True, capture_output=True, **more)


def build(folder, left_out, kernels):
    begin = time.time()
    environment = dict(os.environ, CCACHE_BASEDIR=str(SOURCE), CCACHE_NOHASHDIR="1",
                       CCACHE_SLOPPINESS="pch_defines,time_macros", CCACHE_PCH_EXTSUM="1")
    flags = [f"-DTUTTI_{part}={'OFF' if part in left_out else 'ON'}" for part in PARTS]
    run(["cmake", "-S", SOURCE, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", f"-DTUTTI_KERNELS={kernels}",
         *flags], env=environment)
    made = subprocess.run(["cmake", "--build", folder, "--target", "tutti"], text=True, capture_output=True, env=environment)
    if made.returncode != 0:
        sys.exit(made.stdout[-4000:] + made.stderr[-2000:])
    return time.time() - begin


def chat(program, folder):
    """Serves the default model until a chat has answered, and ends the server by SIGTERM."""
    port = free_port()
    server = clean_roots.Server([program, "serve", MODEL, "--port", str(port), "--grpc-port", "0"], folder / "server.log")
    try:
        text = clean_roots.chat(port, alive=server.alive)
        server.process.send_signal(signal.SIGTERM)
        status = server.process.wait(30)
    finally:
        server.kill()
    if not text or status != 0:
        sys.exit(f"answer {text!r}, exit status {status}")
    return text


def check(program, left_out, folder):
    linked = run(["ldd", program]).stdout
    for part, library in LIBRARIES.items():
        if (library in linked) == (part in left_out):
            sys.exit(f"without {left_out}, {library} is {'' if library in linked else 'not '}linked")
    for part in left_out:
        for arguments in REFUSED[part]:
            asked = subprocess.run([program, *arguments, *(["--store", folder / "store"] if "frontend" in arguments else [])],
                                   text=True, capture_output=True, timeout=60)
            # A frontend is refused for want of gRPC first.
            first = "GRPC" if "frontend" in arguments and "GRPC" in left_out else part
            if asked.returncode == 0 or f"TUTTI_{first}=OFF" not in asked.stderr or "listening" in asked.stderr:
                sys.exit(f"{arguments}: exit status {asked.returncode}\n{asked.stdout}{asked.stderr}")
    if "BENCH" not in left_out and "concurrency" not in run([program, "bench", "--help"]).stdout:
        sys.exit("bench is missing")
    return chat(program, folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=SOURCE / "build/parts", help="folder [build/parts]")
    parser.add_argument("--keep", action="store_true", help="go on in that folder, instead of from nothing")
    args = parser.parse_args()
    if not args.keep:
        shutil.rmtree(args.build, ignore_errors=True)
    program = args.build / "tutti"
    for left_out, kernels in [(PARTS, "native"), (("GRPC", "BENCH"), "native"), (("MQTT", "BENCH"), "native"),
                              (("RABBITMQ", "BENCH"), "native"), (("BENCH",), "native")]:
        seconds = build(args.build, left_out, kernels)
        text = check(program, left_out, args.build)
        print(f"without {', '.join(left_out)}: built in {seconds:.0f} s, {program.stat().st_size / 1e6:.1f} MB, "
              f"refuses what it has not, says {text!r}", flush=True)


if __name__ == "__main__":
    main()
