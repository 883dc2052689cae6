#!/usr/bin/env python3
"""Makes tests/data/tokenizer/published.json.gz: tokenizer.json files of published forms with small vocabularies.

Two kinds of files, each with the ids that Hugging Face's `tokenizers` (PyPI, 0.23.3) gives for every text:
- "cut": published files whose vocabulary is cut to the tokens and merges that the texts reach. All other blocks are as
  published. Give the folder of published files: one NAME.json each, an object file name -> text.
- "form": files whose blocks have every form of normalizer, pre-tokenizer, decoder, post-processor and added token that
  published models use, with BPE, unigram and WordPiece vocabularies trained on the texts.

    make_published_tokenizers.py FOLDER OUT.json.gz
"""
import argparse
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from tokenizer_reference import write_json  # noqa: E402

TEXTS = [
    "", " ", "  ", "\n", "\n\n\n\n", "\t", "\r\n", "x", "Good morning, everyone!", "Good morning", "end ", " begin", "   three  two one ",
    "She said: we'll see, they've gone, I'M here, you'RE not, it's John's, don't, o'clock.",
    "col1\tcol2\t\tcol4\n\tindented\r\n\r\nwindows", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    " " * 90 + "far", "for (int i = 0; i < n; ++i) { sum += a[i]; }  // add up\n", "def area(r):\n    return 3.14159 * r ** 2\n",
    "see https://example.org/path/to?x=1&y=%20#top or mail a.b@example.org", '{"k": [1, 2.5e-3, null, true], "s": "line\\n"}', "<p class=\"a\">a &amp; b</p><br/>",
    "1 12 123 1234 12345 123456789 3.50 1,234,567 0xFF 2024-11-26", "\u00bd \u216b \u00b2 \u0664\u0665 \u096a\u096b \u4e00\u4e8c \u2460", "\U0001f600 \U0001f44d\U0001f3fd \U0001f469\u200d\U0001f4bb \U0001f1e9\U0001f1ea \u2764\ufe0f",
    "na\u00efve caf\u00e9 \u00c5ngstr\u00f6m", "nai\u0308ve cafe\u0301 A\u030angstro\u0308m", "q\u0323\u0307 q\u0307\u0323 \u0344 \u1100\u1161\u11a8 \ud558\u11ab", "\ufb01ne \u2460 \uff21\uff22\uff23 \u00aa \u212b",
    "\u0421\u043f\u0430\u0441\u0438\u0431\u043e \u0431\u043e\u043b\u044c\u0448\u043e\u0435!", "\u039a\u03b1\u03bb\u03b7\u03bc\u03ad\u03c1\u03b1 \u03ba\u03cc\u03c3\u03bc\u03b5", "\u05ea\u05d5\u05d3\u05d4 \u05e8\u05d1\u05d4", "\u0634\u0643\u0631\u0627 \u062c\u0632\u064a\u0644\u0627\u060c \u0623\u0647\u0644\u0627", "\u0927\u0928\u094d\u092f\u0935\u093e\u0926 \u0926\u094b\u0938\u094d\u0924",
    "\u0ba8\u0ba9\u0bcd\u0bb1\u0bbf", "\u0e02\u0e2d\u0e1a\u0e04\u0e38\u0e13\u0e21\u0e32\u0e01", "\u8c22\u8c22\u4f60\uff0c\u518d\u89c1\uff01", "\u3042\u308a\u304c\u3068\u3046\u3001\u30c6\u30b9\u30c8\u3067\u3059\u30fc\u3002", "\uac10\uc0ac\ud569\ub2c8\ub2e4 \uce5c\uad6c", "C\u1ea3m \u01a1n b\u1ea1n nhi\u1ec1u",
    "nb\u00a0sp em\u2003ideo\u3000line\u2028para\u2029vt\x0bff\x0cnel\u0085zw\u200bend\ufeff", "nul\x00bel\x07esc\x1b[0m\x7f", "\u00ab quoted \u00bb \u201elow\u201c \u2018one\u2019 \u2026 \u2014 \u2013 \u00b7 \u00a1\u00bf", "!!! ??? --- ### $$$ %%% ^^^ ``` ~~~ ||| \\\\ //",
    "x\u0301\u0301 \u0301lonely", "\u2581mark \u2581\u2581two \u0120 \u010a <0x41> <0xZZ>", "one\n two\n  three\n", "WordsInCamelCase and SHOUTING and mIxEd XMLHttpRequest",
    "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n", "<s>[INST] Hello [/INST] Yes.</s>[INST] More [/INST]", "<start_of_turn>user\nHello<end_of_turn>\n",
    "<|user|>\nHello <|end|>\n  <|assistant|>\n", "a <|endoftext|> b<|endoftext|>c", "<think>\nhm\n</think>\n\nanswer", "<tool_call>\n{}\n</tool_call>", "<bos>x<eos> <pad> <unk>", "fill <mask> in, and<mask>too [MASK] x[MASK]",
    "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>", "|||IP_ADDRESS||| and   |||PHONE_NUMBER|||", "\U0001d54f\U0001d55d \U00010348 \U00020bb7", "sword words word,word word",
]


# ---- Cutting a published file -------------------------------------------------------------------------------

def merge_pair(merge):
    return tuple(merge.split(" ", 1)) if isinstance(merge, str) else tuple(merge)


def cut(text):
    """The file with the tokens and merges that TEXTS reach, and dense ids in the old order."""
    from tokenizers import Tokenizer
    file = json.loads(text)
    whole = Tokenizer.from_str(text)
    used = {i for t in TEXTS for i in whole.encode(t).ids}
    model = file["model"]
    names = {i: t for t, i in model["vocab"].items()}
    added = {a["id"]: a for a in file["added_tokens"]}
    keep = {names[i] for i in used if i in names}
    keep |= {t for t in model["vocab"] if len(t) == 1 and ord(t) < 0x250 or (len(t) == 6 and t.startswith("<0x"))}
    keep |= {c for t in TEXTS for c in t.replace(" ", "\u2581") if c in model["vocab"]}
    if model.get("unk_token"):
        keep.add(model["unk_token"])
    if "merges" in model:
        by_result = {}
        for merge in model["merges"]:
            left, right = merge_pair(merge)
            by_result.setdefault(left + right, []).append((left, right))
        queue = list(keep)
        while queue:
            for pair in by_result.get(queue.pop(), []):
                fresh = [piece for piece in pair if piece not in keep]
                keep.update(fresh)
                queue += fresh
        model["merges"] = [m for m in model["merges"] if all(p in keep for p in (*merge_pair(m), "".join(merge_pair(m))))]
    special_ids = set()
    for block in (file["post_processor"] or {}, ):
        dump = json.dumps(block, ensure_ascii=False)
        special_ids |= {a["id"] for a in file["added_tokens"] if json.dumps(a["content"], ensure_ascii=False) in dump}
    wanted = lambda a: a["id"] in special_ids or any(a["content"] in t for t in TEXTS) or a["content"] in ("<unk>", "[UNK]")
    file["added_tokens"] = [a for a in file["added_tokens"] if wanted(a)]
    keep |= {a["content"] for a in file["added_tokens"] if a["content"] in model["vocab"]}
    old = {model["vocab"][t] for t in keep} | {a["id"] for a in file["added_tokens"]}
    number = {i: n for n, i in enumerate(sorted(old))}
    model["vocab"] = {t: number[model["vocab"][t]] for t in sorted(keep, key=model["vocab"].get)}
    for a in file["added_tokens"]:
        a["id"] = number[a["id"]]
    post = file["post_processor"] or {}
    for special in post.get("special_tokens", {}).values():
        special["ids"] = [number[i] for i in special["ids"]]
    for key in ("cls", "sep"):
        if key in post:
            post[key][1] = number[post[key][1]]
    small = json.dumps(file, ensure_ascii=False, separators=(",", ":"))
    check = Tokenizer.from_str(small)
    for t in TEXTS:
        want = [number[i] for i in whole.encode(t).ids]
        assert check.encode(t).ids == want, (t, check.encode(t).tokens, whole.encode(t).tokens)
    return small


# ---- Files of every form ------------------------------------------------------------------------------------

LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
DEEPSEEK3 = [r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
             r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"]


def isolated(pattern, behavior="Isolated", invert=False):
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": invert}


def at_text(text, behavior):
    return {"type": "Split", "pattern": {"String": text}, "behavior": behavior, "invert": False}


def sequence(*parts):
    return {"type": "Sequence", "pretokenizers": list(parts)}


def normalizers(*parts):
    return {"type": "Sequence", "normalizers": list(parts)}


def metaspace(scheme, split):
    return {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": scheme, "split": split}


def bytes_level(prefix=False, use_regex=False):
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": use_regex}


def replace(pattern, content, kind="String"):
    return {"type": "Replace", "pattern": {kind: pattern}, "content": content}


MARKS = replace(" ", "\u2581")
BERT = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True}
PLAIN = dict(single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
ADDED = {
    "plain": [("<unk>", {}), ("<s>", {}), ("</s>", {}), ("<mask>", {})],
    "stripped": [("<unk>", {}), ("<s>", {}), ("</s>", {"rstrip": True}), ("<mask>", {"lstrip": True}), ("<|end|>", {"rstrip": True}),
                 ("<|endoftext|>", {"lstrip": True, "rstrip": True}), ("word", {"single_word": True, "special": False}),
                 ("Hello", {"single_word": True, "lstrip": True, "special": False})],
    "normalized": [("<unk>", {}), ("<s>", {}), ("</s>", {}), ("<mask>", {"lstrip": True, "normalized": True}), ("caf\u00e9", {"normalized": True, "special": False}),
                   ("|||IP_ADDRESS|||", {"normalized": True, "special": False}), ("   ", {"normalized": True, "special": False}), ("Good", {"normalized": True, "special": False})],
}


def template(single, pair=None):
    def place(name):
        return {"Sequence": {"id": name, "type_id": 0}} if name in ("A", "B") else {"SpecialToken": {"id": name, "type_id": 0}}
    return {"type": "TemplateProcessing", "single": [place(n) for n in single], "pair": [place(n) for n in pair or [*single, "B"]], "special_tokens": {}}


# name: (model, normalizer, pre_tokenizer, added tokens, post-processor, changes of the model)
FORMS = {
    "gemma 3": ("characters", MARKS, at_text(" ", "MergedWithPrevious"), "plain", template(["<s>", "A"]), {}),
    "llama 2 legacy": ("characters", normalizers({"type": "Prepend", "prepend": "\u2581"}, MARKS), None, "stripped", template(["<s>", "A"]), {}),
    "metaspace always": ("characters", None, metaspace("always", False), "plain", None, {}),
    "metaspace first, split": ("characters", None, metaspace("first", True), "stripped", None, {}),
    "metaspace never": ("characters", None, metaspace("never", True), "plain", None, {}),
    "no unknown token": ("characters", MARKS, None, "plain", None, {"unk_token": None, "fuse_unk": False}),
    "no bytes, unknown fused": ("characters", MARKS, None, "plain", None, {"byte_fallback": False}),
    "no bytes, each unknown": ("characters", MARKS, None, "plain", None, {"byte_fallback": False, "fuse_unk": False}),
    "words end in a suffix": ("suffix", normalizers({"type": "NFC"}, replace("\\s+", " ", "Regex"), {"type": "Lowercase"}),
                              sequence(isolated(r"<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+", "Removed", True)), "plain", None, {}),
    "byte level with a space": ("bytes", None, bytes_level(True, True), "stripped", None, {}),
    "deepseek 3": ("bytes", normalizers(), sequence(*map(isolated, DEEPSEEK3), bytes_level()), "plain", None, {}),
    "glm 4": ("bytes", None, sequence(isolated(LLAMA3), bytes_level()), "plain", template(["<s>", "</s>", "A"]), {}),
    "nfkc, normalized tokens": ("bytes", {"type": "NFKC"}, sequence(isolated(LLAMA3, "Removed", True), bytes_level()), "normalized", None, {}),
    "nfd, accents": ("bytes", normalizers({"type": "NFD"}, {"type": "StripAccents"}, {"type": "Lowercase"}), bytes_level(False, True), "normalized", None, {}),
    "nfkd, strip": ("bytes", normalizers({"type": "NFKD"}, {"type": "Strip", "strip_left": True, "strip_right": False}), bytes_level(False, True), "plain", None, {}),
    "nmt": ("bytes", normalizers({"type": "Nmt"}, {"type": "Strip", "strip_left": True, "strip_right": True}), bytes_level(False, True), "plain", None, {}),
    "contiguous": ("bytes", None, sequence(isolated(r"\p{P}", "Contiguous"), bytes_level()), "plain", None, {}),
    "merged with next": ("bytes", None, sequence(isolated(r"\p{Lu}", "MergedWithNext"), bytes_level()), "plain", None, {}),
    "merged with previous": ("bytes", None, sequence(isolated(r"[\s.,]", "MergedWithPrevious"), bytes_level()), "plain", None, {}),
    "removed": ("bytes", None, sequence(isolated(r"\s+", "Removed"), bytes_level()), "plain", None, {}),
    "inverted": ("bytes", None, sequence(isolated(r"\w+", "MergedWithNext", True), bytes_level()), "plain", None, {}),
    "punctuation and digits": ("bytes", None, sequence({"type": "Punctuation", "behavior": "MergedWithPrevious"}, {"type": "Digits", "individual_digits": False}, bytes_level()), "plain", None, {}),
    "whitespace": ("bytes", None, sequence({"type": "Whitespace"}, bytes_level()), "plain", None, {}),
    "white space split": ("bytes", None, sequence({"type": "WhitespaceSplit"}, bytes_level()), "plain", None, {}),
    "scripts": ("bytes", None, sequence({"type": "UnicodeScripts"}, bytes_level()), "plain", None, {}),
    "delimiter": ("bytes", None, sequence({"type": "CharDelimiterSplit", "delimiter": "|"}, bytes_level()), "plain", None, {}),
    "fixed length": ("bytes", None, sequence({"type": "FixedLength", "length": 7}, bytes_level()), "plain", None, {}),
    "steps behind the bytes": ("bytes", None, sequence(bytes_level(False, True), {"type": "Digits", "individual_digits": True}, isolated("\u0120", "MergedWithNext")), "plain", None, {}),
    "bytes by the normalizer": ("bytes", normalizers({"type": "NFC"}, {"type": "ByteLevel"}), isolated("\u0120?[^\u0120\u010a]+|\u010a+"), "plain", None, {}),
    "bert, accents kept": ("words", dict(BERT, strip_accents=False), {"type": "BertPreTokenizer"}, "plain", template(["<s>", "A", "</s>"]), {}),
    "bert, text not cleaned": ("words", dict(BERT, clean_text=False, lowercase=False), {"type": "BertPreTokenizer"}, "plain", None, {}),
    "bert, ideographs joined": ("words", dict(BERT, handle_chinese_chars=False), sequence({"type": "WhitespaceSplit"}), "normalized", None, {"max_input_chars_per_word": 20}),
    "unigram, first": ("unigram", normalizers({"type": "NFKC"}, replace(" {2,}", "\u2581", "Regex")), metaspace("first", True), "plain", template(["A", "</s>"]), {}),
    "unigram with bytes": ("unigram", {"type": "Nmt"}, sequence({"type": "WhitespaceSplit"}, metaspace("always", True)), "stripped", None, {"byte_fallback": True}),
}


def train(kind, added):
    """A small vocabulary from TEXTS: the model's block, and how many ids it takes."""
    from tokenizers import Tokenizer, models, pre_tokenizers as pt, trainers
    special = [t for t, _ in ADDED[added]]
    if kind == "unigram":
        pieces = {"\u2581": 0}
        for text in TEXTS:
            for word in text.replace(" ", " \u2581").split(" "):
                for i in range(len(word)):
                    for n in (1, 2, 3, 5):
                        pieces[word[i:i + n]] = pieces.get(word[i:i + n], 0) + n
        best = sorted((p for p in pieces if p and len(p.encode()) < 32), key=lambda p: (-pieces[p], p))[:700]
        units = special + [f"<0x{b:02X}>" for b in range(256)] + [p for p in best if p not in special]
        vocab = [[p, 0.0 if i < len(special) else -2.0 - i / 128] for i, p in enumerate(units)]
        return {"type": "Unigram", "unk_id": 0, "vocab": vocab, "byte_fallback": False}, len(units)
    if kind == "words":
        tokenizer = Tokenizer(models.WordPiece(unk_token="<unk>"))
        tokenizer.pre_tokenizer = pt.BertPreTokenizer()
        trainer = trainers.WordPieceTrainer(vocab_size=700, special_tokens=special, show_progress=False)
    elif kind == "bytes":
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pt.ByteLevel(add_prefix_space=False)
        trainer = trainers.BpeTrainer(vocab_size=800, special_tokens=special, initial_alphabet=pt.ByteLevel.alphabet(), show_progress=False)
    elif kind == "suffix":
        tokenizer = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
        tokenizer.pre_tokenizer = pt.Whitespace()
        trainer = trainers.BpeTrainer(vocab_size=700, special_tokens=special, end_of_word_suffix="</w>", show_progress=False)
    else:
        tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
        tokenizer.pre_tokenizer = pt.Metaspace(prepend_scheme="always")
        bytes_tokens = [f"<0x{b:02X}>" for b in range(256)]
        trainer = trainers.BpeTrainer(vocab_size=1000, special_tokens=special + bytes_tokens, limit_alphabet=120, show_progress=False)
    tokenizer.train_from_iterator(TEXTS, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    return model, len(model["vocab"])


def form(name):
    kind, normalizer, splitter, added, post, changes = FORMS[name]
    model, size = train(kind, added)
    model.update(changes)
    tokens = []
    for i, (text, flags) in enumerate(ADDED[added]):
        tokens.append({"id": i, "content": text, **dict(PLAIN, **flags)})
    if post is not None:
        number = {t["content"]: t["id"] for t in tokens}
        for place in post["single"] + post["pair"]:
            token = place.get("SpecialToken", {}).get("id")
            if token:
                post["special_tokens"][token] = {"id": token, "ids": [number[token]], "tokens": [token]}
    decoder = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True} if kind == "bytes" else None
    return json.dumps({"version": "1.0", "truncation": None, "padding": None, "added_tokens": tokens, "normalizer": normalizer, "pre_tokenizer": splitter,
                       "post_processor": post, "decoder": decoder, "model": model}, ensure_ascii=False, separators=(",", ":"))


def main():
    from tokenizers import Tokenizer
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    args = parser.parse_args()
    files = []
    for path in sorted(args.folder.glob("*.json")):
        side = json.loads(path.read_text())
        if "tokenizer.json" in side:
            files.append((path.stem, cut(side["tokenizer.json"])))
    files += [(name, form(name)) for name in FORMS]
    out = []
    for name, text in files:
        tokenizer = Tokenizer.from_str(text)
        tokenizer.no_truncation()
        tokenizer.no_padding()
        ids = [tokenizer.encode(t).ids for t in TEXTS]
        out.append({"name": name, "tokenizer_json": text, "ids": ids})
        print(f"{name}: {len(text)} bytes, {sum(map(len, ids))} tokens", file=sys.stderr)
    write_json(args.out, {"texts": TEXTS, "files": out})


if __name__ == "__main__":
    main()
