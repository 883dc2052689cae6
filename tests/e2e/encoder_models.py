"""Inputs and models of the encoder tests: reference texts, vectors and scores, and a cross-encoder made of
all-MiniLM-L6-v2 with a generated classifier, the one that the reference scores are of (tools/make_score_goldens.py).
"""
import json
import math
import os
import pathlib
import shutil
import struct
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"
EMBEDDER = "all-minilm-l6-v2"
WIDTH = 384

sys.path.insert(0, str(ROOT / "tools"))
from make_score_goldens import generated  # noqa: E402 (needs nothing but Python until it is run)


def embedder_folder():
    cache = os.environ.get("TUTTI_CACHE") or os.path.expanduser("~/.cache/tutti")
    return pathlib.Path(cache) / "models" / EMBEDDER


def vectors():
    """[(text, tokens, vector)] by sentence-transformers in float32; the format is in tools/make_encoder_goldens.py."""
    data = (GOLDEN / "minilm_vectors.bin").read_bytes()
    count, width = struct.unpack_from("<II", data)
    at, references = 8, []
    for _ in range(count):
        (size,) = struct.unpack_from("<I", data, at)
        text = data[at + 4:at + 4 + size].decode()
        at += 4 + size
        (tokens,) = struct.unpack_from("<I", data, at)
        references.append((text, tokens, struct.unpack_from(f"<{width}f", data, at + 4)))
        at += 4 + 4 * width
    return references


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


def scores(texts):
    """[(query, [(document, tokens of the pair, logit)])] by transformers in float32."""
    data = (GOLDEN / "minilm_scores.bin").read_bytes()
    sets, documents = struct.unpack_from("<II", data)
    at, references = 8, []
    for _ in range(sets):
        (query,) = struct.unpack_from("<H", data, at)
        rows = [struct.unpack_from("<HHf", data, at + 2 + 8 * i) for i in range(documents)]
        references.append((texts[query], [(texts[text], tokens, logit) for text, tokens, logit in rows]))
        at += 2 + 8 * documents
    return references


def label_logits(texts):
    """[(text, its tokens, at most 256, logits of three labels)] by transformers in float32."""
    data = (GOLDEN / "minilm_scores.bin").read_bytes()
    sets, documents = struct.unpack_from("<II", data)
    at = 8 + sets * (2 + 8 * documents)
    count, labels = struct.unpack_from("<II", data, at)
    rows = [struct.unpack_from(f"<HH{labels}f", data, at + 8 + i * (4 + 4 * labels)) for i in range(count)]
    return [(texts[text], tokens, logits) for text, tokens, *logits in rows]


def write_cross_encoder(folder, labels=("relevance",)):
    """BertForSequenceClassification with these labels, as it is published: two files of weights and their index. One label
    makes a cross-encoder, more a classifier."""
    source = embedder_folder()
    folder = pathlib.Path(folder)
    shutil.copy(source / "tokenizer.json", folder)
    try:
        os.link(source / "model.safetensors", folder / "encoder.safetensors")
    except OSError:  # another device
        shutil.copy(source / "model.safetensors", folder / "encoder.safetensors")
    count = len(labels)
    weight = struct.pack(f"<{count * WIDTH}f", *generated(1, count * WIDTH, 0.25))
    bias = struct.pack(f"<{count}f", *generated(2, count, 1.0))
    header = json.dumps({
        "classifier.weight": {"dtype": "F32", "shape": [count, WIDTH], "data_offsets": [0, len(weight)]},
        "classifier.bias": {"dtype": "F32", "shape": [count], "data_offsets": [len(weight), len(weight) + len(bias)]}}).encode()
    (folder / "head.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + weight + bias)
    with open(folder / "encoder.safetensors", "rb") as file:
        names = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    names.pop("__metadata__", None)
    where = {**{name: "encoder.safetensors" for name in names},
             "classifier.weight": "head.safetensors", "classifier.bias": "head.safetensors"}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": where}))
    config = json.loads((source / "config.json").read_text())
    config.update(architectures=["BertForSequenceClassification"], id2label={str(i): label for i, label in enumerate(labels)})
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 256}))
