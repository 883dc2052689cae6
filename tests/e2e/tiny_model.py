"""Writes tiny llama checkpoints with random weights.

write(): tokens are long texts: thousands of tokens a second, each a thousand bytes. For checks that need many bytes or
many streams and that real weights would make slow: readers that stop, a thousand streams at once. One layer, float32,
byte-level vocabulary.

write_stand_in(): the tokenizer and chat template of a real checkpoint, weights of a few MB. For tests in which the
real weights are only load, and take 0.2 s a token and ten seconds to load in a sanitized build. Eight layers, Q8_0.
"""
import random
import re
import struct

LAYERS, WIDTH, HEADS, FEED_FORWARD, CONTEXT = 1, 64, 2, 64, 8192
LONG_TOKENS, LONG_BYTES = 512, 1000
STAND_IN_LAYERS = 8  # so that 1 MiB holds as many positions as 12 do with the default model
TEMPLATE = ("{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}"
            "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")


def byte_symbols():
    """GPT-2's printable stand-ins for the 256 bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    extra = iter(range(256, 512))
    return [chr(b) if b in plain else chr(next(extra)) for b in range(256)]


def vocabulary(marks=()):
    rng = random.Random(7)
    tokens = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *byte_symbols(), "th"]
    while len(tokens) < 260 + LONG_TOKENS:
        tokens.append("".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(LONG_BYTES)))
    return [*tokens, *marks]


def byte_ids(words):
    """The tokens of an ASCII text without "th"."""
    return [3 + byte for byte in words.encode()]


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def strings(values):
    return struct.pack("<IQ", 8, len(values)) + b"".join(map(text, values))


def key(name, kind, payload):
    return text(name) + struct.pack("<I", kind) + payload


FLOAT32, Q8_0 = 0, 8  # GGUF's numbers


def u32(name, value):
    return key(name, 4, struct.pack("<I", value))


def dimensions(layers):
    return [
        key("general.architecture", 8, text("llama")), u32("llama.block_count", layers), u32("llama.context_length", CONTEXT),
        u32("llama.embedding_length", WIDTH), u32("llama.feed_forward_length", FEED_FORWARD),
        u32("llama.attention.head_count", HEADS), u32("llama.attention.head_count_kv", HEADS),
        u32("llama.rope.dimension_count", WIDTH // HEADS),
        key("llama.attention.layer_norm_rms_epsilon", 6, struct.pack("<f", 1e-5)),
    ]


def layer_shapes(layers):
    return {f"blk.{layer}.{name}.weight": shape for layer in range(layers) for name, shape in (
        ("attn_norm", (WIDTH,)), ("ffn_norm", (WIDTH,)), ("attn_q", (WIDTH, WIDTH)), ("attn_k", (WIDTH, WIDTH)),
        ("attn_v", (WIDTH, WIDTH)), ("attn_output", (WIDTH, WIDTH)), ("ffn_gate", (WIDTH, FEED_FORWARD)),
        ("ffn_up", (WIDTH, FEED_FORWARD)), ("ffn_down", (FEED_FORWARD, WIDTH)))}


def write_file(path, keys, tensors):
    """`tensors`: (shape, type, encoded values) by name."""
    infos, offset = b"", 0
    for name, (shape, kind, values) in tensors.items():
        infos += text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape)
        infos += struct.pack("<IQ", kind, offset)
        offset += len(values) + -len(values) % 32
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)) + b"".join(keys) + infos
    with open(path, "wb") as out:
        out.write(head + bytes(-len(head) % 32))
        for _, _, values in tensors.values():
            out.write(values)
            out.write(bytes(-len(values) % 32))


def write(path, marks=()):
    """`marks`: further control tokens, the last of the vocabulary."""
    tokens = vocabulary(marks)
    keys = [
        *dimensions(LAYERS),
        key("tokenizer.ggml.model", 8, text("gpt2")), key("tokenizer.ggml.pre", 8, text("smollm")),
        key("tokenizer.ggml.tokens", 9, strings(tokens)),
        key("tokenizer.ggml.token_type", 9, struct.pack("<IQ", 5, len(tokens)) +
            b"".join(struct.pack("<i", 3 if i < 3 or token in marks else 1) for i, token in enumerate(tokens))),
        key("tokenizer.ggml.merges", 9, strings(["t h"])),
        u32("tokenizer.ggml.bos_token_id", 1), u32("tokenizer.ggml.eos_token_id", 2),
        key("tokenizer.chat_template", 8, text(TEMPLATE)),
    ]
    shapes = {"token_embd.weight": (WIDTH, len(tokens)), "output_norm.weight": (WIDTH,)}
    shapes.update(layer_shapes(LAYERS))
    rng = random.Random(1)
    tensors = {}
    for name, shape in shapes.items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        scale = shape[0] ** -0.5
        values = [1.0] * count if len(shape) == 1 else [rng.uniform(-1, 1) * scale for _ in range(count)]
        tensors[name] = (shape, FLOAT32, struct.pack(f"<{count}f", *values))
    write_file(path, keys, tensors)


SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # of GGUF's scalar kinds


def read_tokenizer(path):
    """(the encoded keys of a checkpoint's tokenizer, its tokens as printable stand-ins)."""
    with open(path, "rb") as source:
        def number(form):
            return struct.unpack("<" + form, source.read(struct.calcsize("<" + form)))[0]

        def skip(kind):
            if kind == 8:
                source.seek(number("Q"), 1)
            elif kind == 9:
                inner, count = number("I"), number("Q")
                for _ in range(count):
                    skip(inner)
            else:
                source.seek(SIZES[kind], 1)

        assert source.read(4) == b"GGUF" and number("I") == 3
        number("Q")
        keys, tokens = [], []
        for _ in range(number("Q")):
            begin = source.tell()
            name = source.read(number("Q")).decode()
            kind, value = number("I"), source.tell()
            if name == "tokenizer.ggml.tokens":
                _, count = number("I"), number("Q")
                tokens = [source.read(number("Q")).decode() for _ in range(count)]
                source.seek(value)
            skip(kind)
            end = source.tell()
            if name.startswith("tokenizer."):
                source.seek(begin)
                keys.append(source.read(end - begin))
    return keys, tokens


def write_stand_in(path, real, seed=1):
    """Greedy answers are lower-case words: no token that ends an answer or is half a character is ever likely. Other seeds give
    other words."""
    keys, tokens = read_tokenizer(real)
    rng = random.Random(seed)

    def q8(rows, columns, scales):
        """Blocks of a float16 scale and 32 bytes."""
        blocks = columns // 32
        random_bytes = rng.randbytes(rows * columns)
        out = []
        for i in range(rows):
            scale = struct.pack("<e", scales[i] if isinstance(scales, list) else scales)
            for b in range(i * blocks, (i + 1) * blocks):
                out += (scale, random_bytes[32 * b:32 * b + 32])
        return b"".join(out)

    word = re.compile("\u0120?[a-z]+")
    likely = [0.04 if word.fullmatch(token) else 0.0 for token in tokens]  # bytes spread by 74, 64 of them: logits by about 2-4
    shape = (WIDTH, len(tokens))
    tensors = {"token_embd.weight": (shape, Q8_0, q8(len(tokens), WIDTH, 0.01)), "output.weight": (shape, Q8_0, q8(len(tokens), WIDTH, [s / 6 for s in likely])),
               "output_norm.weight": ((WIDTH,), FLOAT32, struct.pack(f"<{WIDTH}f", *[1.0] * WIDTH))}
    for name, shape in layer_shapes(STAND_IN_LAYERS).items():
        if len(shape) == 1:
            tensors[name] = (shape, FLOAT32, struct.pack(f"<{shape[0]}f", *[1.0] * shape[0]))
        else:
            tensors[name] = (shape, Q8_0, q8(shape[1], shape[0], shape[0] ** -0.5 / 74))
    write_file(path, [*dimensions(STAND_IN_LAYERS), *keys], tensors)
