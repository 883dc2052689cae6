#!/usr/bin/env python3
"""Makes tests/golden/minilm_vectors.bin: 1,000 texts and their vectors by sentence-transformers, in float32 on a CPU.

    make_encoder_goldens.py MODEL_FOLDER tests/data/tokenizer/texts.json.gz tests/golden/minilm_vectors.bin

Needs the PyPI package sentence-transformers. The texts are pieces of the tokenizers' test texts: words, sentences,
paragraphs of many languages, some longer than the model reads (they are cut), and hostile ones. The texts go to the
reference stripped of white space at both ends, as it would do itself.

Format, little-endian: u32 texts, u32 width; then per text u32 bytes, its UTF-8, u32 tokens, width x float32.
"""
import gzip
import json
import random
import struct
import sys

COUNT, SEED = 1000, 20240117


def pieces(data):
    """COUNT different texts, none empty, the shortest kinds most often."""
    random.seed(SEED)
    words = " ".join(data["corpus"]).split(" ")
    chosen = {}
    while len(chosen) < COUNT:
        kind = random.random()
        if kind < 0.1:
            text = random.choice(data["hostile"])
        else:
            length = random.randint(1, 12) if kind < 0.5 else random.randint(8, 60) if kind < 0.9 else random.randint(100, 400)
            start = random.randrange(len(words) - length)
            text = " ".join(words[start:start + length])
        text = text.encode("utf-8", "ignore").decode("utf-8").strip()
        if text and len(text) <= 8000:
            chosen[text] = None
    return list(chosen)


def main():
    folder, texts_file, out = sys.argv[1:]
    import torch
    from sentence_transformers import SentenceTransformer
    with gzip.open(texts_file, "rt", encoding="utf-8") as file:
        texts = pieces(json.load(file))
    model = SentenceTransformer(folder, device="cpu").float()
    with torch.no_grad():
        # One by one: a reference without padding.
        vectors = [model.encode([text], batch_size=1, convert_to_numpy=True)[0] for text in texts]
    counts = [int(model.tokenize([text])["input_ids"].shape[1]) for text in texts]
    with open(out, "wb") as file:
        file.write(struct.pack("<II", len(texts), len(vectors[0])))
        for text, vector, count in zip(texts, vectors, counts):
            data = text.encode("utf-8")
            file.write(struct.pack("<I", len(data)) + data + struct.pack("<I", count) + vector.astype("<f4").tobytes())
    print(f"{len(texts)} texts, {sum(counts)} tokens, longest {max(counts)}")


if __name__ == "__main__":
    main()
