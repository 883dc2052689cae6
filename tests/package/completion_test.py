#!/usr/bin/env python3
"""Completions of shells (R42), as `tutti completion` prints them: asked in the shells themselves, in bash and zsh also by the Tab key.

    completion_test.py --tutti build/release/tutti [--shells bash,zsh,fish]
"""
import argparse
import os
import pathlib
import pty
import re
import select
import shlex
import subprocess
import sys
import tempfile
import time

# What a line that ends in the middle of a word is completed to. Names of files are those of main().
CASES = {
    "tutti tok": ["tokenize"],
    "tutti keys ro": ["rotate"],
    "tutti serve --dt": ["--dtype"],
    "tutti serve --dtype ": ["bf16", "f16", "f32", "int8"],
    "tutti run smollm2-135m-instruct --reasoning se": ["separate"],
    "tutti serve --port 9000 --role fr": ["frontend"],
    "tutti bench eng": ["engine"],
    "tutti bench engine --kv-dt": ["--kv-dtype"],
    "tutti help netw": ["network"],
    "tutti completion z": ["zsh"],
    "tutti serve smollm2-135m-in": ["smollm2-135m-instruct"],
    "tutti serve --config tutti.to": ["tutti.toml"],
    "tutti serve --port ": [],
    "tutti serve --no-such ": None,  # as after `tutti serve`: a model or a file, no error
}
BASH_CASES = {
    "tutti serve --dtype=b": ["bf16"],
    "tutti serve --dtype=": ["bf16", "f16", "f32", "int8"],
    "tutti serve chat=smollm2-135m-in": ["smollm2-135m-instruct"],
    "tutti serve chat=weights.gg": ["weights.gguf"],
    "tutti inspect a": ["a file.gguf"],
}
# As readline does, divides a line at spaces and at = and :, which are words of their own.
BASH_DRIVER = r"""
source "$1"
read -r _ _ function _ < <(complete -p tutti | sed 's/.*-F \(\S*\) .*/x x \1 x/')
compopt() { :; }
while IFS= read -r line; do
  COMP_WORDS=() COMP_LINE=$line COMP_POINT=${#line}
  rest=$line
  while [[ $rest =~ ^(\ *)([^ =:]+|[=:]+)(.*)$ ]]; do COMP_WORDS+=("${BASH_REMATCH[2]}"); rest=${BASH_REMATCH[3]}; done
  [[ $line == *' ' ]] && COMP_WORDS+=('')
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMPREPLY=()
  "$function" tutti "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
  (IFS=$'\t'; echo "${COMPREPLY[*]}")
done
"""


def run(command, folder, environment, stdin=""):
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, cwd=folder, env=environment, check=False, timeout=120)
    assert done.returncode == 0 and done.stderr == "", (command, done)
    return done.stdout


def in_bash(script, folder, environment):
    cases = {**CASES, **BASH_CASES}
    said = run(["bash", "--norc", "-c", BASH_DRIVER, "bash", script], folder, environment, "".join(f"{line}\n" for line in cases))
    found = [line.split("\t") if line else [] for line in said.split("\n")[:-1]]
    assert len(found) == len(cases), said
    for (line, expected), words in zip(cases.items(), found):
        assert expected is None or sorted(words) == expected, (line, words)


def in_fish(script, folder, environment):
    for line, expected in CASES.items():
        said = run(["fish", "--no-config", "-c", f"source {shlex.quote(str(script))}; complete -C {shlex.quote(line)}"], folder, environment)
        words = [row.split("\t")[0] for row in said.splitlines()]
        assert expected is None or sorted(words) == expected, (line, words)


def press_tab(shell, script, folder, environment):
    """Types a line and Tab in an interactive shell, and returns what the shell then has on its line."""
    starts = {"bash": ["bash", "--norc", "--noprofile", "-i"], "zsh": ["zsh", "-f", "-i"]}
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(folder)
        os.execvpe(shell, starts[shell], {**environment, "PS1": "> ", "TERM": "dumb"})
    seen = b""

    def read_until(pattern, seconds=30):
        nonlocal seen
        end = time.monotonic() + seconds
        while not re.search(pattern, seen):
            assert time.monotonic() < end, (shell, pattern, seen)
            if select.select([terminal], [], [], 0.2)[0]:
                seen += os.read(terminal, 65536)

    try:
        begin = "autoload -U compinit; compinit -u -D; " if shell == "zsh" else ""
        os.write(terminal, f"{begin}source {script}; echo read''y\n".encode())
        read_until(rb"ready\r?\n")
        seen = b""
        os.write(terminal, b"tutti toke\t")
        read_until(rb"tokenize ")
        os.write(terminal, b"--no-s\t")
        read_until(rb"--no-special ")
    finally:
        os.kill(process, 9)
        os.waitpid(process, 0)
        os.close(terminal)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tutti", type=pathlib.Path, required=True)
    parser.add_argument("--shells", default="bash")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        folder = pathlib.Path(work, "here")
        folder.mkdir()
        for name in ("tutti.toml", "weights.gguf", "a file.gguf"):
            (folder / name).touch()
        (folder.parent / "bin").mkdir()
        (folder.parent / "bin" / "tutti").symlink_to(args.tutti.resolve())
        environment = {"PATH": f"{folder.parent / 'bin'}:/usr/bin:/bin", "HOME": work, "LC_ALL": "C.UTF-8"}
        for shell in args.shells.split(","):
            script = folder.parent / f"tutti.{shell}"
            script.write_text(run(["tutti", "completion", shell], folder, environment))
            if shell != "zsh":
                {"bash": in_bash, "fish": in_fish}[shell](script, folder, environment)
            if shell != "fish":
                press_tab(shell, script, folder, environment)
            print(f"completion_test: {shell} ok")
        refused = subprocess.run([args.tutti, "completion", "csh"], capture_output=True, text=True, check=False)
        assert refused.returncode == 78 and "bash" in refused.stderr, refused


if __name__ == "__main__":
    try:
        main()
    except AssertionError as fault:
        print("completion_test:", fault)
        sys.exit(1)
