#!/usr/bin/env python3
"""The ranks hold: a folder of src/ includes and links only folders of strictly lower rank that it declares.

Reads ranks.json (written by the build from every tutti_folder() call) and checks
 1. the declared graph: each dependency exists and has a strictly lower rank;
 2. every #include "folder/..." in src/ against the declaration of the folder it stands in: what is not declared may not
    be included, what is declared must be, and what only tests include is declared apart (TEST_DEPENDS);
 3. the walls that ranks alone do not express (WALLS);
 4. the table in ARCHITECTURE.md and its pictures (pictures.py), which this program writes with --write;
 5. the tables of files in the pages of the folders, and every other name of a source file in pages and comments.
"""
import argparse
import json
import pathlib
import re
import sys

import pictures

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
BEGIN, END = "<!-- ranks: begin -->", "<!-- ranks: end -->"

# folder -> folders that may not appear anywhere in its transitive dependencies
WALLS = {
    "engine": {"model", "kernels", "runner", "gguf", "safetensors", "server/http", "gateway", "protocol", "telemetry"},
    "server/http": {"engine", "kv", "sampling", "model", "runner", "gateway", "kernels", "gguf", "safetensors"},
    "server/grpc": {"engine", "kv", "sampling", "model", "runner", "gateway", "kernels", "gguf", "safetensors", "server/http"},
    "server/mqtt/listener": {"engine", "gateway", "protocol", "api", "server/http", "server/grpc"},
    "protocol/kserve": {"engine", "kv", "sampling", "model", "telemetry"},
    "protocol": {"engine", "kv", "sampling", "model", "kernels", "telemetry"},
    "api": {"protocol", "engine", "telemetry"},
}


def owner(path, folders):
    """The declared folder a path below src/ belongs to: the longest declared prefix."""
    parts = path.split("/")
    for n in range(len(parts) - 1, 0, -1):
        name = "/".join(parts[:n])
        if name in folders:
            return name
    return None


def closure(name, folders):
    seen, todo = set(), [name]
    while todo:
        for dep in folders[todo.pop()]["depends"]:
            if dep in folders and dep not in seen:
                seen.add(dep)
                todo.append(dep)
    return seen


def check_graph(folders):
    for name, folder in folders.items():
        for dep in folder["depends"] + folder["test_depends"]:
            if dep not in folders:
                yield f"{name} depends on {dep}, which is not a declared folder"
            elif folders[dep]["rank"] >= folder["rank"]:
                yield f"{name} (rank {folder['rank']}) depends on {dep} (rank {folders[dep]['rank']})"
        for wall in sorted(WALLS.get(name, set()) & closure(name, folders)):
            yield f"{name} must not reach {wall}, but links it through its dependencies"


def for_tests(relative):
    """Whether a path below src/ belongs to tests and benches alone."""
    return relative.rsplit(".", 1)[0].endswith(("_test", "_bench")) or "/testing/" in relative


def check_includes(source, folders):
    files = 0
    used = {name: {False: set(), True: set()} for name in folders}  # by production code, by tests
    for path in sorted((source / "src").rglob("*")):
        if path.suffix not in (".h", ".cc", ".inc"):
            continue
        files += 1
        relative = path.relative_to(source / "src").as_posix()
        mine = owner(relative, folders)
        if mine is None:
            yield f"src/{relative} lies in no declared folder"
            continue
        tests = for_tests(relative)
        allowed = set(folders[mine]["depends"]) | {mine} | (set(folders[mine]["test_depends"]) if tests else set())
        for target in INCLUDE.findall(path.read_text(encoding="utf-8")):
            theirs = owner(target, folders)
            if theirs is None:
                if not (source / "include" / target).exists() and "/" in target:
                    yield f"src/{relative} includes \"{target}\", which is in no declared folder"
            elif theirs not in allowed:
                yield f"src/{relative} includes \"{target}\", but {mine} does not declare {theirs}"
            used[mine][tests].add(theirs)
    for name, folder in folders.items():
        for dep in folder["depends"]:
            if dep not in used[name][False]:
                what = "only its tests include it (TEST_DEPENDS)" if dep in used[name][True] else "includes nothing of it"
                yield f"{name} declares {dep}, but {what}"
        for dep in folder["test_depends"]:
            if dep not in used[name][True]:
                yield f"{name} declares {dep} for its tests, but they include nothing of it"
    if files == 0:
        yield "no source files found: wrong --source?"


ROW_NAMES = 18  # a row of a table has at most 400 characters


def diagram(folders):
    def listed(names):
        return ", ".join(f"`{name}`" for name in names)

    lines = ["| rank | folder | may include | its tests also |", "|---|---|---|---|"]
    for folder in sorted(folders.values(), key=lambda f: (f["rank"], f["folder"])):
        names = sorted(folder["depends"])
        lines.append(f"| {folder['rank']} | `{folder['folder']}` | {listed(names[:ROW_NAMES]) or 'nothing'} "
                     f"| {listed(sorted(folder['test_depends']))} |")
        for i in range(ROW_NAMES, len(names), ROW_NAMES):  # the rest in rows of their own
            lines.append(f"| | | {listed(names[i:i + ROW_NAMES])} | |")
    return "\n".join(lines)


def check_map(source, folders):
    text = (source / "ARCHITECTURE.md").read_text(encoding="utf-8")
    if BEGIN not in text or END not in text:
        yield f"ARCHITECTURE.md has no {BEGIN} ... {END} section"
        return
    written = text.split(BEGIN)[1].split(END)[0].strip()
    if written != diagram(folders):
        yield "the ranks in ARCHITECTURE.md differ from the build: run `make ranks`"


def drawn(folders):
    return {"docs/architecture/modules.svg": pictures.modules(folders), "docs/architecture/threads.svg": pictures.threads()}


def check_pictures(source, folders):
    yield from pictures.check_modules(folders)
    yield from pictures.check_threads((source / "ARCHITECTURE.md").read_text(encoding="utf-8"))
    for name, content in drawn(folders).items():
        if not (source / name).exists() or (source / name).read_text(encoding="utf-8") != content:
            yield f"{name} differs from the build: run `make ranks`"


def check_pages(source):
    """The tables of files in the folders' pages name files and folders that exist, without or with their suffix."""
    tables = 0
    for page in sorted((source / "src").rglob("README.md")):
        names = set()
        for path in page.parent.rglob("*"):
            relative = path.relative_to(page.parent)
            for name in (relative, pathlib.Path(path.name)):
                names |= {name.as_posix(), name.with_suffix("").as_posix()}
        of_files = False
        for line in page.read_text(encoding="utf-8").splitlines():
            if not line.startswith("|"):
                of_files = False
            elif line.startswith("| file"):
                of_files = True
                tables += 1
            elif of_files:
                for name in re.findall(r"`([a-z0-9_./]+)`", line.split(" | ")[0]):
                    if name.rstrip("/") not in names:
                        yield f"{page.relative_to(source).as_posix()} names {name}, which does not exist"
    if tables == 0:
        yield "no table of files found in src"


# Pages that describe the past.
HISTORY = re.compile(r"CHANGELOG\.md|docs/renames\.md|docs/decisions/")
IN_PAGE = re.compile(r"`((?:[\w-]+/)*[a-z0-9][a-z0-9_-]*\.(?:cc|h|inc|py|sh))`")
IN_COMMENT = re.compile(r"(?<![\w/.<*-])((?:\w+/)*[a-z0-9][a-z0-9_]*\.(?:cc|h|inc))\b")


def check_names(source):
    """A file that a page or a comment names exists, under that name or the end of its path. Names with capitals are patterns."""
    pages = [path for path in source.glob("*.md")] + [path for folder in ("src", "tests", "tools", "docs", "deploy", "examples")
                                                      for path in (source / folder).rglob("*.md")]
    sources = [path for folder in ("src", "tests", "include", "examples") for end in ("cc", "h", "inc")
               for path in (source / folder).rglob("*." + end)]
    ends, named = set(), 0
    for folder in ("src", "tests", "tools", "include", "examples", "deploy", "proto", "cmake"):
        for path in (source / folder).rglob("*.*"):
            parts = path.relative_to(source).parts
            ends |= {"/".join(parts[i:]) for i in range(len(parts))}
    for path in sorted(pages + sources):
        relative = path.relative_to(source).as_posix()
        if HISTORY.match(relative):
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            text = line if path.suffix == ".md" else line.partition("//")[2]
            for name in (IN_PAGE if path.suffix == ".md" else IN_COMMENT).findall(text):
                named += 1
                if name not in ends:
                    yield f"{relative}:{number} names {name}, which does not exist"
    if named == 0:
        yield "no names of files found in pages and comments"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--ranks", type=pathlib.Path, required=True)
    parser.add_argument("--write", action="store_true", help="update ARCHITECTURE.md and its pictures instead of checking them")
    args = parser.parse_args()
    folders = {row["folder"]: row for row in json.loads(args.ranks.read_text())}
    if args.write:
        path = args.source / "ARCHITECTURE.md"
        head, rest = path.read_text(encoding="utf-8").split(BEGIN)
        path.write_text(head + BEGIN + "\n" + diagram(folders) + "\n" + END + rest.split(END)[1], encoding="utf-8")
        for name, content in drawn(folders).items():
            (args.source / name).parent.mkdir(exist_ok=True)
            (args.source / name).write_text(content, encoding="utf-8")
        return 0
    faults = [*check_graph(folders), *check_includes(args.source, folders), *check_map(args.source, folders),
              *check_pictures(args.source, folders), *check_pages(args.source),
              *check_names(args.source)]
    for fault in faults:
        print("ranks:", fault)
    print(f"ranks: {len(folders)} folders, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
