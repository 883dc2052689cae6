#!/usr/bin/env python3
"""Builds the kernels and their tests for 64-bit Arm and runs them under emulation.

usage: run.py --build FOLDER [--cmake CMAKE] [--whole] [--filter GTEST_FILTER]

The program is linked statically by Debian's cross compiler (project/CMakeLists.txt) and run by qemu-aarch64 as three
processors: one with everything, one without matrix products, one without dot products. On each it is checked first
which tables the program finds there, as a test that is not instantiated cannot fail. Amounts are those of a machine
that is emulated: what is long and the same on every machine is left out.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
TABLES = ["scalar", "neondot", "i8mm"]  # ascending

# Left out: the oracle's own attention, long contexts and every length take minutes; i8mm has the same attention as
# neondot; plans are the same on all processors; rates under emulation mean nothing. The scalar table runs on the
# processor that has no other.
BUT = ("*/scalar*:*AttentionTest*/scalar*:*SpanAttentionTest*/i8mm:*EveryLength*:*DecodesALongContext*:*RandomShapesAgree*:"
       "*AWindowHides*_16bit:*AWindowHides*_8bit:*AttentionTest.GivesTheSameBits*:*SharedPrefixes*:*AttentionTest.AWindowGivesTheSameBits*:AttentionCloseness*:SpanAttentionPlan*:"
       "*AHidden*_8bit:*AHidden*SharedItem*:AttentionPlan*:AttentionReads*:MeasureGemm*:MachineLimits*")
# Left out of the suite besides, and run by make check-ship: kinds of elements whose attention takes the same paths as int8,
# and products that are long under emulation.
LONG = ("*AttentionTest.RowsThatSee*_float:*AttentionTest.RowsThatSee*_16bit:*AttentionTest.*Window*_float:*AttentionTest.*Window*_16bit:"
        "*AttentionTest.WhatAn*_float:*AttentionTest.WhatAn*_16bit:*AttentionTest.Sharp*_float:*AttentionTest.Sharp*_16bit:"
        "*AttentionTest.AHidden*_float:*AttentionTest.*WideHeads*_float:*AttentionTest.*WideHeads*_16bit:"
        "GemmBf16Blocks.ActivationsPast*:GemmBf16Blocks.ARowsBits*:GemmBf16Blocks.SumsOf*")
# (processor, best table, filter)
PROCESSORS = [("max", "i8mm", f"-{BUT}"),
              ("neoverse-n1", "neondot", f"Isa*:SelectKernels*:Quantize*:Gemm.EveryInstruction*:Gemm.SumsInt*-{BUT}"),
              ("cortex-a72", "scalar", "Isa*:SelectKernels*:Quantize*:Gemm.SumsInt*")]


def run(command, **more):
    print("+", " ".join(str(part) for part in command), flush=True)
    subprocess.run(command, check=True, **more)


def build(folder, cmake):
    environment = dict(os.environ, CCACHE_BASEDIR=str(SOURCE), CCACHE_NOHASHDIR="1",
                       CCACHE_SLOPPINESS="pch_defines,time_macros")
    run([cmake, "-S", pathlib.Path(__file__).parent / "project", "-B", folder, "-G", "Ninja", "--log-level=WARNING",
         "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_SYSTEM_NAME=Linux", "-DCMAKE_SYSTEM_PROCESSOR=aarch64",
         "-DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc", "-DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++"],
        env=environment, stdout=subprocess.DEVNULL)
    run([cmake, "--build", folder, "--parallel", "2", "--target", "kernels_test"], env=environment)
    return folder / "src/kernels/kernels_test"


def tables_of(emulated):
    """The tables that tests over all of the machine's are instantiated for."""
    names = subprocess.run([*emulated, "--gtest_list_tests", "--gtest_filter=*RowsTest*"], check=True, capture_output=True,
                           text=True).stdout
    return [table for table in TABLES if f"/{table}" in names]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--cmake", default="cmake")
    parser.add_argument("--whole", action="store_true", help="also what takes minutes")
    parser.add_argument("--filter", help="of tests, on every processor, in place of the usual ones")
    args = parser.parse_args()

    program = build(args.build, args.cmake)
    objects = sorted(args.build.glob("src/kernels/CMakeFiles/tutti_kernels.dir/cpu/*/*.o"))
    run([sys.executable, SOURCE / "src/kernels/isa_symbols_test.py", *objects])
    environment = dict(os.environ, TUTTI_SOURCE_DIR=str(SOURCE), TUTTI_BINARY_DIR=str(args.build), TUTTI_TEST_SHORT="1")
    for processor, best, tests in PROCESSORS:
        emulated = ["qemu-aarch64", "-cpu", processor, program]
        found = tables_of(emulated)
        if found != TABLES[:TABLES.index(best) + 1]:
            sys.exit(f"{processor}: the program finds {found}")
        begin = time.time()
        if not args.whole and "-" in tests:
            tests = f"{tests}:{LONG}"
        run([*emulated, f"--gtest_filter={args.filter or tests}", "--gtest_brief=1"], env=environment)
        print(f"{processor}: {', '.join(found)}: ok in {time.time() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    main()
