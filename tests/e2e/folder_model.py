"""Writes llama folders as transformers does, of any size, with random weights.

write(): config.json, tokenizer.json, tokenizer_config.json, and bfloat16 weights in one file of safetensors or in several.
The numbers are those of one random block, taken from another place for each tensor: a gigabyte takes a second or two.
"""
import json
import os
import random
import struct

import tiny_model

BLOCK_BYTES = 8 << 20
ROWS = 320  # of the embedding: more than there are tokens


def block():
    """Bfloat16 numbers of magnitudes from 2^-7 to 2^-5."""
    rng = random.Random(11)
    numbers = bytearray(BLOCK_BYTES)
    numbers[0::2] = rng.randbytes(BLOCK_BYTES // 2)
    numbers[1::2] = rng.randbytes(BLOCK_BYTES // 2).translate(bytes(0x3C + 0x80 * (i & 1) for i in range(256)))
    return bytes(numbers)


def tokenizer():
    tokens = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *tiny_model.byte_symbols(), "th", "the"]
    return {"added_tokens": [{"id": i, "content": text, "special": True} for i, text in enumerate(tokens[:3])],
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True},
                                                                    {"type": "ByteLevel", "add_prefix_space": False}]},
            "model": {"type": "BPE", "vocab": {text: i for i, text in enumerate(tokens) if i > 2}, "merges": ["t h", "th e"]}}


def shapes(layers, width, feed_forward, kv_rows):
    found = {"model.embed_tokens.weight": (ROWS, width), "model.norm.weight": (width,), "lm_head.weight": (ROWS, width)}
    for layer in range(layers):
        found.update({f"model.layers.{layer}.{name}.weight": shape for name, shape in (
            ("input_layernorm", (width,)), ("post_attention_layernorm", (width,)), ("self_attn.q_proj", (width, width)),
            ("self_attn.k_proj", (kv_rows, width)), ("self_attn.v_proj", (kv_rows, width)), ("self_attn.o_proj", (width, width)),
            ("mlp.gate_proj", (feed_forward, width)), ("mlp.up_proj", (feed_forward, width)), ("mlp.down_proj", (width, feed_forward)))})
    return found


def write(folder, layers=2, width=256, feed_forward=512, shards=1):
    """Bytes of the weights. Heads of 64, four of queries for one of keys."""
    os.makedirs(folder, exist_ok=True)

    def put(name, value):
        with open(os.path.join(folder, name), "w") as file:
            json.dump(value, file)

    put("config.json", {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": width, "intermediate_size": feed_forward,
                        "num_hidden_layers": layers, "num_attention_heads": width // 64, "num_key_value_heads": width // 256,
                        "rms_norm_eps": 1e-5, "max_position_embeddings": 2048, "hidden_act": "silu", "vocab_size": ROWS, "tie_word_embeddings": False})
    put("tokenizer.json", tokenizer())
    put("tokenizer_config.json", {"eos_token": "<|im_end|>", "chat_template": tiny_model.TEMPLATE})
    numbers, total, index, made = block(), 0, {}, shapes(layers, width, feed_forward, width // 4)
    names = list(made)
    for shard in range(shards):
        file_name = "model.safetensors" if shards == 1 else f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        header, at = {}, 0
        for name in names[shard::shards]:
            size = 2
            for extent in made[name]:
                size *= extent
            header[name] = {"dtype": "BF16", "shape": made[name], "data_offsets": [at, at + size]}
            index[name] = file_name
            at += size
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with open(os.path.join(folder, file_name), "wb") as out:
            out.write(struct.pack("<Q", len(text)) + text)
            for number, name in enumerate(names[shard::shards]):
                begin, end = header[name]["data_offsets"]
                left = end - begin
                if len(made[name]) == 1:
                    out.write(b"\x80\x3f" * (left // 2))
                    continue
                # The values do not depend on the file that holds the tensor.
                offset = sum(name.encode()) * 7919 * 2 % BLOCK_BYTES
                while left > 0:
                    piece = numbers[offset:offset + left]
                    out.write(piece)
                    left, offset = left - len(piece), 0
        total += at
    if shards > 1:
        put("model.safetensors.index.json", {"weight_map": index})
    return total
