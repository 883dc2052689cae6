#!/usr/bin/env python3
"""Writes tests/data/safetensors/reference_writer.safetensors: a small file by the format's own package.

So that our reader is compared with an outside writer and not with itself. Needs `pip install safetensors numpy`; run
once, the file is committed. src/safetensors/reference_test.cc says what is in it.
"""
import argparse
import pathlib

import numpy as np
from safetensors.numpy import save_file


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parents[1] / "tests/data/safetensors")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    ramp = np.arange(-12, 12)
    save_file({
        "f32": (ramp / 8).astype(np.float32).reshape(2, 3, 4),
        "f16": (ramp / 8).astype(np.float16).reshape(4, 6),
        "f64": (ramp / 3).astype(np.float64),
        "i64": ramp.astype(np.int64).reshape(24, 1),
        "i8": ramp.astype(np.int8),
        "u8": np.arange(3, dtype=np.uint8),
        "bool": np.array([True, False, True]),
        "c64": np.array([1 + 2j], dtype=np.complex64),
        "scalar": np.array(0.1, dtype=np.float32),
        "none": np.zeros((0, 5), dtype=np.float32),
        "caf\u00e9 \"quoted\"\n": np.ones(2, dtype=np.float32),
    }, args.out / "reference_writer.safetensors",
        metadata={"format": "np", "text": "\u4e16\u754c \"x\"\\\n\x7f", "empty": ""})


if __name__ == "__main__":
    main()
