#!/usr/bin/env python3
"""Files that may be compiled several at once share no name of an unnamed namespace.

Which files of a folder meet in one translation unit depends on how many there are: a collision would appear when
somebody adds a file elsewhere. Compared are the definitions at the beginning of a line: types, constants, aliases that
differ, using-declarations, and functions of the same parameters."""
import argparse
import pathlib
import re
import sys

NOT_FUNCTIONS = {"if", "for", "while", "switch", "return", "static_assert", "TEST", "TEST_F", "TEST_P", "namespace",
                 "INSTANTIATE_TEST_SUITE_P", "MATCHER", "MATCHER_P", "MATCHER_P2", "BENCHMARK", "decltype", "requires",
                 "alignas", "using", "TYPED_TEST", "TYPED_TEST_SUITE", "ACTION", "ACTION_P", "template", "else"}


def parameter_types(text):
    """The types of a parameter list, without the parameters' names and defaults: they make two functions overloads."""
    types, depth, part = [], 0, ""
    for c in text + ",":
        if c == "," and depth == 0:
            part = re.sub(r"\s*=.*", "", part.strip())
            part = re.sub(r"(?<=[\s&*>])\w+(\[\w*\])?$", "", part)
            # A call cannot choose between a value and a reference to one, and a call with a literal finds any kind of text.
            types.append(re.sub(r"^(char\*|(std::)?string(_view)?)$", "text", re.sub(r"\bconst\b|&|\s", "", part)))
            part = ""
            continue
        depth += (c in "<({") - (c in ">)}")
        part += c
    return ",".join(types)


def definitions(text):
    """(namespace, name, what it is) of all that stands in unnamed namespaces; what: a text that only equals itself."""
    text = re.sub(r'R"(\w*)\(.*?\)\1"', '""', text, flags=re.S)
    text = re.sub(r"//[^\n]*", "", text)
    spaces = []
    lines = text.split("\n")
    for i, line in enumerate(lines):
        opened = re.match(r"(?:inline )?namespace(?: ([\w:]+))? \{$", line)
        if opened:
            spaces.append(opened.group(1))
            continue
        if line.startswith("}") and not line.startswith("};") and spaces and i and re.match(r"\}\s*$", line):
            # The end of a namespace had a comment, which is gone; that of a function ends one that is open.
            if "function" in spaces[-1:]:
                spaces.pop()
                continue
            spaces.pop()
            continue
        if None not in spaces:
            continue
        where = "::".join(s or "" for s in spaces if s != "function")
        kind = re.match(r"(?:template <.*> ?)?(?:struct|class|enum class|enum|union) (?:alignas\(\w+\) )?(\w+)[^;]*\{", line)
        if kind:
            yield where, kind.group(1), f"type {i}"
        alias = re.match(r"using (\w+) = (.*)", line)
        if alias:
            yield where, alias.group(1), "alias " + alias.group(2)
        taken = re.match(r"using ((?:\w*::)+(\w+));", line)
        if taken:
            yield where, taken.group(2), "using " + re.sub(r"^::", "", taken.group(1))
        value = re.match(r"(?:static |inline )?(?:constexpr|const|constinit|thread_local)\b[^(]*?[\s&*](\w+)(?:\[\w*\])*\s*(?:=|\{|$|\([^)]*\);)", line)
        if value:
            yield where, value.group(1), f"value {i}"
            # And the others of a declaration such as "constexpr int kA = 1, kB = 2;".
            declaration, k = line, i
            while ";" not in declaration and declaration.rstrip().endswith(",") and k + 1 < len(lines):
                k += 1
                declaration += " " + lines[k].strip()
            for more in re.findall(r", (k[A-Z]\w*)(?:\[\w*\])* =", declaration):
                yield where, more, f"value {i}"
        whole = line
        if re.match(r"[A-Za-z_]", line) and not kind and not alias and not value:
            k = i
            while whole.count("(") > whole.count(")") and k + 1 < len(lines):
                k += 1
                whole += " " + lines[k].strip()
            function = re.match(r"[\w:<>,&*\s]+?[\s&*](\w+)\((.*?)\)\s*(?:const |noexcept )?(?:->.*)?\{", whole)
            if function and function.group(1) not in NOT_FUNCTIONS:
                yield where, function.group(1), "function " + parameter_types(function.group(2))
        # The parameters of a function may take several lines.
        if re.search(r"\{$", whole) and re.match(r"\S", line) and not re.search(r"= \{$|\[\] = \{$", whole) and not kind:
            spaces.append("function")


def joined(source):
    """Per folder that is joined, its library's files and its tests', as lists."""
    for lists in sorted(source.glob("src/**/CMakeLists.txt")):
        text = lists.read_text()
        nested = [p.parent for p in lists.parent.glob("*/**/CMakeLists.txt")]
        files = [p for p in sorted(lists.parent.rglob("*.cc")) if not any(n in p.parents for n in nested)]
        tests = [p for p in files if p.name.endswith("_test.cc")]
        if "tutti_folder(" in text and not re.search(r"\bSEPARATE\b", text):
            yield [p for p in files if p not in tests and not p.name.endswith("_bench.cc")]
            yield tests


def collisions(files):
    seen, found = {}, []
    for path in files:
        mine = set(definitions(path.read_text()))
        for where, name, what in sorted(mine):
            for other, other_what in seen.get((where, name), []):
                both = {what.split()[0], other_what.split()[0]}
                if both == {"function"} and what != other_what:
                    continue  # overloads
                if both in ({"alias"}, {"using"}) and what == other_what:
                    continue
                if both == {"using", "function"}:
                    continue  # overloads, mostly: which, the line does not say
                found.append(f"{path} and {other} both define {where}{name}")
        for where, name, what in mine:
            seen.setdefault((where, name), []).append((path, what))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", type=pathlib.Path, default=pathlib.Path("."))
    source = parser.parse_args().source
    sample = ("namespace a {\nnamespace {\nint F(int x,\n      int y) {\n  return x;\n}\nstruct S {\n};\nusing ::b::T;\nconstexpr int kA = 1,\n              kB = 2;\n}  // namespace\n"
              "}  // namespace a\n")
    if {(n, w.split()[0]) for _, n, w in definitions(sample)} != {("F", "function"), ("S", "type"), ("kA", "value"), ("kB", "value"), ("T", "using")}:
        sys.exit("the reader of definitions does not read its own sample: " + str(list(definitions(sample))))
    found, count = [], 0
    for files in joined(source):
        count += len(files)
        found += collisions(files)
    for line in found:
        print(line)
    print(f"{count} files that may be joined, {len(found)} collisions")
    sys.exit(1 if found or count == 0 else 0)


if __name__ == "__main__":
    main()
