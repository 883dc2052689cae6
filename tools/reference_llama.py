#!/usr/bin/env python3
"""Independent reference for the decoder: a float32 forward pass in numpy over dequantised GGUF weights.

Shares no line with the C++ code: the file is read by the `gguf` package, text is tokenised by `tokenizers`
built from the file's vocabulary and merges, and the arithmetic is numpy's. Llama architecture, adjacent
rotary pairs, grouped-query attention, tied or separate head.

  python3 -m venv V && V/bin/pip install numpy gguf tokenizers
  V/bin/python tools/reference_llama.py golden --model FILE.gguf --out tests/golden

writes, for tests/golden and the runner's tests (all token ids, so that no tokenizer is needed to use them):
  greedy.txt    20 prompts: a line "prompt IDS", then one line per continuation token "ID MARGIN"; MARGIN is
                the best logit minus the second best: near 0 for a near tie
  logprobs.txt  one line per token of text.txt: "ID LOGPROB TOP": log-probability of the token given those
                before it in its window of 512, and the most probable token there; a window's first token has
                "ID nan -1"
  summary.txt   the perplexity and the amounts

  reference_llama.py hidden --model FILE.gguf --out tests/golden

writes hidden.bin: u32 prompts, u32 width; then for each prompt of greedy.txt, in order, width x float32: its last token's
row behind the last norm, which is what a decoder's vector of a text is. Little-endian.

  reference_llama.py long --model FILE.gguf --out tests/golden

writes long.txt: the first tokens of logprobs.txt as one text as long as the model's context; for every 8th of them a line
"POSITION LOGPROB TOP", as in logprobs.txt but given all before it; then "perplexity P" of all of them.
"""
import argparse
import math
import os
import struct

import numpy as np

WINDOW = 512
GREEDY_TOKENS = 64
TEXT_TOKENS = 10_000

PROMPTS = [
    "The capital of France is",
    "Once upon a time, in a small village by the sea, there lived",
    "def fibonacci(n):\n    \"\"\"Return the n-th Fibonacci number.\"\"\"\n",
    "Q: What is the boiling point of water at sea level?\nA:",
    "To make a simple tomato sauce, you will need the following ingredients:\n",
    "In 1969, Apollo 11",
    "The three primary colours are",
    "A list of the planets in order from the Sun: Mercury, Venus,",
    "The quick brown fox jumps over the lazy dog. " * 4,
    "La capitale de l'Italie est",
    "1, 2, 3, 4, 5, 6, 7,",
    "Photosynthesis is the process by" " which",
    "Dear Sir or Madam,\n\nI am writing to",
    "SELECT name, age FROM users WHERE",
]
CHATS = [
    "What is gravity?",
    "Write a haiku about autumn leaves.",
    "Explain to a child why the sky is blue.",
    "Give me three tips for learning a new language.",
    "How many legs does a spider have?",
    "Translate 'good morning' to Spanish.",
]
SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"


class Model:
    """Weights as float32 and the hyper-parameters of one GGUF file."""

    def __init__(self, path):
        import gguf

        reader = gguf.GGUFReader(path)
        self.meta = {k: f.contents() for k, f in reader.fields.items() if f.types}
        arch = self.meta["general.architecture"]
        assert arch == "llama", arch
        get = lambda key, default=None: self.meta.get(f"{arch}.{key}", default)
        self.layers = get("block_count")
        self.dim = get("embedding_length")
        self.heads = get("attention.head_count")
        self.kv_heads = get("attention.head_count_kv", self.heads)
        self.head_dim = get("attention.key_length", self.dim // self.heads)
        self.eps = get("attention.layer_norm_rms_epsilon")
        self.rope_dims = get("rope.dimension_count", self.head_dim)
        self.rope_base = get("rope.freq_base", 10000.0)
        self.context = get("context_length")
        self.w = {}
        for t in reader.tensors:
            values = gguf.quants.dequantize(t.data, t.tensor_type)
            self.w[t.name] = np.ascontiguousarray(values, np.float32).reshape(tuple(reversed(t.shape)))
        self.head = self.w.get("output.weight", self.w["token_embd.weight"])
        inv = self.rope_base ** (-np.arange(0, self.rope_dims, 2, dtype=np.float64) / self.rope_dims)
        if "rope_freqs.weight" in self.w:
            inv = inv / self.w["rope_freqs.weight"]
        angle = np.outer(np.arange(self.context), inv)
        self.cos, self.sin = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)

    def norm(self, x, weight):
        return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + np.float32(self.eps)) * weight

    def rope(self, x, start):
        """x: [tokens, heads, head_dim]; rotates adjacent pairs of the first rope_dims."""
        n = x.shape[0]
        cos, sin = self.cos[start:start + n, None, :], self.sin[start:start + n, None, :]
        out = x.copy()
        a, b = x[..., 0:self.rope_dims:2], x[..., 1:self.rope_dims:2]
        out[..., 0:self.rope_dims:2] = a * cos - b * sin
        out[..., 1:self.rope_dims:2] = a * sin + b * cos
        return out

    def forward(self, tokens, cache):
        """Appends `tokens` to `cache` ([(k, v)] per layer) and returns the hidden states [tokens, dim]."""
        start = 0 if cache[0] is None else cache[0][0].shape[0]
        n = len(tokens)
        x = self.w["token_embd.weight"][np.asarray(tokens)]
        group = self.heads // self.kv_heads
        mask = np.triu(np.full((n, start + n), -np.inf, np.float32), start + 1)
        for layer in range(self.layers):
            w = lambda name: self.w[f"blk.{layer}.{name}.weight"]
            h = self.norm(x, w("attn_norm"))
            q = self.rope((h @ w("attn_q").T).reshape(n, self.heads, self.head_dim), start)
            k = self.rope((h @ w("attn_k").T).reshape(n, self.kv_heads, self.head_dim), start)
            v = (h @ w("attn_v").T).reshape(n, self.kv_heads, self.head_dim)
            if cache[layer] is not None:
                k, v = np.concatenate([cache[layer][0], k]), np.concatenate([cache[layer][1], v])
            cache[layer] = (k, v)
            out = np.empty((n, self.heads, self.head_dim), np.float32)
            for head in range(self.heads):
                s = q[:, head] @ k[:, head // group].T / np.float32(math.sqrt(self.head_dim)) + mask
                s = np.exp(s - s.max(axis=-1, keepdims=True))
                out[:, head] = (s / s.sum(axis=-1, keepdims=True)) @ v[:, head // group]
            x = x + out.reshape(n, -1) @ w("attn_output").T
            h = self.norm(x, w("ffn_norm"))
            gate, up = h @ w("ffn_gate").T, h @ w("ffn_up").T
            x = x + (gate / (1 + np.exp(-gate)) * up) @ w("ffn_down").T
        return x

    def logits(self, hidden):
        return self.norm(hidden, self.w["output_norm.weight"]) @ self.head.T

    def new_cache(self):
        return [None] * self.layers


def make_tokenizer(model):
    """Byte-level BPE as the file describes it (pre-tokenizer `smollm`: digits alone, then GPT-2's split)."""
    import tokenizers as tk

    meta = model.meta
    assert meta["tokenizer.ggml.model"] == "gpt2" and meta["tokenizer.ggml.pre"] == "smollm"
    pieces = meta["tokenizer.ggml.tokens"]
    merges = [tuple(m.split(" ")) for m in meta["tokenizer.ggml.merges"]]
    tok = tk.Tokenizer(tk.models.BPE({p: i for i, p in enumerate(pieces)}, merges))
    tok.pre_tokenizer = tk.pre_tokenizers.Sequence([
        tk.pre_tokenizers.Digits(individual_digits=True),
        tk.pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tok.decoder = tk.decoders.ByteLevel()
    special = [p for p, t in zip(pieces, meta["tokenizer.ggml.token_type"]) if t == 3]
    tok.add_special_tokens(special)
    return tok


def log_softmax(logits):
    logits = logits.astype(np.float64)
    logits -= logits.max(axis=-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


def write_greedy(model, tok, path):
    prompts = list(PROMPTS)
    for user in CHATS:
        prompts.append(f"<|im_start|>system\n{SYSTEM}<|im_end|>\n<|im_start|>user\n{user}<|im_end|>\n"
                       "<|im_start|>assistant\n")
    with open(path, "w") as out:
        for prompt in prompts:
            ids = tok.encode(prompt, add_special_tokens=False).ids
            out.write("prompt " + " ".join(map(str, ids)) + "\n")
            cache, feed, text = model.new_cache(), ids, []
            for _ in range(GREEDY_TOKENS):
                logits = model.logits(model.forward(feed, cache)[-1:])[0]
                second, best = np.partition(logits, -2)[-2:]
                token = int(np.argmax(logits))
                out.write(f"{token} {best - second:.4f}\n")
                feed = [token]
                text.append(token)
            print(repr(tok.decode(ids)[-40:]), "->", repr(tok.decode(text)[:60]), flush=True)


def write_logprobs(model, tok, text_path, path):
    with open(text_path, encoding="utf-8") as f:
        ids = tok.encode(f.read(), add_special_tokens=False).ids
    assert len(ids) >= TEXT_TOKENS, len(ids)
    ids = ids[:TEXT_TOKENS]
    total, count = 0.0, 0
    with open(path, "w") as out:
        for begin in range(0, len(ids), WINDOW):
            window = ids[begin:begin + WINDOW]
            logprobs = log_softmax(model.logits(model.forward(window, model.new_cache())))
            out.write(f"{window[0]} nan -1\n")
            for i in range(1, len(window)):
                value = logprobs[i - 1, window[i]]
                total, count = total + value, count + 1
                out.write(f"{window[i]} {value:.5f} {int(np.argmax(logprobs[i - 1]))}\n")
            print(f"{begin + len(window)} tokens, perplexity {math.exp(-total / count):.4f}", flush=True)
    return math.exp(-total / count), count


def write_hidden(model, prompts_path, path):
    with open(prompts_path) as file:
        prompts = [[int(i) for i in line.split()[1:]] for line in file if line.startswith("prompt ")]
    with open(path, "wb") as out:
        out.write(struct.pack("<II", len(prompts), model.dim))
        for ids in prompts:
            row = model.norm(model.forward(ids, model.new_cache())[-1], model.w["output_norm.weight"])
            out.write(row.astype("<f4").tobytes())
    print(f"{len(prompts)} rows of {model.dim}")


def write_long(model, logprobs_path, path):
    with open(logprobs_path) as file:
        ids = [int(line.split()[0]) for line in file][:model.context]
    assert len(ids) == model.context, len(ids)
    cache, hidden = model.new_cache(), []
    for begin in range(0, len(ids), WINDOW):
        hidden.append(model.forward(ids[begin:begin + WINDOW], cache))
    hidden, total = np.concatenate(hidden), 0.0
    with open(path, "w") as out:
        for begin in range(0, len(ids) - 1, WINDOW):
            logprobs = log_softmax(model.logits(hidden[begin:begin + WINDOW]))
            for i in range(begin + 1, min(begin + WINDOW, len(ids) - 1) + 1):
                value = logprobs[i - 1 - begin, ids[i]]
                total += value
                if i % 8 == 0:
                    out.write(f"{i} {value:.5f} {int(np.argmax(logprobs[i - 1 - begin]))}\n")
        out.write(f"perplexity {math.exp(-total / (len(ids) - 1)):.6f}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("command", choices=["golden", "hidden", "long"])
    parser.add_argument("--model", required=True)
    parser.add_argument("--out", default="tests/golden")
    args = parser.parse_args()
    model = Model(args.model)
    if args.command == "hidden":
        return write_hidden(model, os.path.join(args.out, "greedy.txt"), os.path.join(args.out, "hidden.bin"))
    if args.command == "long":
        return write_long(model, os.path.join(args.out, "logprobs.txt"), os.path.join(args.out, "long.txt"))
    tok = make_tokenizer(model)
    write_greedy(model, tok, os.path.join(args.out, "greedy.txt"))
    perplexity, count = write_logprobs(model, tok, os.path.join(args.out, "text.txt"),
                                       os.path.join(args.out, "logprobs.txt"))
    with open(os.path.join(args.out, "summary.txt"), "w") as out:
        out.write(f"perplexity {perplexity:.6f}\nscored {count}\nwindow {WINDOW}\nnumpy {np.__version__}\n")


if __name__ == "__main__":
    main()
