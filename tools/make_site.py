#!/usr/bin/env python3
"""Builds the site of the pages into build/site: README.md and docs/ with a search, which needs no network when it is read.

    tools/make_site.py [--out build/site]

mkdocs-material comes from PyPI into build/docs-venv the first time. The pages are copied to a folder in the build tree first and changed there,
because they are written for code hosts:

- README.md and the other pages at the top become pages of the site, and links between them are made to fit; links to sources become text.
- Python's Markdown wants an empty line before a list and four spaces for each level of one.

The build is strict: a link, an anchor or a page of the navigation that does not exist, and a page that is not in the navigation, fail it.
"""
import argparse
import os
import pathlib
import posixpath
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/support"))
from virtual_environment import make_venv  # noqa: E402

REQUIREMENTS = ROOT / "tests/ship/site-requirements.txt"
# Pages outside of docs, and what they are in the site.
OTHERS = {"README.md": "index.md", "python/README.md": "python.md", "ARCHITECTURE.md": "architecture.md", "CONTRIBUTING.md": "contributing.md",
          "CHANGELOG.md": "changelog.md", "THIRD_PARTY.md": "third-party.md"}
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
ITEM = re.compile(r"^( *)([-*]|\d+\.)( +)(?=\S)")
FENCE = re.compile(r"^ *```")


def files():
    """{path in the repository: path in the site} of all that is copied."""
    found = dict(OTHERS)
    for path in sorted((ROOT / "docs").rglob("*")):
        name = path.relative_to(ROOT).as_posix()
        if path.is_file() and path.suffix != ".yml":
            found[name] = name.removeprefix("docs/")
    return found


def linked(text, name, known):
    """Links of a page of the repository as links of the site. What is not in the site stays as text."""
    place = posixpath.dirname(known[name])

    def link(found):
        picture, words, target = found.groups()
        if re.match(r"[a-z]+:|#", target):
            return found[0]
        path, mark, anchor = target.partition("#")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
        if path in known:
            if not picture and re.fullmatch(r"[\w./-]+\.md", words):
                words = title(ROOT / path)  # a reader of the site sees no files
            return f"{picture}[{words}]({posixpath.relpath(known[path], place or '.')}{mark}{anchor})"
        if not (ROOT / path).exists():
            return found[0]  # which fails the build
        return f"`{words}`" if "/" in words and "`" not in words else words
    # Names of files in HTML, as in <picture>.
    text = re.sub(r'((?:src|srcset)=")(docs/[^"]+)', lambda found: found[1] + posixpath.relpath(known[found[2]], place or "."), text)
    return outside_blocks(text, lambda part: LINK.sub(link, part))


def outside_blocks(text, change):
    """Changes what is not in a fenced block."""
    parts = re.split(r"(^ *```.*?^ *```[ \t]*$)", text, flags=re.S | re.M)
    parts[::2] = [change(part) for part in parts[::2]]
    return "".join(parts)


def lists(text):
    """The lists of a page as Python's Markdown reads them."""
    out, stack, fenced, before = [], [], False, ""
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip())
        inside = bool(stack) and (indent > 0 or not line.strip())
        if stack and not inside and not ITEM.match(line) and not before.strip():
            stack = []
        if fenced or not line.strip():
            out.append(shifted(line, stack))
            fenced ^= bool(FENCE.match(line))
        elif FENCE.match(line):
            fenced = True
            while stack and indent < stack[-1][1]:
                stack.pop()
            out.append(shifted(line, stack))
        elif item := ITEM.match(line):
            while stack and indent < stack[-1][1] and indent <= stack[-1][0]:
                stack.pop()
            if not stack and before.strip():
                out.append("")
            elif stack and before.strip() and not ITEM.match(before) and len(before) - len(before.lstrip()) == 0:
                out.append("")
            out.append(" " * 4 * len(stack) + line.strip())
            stack.append((indent, item.end()))
        elif line.startswith("|") and not before.startswith("|"):
            # A table needs an empty line before it, and words in its head.
            out += ["", re.sub(r"\|\s+(?=\|)", "| &nbsp; ", line) if not line.replace("|", "").strip() else line]
        else:
            out.append(shifted(line, stack))
        before = line
    return "\n".join(out) + "\n"


def shifted(line, stack):
    """A line below an item, with the spaces of its level."""
    if not stack or not line.strip() or line == line.lstrip():
        return line
    return " " * 4 * len(stack) + line[min(stack[-1][1], len(line) - len(line.lstrip())):]


def rank(target):
    """Pages about the work on Tutti stand behind the guides in a search."""
    behind = target.startswith(("checks", "decisions/")) or target in ("roadmap.md", "changelog.md", "contributing.md", "renames.md")
    return "---\nsearch:\n  boost: 0.3\n---\n" if behind else ""


def title(path):
    return next(line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("# ")).removeprefix("# ").replace("`", "")


def configuration(pages, out):
    """The configuration with its folders, and with the pages of folders in the navigation."""
    text = (ROOT / "docs/site/mkdocs.yml").read_text(encoding="utf-8")

    def expand(found):
        spaces, name, folder = found.groups()
        first = [f"{spaces}    - {folder.rstrip('/')}.md\n"] if (pages / f"{folder.rstrip('/')}.md").exists() else []
        rest = [f"{spaces}    - {title_of(path)}: {folder}{path.name}\n" for path in sorted((pages / folder).glob("*.md"))]
        return f"{spaces}- {name}:\n" + "".join(first + rest)

    def title_of(path):
        return '"' + title(path).replace('"', "'") + '"'
    text = re.sub(r"^( *)- ([^:\n]+): (\w+/)\n", expand, text, flags=re.M)
    return f"docs_dir: {pages}\nsite_dir: {out}\n" + text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build/site")
    args = parser.parse_args()
    python = make_venv(ROOT / "build/docs-venv", REQUIREMENTS)
    pages = ROOT / "build/site-pages"
    shutil.rmtree(pages, ignore_errors=True)
    known = files()
    for name, target in known.items():
        path = pages / target
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":
            path.write_text(rank(target) + lists(linked((ROOT / name).read_text(encoding="utf-8"), name, known)), encoding="utf-8")
        else:
            shutil.copyfile(ROOT / name, path)
    config = ROOT / "build/site-pages.yml"
    config.write_text(configuration(pages, args.out.resolve()), encoding="utf-8")
    done = subprocess.run([str(python), "-m", "mkdocs", "build", "--strict", "--config-file", str(config)], check=False,
                          env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "DISABLE_MKDOCS_2_WARNING": "true"})
    if done.returncode == 0:
        print(f"built {args.out}: {sum(1 for _ in args.out.rglob('*.html'))} pages; open {args.out}/index.html")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
