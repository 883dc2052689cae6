#!/usr/bin/env python3
"""Writes src/tensor/iq_codebooks.cc: the grids of GGUF's IQ types, from the format's own Python package.

Needs `pip install gguf numpy`; run once, in the root of the source, then `make fmt`; the file is committed.
"""
import pathlib

import numpy as np
from gguf import quants

HEAD = """\
// The grids of the IQ types: which eight (IQ1, IQ2) or four (IQ3) magnitudes an index stands for.
//
// Facts of the format, as tools/make_tensor_grids.py writes them from its own package. Of eight
// elements two bits each, of four elements four bits each, the first lowest: numbers into the list
// of magnitudes that transcoded.cc has for the type.
#include "tensor/transcoded.h"

namespace tutti::tensor {
"""
GRIDS = [(quants.IQ1_S, "kGridIq1"), (quants.IQ2_XXS, "kGridIq2Xxs"), (quants.IQ2_XS, "kGridIq2Xs"),
         (quants.IQ2_S, "kGridIq2S"), (quants.IQ3_XXS, "kGridIq3Xxs"), (quants.IQ3_S, "kGridIq3S")]


def main():
    lines = [HEAD]
    for owner, name in GRIDS:
        entries = np.frombuffer(bytes.fromhex(owner.grid_hex.decode()), dtype="<u2")
        count, width = owner.grid_shape
        bits = 16 // width
        owner.init_grid()
        grid = owner.grid.reshape(owner.grid_shape)
        for i, entry in enumerate(entries):
            for k in range(width):  # the package's own reading of them
                assert owner.grid_map[(int(entry) >> (bits * k)) & ((1 << bits) - 1)] == grid[i, k]
        assert len(entries) == count
        lines.append(f"const uint16_t {name}[{count}] = {{")
        lines.extend("    " + " ".join(f"0x{x:04x}," for x in entries[i:i + 12]) for i in range(0, count, 12))
        lines.append("};")
    lines.append("\n}  // namespace tutti::tensor\n")
    pathlib.Path("src/tensor/iq_codebooks.cc").write_text("\n".join(lines))


if __name__ == "__main__":
    main()
