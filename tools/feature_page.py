#!/usr/bin/env python3
"""Writes docs/features.md from tests/features.toml.

    tools/feature_page.py [--check]

The data names each feature, and the pairs that are refused or have no effect; every other pair is computed. tests/e2e/test_features.py makes
a test of each pair from the same data, test_api_features.py and test_encoder_features.py one of each feature through each API; the first
fails where the page is another than the one that would be written.
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

Which features work together in one request of chat completions, and which features each API has. Each cell is a test that runs in `make
test`, on a small model.

| cell | the test shows |
|---|---|
| yes | it works: the features check their part of the answer, and the text is the one without what must not change it |
| **no** | the request is refused with the code of a table below |
| - | it does nothing, as a table below tells |
"""
PAIRS = """## Two features in one request
The test of row *A* and column *B* is `Pairs.test_A_with_B` of [test_features.py](../tests/e2e/test_features.py).
"""
APIS = """## Features and APIs
The test of row *A* and column *B* is `Apis.test_A_over_B` of [test_api_features.py](../tests/e2e/test_api_features.py). Its server is
strict (`--strict on`): without that, an unknown field is ignored and named in the header `x-tutti-ignored`. Another test of that file
compares the texts: a dialog has the same answer through every API.
"""


ENCODERS = """## Vectors and scores
The test of row *A* and column *B* is `Encoders.test_A_over_B` of [test_encoder_features.py](../tests/e2e/test_encoder_features.py), whose
server is strict too. A text has the same vector through every API.
"""


def read(path=DATA):
    return tomllib.loads(pathlib.Path(path).read_text(encoding="utf-8"))


def pairs(data):
    return itertools.combinations([feature["id"] for feature in data["feature"]], 2)


def cell(data, first, second):
    key = f"{first} + {second}"
    return "**no**" if key in data["refused"] else "-" if key in data["no_effect"] else "yes"


def api_cells(data):
    return [(feature, api["id"]) for feature in data["apis"]["features"] for api in data["api"]]


def api_cell(data, feature, api):
    key = f"{feature} + {api}"
    return "**no**" if key in data["api_refused"] else "-" if key in data["api_absent"] else "yes"


def encoder_cells(data):
    return [(feature["id"], api["id"]) for feature in data["encoder_feature"] for api in data["encoder_api"]]


def encoder_cell(data, feature, api):
    key = f"{feature} + {api}"
    return "**no**" if key in data["encoder_refused"] else "-" if key in data["encoder_absent"] else "yes"


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
    assert {*data["refused"], *data["no_effect"], *data["also"]} <= {" + ".join(pair) for pair in pairs(data)}, "an unknown pair"
    apis = data["api"]
    api_names = {api["id"]: api["name"] for api in apis}
    assert {*data["api_refused"], *data["api_absent"]} <= {f"{feature} + {api}" for feature, api in api_cells(data)}, "an unknown cell"
    parts = [
        INTRODUCTION,
        "## Features\n" + table(["id", "feature", "how the tests ask for it", "page"], [
            [f"`{one['id']}`", one["name"], one["how"], link(one)] for one in features]),
        PAIRS,
        table(["", *(f"`{name}`" for name in ids[1:])], matrix),
        "### Refused pairs\n" + table(["pair", "`code`", "`param`"], [
            [f"{names[a]}, {names[b]}", f"`{code}`", f"`{param}`"] for (a, b), (code, param) in keyed(data["refused"])]),
        "### Pairs without effect\n" + table(["pair", "what is tested"], [[f"{names[a]}, {names[b]}", why] for (a, b), why in keyed(data["no_effect"])]),
        APIS,
        table(["id", "API", "page"], [[f"`{api['id']}`", api["name"], link(api)] for api in apis]),
        table(["", *(f"`{api['id']}`" for api in apis)], [
            [f"`{feature}`", *(api_cell(data, feature, api["id"]) for api in apis)] for feature in data["apis"]["features"]]),
        "### Refused by an API\n" + table(["feature", "API", "`code`", "instead"], [
            [names[a], api_names[b], f"`{code}`", instead] for (a, b), (code, instead) in keyed(data["api_refused"])]),
        "### Not in an API\n" + table(["feature", "API", "why"], [[names[a], api_names[b], why] for (a, b), why in keyed(data["api_absent"])]),
        *of_encoders(data),
        "## Further tests\nThese tests look at a pair more closely, most of them under load, kills or at many values: Python tests of\n"
        "[tests/e2e](../tests/e2e), and tests of GoogleTest.\n",
        table(["pair", "tests"], [[f"{names[a]}, {names[b]}", ", ".join(f"`{test}`" for test in tests)] for (a, b), tests in keyed(data["also"])])]
    return "\n".join(parts)


def of_encoders(data):
    apis, features = data["encoder_api"], data["encoder_feature"]
    assert {*data["encoder_refused"], *data["encoder_absent"]} <= {f"{feature} + {api}" for feature, api in encoder_cells(data)}, "an unknown cell"
    names = {one["id"]: one["name"] for one in (*features, *apis)}
    return [
        ENCODERS,
        table(["id", "feature", "how the tests ask for it"], [[f"`{one['id']}`", one["name"], one["how"]] for one in features]),
        table(["id", "API", "page"], [[f"`{one['id']}`", one["name"], link(one)] for one in apis]),
        table(["", *(f"`{api['id']}`" for api in apis)], [
            [f"`{one['id']}`", *(encoder_cell(data, one["id"], api["id"]) for api in apis)] for one in features]),
        "### Refused for vectors and scores\n" + table(["feature", "API", "`code`", "instead"], [
            [names[a], names[b], f"`{code}`", instead] for (a, b), (code, instead) in keyed(data["encoder_refused"])]),
        "### Not in an API for vectors and scores\n" + table(["feature", "API", "why"], [
            [names[a], names[b], why] for (a, b), why in keyed(data["encoder_absent"])])]


def keyed(cells):
    """((first, second), value) of each cell."""
    return [(tuple(key.split(" + ")), value) for key, value in cells.items()]


def link(one):
    return f"[{one['page'].partition('#')[0]}]({one['page']})"


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
