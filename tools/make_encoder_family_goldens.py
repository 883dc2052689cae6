#!/usr/bin/env python3
"""Makes tests/golden/encoder_families.json: what transformers computes for a small encoder of each family, float32, CPU.

    make_encoder_family_goldens.py tests/golden/encoder_families.json

Needs the PyPI packages torch, transformers and safetensors. Each model is created, saved as transformers saves it, its
tensors replaced by generated values under the names and shapes of the saved file, and loaded again: names, shapes and
config.json are the library's own, and the values need no room here. Value i of a tensor is
    ((splitmix64(fnv1a64(name) + i) >> 40) / 2^23 - 1) * spread, exact in float32,
where the weights of layer norms have 1 added; spread is 1/4 for vectors and embeddings, 1/8 for matrices.
"""
import json
import os
import sys
import tempfile

MASK = (1 << 64) - 1
WIDTH, HEADS, WIDE, LAYERS, WORDS = 32, 2, 64, 2, 40


def splitmix64(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def fnv1a64(text):
    h = 0xCBF29CE484222325
    for byte in text.encode():
        h = ((h ^ byte) * 0x100000001B3) & MASK
    return h


def is_norm(name):
    return any(part in name for part in ("LayerNorm.", "emb_ln.", "norm1.", "norm2."))


def generated(name, shape):
    import torch
    count = 1
    for extent in shape:
        count *= extent
    spread = 0.125 if len(shape) == 2 and "embeddings" not in name else 0.25
    seed = fnv1a64(name)
    values = [((splitmix64((seed + i) & MASK) >> 40) / 2**23 - 1) * spread for i in range(count)]
    if is_norm(name) and name.endswith(".weight"):
        values = [1 + v for v in values]
    return torch.tensor(values, dtype=torch.float32).view(*shape)


def main():
    out, = sys.argv[1:]
    import torch
    import transformers
    from safetensors.torch import load_file, save_file
    shape = dict(hidden_size=WIDTH, num_attention_heads=HEADS, intermediate_size=WIDE, num_hidden_layers=LAYERS,
                 vocab_size=WORDS, max_position_embeddings=26)
    families = {
        "bert": (transformers.BertModel, transformers.BertConfig(**shape)),
        "bert classifier": (transformers.BertForSequenceClassification, transformers.BertConfig(**shape, num_labels=3)),
        "roberta": (transformers.RobertaModel, transformers.RobertaConfig(**shape, type_vocab_size=1)),
        "roberta classifier": (transformers.RobertaForSequenceClassification,
                               transformers.RobertaConfig(**shape, type_vocab_size=1, num_labels=1)),
        "xlm-roberta classifier": (transformers.XLMRobertaForSequenceClassification,
                                   transformers.XLMRobertaConfig(**shape, type_vocab_size=1, num_labels=2)),
        "nomic": (transformers.NomicBertModel, transformers.NomicBertConfig(**shape)),
    }
    # Ids from 3 on: 1 is RoBERTa's padding, which its positions skip.
    texts = [[3 + (i * 7 + n) % (WORDS - 3) for i in range(n)] for n in (1, 7, 20)]
    golden = []
    for name, (make, config) in families.items():
        with tempfile.TemporaryDirectory() as folder:
            make(config).save_pretrained(folder)
            path = os.path.join(folder, "model.safetensors")
            tensors = {key: generated(key, value.shape) if value.dtype == torch.float32 else value
                       for key, value in load_file(path).items()}
            save_file(tensors, path, metadata={"format": "pt"})
            model = make.from_pretrained(folder, attn_implementation="eager").float().eval()
            with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
                config_text = json.load(file)
        runs = []
        for ids in texts:
            inputs = {"input_ids": torch.tensor([ids])}
            typed = config.type_vocab_size > 1
            if typed:
                inputs["token_type_ids"] = torch.tensor([[int(2 * i >= len(ids)) for i in range(len(ids))]])
            with torch.no_grad():
                result = model(**inputs, output_hidden_states=True)
            hidden = result.hidden_states[-1][0] if "logits" in result else result.last_hidden_state[0]
            runs.append({"ids": ids, "typed": typed, "hidden": [[round(v, 7) for v in row] for row in hidden.tolist()],
                         "logits": [round(v, 7) for v in result.logits[0].tolist()] if "logits" in result else []})
        golden.append({"family": name, "config": config_text, "runs": runs,
                       "tensors": {key: list(value.shape) for key, value in tensors.items()}})
        print(name, len(tensors), "tensors", sorted(tensors)[:3])
    with open(out, "w", encoding="utf-8") as file:
        json.dump(golden, file, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main()
