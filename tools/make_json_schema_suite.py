#!/usr/bin/env python3
"""Makes tests/data/grammar/json_schema_suite.json.gz, with which src/grammar/json_schema_suite_test.cc tests the grammar engine.

The source is the JSON Schema test suite (MIT) as the source distribution of PyPI's `jsonschema` 4.26.0 ships it in
json/tests: drafts 7 and 2020-12 with optional/format. format.json is left out: it takes formats for notes, here they
are enforced.

    {"groups": [{"file", "description", "schema": TEXT, "instances": [{"description", "valid", "texts": [TEXT, ...]}, ...]}, ...]}

A schema of draft 7 without $schema gets it. An instance stands with every text that a model could write for it, as the
engine allows one: no whitespace, numbers without an exponent and whole ones without a fraction, strings without needless
escapes, and the members of its objects in each order, as the engine takes declared properties in the schema's (the first
300 orders; the instance counts as accepted if one of its texts is).

    make_json_schema_suite.py jsonschema-4.26.0.tar.gz OUT.json.gz
"""
import argparse
import decimal
import gzip
import itertools
import json
import posixpath
import tarfile

DRAFTS = {"draft7": "http://json-schema.org/draft-07/schema#", "draft2020-12": None}
MAX_ORDERS = 300


def spell(value):
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, float):
        return str(int(value)) if value == int(value) and abs(value) < 1e300 else format(decimal.Decimal(repr(value)), "f")
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list):
        return "[" + ",".join(map(spell, value)) + "]"
    return "{" + ",".join(f"{spell(name)}:{spell(member)}" for name, member in value.items()) + "}"


def orders(value):
    """The same value with the members of its objects in each order."""
    if isinstance(value, list):
        for items in itertools.islice(itertools.product(*map(orders, value)), MAX_ORDERS):
            yield list(items)
    elif isinstance(value, dict):
        for names in itertools.islice(itertools.permutations(value), MAX_ORDERS):
            for members in itertools.islice(itertools.product(*(orders(value[name]) for name in names)), MAX_ORDERS):
                yield dict(zip(names, members))
    else:
        yield value


def groups(archive):
    root = archive.getnames()[0].split("/")[0] + "/json/tests/"
    for draft, uri in DRAFTS.items():
        folders = (root + draft, root + draft + "/optional/format")
        for name in sorted((n for n in archive.getnames() if posixpath.dirname(n) in folders and n.endswith(".json")),
                           key=lambda n: (posixpath.dirname(n), n)):
            if name == f"{root}{draft}/format.json":
                continue
            for group in json.load(archive.extractfile(name)):
                schema = group["schema"]
                if uri and isinstance(schema, dict) and "$schema" not in schema:
                    schema = {"$schema": uri, **schema}
                instances = [{"description": test["description"], "valid": test["valid"],
                              "texts": list(dict.fromkeys(map(spell, itertools.islice(orders(test["data"]), MAX_ORDERS))))}
                             for test in group["tests"]]
                yield {"file": name[len(root):], "description": group["description"],
                       "schema": json.dumps(schema, ensure_ascii=False, separators=(",", ":")), "instances": instances}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("archive")
    parser.add_argument("out")
    args = parser.parse_args()
    with tarfile.open(args.archive) as archive:
        data = {"groups": list(groups(archive))}
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    with open(args.out, "wb") as out, gzip.GzipFile("", "wb", 9, out, mtime=0) as z:
        z.write(text.encode())
    print(len(data["groups"]), "schemas,", sum(len(group["instances"]) for group in data["groups"]), "instances,", len(text), "bytes")


if __name__ == "__main__":
    main()
