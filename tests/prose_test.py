#!/usr/bin/env python3
"""Comments, messages and pages keep the rules of CONTRIBUTING.md that a program can check.

  banned         phrases of a private dialect, in sources, tests and pages
  of-comment     comments that begin with "Of "
  test-name      names of tests with more than 60 characters
  error-words    error messages with more than 20 words
  help-words     help of an option with more than 14 words
  page-line      lines of a page with more than 160 characters, outside tables and code
  page-row       rows of a table with more than 400 characters

tests/prose_allowed.txt holds how many faults each file has left: more fail, and so do fewer, until `--write` lowers the
numbers. It never raises one. `--list RULE` prints the places.
"""
import argparse
import collections
import pathlib
import re
import sys

SOURCES = ("src", "include", "tests", "examples", "tools")
ALLOWED = "tests/prose_allowed.txt"
BANNED = re.compile(
    r"\b(?:that is none|likewise|who asks|what there is not|whoever|by which|of then|what is said|is known to say)\b"
    r"|(?<![a-z])beside(?![a-z])", re.IGNORECASE)  # in names too
TEST_NAME = re.compile(r"\b(?:TEST|TEST_F|TEST_P|TYPED_TEST)\(\s*\w+,\s*(\w+)\s*\)|^\s*def (test_\w+)", re.MULTILINE)
ERROR = re.compile(r"\b(?:InvalidArgument|NotFound|Unavailable|ResourceExhausted|Internal|Bad\w*|Malformed|Status)\(")
WORD = re.compile(r"[^\s]+")
MAX_NAME, MAX_ERROR, MAX_HELP, MAX_LINE, MAX_ROW = 60, 20, 14, 160, 400

Fault = collections.namedtuple("Fault", "rule path line text")
Token = collections.namedtuple("Token", "kind begin end text")  # kind: comment, string, code

LEXEMES = re.compile(
    r'(?P<line>//[^\n]*)|(?P<block>/\*.*?\*/)|(?P<raw>R"(?P<mark>[^()\\\s]{0,16})\((?P<body>.*?)\)(?P=mark)")'
    r'|(?P<string>"(?:\\.|[^"\\\n])*")|(?P<char>(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\')', re.DOTALL)


def tokens(text):
    """The comments and strings of a C++ source."""
    for found in LEXEMES.finditer(text):
        kind = found.lastgroup
        if found.group("line") or found.group("block"):
            yield Token("comment", found.start(), found.end(), found.group())
        elif found.group("raw"):
            yield Token("string", found.start(), found.end(), found.group("body"))
        elif found.group("string"):
            yield Token("string", found.start(), found.end(), found.group()[1:-1])
        elif kind is None:
            raise AssertionError(found.group())


def line_of(text, at):
    return text.count("\n", 0, at) + 1


def behind_call(code, at):
    """The end of the call whose opening bracket ends at `at`, in code whose strings and comments are blank."""
    depth = 1
    while at < len(code) and depth:
        depth += {"(": 1, ")": -1}.get(code[at], 0)
        at += 1
    return at


def blanked(text, found):
    """The text with comments and strings made blank, byte for byte."""
    code = list(text)
    for token in found:
        code[token.begin:token.end] = " " * (token.end - token.begin)
    return "".join(code)


def errors(path, text, found):
    """Messages are counted without their code, what is put in between as a word."""
    code = blanked(text, found)
    strings = [token for token in found if token.kind == "string"]
    done = 0
    for call in ERROR.finditer(code):
        if call.start() < done:
            continue
        end = behind_call(code, call.end())
        inner = [token for token in strings if call.end() <= token.begin < end]
        words, place = 0, call.end()
        for number, token in enumerate(inner):
            if number == 0 and re.fullmatch(r"[a-z0-9_]+", token.text):
                place = token.end
                continue  # the code
            words += len(WORD.findall(token.text)) + ("+" in code[place:token.begin] and number > 0)
            place = token.end
        if words > MAX_ERROR:
            yield Fault("error-words", path, line_of(text, call.start()), f"{words} words: {' '.join(t.text for t in inner)[:120]}")
        done = end


def option_help(path, text, found):
    """The third string of add_option and add_flag, and the help column of the table of options."""
    code = blanked(text, found)
    strings = [token for token in found if token.kind == "string"]

    def joined(begin, end):
        """Strings of a call, those that stand next to each other as one."""
        whole, last = [], None
        for token in strings:
            if not begin <= token.begin < end:
                continue
            if last is not None and not code[last:token.begin].strip():
                whole[-1] = (whole[-1][0], whole[-1][1] + token.text)
            else:
                whole.append((token.begin, token.text))
            last = token.end
        return whole

    calls = [(m.end(), behind_call(code, m.end()), 1) for m in re.finditer(r"\badd_(?:option|flag)\(", code)]
    if path.name == "options.cc":
        calls += [(m.end(), code.find("}", m.end()), 2) for m in re.finditer(r"^    \{", code, re.MULTILINE)]
    for begin, end, column in calls:
        given = joined(begin, end)
        if len(given) <= column:
            continue
        at, help_text = given[column]
        words = WORD.findall(re.sub(r"\s*[(\[]default.*", "", help_text.replace("\\n", " ")))
        if len(words) > MAX_HELP:
            yield Fault("help-words", path, line_of(text, at), f"{len(words)} words: {help_text[:120]}")


def in_source(path, text):
    for phrase in BANNED.finditer(text):
        yield Fault("banned", path, line_of(text, phrase.start()), phrase.group())
    found = list(tokens(text))
    last_line = -1
    for token in found:
        if token.kind != "comment":
            continue
        line = line_of(text, token.begin)
        if line != last_line + 1 and re.match(r"//+\s*Of ", token.text):
            yield Fault("of-comment", path, line, token.text[:100])
        last_line = line_of(text, token.end)
    if "src" in path.parts and not path.name.endswith("_test.cc"):
        yield from errors(path, text, found)
        yield from option_help(path, text, found)


def in_page(path, text):
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
            continue
        if fenced:
            continue
        for phrase in BANNED.finditer(line):
            yield Fault("banned", path, number, phrase.group())
        row = line.lstrip().startswith("|")
        if len(line) > (MAX_ROW if row else MAX_LINE):
            yield Fault("page-row" if row else "page-line", path, number, f"{len(line)} characters: {line[:80]}")


def faults(root):
    pages = [root / "README.md", root / "CONTRIBUTING.md", root / "ARCHITECTURE.md", root / "CHANGELOG.md"]
    pages += sorted((root / "docs").rglob("*.md")) + sorted((root / "src").rglob("*.md"))
    for path in pages:
        yield from in_page(path, path.read_text(encoding="utf-8"))
    for folder in SOURCES:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in (".cc", ".h", ".inc", ".py") or {"third_party", "testing", "golden"} & set(path.parts):
                continue
            if path.name == "prose_test.py":
                continue
            text = path.read_text(encoding="utf-8")
            for name in TEST_NAME.finditer(text):
                word = name.group(1) or name.group(2)
                if len(word) > MAX_NAME:
                    yield Fault("test-name", path, line_of(text, name.start()), word)
            if path.suffix != ".py":
                yield from in_source(path, text)
                continue
            for phrase in BANNED.finditer(text):
                yield Fault("banned", path, line_of(text, phrase.start()), phrase.group())


def read_allowed(path):
    allowed = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        rule, name, count = line.split()
        allowed[rule, name] = int(count)
    return allowed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--write", action="store_true", help="lower the numbers of the allowed faults")
    parser.add_argument("--begin", action="store_true", help="with --write: take today's numbers, whatever they are")
    parser.add_argument("--list", metavar="RULE", help="print the places where a rule is broken")
    args = parser.parse_args()
    found = [fault._replace(path=fault.path.relative_to(args.source).as_posix()) for fault in faults(args.source)]
    if args.list:
        for fault in found:
            if fault.rule == args.list:
                print(f"{fault.path}:{fault.line}: {fault.text}")
        return 0
    counted = collections.Counter((fault.rule, fault.path) for fault in found)
    path = args.source / ALLOWED
    allowed = read_allowed(path)
    bad = []
    for key in sorted(set(counted) | set(allowed)):
        now, most = counted[key], allowed.get(key, 0)
        if now > most and not args.begin:
            bad.append(f"{key[1]}: {now} faults of {key[0]}, {most} allowed")
            bad += [f"  {fault.path}:{fault.line}: {fault.text}" for fault in found if (fault.rule, fault.path) == key]
        elif now < most and not args.write:
            bad.append(f"{key[1]}: {now} faults of {key[0]} left, {most} allowed; run tests/prose_test.py --source . --write")
    print("\n".join(bad))
    if args.write:
        kept = {key: now if args.begin else min(now, allowed.get(key, 0)) for key, now in counted.items()}
        path.write_text("".join(f"{rule} {name} {count}\n" for (rule, name), count in sorted(kept.items()) if count), encoding="utf-8")
    totals = collections.Counter(fault.rule for fault in found)
    print("prose:", ", ".join(f"{rule} {count}" for rule, count in sorted(totals.items())) or "no fault")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
