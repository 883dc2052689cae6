"""Writes a tiny llama checkpoint whose tokens are long texts: thousands of tokens a second, each a thousand bytes.

Its answers mean nothing. It is for checks that need many bytes or many streams and that real weights would make slow:
readers that stop, a thousand streams at once. One layer, float32, byte-level vocabulary.
"""
import random
import struct

LAYERS, WIDTH, HEADS, FEED_FORWARD, CONTEXT = 1, 64, 2, 64, 8192
LONG_TOKENS, LONG_BYTES = 512, 1000
TEMPLATE = ("{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}"
            "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")


def byte_symbols():
    """GPT-2's printable stand-ins for the 256 bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    extra = iter(range(256, 512))
    return [chr(b) if b in plain else chr(next(extra)) for b in range(256)]


def vocabulary():
    rng = random.Random(7)
    tokens = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *byte_symbols(), "th"]
    while len(tokens) < 260 + LONG_TOKENS:
        tokens.append("".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(LONG_BYTES)))
    return tokens


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def strings(values):
    return struct.pack("<IQ", 8, len(values)) + b"".join(map(text, values))


def key(name, kind, payload):
    return text(name) + struct.pack("<I", kind) + payload


def write(path):
    tokens = vocabulary()
    u32 = lambda name, value: key(name, 4, struct.pack("<I", value))
    keys = [
        key("general.architecture", 8, text("llama")), u32("llama.block_count", LAYERS), u32("llama.context_length", CONTEXT),
        u32("llama.embedding_length", WIDTH), u32("llama.feed_forward_length", FEED_FORWARD),
        u32("llama.attention.head_count", HEADS), u32("llama.attention.head_count_kv", HEADS),
        u32("llama.rope.dimension_count", WIDTH // HEADS),
        key("llama.attention.layer_norm_rms_epsilon", 6, struct.pack("<f", 1e-5)),
        key("tokenizer.ggml.model", 8, text("gpt2")), key("tokenizer.ggml.pre", 8, text("smollm")),
        key("tokenizer.ggml.tokens", 9, strings(tokens)),
        key("tokenizer.ggml.token_type", 9, struct.pack("<IQ", 5, len(tokens)) +
            b"".join(struct.pack("<i", 3 if i < 3 else 1) for i in range(len(tokens)))),
        key("tokenizer.ggml.merges", 9, strings(["t h"])),
        u32("tokenizer.ggml.bos_token_id", 1), u32("tokenizer.ggml.eos_token_id", 2),
        key("tokenizer.chat_template", 8, text(TEMPLATE)),
    ]
    shapes = {"token_embd.weight": (WIDTH, len(tokens)), "output_norm.weight": (WIDTH,)}
    for layer in range(LAYERS):
        for name, shape in (("attn_norm", (WIDTH,)), ("ffn_norm", (WIDTH,)), ("attn_q", (WIDTH, WIDTH)), ("attn_k", (WIDTH, WIDTH)),
                            ("attn_v", (WIDTH, WIDTH)), ("attn_output", (WIDTH, WIDTH)), ("ffn_gate", (WIDTH, FEED_FORWARD)),
                            ("ffn_up", (WIDTH, FEED_FORWARD)), ("ffn_down", (FEED_FORWARD, WIDTH))):
            shapes[f"blk.{layer}.{name}.weight"] = shape
    rng = random.Random(1)
    infos, data = b"", b""
    for name, shape in shapes.items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        infos += text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape)
        infos += struct.pack("<IQ", 0, len(data))
        scale = shape[0] ** -0.5
        values = [1.0] * count if len(shape) == 1 else [rng.uniform(-1, 1) * scale for _ in range(count)]
        data += struct.pack(f"<{count}f", *values)
        data += bytes(-len(data) % 32)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(keys)) + b"".join(keys) + infos
    with open(path, "wb") as out:
        out.write(head + bytes(-len(head) % 32) + data)
