#!/usr/bin/env python3
"""Tutti for 64-bit Arm, built whole on this machine and run under emulation (R42, N62).

usage: arm64.py [--root FOLDER] [--only build,tests,packages]

The system is Debian 12, made by debootstrap once and kept with its packages and what was compiled: the cross compiler and the libraries of
arm64 next to those of this machine. There the preset arm64 is built from the committed tree, and by qemu

build      the program answers a chat as this machine's program does;
tests      the unit tests of all UNTRUSTED folders, most of which read bytes of others: `char` has no sign there;
packages   .deb, tarball and image are made; each is put into a system of its own kind, where a chat is answered and SIGTERM ends the server.

Needs root.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(SOURCE / "tests" / "e2e"), str(SOURCE / "tests" / "support")]
from clean_roots import Root, call, chat, clean_root  # noqa: E402
from harness import free_port  # noqa: E402
from test_paths import default_model  # noqa: E402

KINDS = ("build", "tests", "packages")
MODELS = "/root/.cache/tutti/models"
IMAGE_MODELS = "/srv/models"
QEMU = "/usr/bin/qemu-aarch64-static"
START_S = 600  # emulated, the weights are prepared slowly
# Left out: what expects a speed, which under emulation nothing has (a hash of a password takes seconds), and what asks the kernel for calls that
# qemu 7.2 does not know: filters of system calls, files opened beneath a folder, and starting a program of this processor again.
BUT = ("*Scal*:*Linear*:*Rate*:*Million*:*Thousand*:*Second*:*Millisecond*:*Memory*:*Peak*:*HostileSources*:LargeAnswerTest.*:"
       "AdminTest.AUser*:NewFileTest.FileSystemsThat*:NewFileTest.ANameThatIsNot*:*BeneathItsRoot:*BeneathARoot*:"
       "*DeathTest.*")


def say(*words):
    print(time.strftime("%H:%M:%S"), *words, flush=True)


def packages(root):
    """Those of this project's lists: libraries for arm64, tools for this machine."""
    named = []
    for name in ("packages", "packages-parts", "packages-package"):
        lines = (SOURCE / f"cmake/{name}.txt").read_text().splitlines()
        named += [line.split("|")[0] for line in lines if line and not line.startswith("#")]
    named += ["libgtest-dev", "libgmock-dev", "libbenchmark-dev"]
    shown = root.run("apt-cache", "show", "--no-all-versions", *(f"{name}:arm64" for name in named if name.endswith("-dev")), check=False)[1]
    arm = {line.split()[1] for line in shown.splitlines() if line.startswith("Package: ")}
    return [f"{name}:arm64" if name in arm else name for name in named] + ["g++-aarch64-linux-gnu", "qemu-user", "qemu-user-static", "redis-server"]


def prepare(path):
    if not path.exists():
        root = Root.copy(clean_root(path.parent / "roots", "bookworm", ("ca-certificates", "git", "python3")), path)
        root.run("dpkg", "--add-architecture", "arm64")
    root = Root(path)
    root.run("apt-get", "update")
    say("installing the cross compiler and the libraries of arm64, where they are missing")
    root.install(*packages(root))
    root.take_tree(SOURCE)
    root.mount(default_model().parent, MODELS)
    return root


def make(root, *targets):
    done = subprocess.run(root.command("bash", "-c", f"cd /src/tutti && tools/build.sh arm64 {' '.join(targets)}"), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(f"arm64 is not built: {done.stdout[-5000:]}")
    if "warning:" in done.stdout:
        sys.exit(f"warnings of the build: {done.stdout[-5000:]}")


def serve_and_ask(root, *program, user="0:0", models=MODELS):
    """The answer, and the seconds from the start of the server to its end."""
    port = free_port()
    begin = time.monotonic()
    server = root.start(*program, "serve", f"tutti={models}/{default_model().name}", "--port", port, "--grpc-port", 0, "--store", "memory",
                        user=user)
    try:
        answer = chat(port, "tutti", server.alive, limit_s=START_S)
        root.run(*program, "doctor", "--live", f"http://127.0.0.1:{port}", user=user)
        server.stop()
    finally:
        server.kill()
    return answer, time.monotonic() - begin


def check_build(root):
    make(root, "tutti", "tutti_shared")
    said = root.run(QEMU, "/src/tutti/build/arm64/tutti", "doctor")
    if "i8mm" not in said:
        sys.exit(f"the emulated processor has no matrix products: {said}")
    answer, seconds = serve_and_ask(root, QEMU, "/src/tutti/build/arm64/tutti")
    say(f"built whole; under emulation it answers {answer!r}, {seconds:.0f} s from the start to the end")
    return answer


def slowness(program):
    """A key of sorting: what takes minutes comes first."""
    order = ("server_http_test", "tokenizer_test", "sampling_test", "safetensors_test", "chat_template_test", "gguf_test")
    return (order.index(program.name) if program.name in order else len(order), program.name)


def check_tests(root):
    make(root, "untrusted_tests")
    programs = sorted((path for path in (root.path / "src/tutti/build/arm64/src").rglob("*_test") if path.is_file()), key=slowness)
    if len(programs) < 20:
        sys.exit(f"untrusted_tests are {len(programs)} programs")

    def run(program):
        begin = time.monotonic()
        status, said = root.run("env", "TUTTI_SOURCE_DIR=/src/tutti", "TUTTI_BINARY_DIR=/src/tutti/build/arm64", "TUTTI_TEST_SHORT=1", QEMU,
                                "/" + str(program.relative_to(root.path)), "--gtest_brief=1", f"--gtest_filter=-{BUT}", check=False)
        if status != 0:
            sys.exit(f"{program.name} failed with {status}: {said[-6000:]}")
        ran = int(re.search(r"^\[=+\] (\d+) tests? from .* ran", said, re.MULTILINE).group(1))
        say(f"{program.name}: {ran} cases in {time.monotonic() - begin:.0f} s")
        return ran

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as several:
        cases = sum(several.map(run, programs))
    say(f"{len(programs)} programs of unit tests, {cases} cases, passed under emulation")


def blob(layout, descriptor):
    return (layout / "blobs" / descriptor["digest"].replace(":", "/")).read_text()


def check_same(said, answer):
    if said != answer:
        sys.exit(f"the built program said {answer!r}, the packed one {said!r}")


def check_packages(root, answer, work):
    epoch = call("git", "-C", SOURCE, "log", "-1", "--format=%ct").strip()
    for script in ("make_packages", "make_image"):
        root.run("env", f"SOURCE_DATE_EPOCH={epoch}", "python3", f"/src/tutti/tools/{script}.py", "--build", "/src/tutti/build/arm64")
    made = root.path / "src/tutti/build/arm64/package"
    (deb,), (tarball,), (image,) = (list(made.glob(pattern)) for pattern in ("*_arm64.deb", "*-aarch64.tar.gz", "*-aarch64.oci.tar"))

    root.run("apt-get", "install", "-y", f"/src/tutti/build/arm64/package/{deb.name}")
    said, seconds = serve_and_ask(root, QEMU, "/usr/bin/tutti")
    root.run("apt-get", "purge", "-y", "tutti:arm64")
    say(f".deb, {deb.stat().st_size / 1e6:.1f} MB: installed by apt; {said!r}, {seconds:.0f} s")
    check_same(said, answer)

    layout, unpacked = work / "layout", work / "image"
    layout.mkdir(parents=True)
    call("tar", "-xf", image, "-C", layout)
    (entry,) = json.loads((layout / "index.json").read_text())["manifests"]
    name = entry["annotations"]["org.opencontainers.image.ref.name"]
    architecture = json.loads(blob(layout, json.loads(blob(layout, entry))["config"]))["architecture"]
    if architecture != "arm64":
        sys.exit(f"the image says that it is for {architecture}")
    call("umoci", "raw", "unpack", "--image", f"{layout}:{name}", unpacked)
    shutil.copyfile(root.path / QEMU.lstrip("/"), unpacked / "qemu")
    (unpacked / "qemu").chmod(0o755)
    inner = Root(unpacked)
    inner.mount(default_model().parent, IMAGE_MODELS)
    said, seconds = serve_and_ask(inner, "/qemu", "/usr/bin/tutti", user="65532:65532", models=IMAGE_MODELS)
    say(f"image, {image.stat().st_size / 1e6:.1f} MB: as user 65532 in its own files; {said!r}, {seconds:.0f} s")
    check_same(said, answer)

    # A system with glibc and nothing else: the image without the program and its libraries.
    shutil.rmtree(unpacked / "usr/lib/tutti")
    (unpacked / "usr/bin/tutti").unlink()
    call("tar", "-xf", tarball, "-C", unpacked / "srv")
    (folder,) = (unpacked / "srv").glob("tutti-*")
    said, seconds = serve_and_ask(inner, "/qemu", f"/srv/{folder.name}/bin/tutti", models=IMAGE_MODELS)
    say(f"tarball, {tarball.stat().st_size / 1e6:.1f} MB: where glibc alone is; {said!r}, {seconds:.0f} s")
    check_same(said, answer)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=SOURCE / "build/ship/arm64", help="[build/ship/arm64]")
    parser.add_argument("--only", default=",".join(KINDS), metavar="NAMES", help=f"of {', '.join(KINDS)}; build is always done")
    args = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("run it as root: it makes a root file system")
    only = args.only.split(",")
    if not set(only) <= set(KINDS):
        parser.error(f"--only takes {', '.join(KINDS)}")
    path = args.root.resolve()
    begin, work = time.monotonic(), path.with_name(f"{path.name}.work")
    shutil.rmtree(work, ignore_errors=True)
    root = prepare(path)
    try:
        answer = check_build(root)
        if "4" not in answer:
            sys.exit(f"2 + 2 is {answer!r}")
        if "tests" in only:
            check_tests(root)
        if "packages" in only:
            check_packages(root, answer, work)
    finally:
        root.close()
        shutil.rmtree(work, ignore_errors=True)
    print(f"arm64: {', '.join(only)}, in {(time.monotonic() - begin) / 60:.0f} minutes")


if __name__ == "__main__":
    main()
