"""The fenced blocks of pages: which there are, and a shell and a Python that run those of one page in their order.

| language | what is checked |
|---|---|
| sh | the commands run; each must exit with 0 |
| console | the same for what follows `$ `; the lines below a command are its output, in which `...` stands for any text |
| python | runs in one namespace for all blocks of a page; `print(x)  # -> text` must print that text |
| json, toml | must parse; the caller checks toml as a configuration |
| others of SHOWN | are shown only |

A block that cannot run here has the comment `<!-- not run: REASON -->` before it. REASONS has each reason with a sign of it, which
the block must have: a reason that no longer holds is a fault, as is one that is not in the list.

A page's port is replaced in one way: the numbers of PORTS stand for ports that were free when the page began, and `tutti serve` gets
the first two by its environment. A page without a server of its own uses the one that all pages share.
"""
import collections
import importlib.util
import json
import os
import pathlib
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
import tomllib

Block = collections.namedtuple("Block", "page line language text mark")
Fault = collections.namedtuple("Fault", "block message")

RUN = ("sh", "console", "python")
PARSED = ("json", "toml")
SHOWN = ("text", "c", "cpp", "cmake", "diff", "gbnf", "nginx", "yaml", "ini")
# What each reason shows in a block that has it.
REASONS = {
    "root": r"\b(?:apt|apt-get|dpkg|systemctl|sudo|debootstrap)\b|/etc/",
    "network": r"\b(?:pip|uv pip) install\b|\bgit clone\b|https?://(?!127\.|localhost)[a-z]",
    "minutes": r"\bmake [a-z]|\bcmake --build\b|\btutti bench\b|\bninja\b",
    "broker": r"\bamqps?://|\bmosquitto_",
    "docker": r"\bdocker\b|\bkubectl\b",
    "several machines": r"\b(?:host|node|machine)-?[a-z0-9]\b|\b[a-z0-9-]+\.(?:example|local)\b|\b10\.\d+\.\d+\.\d+\b",
    "installed library": r"\bpkg-config\b",
    "package": None,   # a package that a block imports is not installed here
    "program": None,   # a command of the block is not installed here
}
NEVER = ("root", "docker", "network")  # what would change this machine, or wait for others
PORTS = ("8080", "8081", "1883", "8883", "11434", "9000", "6379")
COMMAND = re.compile(r"^\s*(?:\$ |tutti |curl |make |pip3? |docker |python3? |mosquitto_|sudo |apt(?:-get)? |systemctl )")
FENCE = re.compile(r"^(\s*)(```+)\s*([\w+-]*)\s*$")
MARK = re.compile(r"<!-- not run: (.*?) -->")
LIMIT_S = 180 * (3 if os.environ.get("E2E_SANITIZER") else 1)


def blocks(name, text):
    """Those of a page, in their order."""
    found, mark, lines = [], None, text.splitlines()
    at = 0
    while at < len(lines):
        fence = FENCE.match(lines[at])
        if fence:
            indent, ticks, language = fence.groups()
            end = next(i for i in range(at + 1, len(lines)) if lines[i].strip() == ticks)
            body = "".join(line.removeprefix(indent) + "\n" for line in lines[at + 1:end])
            found.append(Block(name, at + 1, language, body, mark))
            mark, at = None, end
        elif (comment := MARK.fullmatch(lines[at].strip())):
            mark = comment[1]
        elif lines[at].strip():
            mark = None
        at += 1
    return found


def words_of_commands(text):
    return {match[1] for match in re.finditer(r"(?:^|[|;&(]|\$\()[ \t]*(?:\w+=\S+ )*([a-z][\w./-]*)", text, re.M)}


def fault_of_mark(block):
    """What is wrong with the comment before a block, or with a block that needs one; None if nothing."""
    if block.language not in (*RUN, *PARSED, *SHOWN):
        return f"language {block.language!r} is none of {', '.join((*RUN, *PARSED, *SHOWN))}"
    if block.mark is not None:
        if block.language not in (*RUN, "toml"):
            return f"a {block.language} block is never run; remove the comment"
        if block.mark not in REASONS:
            return f"{block.mark!r} is no reason; those are: {', '.join(REASONS)}"
        if block.mark == "package":
            names = re.findall(r"^\s*(?:import|from)\s+(\w+)", block.text, re.M)
            if all(importlib.util.find_spec(name) for name in names):
                return "all packages of this block are installed; remove the comment"
        elif block.mark == "program":
            if all(word.startswith(("./", "build/")) or shutil.which(word) or word == "tutti" for word in words_of_commands(block.text)):
                return "all programs of this block are installed; remove the comment"
        elif not re.search(REASONS[block.mark], block.text):
            return f"nothing in this block needs {block.mark!r}; remove the comment"
    elif block.language in ("sh", "console") and (needs := next((name for name in NEVER if re.search(REASONS[name], block.text)), None)):
        return f"this block is not run without `<!-- not run: {needs} -->`"
    elif block.language == "text" and COMMAND.search(block.text.split("\n")[0]):
        return "this is a command: make the block sh or console"
    return None


def fault_of_text(block):
    """Why a json or toml block does not parse; None if it does."""
    try:
        if block.language == "json":
            # A list of examples has one a line.
            try:
                json.loads(block.text)
            except json.JSONDecodeError:
                for line in block.text.splitlines():
                    json.loads(line)
        elif block.language == "toml":
            tomllib.loads(block.text)
    except ValueError as error:
        return f"does not parse: {error}"
    return None


def unlike(shown, printed):
    """Whether an output is another than the one shown, in which `...` stands for any text. White space does not count."""
    def bare(text):
        return re.sub(r"\s+", "", text)
    pattern = ".*?".join(re.escape(bare(part)) for part in shown.split("..."))
    return re.fullmatch(pattern, bare(printed), re.DOTALL) is None


def commands(text):
    """(command, shown output, number of its line in the block) of a console block. Raises ValueError for output without a command."""
    found, lines = [], text.splitlines()
    at = 0
    while at < len(lines):
        if not lines[at].startswith("$ "):
            raise ValueError(f"output without a command: {lines[at]}")
        first, command = at, lines[at][2:]
        while not complete(command):
            at += 1
            if at == len(lines):
                raise ValueError(f"command without an end: {command}")
            command += "\n" + lines[at].removeprefix("> ")
        at += 1
        shown = []
        while at < len(lines) and not lines[at].startswith("$ "):
            shown.append(lines[at])
            at += 1
        found.append((command, "\n".join(shown), first))
    return found


def complete(command):
    """Whether a shell would run it rather than wait for more."""
    if command.rstrip().endswith(("\\", "|", "&&")):
        return False
    done = subprocess.run(["bash", "-n"], input=command, capture_output=True, text=True, check=False)
    return "unexpected end of file" not in done.stderr and "unexpected EOF" not in done.stderr


def shown_prints(text):
    """What `# -> text` at the ends of a Python block says that it prints, in order."""
    return re.findall(r"^\s*print\(.*#\s*->\s*(.*)$", text, re.M)


def ended(pid):
    """Whether a process has exited. Its parent has too, so it may stay a zombie until init looks, which takes seconds on some machines."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def free_ports(count):
    """So many ports that no process listens on; all held until the last is found, so that no two are the same."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


PYTHON = """
import os, sys, traceback
def run(path, page, line, out, names):
    with open(path) as file, open(out, "w") as printed:
        os.dup2(printed.fileno(), 1), os.dup2(printed.fileno(), 2)
        try:
            exec(compile("\\n" * line + file.read(), page, "exec"), names)
            return 0
        except BaseException:
            traceback.print_exc()
            return 1
        finally:
            sys.stdout.flush()
names = {"__name__": "__main__"}
asks, answers = map(int, sys.argv[1:])
while ask := os.read(asks, 4096):
    path, page, line, out = ask.decode().split("\\n")
    os.write(answers, b"%d\\n" % run(path, page, int(line), out, names))
"""
# Blocks run with `set -e`: the first command that fails ends the shell, which reports that by not answering. `tutti serve` and
# `tutti worker` go on in the background when they serve, as a reader would let them run in another terminal.
SHELL = """
set -e
exec {asks}<&$1- {answers}>&$2-
while IFS= read -r -u $asks path && IFS= read -r -u $asks out; do
  source "$path" </dev/null >"$out" 2>&1 {asks}<&- {answers}>&-
  echo 0 >&$answers
done
"""
PROGRAM = """#!/usr/bin/env python3
# `tutti`, but a server goes on in the background once it serves, and ends the page's last one first, whose ports it takes.
import os, re, signal, ssl, subprocess, sys, time, urllib.request
unchecked = ssl._create_unverified_context()
real, state = {real!r}, {state!r}
words = sys.argv[1:]
if words[:1] not in (["serve"], ["worker"]) or {{"--help", "--print-config", "--help-all"}} & set(words):
    os.execv(real, [real, *words])
servers = os.path.join(state, "servers")
def ended(pid):
    try:
        os.kill(pid, 0)
        return open(f"/proc/{{pid}}/stat").read().rpartition(")")[2].split()[0] == "Z"
    except (ProcessLookupError, FileNotFoundError):
        return True
if words[0] == "serve" and os.path.exists(servers):
    pids = [int(line) for line in open(servers).read().split()]
    os.unlink(servers)
    for pid in pids:
        if not ended(pid):
            os.kill(pid, signal.SIGTERM)
    end = time.monotonic() + 20
    while not all(map(ended, pids)) and time.monotonic() < end:
        time.sleep(0.01)
def ready():
    # Whether it has loaded all models, or is a worker, whose frontend knows. A frontend is ready when its port is open.
    text = open(log).read()
    if words[0] == "worker":
        return True
    found = re.search(r"http.listening.*?(https?://[^ \\n]*)", text)
    if not found or "frontend" in words:
        return bool(found)
    try:
        with urllib.request.urlopen(found[1] + "/startupz", timeout=5, context=unchecked) as answer:
            return answer.status == 200
    except OSError:
        return False
log = os.path.join(state, f"log-{{os.getpid()}}")
with open(log, "w") as out:
    process = subprocess.Popen([real, *words], stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)
with open(servers if words[0] == "serve" else os.path.join(state, "workers"), "a") as out:
    out.write(f"{{process.pid}}\\n")
end = time.monotonic() + {limit}
while time.monotonic() < end and process.poll() is None and not ready():
    time.sleep(0.02)
print(open(log).read())
sys.exit(process.poll() or 0)
"""


class Page:
    """Runs the blocks of one page, in a folder of its own.

    `shared`: the ports of the server of all pages, as {"8080": number, ...}, and `environment` the variables to give to programs.
    """

    def __init__(self, folder, binary, environment, shared, python=sys.executable):
        self.folder = pathlib.Path(folder)
        self.state = self.folder / ".state"
        self.bin = self.state / "bin"
        self.bin.mkdir(parents=True)
        self.shared = shared
        self.own = dict(zip(PORTS, map(str, free_ports(len(PORTS)))))
        self.owns = False
        self.environment = dict(environment, PATH=f"{self.bin}:{pathlib.Path(python).parent}:{environment['PATH']}", PWD=str(self.folder))
        self.environment.update(TUTTI_PORT=self.own["8080"], TUTTI_GRPC_PORT=self.own["8081"])
        self.script("tutti", PROGRAM.format(real=binary, state=str(self.state), limit=LIMIT_S))
        # Only the page's own server is signalled; and its cores are those of this machine.
        self.script("pidof", f"#!/bin/sh\nhead -n 1 {self.state}/servers\n")
        self.script("taskset", "#!/bin/sh\n[ \"$1\" = -c ] && shift 2\nexec \"$@\"\n")
        self.python_path = python
        self.shell = self.python = None
        self.count = 0

    def script(self, name, text):
        path = self.bin / name
        path.write_text(text)
        path.chmod(0o755)

    def ports(self, text):
        ports = self.own if self.owns else {**self.own, **self.shared}
        return re.sub(r"(?<![\w.])(?:" + "|".join(PORTS) + r")(?!\w|\.\w)", lambda match: str(ports[match[0]]), text)

    def start(self, *command):
        """A process that takes requests on one descriptor and answers on another, whose numbers are its arguments."""
        asks, ask = os.pipe()
        answer, answers = os.pipe()
        process = subprocess.Popen([*command, str(asks), str(answers)], cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                                   pass_fds=(asks, answers), start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(asks)
        os.close(answers)
        return process, ask, answer

    def run(self, interpreter, request):
        """(whether it went well, whether it ended in time)."""
        _, ask, answer = interpreter
        try:
            os.write(ask, request.encode())
        except BrokenPipeError:
            return False, True
        ready, _, _ = select.select([answer], [], [], LIMIT_S)
        return bool(ready) and os.read(answer, 16) == b"0\n", bool(ready)

    def run_shell(self, text):
        """(exit was 0, output) of some lines of shell."""
        if self.shell is None or self.shell[0].poll() is not None:
            self.shell = self.start("bash", "--norc", "-c", SHELL, "page")
        self.count += 1
        path, out = self.state / f"{self.count}.sh", self.state / f"{self.count}.out"
        pipes = "+" if "| head" in text else "-"  # head ends before what it reads from does
        path.write_text(f"set {pipes}o pipefail\n{text}\n")
        good, in_time = self.run(self.shell, f"{path}\n{out}\n")
        printed = out.read_text(errors="replace") if out.exists() else ""
        if not in_time:
            printed += f"\n(no end after {LIMIT_S} s)"
        if not good:
            self.end(self.shell)
            self.shell = None
        return good, printed

    def run_python(self, block, text):
        if self.python is None or self.python[0].poll() is not None:
            self.python = self.start(self.python_path, "-c", PYTHON)
        self.count += 1
        path, out = self.state / f"{self.count}.py", self.state / f"{self.count}.out"
        path.write_text(text)
        good, in_time = self.run(self.python, f"{path}\n{block.page}\n{block.line}\n{out}")
        printed = out.read_text(errors="replace") if out.exists() else ""
        return good, printed if in_time else printed + f"\n(no end after {LIMIT_S} s)"

    def fault(self, block):
        """Runs a block. What went wrong, or None."""
        if block.language != "python" and re.search(r"\btutti (?:serve|worker|keys|users)\b(?!.*--(?:print-config|help))", block.text):
            self.owns = True
        if block.language != "python" and re.search(r"\btutti serve\b(?!.*--(?:print-config|help))", block.text):
            self.stop_servers()
        if self.owns:
            self.environment.pop("TUTTI_STORE", None)
        text = self.ports(block.text)
        if block.language == "python":
            good, printed = self.run_python(block, text)
            if not good:
                return f"it fails:\n{printed}"
            at = 0
            for shown in shown_prints(text):
                lines = printed.splitlines()
                found = next((i for i in range(at, len(lines)) if not unlike(shown, lines[i])), None)
                if found is None:
                    return f"it does not print {shown!r} but:\n{printed}"
                at = found + 1
            return None
        if block.language == "sh":
            good, printed = self.run_shell(self.with_store(text))
            return None if good else f"it fails:\n{printed}"
        try:
            parts = commands(text)
        except ValueError as error:
            return str(error)
        for command, shown, _ in parts:
            # curl ends with 22 for an answer of 400 or more. The page shows that it is meant.
            meant = '"error"' in shown
            # The server joins tokens into one event if they come faster than it is given the processor: other runs do not.
            for _ in range(4 if shown.startswith("data: ") else 1):
                good, printed = self.run_shell(self.with_store(f"{command} || [ $? = 22 ]" if meant else command))
                if not good:
                    return f"`{command}` fails:\n{printed}"
                if not shown.strip() or not unlike(shown, printed):
                    break
            else:
                return f"`{command}` prints:\n{printed}\nand not:\n{shown}"
        return None

    def with_store(self, text):
        """A page with a server of its own has a store of its own: that of its folder's HOME."""
        return f"export HOME={self.folder}/home; unset TUTTI_STORE\n{text}" if self.owns else text

    def end(self, interpreter):
        process, ask, answer = interpreter
        os.close(ask)
        os.close(answer)
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()

    def close(self):
        for interpreter in filter(None, (self.shell, self.python)):
            self.end(interpreter)
        self.stop_servers()

    def stop_servers(self):
        """Those of the page, and its workers, of which a server that starts later knows nothing."""
        pids = []
        for path in (self.state / "workers", self.state / "servers"):
            pids += [int(pid) for pid in path.read_text().split()] if path.exists() else []
            path.unlink(missing_ok=True)
        for pid in pids:
            try:
                os.kill(pid, signal.SIGTERM)
            except ProcessLookupError:
                pass
        end = time.monotonic() + 20
        while not all(map(ended, pids)) and time.monotonic() < end:
            time.sleep(0.02)

    def logs(self):
        return "".join(path.read_text(errors="replace") for path in sorted(self.state.glob("log-*")))


def faults(page_blocks, page):
    """Those of a page's blocks: of marks, of texts that do not parse, and of those that run, in order. The first block that fails to
    run ends the page, as later ones build on it."""
    found, running = [], True
    for block in page_blocks:
        message = fault_of_mark(block) or (fault_of_text(block) if block.mark is None else None)
        if message is None and block.language in RUN and block.mark is None and running:
            message = page.fault(block)
            running = message is None
        if message:
            found.append(Fault(block, message))
    return found
