"""Start corpora of what reads a model's files: GGUF, packed files, safetensors, configurations."""
import json
import math
import pathlib
import struct

HERE = pathlib.Path(__file__).resolve().parent


def gguf_string(text):
    return struct.pack("<Q", len(text)) + text


def gguf_key(key, kind, payload):
    return gguf_string(key) + struct.pack("<I", kind) + payload


def gguf_file(keys, tensors, version=3, counts=None, data=b"", align=32):
    key_count, tensor_count = counts or (len(keys), len(tensors))
    head = b"GGUF" + struct.pack("<IQQ", version, tensor_count, key_count)
    body = b"".join(keys)
    for name, dims, kind, offset in tensors:
        body += gguf_string(name) + struct.pack("<I", len(dims)) + b"".join(struct.pack("<q", d) for d in dims)
        body += struct.pack("<IQ", kind, offset)
    whole = head + body
    return whole + b"\0" * (-len(whole) % align) + data


def ggufs():
    arch = gguf_key(b"general.architecture", 8, gguf_string(b"llama"))
    floats = (b"x", [8], 0, 0)
    data = struct.pack("<8f", *range(8))
    u64 = lambda value: struct.pack("<Q", value)
    return {
        "small": gguf_file([arch], [floats], data=data),
        "version_2": gguf_file([arch], [floats], version=2, data=data),
        "version_1": gguf_file([arch], [floats], version=1, data=data),
        "empty_file": b"",
        "magic_only": b"GGUF",
        "wrong_magic": b"GGML" + b"\0" * 60,
        "big_endian": b"GGUF" + struct.pack(">IQQ", 3, 0, 0),
        "huge_counts": gguf_file([], [], counts=(2**64 - 1, 2**64 - 1)),
        "counts_at_2_61": gguf_file([], [], counts=(2**61, 2**61)),
        "huge_key": b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + u64(2**64 - 1),
        "huge_string": gguf_file([gguf_string(b"k") + struct.pack("<I", 8) + u64(2**63)], []),
        "huge_array": gguf_file([gguf_key(b"k", 9, struct.pack("<IQ", 8, 2**60))], []),
        "nested_array": gguf_file([gguf_key(b"k", 9, struct.pack("<IQ", 9, 1) * 20)], []),
        "unknown_type": gguf_file([gguf_key(b"k", 13, b"\0" * 8)], []),
        "bool_2": gguf_file([gguf_key(b"k", 7, b"\2")], []),
        "empty_key": gguf_file([gguf_key(b"", 0, b"\0")], []),
        "key_with_nul": gguf_file([gguf_key(b"a\0b", 0, b"\0")], []),
        "key_invalid_utf8": gguf_file([gguf_key(b"\xff", 0, b"\0")], []),
        "equal_keys": gguf_file([arch, arch], []),
        "alignment_3": gguf_file([gguf_key(b"general.alignment", 4, struct.pack("<I", 3))], [floats], data=data),
        "alignment_0": gguf_file([gguf_key(b"general.alignment", 4, struct.pack("<I", 0))], [floats], data=data),
        "all_types": gguf_file([gguf_key(b"k%d" % t, t, b"\1" * n) for t, n in
                                ((0, 1), (1, 1), (2, 2), (3, 2), (4, 4), (5, 4), (6, 4), (7, 1), (10, 8), (11, 8), (12, 8))]
                               + [gguf_key(b"list", 9, struct.pack("<IQ", 8, 2) + gguf_string(b"a") + gguf_string(b""))], []),
        "five_dims": gguf_file([], [(b"x", [1] * 5, 0, 0)], data=data),
        "no_dims": gguf_file([], [(b"x", [], 0, 0)], data=data),
        "zero_dim": gguf_file([], [(b"x", [0, 4], 0, 0)], data=data),
        "negative_dim": gguf_file([], [(b"x", [-1, 4], 0, 0)], data=data),
        "product_overflow": gguf_file([], [(b"x", [2**62, 2**62, 4], 0, 0)], data=data),
        "beyond_the_end": gguf_file([], [(b"x", [1024], 0, 0)], data=data),
        "unaligned_offset": gguf_file([], [(b"x", [2], 0, 7)], data=data),
        "overlap": gguf_file([], [(b"x", [8], 0, 0), (b"y", [8], 0, 0)], data=data),
        "hole": gguf_file([], [(b"x", [8], 0, 0), (b"y", [8], 0, 96)], data=data * 4),
        "equal_names": gguf_file([], [(b"x", [8], 0, 0), (b"x", [8], 0, 32)], data=data * 2),
        "offset_wraps": gguf_file([], [(b"x", [8], 0, 2**64 - 32)], data=data),
        "q4_0": gguf_file([], [(b"x", [32, 2], 2, 0)], data=b"\0" * 64),
        "q4_0_ragged": gguf_file([], [(b"x", [33], 2, 0)], data=b"\0" * 64),
        "q4_0_infinite_scale": gguf_file([], [(b"x", [32], 2, 0)], data=b"\0\x7c" + b"\0" * 62),
        "nan": gguf_file([], [floats], data=struct.pack("<8f", *([float("nan")] * 8))),
        "unknown_tensor_type": gguf_file([], [(b"x", [8], 99, 0)], data=data),
        "split": gguf_file([gguf_key(b"split.count", 2, struct.pack("<H", 2))], [floats], data=data),
    }


def gguf_tokenizers():
    """Files with a tokenizer's keys alone, and a text behind them."""
    def strings(name, values):
        return gguf_key(b"tokenizer.ggml." + name, 9, struct.pack("<IQ", 8, len(values)) + b"".join(gguf_string(v.encode()) for v in values))

    def numbers(name, kind, form, values):
        return gguf_key(b"tokenizer.ggml." + name, 9, struct.pack("<IQ", kind, len(values)) + struct.pack(f"<{len(values)}{form}", *values))

    text = lambda name, value: gguf_key(name, 8, gguf_string(value.encode()))
    ids = lambda **named: [gguf_key(f"tokenizer.ggml.{n}_token_id".encode(), kind, struct.pack(form, value)) for n, (kind, form, value) in named.items()]
    symbol = lambda b: chr(b) if 33 <= b <= 126 or 161 <= b <= 172 or 174 <= b else chr(256 + sum(1 for c in range(b) if not (33 <= c <= 126 or 161 <= c <= 172 or 174 <= c)))
    byte_tokens = [symbol(b) for b in range(256)] + ["he", "hel", "<|im_start|>", "<|im_end|>", ""]
    byte_types = [1] * 258 + [3, 4, 5]
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256)), "\u2581", "h", "e", "\u2581h", "he"]
    piece_types = [2, 3, 3] + [6] * 256 + [1] * 5
    scores = [0.0] * 259 + [-1.0, -2.0, -3.0, -0.5, -0.7]
    chat = text(b"tokenizer.chat_template", "{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}")
    level = '{"model":{"type":"BPE"},"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":true},"normalizer":{"type":"NFKC"},"added_tokens":[{"id":258,"rstrip":true}]}'
    named = lambda kind, *keys: [text(b"tokenizer.ggml.model", kind), *keys]
    bytes_keys = [strings(b"tokens", byte_tokens), numbers(b"token_type", 5, "i", byte_types), strings(b"merges", ["h e", "he l"]), chat]
    piece_keys = [strings(b"tokens", pieces), numbers(b"token_type", 5, "i", piece_types), numbers(b"scores", 6, "f", scores)]
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "\u2581hello", "o", "w", "\u2581w"]
    files = {
        **{"pre_" + pre.replace("-", "_"): named("gpt2", text(b"tokenizer.ggml.pre", pre), *bytes_keys)
           for pre in ("gpt-2", "qwen2", "llama-bpe", "tekken", "deepseek-v3", "gpt-4o", "kimi-k2", "default")},
        "pieces": named("llama", *piece_keys, *ids(bos=(4, "<I", 1), eos=(5, "<i", -1), eot=(10, "<Q", 1 << 40))),
        "unigram": named("t5", *piece_keys, numbers(b"precompiled_charsmap", 0, "B", [4, 0, 0, 0, 0, 0, 0, 0])),
        "words": named("bert", strings(b"tokens", words), *ids(cls=(4, "<I", 2), seperator=(4, "<I", 3), unknown=(4, "<I", 1))),
        "pipeline": named("gpt2", text(b"tokenizer.ggml.tutti.pipeline", level), numbers(b"tutti.ends", 5, "i", [1, 2, -5]), *bytes_keys),
        "pipeline_bad": named("gpt2", text(b"tokenizer.ggml.tutti.pipeline", level[:40]), *bytes_keys),
        "phi3": [text(b"general.name", "Phi-3 mini"), *named("llama", *piece_keys)],
        "short_lists": named("llama", strings(b"tokens", pieces), numbers(b"scores", 6, "f", scores[:4])),
    }
    words_behind = b"TEXT\xff" + "hello  w\u00f6rld <|im_start|>\n</s> 123".encode()
    return {name: gguf_file(keys, []) + words_behind for name, keys in files.items()}


def packed_file(description, whole, weights=b"\1" * 64, version=1, arithmetic=0, changed=None):
    """A packed checkpoint (src/packed/file.h) of one piece without sums: the target makes them right."""
    front = bytes(128 + 8)
    front += bytes(-len(front) % 64) + description
    front += bytes(-len(front) % 4096)
    numbers = {"file": len(front) + len(weights), "description": len(description), "whole": whole, "weights": len(weights), "piece": 1 << 20}
    numbers.update(changed or {})
    preamble = b"\x89TUTTIP\n" + struct.pack("<IIII", version, 1, arithmetic, 0) + struct.pack("<5Q", *numbers.values())
    return preamble + bytes(128 - len(preamble)) + front[128:] + weights


def prefix_file(first=0, blocks=1, tokens=32, version=1, sizes=(1000, 0, 0), parts=b"", header=None, magic=b"TUTTIPFX"):
    """The header of a file with blocks of a prefix (src/kv/disk/prefix_file.h) without its sum: the target makes it right."""
    texts = struct.pack(f"<{tokens}i", *range(tokens)) + parts.ljust(blocks, b"\0")
    texts += bytes(-len(texts) % 8)
    size = 88 + len(texts) + 40 * blocks + 8
    size += -size % 64
    front = struct.pack("<8sII16s16s3QIIII", magic, version, header or size, b"m" * 16, b"r" * 16, *sizes, first, blocks, tokens, 0)
    return (front + texts).ljust(size, b"\0")


def prefix_files():
    return {"sound": prefix_file(), "tail": prefix_file(2, 2, 110), "parts": prefix_file(0, 2, 64, sizes=(1000, 20, 3), parts=b"\1\3"),
            "unknown_part": prefix_file(parts=b"\4"), "version_2": prefix_file(version=2), "other": prefix_file(magic=b"TUTTIPAK"),
            "huge_parts": prefix_file(sizes=(2**36, 2**36, 2**36), parts=b"\3"), "too_huge": prefix_file(sizes=(2**63, 1, 1)),
            "first_wraps": prefix_file(2**32 - 1, 1, 32), "no_blocks": prefix_file(0, 0, 32), "no_tokens": prefix_file(0, 1, 0),
            "short_header": prefix_file(header=64), "long_header": prefix_file(header=2**32 - 64), "cut": prefix_file()[:100]}


def packed():
    arch = gguf_key(b"general.architecture", 8, gguf_string(b"llama"))
    floats = (b"x", [8], 0, 0)
    front = gguf_file([arch], [floats])
    whole = len(front) + 32
    sound = packed_file(front, whole)
    most = 2**64 - 1
    return {
        "small": sound, "cut": sound[:-1], "longer": sound + b"x", "preamble_alone": sound[:128], "magic_alone": sound[:8], "empty": b"",
        "with_a_tensor": packed_file(front + struct.pack("<8f", *range(8)), whole),
        "version_2": packed_file(front, whole, version=2), "arithmetic_9": packed_file(front, whole, arithmetic=9),
        "whole_too_small": packed_file(front, len(front)), "no_gguf": packed_file(b"GGML" + bytes(60), 64), "no_description": packed_file(b"", 0),
        "huge_counts": packed_file(gguf_file([], [], counts=(2**61, 2**61)), 2**62),
        "huge_array": packed_file(gguf_file([gguf_key(b"k", 9, struct.pack("<IQ", 8, 2**25))], []), 2**62),
        **{f"{name}_{amount}": packed_file(front, whole, changed={name: value}) for name in ("file", "description", "whole", "weights", "piece")
           for amount, value in (("none", 0), ("most", most), ("wraps", most - 4095), ("one", 1))},
    }


def tensor_entry(name, dtype, shape, begin, end):
    return f'"{name}":{{"dtype":"{dtype}","shape":{json.dumps(shape, separators=(",", ":"))},"data_offsets":[{begin},{end}]}}'


def tensors_file(header, data=b"", length=None):
    text = header if isinstance(header, bytes) else header.encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def quantized():
    weights = {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "channel"}

    def compressed(form, more=None, **changed):
        return {"quant_method": "compressed-tensors", "format": form, **(more or {}),
                "config_groups": {"g": {"targets": ["Linear"], "weights": {**weights, **changed}}}}

    configs = {
        "int8": compressed("int-quantized", {"ignore": ["re:.*int8.1.*", "lm_head"]}),
        "int8_static": compressed("int-quantized", {"ignore": ["int8.1"]}, strategy="tensor"),
        "int4": compressed("pack-quantized", num_bits=4, strategy="group", group_size=32),
        "int4_ordered": compressed("pack-quantized", num_bits=4, strategy="group", group_size=32, actorder="group"),
        "float8": compressed("float-quantized", type="float"),
        "float8_block": compressed("float-quantized", type="float", strategy="block", block_structure=[128, 128]),
        "sparse": compressed("int-quantized", {"sparsity_config": {"format": "sparse-24-bitmask"}}),
        "cache": compressed("int-quantized", {"kv_cache_scheme": {"num_bits": 8}}),
        "group_of_zero": compressed("pack-quantized", num_bits=4, strategy="group", group_size=0),
        "groups_list": {"quant_method": "compressed-tensors", "format": "int-quantized", "config_groups": []},
        "gptq": {"quant_method": "gptq", "bits": 4, "group_size": 32, "sym": False},
        "gptq_symmetric": {"quant_method": "gptq", "bits": 4, "group_size": 32, "checkpoint_format": "gptq_v2"},
        "gptq_row": {"quant_method": "gptq", "bits": 8, "group_size": -1, "sym": False},
        "awq": {"quant_method": "awq", "bits": 4, "group_size": 32, "modules_to_not_convert": None},
        "bitnet": {"quant_method": "bitnet", "linear_class": "autobitlinear", "quantization_mode": "offline"},
        "bitnet_master": {"quant_method": "bitnet", "linear_class": "autobitlinear", "quantization_mode": "online"},
        "fp8": {"quant_method": "fp8", "weight_block_size": [128, 128], "modules_to_not_convert": ["lm_head"]},
        "fp8_huge_block": {"quant_method": "fp8", "weight_block_size": [1 << 62, 1]},
        "mxfp4": {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"]},
        "unknown": {"quant_method": "bitsandbytes", "load_in_4bit": True},
    }
    return {name: json.dumps(config) for name, config in configs.items()} | {
        "pattern_runs": ".*" * 200 + "$", "pattern_escape": "^model\\.layers\\.0\\..*proj$"}


def loras():
    """Adapters of a llama of 2 layers of 32: GGUFs, and configurations of peft alone or with their tensors."""
    def floats(*values):
        return struct.pack(f"<{len(values)}f", *values)

    def gguf(keys=(), name="blk.0.attn_q", shapes=((32, 2), (2, 32)), kind=0, value=0.5, alpha=4.0):
        base = {"general.type": "adapter", "general.architecture": "llama", "adapter.type": "lora", **dict(keys)}
        encoded = [gguf_key(key.encode(), 8, gguf_string(text.encode())) for key, text in base.items() if text is not None]
        encoded.append(gguf_key(b"adapter.lora.alpha", 6, floats(alpha)))
        data = floats(*[value] * 64)
        tensors = [(f"{name}.weight.lora_{part}".encode(), shape, kind, i * 256) for i, (part, shape) in enumerate(zip("ab", shapes))]
        return gguf_file(encoded, tensors, data=data * 2)

    def peft(module="model.layers.0.self_attn.q_proj", shapes=((2, 32), (32, 2)), dtype="F32", size=256, **config):
        name = f"base_model.model.{module}.lora_"
        header = ", ".join(tensor_entry(f"{name}{part}.weight", dtype, list(shape), i * size, (i + 1) * size)
                           for i, (part, shape) in enumerate(zip("AB", shapes)))
        return json.dumps({"r": 2, "lora_alpha": 4, **config}).encode() + b"\0" + tensors_file("{" + header + "}", b"\0" * 2 * size)

    return {
        "gguf": gguf(), "gguf_up": gguf(name="blk.1.ffn_up"), "gguf_joined": gguf(name="blk.1.ffn_up", shapes=((32, 1), (1, 64))),
        "gguf_embedding": gguf(name="token_embd"), "gguf_layer": gguf(name="blk.7.attn_q"), "gguf_number": gguf(name="blk.x.attn_q"),
        "gguf_turned": gguf(shapes=((2, 32), (32, 2))), "gguf_rank": gguf(shapes=((32, 2), (1, 64))),
        "gguf_nan": gguf(value=float("nan")), "gguf_alpha": gguf(alpha=3e38), "gguf_other": gguf(keys=[("general.architecture", "qwen2")]),
        "gguf_vector": gguf(keys=[("adapter.type", "control_vector")]), "gguf_model": gguf(keys=[("general.type", None)]),
        "peft": peft(), "peft_half": peft(dtype="F16", size=128), "peft_down": peft(module="model.layers.1.mlp.down_proj"),
        "peft_expert": peft(module="model.layers.0.mlp.experts.0.up_proj"), "peft_head": peft(module="lm_head"),
        "peft_text": peft(module="model.language_model.layers.1.mlp.gate_proj"), "peft_ints": peft(dtype="I32"),
        "peft_patterns": peft(rank_pattern={"q_proj": 2}, alpha_pattern={"^model.layers.0.self_attn.q_proj": 1e9}),
        "rslora": json.dumps({"r": 2, "lora_alpha": 8, "use_rslora": True}), "dora": json.dumps({"r": 2, "use_dora": True}),
        "modules": json.dumps({"r": 2, "modules_to_save": ["lm_head"]}), "pattern": json.dumps({"r": 2, "alpha_pattern": {"(a+)+": 1}}),
        "huge_alpha": '{"r": 2, "lora_alpha": 1e308}', "huge_pattern": '{"r": 2, "alpha_pattern": {"q_proj": 1e308}}', "no_rank": "{}", "list": "[]", "later": '{"r": 2, "later": {"a": 1}}',
    }


def safetensors():
    one = tensor_entry("w", "F32", [2, 1], 0, 8)
    two = tensor_entry("b", "F16", [3], 8, 14)
    data = struct.pack("<2f3e", 1, -2, 0.5, 1, 2)

    def entry(fields, size=8):
        return tensors_file('{"w":{' + fields + "}}", b"\0" * size)

    def offsets(text, size=8):
        return entry(f'"dtype":"F32","shape":[2],"data_offsets":{text}', size)

    def shape(text, dtype="F32", size=8):
        return entry(f'"dtype":"{dtype}","shape":{text},"data_offsets":[0,{size}]', size)

    def index(weight_map, rest=""):
        return "{" + rest + '"weight_map":' + weight_map + "}"

    types = ["BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "I16", "U16", "F16", "BF16",
             "I32", "U32", "F32", "C64", "F64", "I64", "U64", "F4", "F6_E2M3", "F6_E3M2"]
    bits = {"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "BOOL": 8, "BF16": 16, "F16": 16}
    bits |= {t: int("".join(c for c in t.split("_")[0] if c.isdigit())) for t in types if t not in bits}
    entries, at = [], 0
    for name in types:
        size = 4 * bits[name] // 8
        entries.append(tensor_entry("t " + name, name, [4], at, at + size))
        at += size
    return {
        "small": tensors_file("{" + one + "," + two + "}", data),
        "padded": tensors_file("{" + one + "," + two + "}    ", data),
        "out_of_order": tensors_file("{" + two + "," + one + "}", data),
        "metadata": tensors_file('{"__metadata__":{"format":"pt","x\\u00e9":"\\ud83d\\ude00"},' + one + "}", data[:8]),
        "all_types": tensors_file("{" + ",".join(entries) + "}", bytes(at)),
        "scalar_and_none": tensors_file("{" + tensor_entry("s", "F32", [], 0, 4) + "," + tensor_entry("n", "F32", [0, 3], 4, 4) + "}", data[:4]),
        "nan": tensors_file("{" + one + "}", struct.pack("<2f", float("nan"), float("inf"))),
        "no_tensors": tensors_file("{}"), "empty_file": b"", "seven_bytes": b"\0" * 7,
        "length_0": tensors_file("{}", length=0), "length_1": tensors_file("{}", length=1), "length_2_63": tensors_file("{}", length=2**63),
        "length_beyond_file": tensors_file("{}", length=3), "length_beyond_cap": tensors_file("{}", length=2**25 + 1),
        "not_json": tensors_file("hello"), "array": tensors_file("[]"), "leading_blank": tensors_file(" {}"),
        "invalid_utf8": tensors_file(b'{"\x80":{}}'), "surrogate": tensors_file('{"\\ud800":{}}'), "deep": tensors_file("[" * 5000),
        "deep_in_shape": tensors_file('{"w":{"shape":' + "[" * 5000), "trailing_junk": tensors_file("{} x"), "two_values": tensors_file("{}{}"),
        "offsets_reversed": offsets("[8,0]"), "offsets_overlap": tensors_file("{" + one + "," + tensor_entry("v", "F32", [2], 4, 12) + "}", bytes(12)),
        "offsets_hole": tensors_file("{" + one + "," + tensor_entry("v", "F32", [2], 9, 17) + "}", bytes(17)),
        "offsets_short_file": offsets("[0,8]", 7), "offsets_long_file": offsets("[0,8]", 9), "offsets_2_53": offsets("[0,9007199254740993]"),
        "offsets_2_64": offsets("[0,18446744073709551616]"), "offsets_exponent": offsets("[0,8e0]"), "offsets_text": offsets('["0","8"]'),
        "offsets_one": offsets("[8]"), "offsets_three": offsets("[0,4,8]"), "offsets_negative": offsets("[-8,0]"), "offsets_minus_zero": offsets("[-0,8]"),
        "shape_too_small": shape("[1]"), "shape_overflow": shape("[4294967296,4294967296]"), "shape_overflow_and_zero": shape("[0,9007199254740992,9007199254740992]", size=0),
        "shape_negative": shape("[-1,-2]"), "shape_nine": shape("[1,1,1,1,1,1,1,1,2]"), "shape_fraction": shape("[2.0]"), "shape_no_list": shape("2"),
        "type_unknown": shape("[1]", "F128", 16), "type_f4_odd": shape("[3]", "F4", 2), "type_no_text": entry('"dtype":1,"shape":[2],"data_offsets":[0,8]'),
        "no_dtype": entry('"shape":[2],"data_offsets":[0,8]'), "no_offsets": entry('"dtype":"F32","shape":[2]'), "unknown_field": entry('"dtype":"F32","x":0'),
        "equal_names": tensors_file("{" + one + "," + tensor_entry("w", "F16", [3], 8, 14) + "}", data),
        "equal_names_escaped": tensors_file("{" + one + "," + tensor_entry("\\u0077", "F16", [3], 8, 14) + "}", data),
        "equal_fields": entry('"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]'),
        "metadata_number": tensors_file('{"__metadata__":{"a":1}}'), "metadata_list": tensors_file('{"__metadata__":[]}'),
        "metadata_twice": tensors_file('{"__metadata__":{},"__metadata__":{}}'), "metadata_equal_keys": tensors_file('{"__metadata__":{"a":"1","a":"2"}}'),
        "zip": b"PK\x03\x04\x14\0\x08\x08" + b"\0" * 40, "pickle": b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.", "git_lfs": "version https://git-lfs.github.com/spec/v1\n",
        "web_page": "<!DOCTYPE html><html></html>", "gguf_file": b"GGUF" + b"\0" * 60,
        "index": index('{"a":"one.safetensors","b":"deep/two.safetensors"}', '"metadata":{"total_size":14,"x":[{"y":null}]},'),
        "index_parent": index('{"a":"../one.safetensors"}'), "index_absolute": index('{"a":"/one.safetensors"}'), "index_dot": index('{"a":"./one"}'),
        "index_empty_part": index('{"a":"deep//one"}'), "index_nul": index('{"a":"one\\u0000"}'), "index_number": index('{"a":1}'),
        "index_nested": index('{"a":{"b":"c"}}'), "index_list": index("[]"), "index_none": "{}", "index_empty": index("{}"),
        "index_twice": index('{"a":"one"},"weight_map":{"b":"one"}'), "index_equal_names": index('{"a":"one","a":"two"}'),
    }


def decoder_configs():
    """config.json with a line for each tensor, and keys of GGUFs, of the small models of the parity test; see decoder_config_fuzz.cc.

    Of the families that have a model of each kind of layer all tensors are listed, of the others the embedding alone."""
    goldens = json.loads((HERE.parent / "golden/decoder_families.json").read_text())
    whole = ("apertus", "deepseek_v3", "falcon h1", "gemma3n with two streams", "gemma4 with shared keys", "gemma4 with experts",
             "gpt_oss", "lfm2moe", "llama4 with layers without experts", "nemotron_h", "nemotron_h with experts and without",
             "granite hybrid with experts", "qwen35 with experts")
    unused = ("_token_id", "architectures", "attention_dropout", "dtype", "initializer_range", "transformers_version", "use_cache")
    files, seen = {}, set()
    for entry in goldens:
        kind = entry["config"]["model_type"]
        if kind in seen and entry["family"] not in whole:
            continue
        seen.add(kind)
        config = {key: value for key, value in entry["config"].items() if not key.endswith(unused)}
        listed = [(name, shape) for name, shape in entry["tensors"].items() if entry["family"] in whole or "embed" in name]
        lines = "\n".join(" ".join([name, *map(str, shape)]) for name, shape in listed)
        files[entry["family"].replace(" ", "_")] = json.dumps(config, separators=(",", ":")) + "\0" + lines
        if entry["family"] in whole:
            files[entry["family"].replace(" ", "_") + "_gguf"] = decoder_gguf(entry["gguf"], entry["keys"])
    predicting = next(entry for entry in goldens if entry["family"] == "qwen35")
    files["predicting_gguf"] = decoder_gguf("qwen35", {**predicting["keys"], "block_count": 6, "nextn_predict_layers": 1})
    return files


def decoder_gguf(architecture, keys):
    """A GGUF of these keys, with an embedding of one token, and with the lists of xIELU that Apertus has."""
    def payload(value):
        if isinstance(value, list):
            kinds = {payload(item)[0] for item in value}
            return 9, struct.pack("<IQ", kinds.pop(), len(value)) + b"".join(payload(item)[1] for item in value)
        if isinstance(value, str):
            return 8, gguf_string(value.encode())
        if value is None:
            return 6, struct.pack("<f", -math.inf)
        if isinstance(value, bool):
            return 7, struct.pack("<B", value)
        return (6, struct.pack("<f", value)) if isinstance(value, float) else (4, struct.pack("<I", value))

    keys = {f"{architecture}.{key}": value for key, value in keys.items() if key != "vocab_size"}
    if architecture == "apertus":
        layers = keys["apertus.block_count"]
        keys |= {f"xielu.{name}": [value] * layers for name, value in (("alpha_p", 0.5), ("alpha_n", 0.25), ("beta", 0.5), ("eps", -1e-6))}
    pairs = [gguf_key(key.encode(), *payload(value)) for key, value in {"general.architecture": architecture, **keys}.items()]
    tensors = [(b"token_embd.weight", [64, 1], 0, 0)]
    if architecture == "gemma3n":  # has the rank
        tensors.append((b"blk.0.laurel_l.weight", [1, 32], 0, 256))
    return gguf_file(pairs, tensors, data=b"\0" * 128 * (1 + len(tensors)))


def encoder_configs():
    """config.json, modules.json and the config.json of its modules, with 0 bytes between; see encoder_config_fuzz.cc."""
    bert = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4, "vocab_size": 100,
            "max_position_embeddings": 128}
    types = {
        "bert": bert, "roberta": {**bert, "pad_token_id": 1}, "mpnet": bert,
        "modernbert": {**bert, "local_attention": 16, "global_attn_every_n_layers": 2, "classifier_pooling": "mean",
                       "layer_types": ["full_attention", "sliding_attention", "full_attention"],
                       "rope_parameters": {"full_attention": {"rope_theta": 1e4, "rope_type": "default"}}},
        "distilbert": {"dim": 64, "hidden_dim": 96, "n_layers": 3, "n_heads": 4, "vocab_size": 100, "max_position_embeddings": 128},
        "new": {**bert, "rope_theta": 2e4, "rope_scaling": {"type": "ntk", "factor": 8.0}, "pack_qkv": True},
        "gte": {**bert, "rope_parameters": {"rope_theta": 1.6e5, "rope_type": "default"}}, "jina_embeddings_v3": bert,
        "nomic_bert": {**bert, "hidden_act": "silu", "rotary_emb_base": 1000},
        "deberta-v2": {**bert, "relative_attention": True, "position_buckets": 32, "pos_att_type": "p2c|c2p",
                       "norm_rel_ebd": "layer_norm", "share_att_key": True, "position_biased_input": False},
    }
    files = {name: json.dumps({"model_type": name, **config}) for name, config in types.items()}
    files["jina_v2"] = json.dumps({"model_type": "bert", "position_embedding_type": "alibi", "emb_pooler": "mean", **bert})
    files["no_buckets"] = files["deberta-v2"].replace("32", "0").replace('"p2c|c2p"', '["c2p", 1]')
    files["no_window"] = json.dumps({"model_type": "modernbert", **bert, "local_attention": 0})
    files["no_positions"] = json.dumps({"model_type": "roberta", **bert, "max_position_embeddings": 1})
    files["many_positions"] = json.dumps({"model_type": "mpnet", **bert, "max_position_embeddings": 1 << 20})
    files["classifier"] = json.dumps({"model_type": "bert", "architectures": ["BertForSequenceClassification"], "num_labels": 3, **bert})

    def with_modules(kinds, module):
        listed = [{"type": f"a.{kind}", "path": f"{i}_{kind}" if i else ""} for i, kind in enumerate(kinds)]
        return "\0".join([json.dumps({"model_type": "bert", **bert}), json.dumps(listed), json.dumps(module)])

    dense = {"in_features": 64, "out_features": 64, "bias": False, "activation_function": "torch.nn.modules.activation.Tanh",
             "pooling_mode": "mean"}
    files["dense"] = with_modules(["Transformer", "Pooling", "Dense", "Dense", "Normalize"], dense)
    files["dense_odd"] = with_modules(["Transformer", "Dense", "Dense"], {**dense, "out_features": 31})
    files["colbert"] = with_modules(["Transformer", "Dense"], dense)
    files["splade"] = with_modules(["MLMTransformer", "SpladePooling"], {"pooling_strategy": "sum", "activation_function": "log1p_relu"})
    files["logit_score"] = with_modules(["Transformer", "LogitScore"], {"true_token_id": 9, "false_token_id": 17})
    files["order"] = with_modules(["Normalize", "Dense", "Pooling", "SpladePooling"], dense)
    files["path"] = with_modules(["Transformer", "Pooling"], dense).replace("1_Pooling", "../x")
    return files
