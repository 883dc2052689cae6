#!/usr/bin/env python3
"""Makes tests/golden/minilm_scores.bin: what transformers' BertForSequenceClassification scores, in float32 on a CPU.

    make_score_goldens.py MODEL_FOLDER tests/golden/minilm_vectors.bin tests/golden/minilm_scores.bin

Needs the PyPI packages torch and transformers. The encoder is that of MODEL_FOLDER (all-MiniLM-L6-v2), pooler
included; the classifier on top of it is generated, since no real one is at hand: number i of the tensor with seed s is
(h >> 40) / 2^23 - 1 times a power of two, where h = splitmix64(s * 2^32 + i), which is exact in float32. Seed 1 is
classifier.weight, times 1/4, seed 2 classifier.bias, times 1. The texts are those of minilm_vectors.bin, by number.

Format, little-endian: u32 sets, u32 documents; per set u16 query, and per document u16 text, u16 tokens of the pair,
float32 the score of one label; then u32 texts, u32 labels; per text u16 text, u16 tokens, labels x float32. A pair is
cut to 256 tokens, the longer text first.
"""
import struct
import sys

SETS, DOCUMENTS, SINGLES, LABELS, LONGEST = 200, 8, 100, 3, 256
MASK = (1 << 64) - 1


def splitmix64(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def generated(seed, count, scale):
    return [((splitmix64((seed << 32) + i) >> 40) / 2**23 - 1) * scale for i in range(count)]


def read_texts(path):
    with open(path, "rb") as file:
        data = file.read()
    count, width = struct.unpack_from("<II", data)
    at, texts = 8, []
    for _ in range(count):
        (size,) = struct.unpack_from("<I", data, at)
        texts.append(data[at + 4:at + 4 + size].decode("utf-8"))
        at += 4 + size + 4 + 4 * width
    return texts


def main():
    folder, texts_file, out = sys.argv[1:]
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer
    texts = read_texts(texts_file)
    tokenizer = AutoTokenizer.from_pretrained(folder)

    def scorer(labels):
        model = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=labels).float().eval()
        width = model.config.hidden_size
        with torch.no_grad():
            model.classifier.weight.copy_(torch.tensor(generated(1, labels * width, 0.25)).view(labels, width))
            model.classifier.bias.copy_(torch.tensor(generated(2, labels, 1.0)))

        def score(*pair):
            inputs = tokenizer(*pair, truncation="longest_first", max_length=LONGEST, return_tensors="pt")
            with torch.no_grad():
                return inputs["input_ids"].shape[1], model(**inputs).logits[0].tolist()
        return score

    picks = iter(range(1 << 30))
    pick = lambda: splitmix64((3 << 32) + next(picks)) % len(texts)
    cut = 0
    with open(out, "wb") as file:
        score = scorer(1)
        file.write(struct.pack("<II", SETS, DOCUMENTS))
        for _ in range(SETS):
            query = pick()
            file.write(struct.pack("<H", query))
            for _ in range(DOCUMENTS):
                document = pick()
                tokens, logits = score(texts[query], texts[document])
                cut += tokens == LONGEST
                file.write(struct.pack("<HHf", document, tokens, *logits))
        score = scorer(LABELS)
        file.write(struct.pack("<II", SINGLES, LABELS))
        for _ in range(SINGLES):
            text = pick()
            tokens, logits = score(texts[text])
            file.write(struct.pack("<HH3f", text, tokens, *logits))
    print(f"{SETS} sets of {DOCUMENTS}, {cut} pairs at the limit of {LONGEST}")


if __name__ == "__main__":
    main()
