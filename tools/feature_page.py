#!/usr/bin/env python3
"""Writes docs/features.md from tests/features.toml.

    tools/feature_page.py [--check]

The data names each feature, and the pairs that are refused or have no effect; every other pair is computed. tests/e2e/test_features.py makes
a test of each pair from the same data, and fails where the page is another than the one that would be written.
"""
import argparse
import itertools
import pathlib
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA, PAGE = ROOT / "tests/features.toml", ROOT / "docs/features.md"
TESTS = "tests/e2e/test_features.py"
INTRODUCTION = """<!-- written by tools/feature_page.py from tests/features.toml -->
# Features together

Which features of a chat completion work in one request, or with which option of the server. Each cell is a test: its request has both
features, each feature checks its part of the answer, and the choices are those of the same request without what must not change them,
to the byte.

| cell | the test shows |
|---|---|
| yes | both work in one request |
| **no** | the request is refused, with the code and the field of the table [Refused](#refused) |
| - | the request is answered and one of the two does nothing, as the table [No effect](#no-effect) tells |

The test of row *A* and column *B* is `Pairs.test_A_with_B` of [test_features.py](../tests/e2e/test_features.py), with the ids of
the first table. It runs in `make test`, on a small model.
"""


def read(path=DATA):
    return tomllib.loads(pathlib.Path(path).read_text(encoding="utf-8"))


def pairs(data):
    return itertools.combinations([feature["id"] for feature in data["feature"]], 2)


def cell(data, first, second):
    key = f"{first} + {second}"
    return "**no**" if key in data["refused"] else "-" if key in data["no_effect"] else "yes"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def text(data):
    """The page."""
    features = data["feature"]
    ids = [feature["id"] for feature in features]
    names = {feature["id"]: feature["name"] for feature in features}
    matrix = [[f"`{first}`", *("" if row >= column else cell(data, first, second) for column, second in enumerate(ids) if column)]
              for row, first in enumerate(ids[:-1])]
    split = [(key.split(" + "), value) for key, value in (*data["refused"].items(), *data["no_effect"].items())]
    assert all(pair in [list(known) for known in pairs(data)] for pair, _ in split), "an unknown pair, or in the wrong order"
    parts = [INTRODUCTION,
             "## Features\n" + table(["id", "feature", "how the test asks for it", "page"], [
                 [f"`{feature['id']}`", feature["name"], feature["how"], f"[{feature['page'].partition('#')[0]}]({feature['page']})"] for feature in features]),
             "## Matrix\n" + table(["", *(f"`{name}`" for name in ids[1:])], matrix),
             "## Refused\n" + table(["pair", "`code`", "`param`"], [
                 [f"{names[a]}, {names[b]}", f"`{code}`", f"`{param}`"]
                 for key, (code, param) in data["refused"].items() for a, b in [key.split(" + ")]]),
             "## No effect\n" + table(["pair", "what is tested"], [
                 [f"{names[a]}, {names[b]}", why] for key, why in data["no_effect"].items() for a, b in [key.split(" + ")]]),
             "## Further tests\nThese tests look at a pair more closely, most of them under load, kills or at many values: Python tests of\n"
             "[tests/e2e](../tests/e2e), and tests of GoogleTest.\n\n"
             + table(["pair", "tests"], [[f"{names[a]}, {names[b]}", ", ".join(f"`{test}`" for test in tests)]
                                         for key, tests in data["also"].items() for a, b in [key.split(" + ")]])]
    return "\n".join(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the page differs")
    args = parser.parse_args()
    page = text(read())
    if args.check:
        return 0 if PAGE.read_text(encoding="utf-8") == page else 1
    PAGE.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
