#!/usr/bin/env python3
"""Makes tests/data/tokenizer/split_expressions.json.gz, which src/tokenizer/regex compares its matches with.

The reference is Oniguruma as Hugging Face's `tokenizers` runs it (PyPI, 0.23.3). A match is a pair of byte offsets.

    {"published": [{"name", "pattern", "cases": [[text, [begin, end, begin, end, ...]], ...]}, ...],
     "random": the same, of expressions from a grammar,
     "sets": [[pattern, [first, last, first, last, ...]], ...]}   the code points that a pattern of one character matches

    make_regex_vectors.py OUT.json.gz [--texts N] [--random N] [--seed N]
"""
import argparse
import gzip
import json
import pathlib
import random
import re

from tokenizers import Regex, normalizers, pre_tokenizers

MARK = "\ue000"  # in no text

CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
EACH_CASE = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
SPACES = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
HEAD = r"[^\r\n\p{L}\p{N}]?"
NOT_HAN = r"&&[^\p{Han}]]"
ASCII_MARKS = r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]"""


def cased(upper, lower, tail):
    """Words in which capitals come first: tekken, o200k and their like."""
    return f"{HEAD}{upper}*{lower}+{tail}|{HEAD}{upper}+{lower}*{tail}"


def looked_at(letters, tail):
    """The same as llama.cpp writes it."""
    return cased(rf"((?=[{letters}])([^a-z]))", rf"((?=[{letters}])([^A-Z]))", tail)


def deepseek_letters():
    source = pathlib.Path(__file__).resolve().parent.parent / "src/tokenizer/split_families.cc"
    ranges = re.findall(r"\{0x([0-9A-Fa-f]+), 0x([0-9A-Fa-f]+)\}", source.read_text())
    parts = [(chr(int(a, 16)), chr(int(b, 16))) for a, b in ranges]
    return r"\s?[" + "".join(a if a == b else f"{a}-{b}" for a, b in parts) + "]+"


# As the models' files have them; those of llama.cpp where it writes them otherwise.
PUBLISHED = {
    "gpt2": GPT2 + r"|\s+",
    "gpt2, llama.cpp": GPT2,
    "llama3": rf"{CONTRACTIONS}|{HEAD}\p{{L}}+|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*{SPACES}",
    "llama3, llama.cpp": rf"{EACH_CASE}|{HEAD}\p{{L}}+|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*{SPACES}",
    "qwen2": rf"{CONTRACTIONS}|{HEAD}\p{{L}}+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*{SPACES}",
    "qwen3.5": rf"{CONTRACTIONS}|{HEAD}[\p{{L}}\p{{M}}]+|\p{{N}}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*{SPACES}",
    "jais2": rf"{CONTRACTIONS}|{HEAD}\p{{L}}+|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|\s*[\r\n]+"
             + "".join(rf"|\s{{{n}}}(?!\S)" for n in (512, 256, 128, 64, 32, 16, 8, 4)) + r"|\s{1,2}(?!\S)|\s{1}",
    "tekken": rf"{cased(UPPER, LOWER, '')}|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*{SPACES}",
    "tekken, llama.cpp": rf"{looked_at(chr(92) + 'p{L}', '')}|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*{SPACES}",
    "o200k": rf"{cased(UPPER, LOWER, CONTRACTIONS + '?')}|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*{SPACES}",
    "granite embedding": rf"{looked_at(chr(92) + 'p{L}' + chr(92) + 'p{M}', EACH_CASE + '?')}"
                         rf"|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*{SPACES}",
    "kimi k2": r"[\p{Han}]+|" + cased(UPPER[:-1] + NOT_HAN, LOWER[:-1] + NOT_HAN, CONTRACTIONS + "?")
               + rf"|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*{SPACES}",
    "deepseek llm, line ends": "[\r\n]",
    "deepseek llm, letters": deepseek_letters(),
    "deepseek llm, marks": "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+",
    "deepseek llm, trailing space": r"\s+$",
    "deepseek llm, ideographs": "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+",
    "deepseek coder, letters": r"\s?\p{L}+",
    "deepseek coder, marks": r"\s?\p{P}+",
    "deepseek v3, numbers": r"\p{N}{1,3}",
    "deepseek v3, ideographs": "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
    "deepseek v3": ASCII_MARKS + "[A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
                   "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
    "spark": ASCII_MARKS + "[A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
             "| ?[\\p{P}\\p{S}]+|[\r\n]|\\s+(?!\\S)|\\s+",
    "afmoe": ASCII_MARKS + r"[A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
             rf"| ?[\p{{P}}\p{{S}}]+[\r\n]*{SPACES}",
    "ufakzeka": rf"{HEAD}\p{{L}}+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*{SPACES}",
    "youtu": "[\uac00-\ud7a3\u3131-\u318e]+|[\uff01\u2026\u201c\u201d\u2018\u2019\u2014\uff1a\uff1b\uff0c\u3001-\u303f"
             "\ufe30-\ufe4f]+|[\u3105-\u312f]+|[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
    "falcon, marks": r"[\p{P}\$\+<=>\^~\|`]+",
    "falcon, digits": "[0-9][0-9][0-9]",
    "bloom": " ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+",
    "bloom, llama.cpp": " ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+",
    "cl100k": rf"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{{L}}\p{{N}}]?+\p{{L}}+|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]++[\r\n]*"
              r"|\s*[\r\n]|\s+(?!\S)|\s+",
    "cl100k, possessive": rf"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{{L}}\p{{N}}]?+\p{{L}}++|\p{{N}}{{1,3}}+"
                          r"| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
    "bailingmoe": rf"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{{L}}\p{{N}}]?+\p{{L}}+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]++[\r\n]*"
                  r"|\s*[\r\n]|\s+(?!\S)|\s+",
    "tiny aya, digits": r"\d{1,3}(?=(?:\d{3})*\b)",
    "superbpe, digits": r"(?=(\d{3})+(?!\d))",
    "numbers": r"\p{N}+",
    "one number": r"\p{N}",
    "default, llama.cpp": r"[\p{P}\$\+<=>\^~\|]+",
    "seed coder": "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}"
                  "| ?[^\\s\\p{L}\\p{N}\r\n]+|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
    "exaone moe": rf"{CONTRACTIONS}|{HEAD}(?:\p{{L}}\p{{M}}*(?: \p{{L}}\p{{M}}*)*)+|\p{{N}}"
                  r"| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+",
    "minicpm5": rf"{CONTRACTIONS}|{HEAD}\p{{L}}+|\p{{N}}+| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*{SPACES}",
    "afmoe, scripts": "[\u4e00-\u9fff\u3400-\u4dbf\uf900-\ufaff\u3040-\u309f\u30a0-\u30ff\uff65-\uff9f\u2f00-\u2fdf"
                      "\u0e40-\u0e7f\u0e80-\u0eff\u1780-\u17ff\u1000-\u109f\uaa60-\uaa7f\ua9e0-\ua9ff\uac00-\ud7af"
                      "\u1100-\u11ff]+",
    "chameleon, sentinels": "<sentinel:[0-9]+>",
    "chameleon, pictures": "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z",
    "chameleon, spaces": r"([\t\n]|    |  )",
    "chameleon, marks": r"[\p{P}!-/:-@\[-`{-~]",
    "lines": r"[^\n]+|[\n]+",
    "words": r"\S+",
}

SETS = ([rf"\p{{{name}}}" for name in
         "Lu Ll Lt Lm Lo L Mn Mc Me M Nd Nl No N Pc Pd Ps Pe Pi Pf Po P Sm Sc Sk So S Zs Zl Zp Z Cc Cf Co Cn C LC "
         "Han Hiragana Katakana Hangul Latin Cyrillic Greek Arabic Hebrew Thai Devanagari Bengali Common Inherited "
         "Alphabetic White_Space Uppercase Lowercase In_Basic_Latin InHiragana Any Assigned".split()]
        + [rf"\p{{{name}}}" for name in "alnum alpha ascii blank cntrl digit graph lower print punct space upper "
                                        "xdigit word".split()]
        + [f"[[:{name}:]]" for name in "alnum alpha ascii blank cntrl digit graph lower print punct space upper "
                                       "xdigit word".split()]
        + [r"\w", r"\s", r"\d", r"\h", r"[\w]", r"\W", r"[^\W]", ".", r"\P{L}", r"\p{^Lu}"])


class Reference:
    """Oniguruma behind the library's own steps."""

    def __init__(self, pattern):
        self.split = pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
        self.replace = normalizers.Replace(Regex(pattern), MARK)

    def matches(self, text):
        """Spans in characters. Splitting leaves out empty matches; replacing shows where they are."""
        full = [span for _, span in self.split.pre_tokenize_str(text)]
        spans, at, next_full = [], 0, 0
        replaced = self.replace.normalize_str(text)
        for c in replaced:
            if c != MARK:
                assert text[at] == c
                at += 1
            elif next_full < len(full) and full[next_full][0] == at:
                spans.append(full[next_full])
                at = full[next_full][1]
                next_full += 1
            else:
                spans.append((at, at))
        assert next_full == len(full) and at == len(text)
        return spans

    def case(self, text):
        offsets = [0]
        for c in text:
            offsets.append(offsets[-1] + len(c.encode()))
        return [text, [offsets[i] for span in self.matches(text) for i in span]]


POOLS = [list("aAbBsStTmMdDlLrReEvVzZqZ\u0130\u017f\u212ak\u00df\u00e9\u00c9"), list("'\u2019"),
         list("0123456789\u0663\u00bd\u00b2\u2167"), list(" \t\n\r\u00a0\u3000\u2028\x0b\x85"),
         list("!.,;:()[]/\\-_=+<>|`~^$#@\"\u2026\u3002\uff0c\u3001\uff01\u201c\u201d\u2014"),
         list("\u4e2d\u56fd\u4e00\u3042\u30a2\u3105\uac00\u3131\u0e01\u0e81\u1000\u1780\u1100\u3005\u3006\u3007"),
         list("\u0301\u0300\u093f\u0947\u200d\u20dd"),
         list("\u01c5\u02b0\u00aa\u00ba\u0622\u0628\u0928\u0e01\u0e31\u0416\u0436\u03a9\u03c9"),
         list("\0\x1f\x7f\u200b\ufeff\ufffd\u0378\ue001\U0010fffd\U0001f600\U0001f468\U0001f3fd")]
WORDS = ["'s", "'LL", "'re", "'\u017f", "'ve", "\r\n", "  \n", "   a", "IMGIMGABZ", "<sentinel:1>", "1234567"]


def any_character(rng):
    while True:
        c = rng.randrange(rng.choice([0x250, 0x3000, 0x10000, 0x20000, 0x110000]))
        if not 0xD800 <= c < 0xE000 and chr(c) != MARK:
            return chr(c)


def published_text(rng):
    length, kind, out = rng.choice([1, 2, 3, 5, 8, 13, 40]), rng.randrange(4), []
    while len(out) < length:
        pool, count = rng.choice(POOLS), rng.choice([1, 1, 1, 2, 3, 4, 7])
        if kind == 0:
            out.append(any_character(rng))
        elif kind == 1:
            out += [rng.choice(pool)] * count
        else:
            out += [rng.choice(pool) for _ in range(count)]
        if rng.random() < 0.1:
            out += rng.choice(WORDS + [" " * rng.randrange(12)])
    return "".join(out)


class Grammar:
    """Expressions of all supported constructs."""

    def __init__(self, rng):
        self.rng = rng

    def brackets(self, depth=0):
        rng, items = self.rng, []
        for _ in range(rng.choice([1, 1, 1, 2, 3])):
            kind = rng.randrange(9)
            if kind < 3:
                items.append(rng.choice(["a", "b", "c", "1", " ", "\u00e9", "'", "\\n", "."]))
            elif kind == 3:
                items.append(rng.choice(["a-c", "b-\u00e9", "0-9", "A-Z", "\\x00-\\x7f"]))
            elif kind == 4:
                items.append(rng.choice([r"\w", r"\s", r"\d", r"\p{L}", r"\P{L}", r"\p{N}", r"\p{Lu}", r"\S", r"\h"]))
            elif kind == 5:
                items.append(rng.choice(["[:alpha:]", "[:^space:]", "[:punct:]", "[:upper:]"]))
            elif kind == 6 and depth < 2:
                items.append(self.brackets(depth + 1))
            elif kind == 7 and items:
                items.append("&&")
            else:
                items.append(rng.choice("abc"))
        if items[-1] == "&&":
            items.append("a")
        return "[" + rng.choice(["", "", "^"]) + "".join(items) + rng.choice(["", "", "", "-"]) + "]"

    def atom(self, depth):
        rng, kind = self.rng, self.rng.randrange(20)
        if kind < 7:
            return rng.choice(["a", "a", "b", "b", "c", "C", "'", "1", " ", r"\.", r"\n", r"\-", "\u00e9", "\u017f",
                               "\u4e2d", "\u0301"])
        if kind < 10:
            return rng.choice([".", r"\s", r"\S", r"\w", r"\W", r"\d", r"\p{L}", r"\p{N}", r"\p{Lu}", r"\h", r"\R"])
        if kind < 13:
            return self.brackets()
        if kind < 17 and depth < 3:
            return rng.choice(["(%s)", "(?:%s)", "(?:%s)", "(?i:%s)", "(?m:%s)", "(?-i:%s)"]) % self.alternatives(depth + 1)
        if kind == 17:
            return rng.choice(["^", "$", r"\b", r"\B", r"\A", r"\z", r"\Z"])
        if kind == 18 and depth < 3:
            return rng.choice(["(?=%s)", "(?!%s)"]) % self.alternatives(depth + 1)
        if kind == 19:
            return rng.choice(["(?<=%s)", "(?<!%s)"]) % rng.choice(["a", r"\s", "[^b]", r"a|\s", "^|a", r"\w"])
        return rng.choice("abc")

    def sequence(self, depth):
        rng, out = self.rng, []
        for _ in range(rng.choice([0, 1, 1, 2, 2, 3, 4] if depth else [1, 2, 3, 4, 5])):
            item = self.atom(depth)
            if rng.random() < 0.4 and not re.match(r"\(\?[=!<]|[\^$]|\\[bBAzZ]", item):
                item += rng.choice(["?", "*", "+", "{2}", "{1,2}", "{,2}", "{2,}", "{0}"]) + rng.choice(["", "", "?", "+"])
            out.append(item)
        return "".join(out)

    def alternatives(self, depth=0):
        return "|".join(self.sequence(depth) for _ in range(self.rng.choice([1, 1, 1, 2, 2, 3])))


def random_text(rng):
    length, out = rng.choice([1, 2, 3, 4, 6, 9, 15]), ""
    while len(out) < length:
        out += rng.choice("aaabbbccC'11 ..\n\r-A\u00e9\u017f\u4e2d\u0301\u00bd") * rng.choice([1, 1, 1, 2, 3])
    return out


def random_expressions(rng, count):
    grammar, made = Grammar(rng), []
    while len(made) < count:
        pattern = grammar.alternatives()
        try:
            reference = Reference(pattern)
            cases = [reference.case(random_text(rng)) for _ in range(4)]
        except BaseException:  # an expression that Oniguruma refuses, or one that takes it too long
            continue
        made.append({"name": f"random {len(made)}", "pattern": pattern, "cases": cases})
    return made


def members(pattern):
    points = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    ranges = []
    for _, (begin, end) in pre_tokenizers.Split(Regex(pattern), "removed", invert=True).pre_tokenize_str(
            "".join(map(chr, points))):
        first, last = points[begin], points[end - 1]
        if ranges and ranges[-1] == first - 1:
            ranges[-1] = last
        else:
            ranges += [first, last]
    return ranges


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--texts", type=int, default=40, help="of each published expression [40]")
    parser.add_argument("--random", type=int, default=1500, help="expressions [1500]")
    parser.add_argument("--seed", type=int, default=1, help="[1]")
    args = parser.parse_args()
    rng = random.Random(args.seed)
    published = []
    for name, pattern in PUBLISHED.items():
        reference = Reference(pattern)
        published.append({"name": name, "pattern": pattern,
                          "cases": [reference.case(published_text(rng)) for _ in range(args.texts)]})
    data = {"published": published, "random": random_expressions(rng, args.random),
            "sets": [[pattern, members(pattern)] for pattern in SETS]}
    raw = json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode()
    with open(args.out, "wb") as out, gzip.GzipFile("", "wb", 9, out, mtime=0) as z:
        z.write(raw)
    print(f"{len(published)} published and {len(data['random'])} random expressions, {len(data['sets'])} sets")


if __name__ == "__main__":
    main()
