#!/usr/bin/env python3
"""Writes the golden data of tests/data/gguf: vectors of tensor types, and a file by the reference writer.

{dequantize,quantize}_<TYPE>.bin hold vectors, reference_writer.gguf metadata of every type and three tensors.

The values come from the format's own Python package, so that our decoders are compared with an outside
reference and not with themselves. Needs `pip install gguf numpy`; run once, the files are committed.

Layout of a vector file, little-endian: u32 count of elements, the blocks, the elements as float32.
  dequantize_*: random blocks (any bits; scales finite fp16, subnormal and negative ones included), then what
                the reference makes of them.
  quantize_*:   the blocks the reference makes of the elements, then the elements.
"""
import argparse
import pathlib

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType as Q, GGUFValueType as V, GGUFWriter
from gguf.quants import dequantize, quantize

DECODED = [Q.F32, Q.F16, Q.BF16, Q.Q4_0, Q.Q4_1, Q.Q5_0, Q.Q5_1, Q.Q8_0, Q.Q4_K, Q.Q5_K, Q.Q6_K]
TRANSCODED = [Q.Q2_K, Q.Q3_K, Q.IQ1_S, Q.IQ1_M, Q.IQ2_XXS, Q.IQ2_XS, Q.IQ2_S, Q.IQ3_XXS, Q.IQ3_S, Q.IQ4_NL, Q.IQ4_XS,
              Q.TQ1_0, Q.TQ2_0, Q.MXFP4]
ENCODED = [Q.F16, Q.BF16, Q.Q4_0, Q.Q4_1, Q.Q5_0, Q.Q5_1, Q.Q8_0, Q.MXFP4]
# Byte offsets of the fp16 fields inside a block.
HALVES = {Q.Q4_0: [0], Q.Q4_1: [0, 2], Q.Q5_0: [0], Q.Q5_1: [0, 2], Q.Q8_0: [0],
          Q.Q4_K: [0, 2], Q.Q5_K: [0, 2], Q.Q6_K: [208], Q.Q2_K: [80, 82], Q.Q3_K: [108],
          Q.IQ1_S: [0], Q.IQ1_M: [], Q.IQ2_XXS: [0], Q.IQ2_XS: [0], Q.IQ2_S: [0], Q.IQ3_XXS: [0], Q.IQ3_S: [0],
          Q.IQ4_NL: [0], Q.IQ4_XS: [0], Q.TQ1_0: [52], Q.TQ2_0: [64], Q.MXFP4: []}
ELEMENTS = 2048


def finite_halves(rng, count):
    bits = rng.integers(0, 1 << 16, count, dtype=np.uint16)
    bits[(bits & 0x7C00) == 0x7C00] &= 0x83FF  # infinities and NaNs become subnormals
    return bits


def random_blocks(rng, qtype):
    if qtype == Q.F32:
        bits = rng.integers(0, 1 << 32, ELEMENTS, dtype=np.uint32)
        bits[(bits & 0x7F800000) == 0x7F800000] &= 0x807FFFFF
        return bits.view(np.uint8)
    if qtype == Q.F16:
        return finite_halves(rng, ELEMENTS).view(np.uint8)
    if qtype == Q.BF16:
        bits = rng.integers(0, 1 << 16, ELEMENTS, dtype=np.uint16)
        bits[(bits & 0x7F80) == 0x7F80] &= 0x807F
        return bits.view(np.uint8)
    size, width = GGML_QUANT_SIZES[qtype]
    blocks = rng.integers(0, 256, (ELEMENTS // size, width), dtype=np.uint8)
    for at in HALVES[qtype]:
        blocks[:, at:at + 2] = finite_halves(rng, len(blocks)).view(np.uint8).reshape(-1, 2)
    if qtype == Q.MXFP4:
        blocks[:, 0] = rng.integers(0, 251, len(blocks))
    if qtype == Q.IQ1_M:  # four bits of the scale in each of four words
        bits = finite_halves(rng, len(blocks))
        for word in range(4):
            high = blocks[:, 49 + 2 * word]
            blocks[:, 49 + 2 * word] = (high & 15) | (((bits >> (4 * word)) & 15) << 4).astype(np.uint8)
    return blocks.reshape(-1)


def write(path, blocks, values):
    values = np.ascontiguousarray(values, dtype=np.float32).reshape(-1)
    assert np.isfinite(values).all()
    path.write_bytes(np.uint32(len(values)).tobytes() + np.ascontiguousarray(blocks).tobytes() + values.tobytes())
    print(f"{path}: {len(values)} elements")


def write_reference_file(path):
    """The file that src/gguf/reference_test.cc reads and compares value by value."""
    writer = GGUFWriter(path, "llama")
    for name, kind, value in [("u8", V.UINT8, 255), ("i8", V.INT8, -128), ("u16", V.UINT16, 65535),
                              ("i16", V.INT16, -32768), ("u32", V.UINT32, 2**32 - 1), ("i32", V.INT32, -2**31),
                              ("u64", V.UINT64, 2**64 - 1), ("i64", V.INT64, -2**63), ("f32", V.FLOAT32, 0.25),
                              ("f64", V.FLOAT64, 1e-3), ("bool", V.BOOL, True), ("text", V.STRING, "caf\u00e9")]:
        writer.add_key_value(f"test.{name}", value, kind)
    writer.add_array("test.strings", ["a", "", "\u4e16\u754c"])
    writer.add_array("test.ints", [-1, 0, 7])
    writer.add_array("test.floats", [0.5, -2.0])
    values = (np.arange(192) - 96).astype(np.float32)
    writer.add_tensor("plain", values.reshape(3, 64))
    writer.add_tensor("half", values.reshape(2, 3, 32).astype(np.float16))
    writer.add_tensor("coded", quantize(values.reshape(3, 64), Q.Q8_0), raw_dtype=Q.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    print(f"{path}: {path.stat().st_size} bytes")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("tests/data/gguf"))
    out = parser.parse_args().out
    rng = np.random.default_rng(85)
    for qtype in DECODED:
        blocks = random_blocks(rng, qtype)
        write(out / f"dequantize_{qtype.name}.bin", blocks, dequantize(blocks, qtype))
    # Ordinary weights, a block of zeros, one of equal values, one with an outlier, exact halves.
    values = rng.normal(0, 0.02, ELEMENTS).astype(np.float32)
    values[0:32] = 0
    values[32:64] = 0.125
    values[64] = -7.5
    values[96:128] = np.arange(32) / 2 - 8
    values[128:160] = rng.normal(0, 1e-7, 32)
    for qtype in ENCODED:
        write(out / f"quantize_{qtype.name}.bin", quantize(values, qtype).view(np.uint8), values)
    rng = np.random.default_rng(58)  # of its own: the data above stay what they were
    for qtype in TRANSCODED:
        blocks = random_blocks(rng, qtype)
        write(out / f"dequantize_{qtype.name}.bin", blocks, dequantize(blocks, qtype))
    write_reference_file(out / "reference_writer.gguf")


if __name__ == "__main__":
    main()
