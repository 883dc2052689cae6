#!/usr/bin/env python3
"""What `make install` installs can be used: the examples are configured, built and run against it.

Installs into a fresh folder of the build tree, builds examples/ there with nothing but find_package(tutti), runs
each on the real model and compares what it prints. Also: pkg-config, the exported symbols, the licences. Needs no
network. Exit status 1 with the fault if anything differs.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from test_paths import default_model  # noqa: E402


def call(command, stdin=None, status=0, **kwargs):
    """Standard output of a command that must end with `status`."""
    done = subprocess.run([str(part) for part in command], input=stdin, text=True, capture_output=True, **kwargs)
    assert done.returncode == status, (f"{command} ended with {done.returncode}, not {status}\n"
                                       f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return done.stdout if status == 0 else done.stderr


class Package:
    def __init__(self, args):
        self.args = args
        self.work = args.build / "package-test"
        self.prefix = self.work / "prefix"
        self.programs = self.work / "examples"

    def install(self):
        if self.work.exists():
            shutil.rmtree(self.work)
        call([self.args.cmake, "--install", self.args.build, "--prefix", self.prefix])
        names = {path.relative_to(self.prefix).as_posix() for path in self.prefix.rglob("*")}
        for wanted in ("bin/tutti", "include/tutti/tutti.h", "include/tutti/c_api.h", "lib/libtutti.so",
                       "lib/cmake/tutti/tuttiConfig.cmake", "lib/pkgconfig/tutti.pc", "share/doc/tutti/LICENSE",
                       "share/doc/tutti/THIRD_PARTY.md", "share/tutti/mosquitto/tutti.conf", "share/tutti/mosquitto/tutti.acl"):
            assert wanted in names, f"{wanted} is not installed"
        for header in (self.prefix / "include/tutti").iterdir():
            for include in re.findall(r'#include "([^"]+)"', header.read_text()):
                assert (self.prefix / "include" / include).exists(), f"{header.name} includes {include}"

    def exports(self):
        """Only the public interface is visible: nothing of the inside, nothing of what is linked in."""
        names = call(["nm", "-DC", "--defined-only", self.prefix / "lib/libtutti.so"]).splitlines()
        public = [line.split(maxsplit=2)[2] for line in names]
        assert any(name.startswith("tutti::Model::Generate(") for name in public)
        assert "tutti_generate" in public
        for name in public:
            inside = re.search(r"\btutti::(\w+)::", name)
            word = inside.group(1) if inside else ""
            assert not word or word[0].isupper(), f"an inner symbol is exported: {name}"
            assert not re.match(r"(fmt|toml|boost|prometheus|spdlog)::", name), f"a foreign symbol is exported: {name}"

    def build(self):
        flags = "-Werror" + (f" -fsanitize={self.args.sanitize}" if self.args.sanitize else "")
        command = [self.args.cmake, "-G", self.args.generator, "-S", self.args.source / "examples", "-B", self.programs,
                   f"-DCMAKE_PREFIX_PATH={self.prefix}", "-DCMAKE_BUILD_TYPE=Release",
                   f"-DCMAKE_C_COMPILER={self.args.cc}", f"-DCMAKE_CXX_COMPILER={self.args.cxx}",
                   f"-DCMAKE_C_FLAGS={flags}", f"-DCMAKE_CXX_FLAGS={flags}"]
        ccache = shutil.which("ccache")
        if ccache:
            command += [f"-DCMAKE_CXX_COMPILER_LAUNCHER={ccache}", f"-DCMAKE_C_COMPILER_LAUNCHER={ccache}"]
        call(command)
        call([self.args.cmake, "--build", self.programs])

    def guide(self):
        """The program in the guide is the one that is built and run here."""
        text = (self.args.source / "docs/library.md").read_text()
        shown = text.split("<!-- example: begin -->\n```cpp\n")[1].split("```\n<!-- example: end -->")[0]
        assert shown == (self.args.source / "examples/generate.cc").read_text(), "docs/library.md differs from generate.cc"

    def pkg_config(self):
        environment = dict(os.environ, PKG_CONFIG_PATH=str(self.prefix / "lib/pkgconfig"))
        flags = call(["pkg-config", "--cflags", "--libs", "tutti"],
                     env=environment).split()
        sanitize = [f"-fsanitize={self.args.sanitize}"] if self.args.sanitize else []
        program = self.work / "from_pkg_config"
        call([self.args.cc, "-std=c11", *sanitize, self.args.source / "examples/generate.c", "-o", program, *flags])
        text = call([program, "/no/such/model.gguf"], status=1,
                    env=dict(os.environ, LD_LIBRARY_PATH=str(self.prefix / "lib")))
        assert text.startswith("model_not_found:"), text

    def run(self):
        model = str(default_model())

        def example(name, *arguments, stdin=""):
            return call([self.programs / name, model, *arguments], stdin=stdin)

        answer = example("generate")
        assert "4" in answer.splitlines()[0] and re.search(r"\n\d+ tokens in, \d+ out\n$", answer), answer
        assert example("generate_c") == answer, "C and C++ differ"

        whole = example("chat", stdin="Hello! Who are you?\n")
        assert len(whole.split()) > 3 and "(cut off)" not in whole, whole
        cut = example("chat", "3", stdin="Hello! Who are you?\nTell me a joke.\n").splitlines()
        assert len(cut) == 2 and all(line.endswith(" (cut off)") for line in cut), cut
        assert whole.startswith(cut[0].removesuffix(" (cut off)")), (whole, cut)

        stepped, texts = example("step").rsplit("]\n", 1)
        pieces = re.findall(r"\[([^\]]*)", stepped)  # a piece may hold the end of a line
        assert "Rome" in texts, texts
        assert len(pieces) > 12 and texts.startswith("".join(pieces[::2])[:6]), (pieces, texts)  # in turn

        batch = example("batch").splitlines()
        assert batch == example("batch").splitlines(), "two runs with one seed differ"
        assert [line.split(":")[0] for line in batch if re.match(r"\d:", line)] == [str(i) for i in range(9)], batch
        assert "8: failed, empty_prompt" in batch, batch
        assert sum(capital in "\n".join(batch) for capital in ("Paris", "Rome", "Madrid", "Tokyo")) >= 2, batch

        ranked = example("embed", "ab", "ba", "ab").splitlines()  # by vectors of the model that generates
        assert re.fullmatch(r"(1|0\.99\d*|1\.0\d*)  ab", ranked[0]) and ranked[1].endswith("  ba"), ranked

        *answers, kept, said = example("pool").rstrip("\n").split("\n")
        assert re.fullmatch(r"kept for the next: [1-4]", kept), kept
        assert said == "the handler said: enough", said
        quarter = len(answers) // 4
        assert answers[:quarter] * 4 == answers and "".join(answers).strip(), answers


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--source", "--build"):
        parser.add_argument(name, type=pathlib.Path, required=True)
    for name in ("--cmake", "--generator", "--cc", "--cxx"):
        parser.add_argument(name, required=True)
    parser.add_argument("--sanitize", default="")
    package = Package(parser.parse_args())
    for step in (package.install, package.exports, package.build, package.guide, package.pkg_config, package.run):
        step()
        print(step.__name__, "ok", flush=True)


if __name__ == "__main__":
    try:
        main()
    except AssertionError as fault:
        print("package_test:", fault)
        sys.exit(1)
