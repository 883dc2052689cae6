#!/usr/bin/env python3
"""Reads the compiled objects of the per-ISA folders and proves what the sources promise.

usage: isa_symbols_test.py OBJECT... (objects elsewhere than in cpu/<isa>/ are ignored; all are of one architecture)

1. No weak symbol: the linker merges weak functions by name, so one compiled for AVX-512 could become everybody's.
2. Each folder uses only its own instructions: tiles in amx, no zmm or mask register below avx512vnni, no ymm in scalar, and the
   AVX-VNNI objects hold vpdpbusd in its VEX form only (no machine here can run those; this is their check).
   Of Arm's: no dot product in scalar, no matrix product in neon, and each where it belongs.
3. The int8 tiles of AVX-512 keep their accumulators in registers: 16 vpdpbusd per activation row, and no zmm goes to
   or comes from the stack between the first and the last of a block. Of six-bit blocks, whose first half's results wait
   for the second's, a few of these. Constants may lie on the stack.
"""
import collections
import platform
import re
import subprocess
import sys


MOST_OF_HALVES = 12  # stack accesses of a tile of six-bit blocks: 8 by gcc 12, 11 by gcc 14
X86 = ("scalar", "avx2", "avxvnni", "avx512vnni", "amx")
ARM = ("scalar", "neon", "i8mm")


def is_arm(path):
    with open(path, "rb") as file:
        return file.read(20)[18] == 183  # EM_AARCH64


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def folder_of(path):
    match = re.search(r"/cpu/(scalar|avx2|avxvnni|avx512vnni|amx|neon|i8mm)/", path)
    return match.group(1) if match else None


def functions(listing):
    """(name, instruction lines) of every function of an objdump listing."""
    name, lines = None, []
    for line in listing.splitlines():
        header = re.match(r"^[0-9a-f]+ <(.*)>:$", line)
        if header:
            if name:
                yield name, lines
            name, lines = header.group(1), []
        elif "\t" in line:
            lines.append(line.split("\t", 1)[1])
    if name:
        yield name, lines


def spills_between(lines, first, last):
    """Instructions that move a zmm register to or from the stack. What is stored once, before them, is a constant: gcc 14 keeps it there,
    gcc 12 in the program, and either reads it as the operand of an instruction.
    """
    slot = re.compile(r"(-?(?:0x[0-9a-f]+)?\(%r[sb]p\))(, ?%zmm|$)")
    found = [(i, slot.search(line)) for i, line in enumerate(lines) if "zmm" in line and re.search(r"%r[sb]p", line)]
    stored = collections.defaultdict(list)
    for i, match in found:
        if match and not match[2]:
            stored[match[1]].append(i)
    constants = {place for place, at in stored.items() if len(at) == 1 and at[0] < first}
    return [lines[i] for i, match in found if first <= i < last and not (match and match[2] and match[1] in constants)]


def check_tiles(path, listing, faults):
    tiles = 0
    for name, lines in functions(listing):
        match = re.search(r"Int8Tile<(?:.*, )?(\d+)>\(", name)
        if not match:
            continue
        tiles += 1
        dots = [i for i, line in enumerate(lines) if "vpdpbusd" in line]
        if len(dots) != 16 * int(match.group(1)):
            faults.append(f"{path}: {name}: {len(dots)} vpdpbusd")
            continue
        spills = spills_between(lines, dots[0], dots[-1])
        most = MOST_OF_HALVES if "gemm_tiles_q6" in path else 0
        if len(spills) > most:
            faults.append(f"{path}: {name}: {len(spills)} stack accesses in the block, as {spills[0]}")
    return tiles


def check_x86(path, folder, listing, faults):
    if ("%tmm" in listing) != (folder == "amx"):
        faults.append(f"{path}: tiles {'missing' if folder == 'amx' else 'in ' + folder}")
    if folder not in ("avx512vnni", "amx") and re.search(r"%zmm|\{%k[1-7]\}|%[xy]mm(1[6-9]|2\d|3[01])\b", listing):
        faults.append(f"{path}: AVX-512 registers in {folder}")
    if folder == "scalar" and "%ymm" in listing:
        faults.append(f"{path}: ymm registers in scalar")
    if folder == "avx2" and "vpdpbusd" in listing:
        faults.append(f"{path}: VNNI instructions in avx2")
    if folder == "avxvnni" and ("vpdpbusd" not in listing or re.search(r"(?<!\{vex\} )vpdpbusd", listing)):
        faults.append(f"{path}: vpdpbusd missing or not in VEX form")


def check_arm(path, folder, listing, faults):
    for instruction, home in (("[su]dot", ("neon", "i8mm")), ("(?:smm|umm|usmm)la", ("i8mm",))):
        found = re.search(rf"\t{instruction}\t", listing) is not None
        if found and folder not in home:
            faults.append(f"{path}: {instruction} in {folder}")
        if not found and folder == home[0] and "/gemm_" in path:
            faults.append(f"{path}: no {instruction}")


def main():
    faults, seen, tiles = [], {}, 0
    paths = [path for path in sys.argv[1:] if folder_of(path)]
    arm = bool(paths) and is_arm(paths[0])
    tools = "aarch64-linux-gnu-" if arm and platform.machine() != "aarch64" else ""
    for path in paths:
        folder = folder_of(path)
        seen[folder] = seen.get(folder, 0) + 1
        for line in run(tools + "nm", "-C", path).splitlines():
            if re.match(r"^[0-9a-f]+ [WVu] ", line):
                faults.append(f"{path}: weak symbol {line.split(' ', 2)[2]}")
        listing = run(tools + "objdump", "-d", "-C", "--no-show-raw-insn", path)
        (check_arm if arm else check_x86)(path, folder, listing, faults)
        if folder == "avx512vnni":
            tiles += check_tiles(path, listing, faults)
    for folder in ARM if arm else X86:
        if not seen.get(folder):
            faults.append(f"no objects of {folder} were given")
    if not arm and tiles < 8 * 8:
        faults.append(f"only {tiles} int8 tiles found")
    for fault in faults:
        print(fault)
    print(f"{sum(seen.values())} objects, {tiles} tiles: {'FAILED' if faults else 'ok'}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
