"""Writes LoRA adapters with random weights for a llama of a given shape: as a GGUF, as llama.cpp's convert_lora_to_gguf.py
writes it, or as a folder, as peft writes it. Both forms of one seed are the same adapter."""
import dataclasses
import json
import os
import random
import struct

import tiny_model

MODULES = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
           "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
           "ffn_down": "mlp.down_proj"}


@dataclasses.dataclass(frozen=True)
class Base:
    layers: int = tiny_model.STAND_IN_LAYERS
    width: int = tiny_model.WIDTH
    heads: int = tiny_model.HEADS
    kv_heads: int = tiny_model.HEADS
    feed_forward: int = tiny_model.FEED_FORWARD


SMOLLM2 = Base(layers=30, width=576, heads=9, kv_heads=3, feed_forward=1536)


def matrices(base, rank, seed, targets):
    """Name, A as rows, B as rows, of each matrix; B in the order of a GGUF."""
    rng = random.Random(seed)
    head = base.width // base.heads
    shapes = {"attn_k": (base.width, base.kv_heads * head), "attn_v": (base.width, base.kv_heads * head),
              "ffn_gate": (base.width, base.feed_forward), "ffn_up": (base.width, base.feed_forward),
              "ffn_down": (base.feed_forward, base.width)}
    for layer in range(base.layers):
        for target in targets:
            inputs, outputs = shapes.get(target, (base.width, base.width))
            scale = inputs ** -0.5
            yield (layer, target, [[rng.uniform(-1, 1) * scale for _ in range(inputs)] for _ in range(rank)],
                   [[rng.uniform(-1, 1) for _ in range(rank)] for _ in range(outputs)])


def floats(rows):
    flat = [value for row in rows for value in row]
    return struct.pack(f"<{len(flat)}f", *flat)


def write_gguf(path, base=Base(), rank=8, seed=1, alpha=16.0, targets=tuple(MODULES), architecture="llama"):
    keys = [tiny_model.key(name, 8, tiny_model.text(value)) for name, value in (
        ("general.type", "adapter"), ("general.architecture", architecture), ("adapter.type", "lora"))]
    keys.append(tiny_model.key("adapter.lora.alpha", 6, struct.pack("<f", alpha)))
    tensors = {}
    for layer, target, a, b in matrices(base, rank, seed, targets):
        name = f"blk.{layer}.{target}.weight.lora_"
        tensors[name + "a"] = ((len(a[0]), rank), tiny_model.FLOAT32, floats(a))
        tensors[name + "b"] = ((rank, len(b)), tiny_model.FLOAT32, floats(b))
    tiny_model.write_file(path, keys, tensors)


def in_halves(rows, head):
    """Rows of a head as transformers has them: a GGUF's alternate between the halves."""
    out = []
    for begin in range(0, len(rows), head):
        out += rows[begin:begin + head:2] + rows[begin + 1:begin + head:2]
    return out


def write_folder(path, base=Base(), rank=8, seed=1, alpha=16.0, targets=tuple(MODULES), **settings):
    os.makedirs(path, exist_ok=True)
    header, data = {}, b""
    for layer, target, a, b in matrices(base, rank, seed, targets):
        if target in ("attn_q", "attn_k"):
            b = in_halves(b, base.width // base.heads)
        for part, rows in (("A", a), ("B", b)):
            values = floats(rows)
            header[f"base_model.model.model.layers.{layer}.{MODULES[target]}.lora_{part}.weight"] = {
                "dtype": "F32", "shape": [len(rows), len(rows[0])], "data_offsets": [len(data), len(data) + len(values)]}
            data += values
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(path, "adapter_model.safetensors"), "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + data)
    config = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": rank, "lora_alpha": alpha, "lora_dropout": 0.05,
              "bias": "none", "use_dora": False, "use_rslora": False, "modules_to_save": None, "fan_in_fan_out": False,
              "target_modules": [MODULES[target].split(".")[1] for target in targets], "inference_mode": True,
              "base_model_name_or_path": "base", **settings}
    with open(os.path.join(path, "adapter_config.json"), "w") as out:
        json.dump(config, out)
