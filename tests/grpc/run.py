#!/usr/bin/env python3
"""Runs stock gRPC clients against the server of `grpc_host`, in a virtual environment of their own.

    run.py --host build/release/tests/grpc/grpc_host [--venv build/grpc-venv] [test names as for unittest]

It is not that of the end-to-end tests: tritonclient[all] holds protobuf below 5 or 6 and brings CUDA's packages, and
perf_analyzer needs CUDA's run-time library, some fifty megabytes that `make e2e` can do without. Made and used as that
one is (tests/e2e/run.py). The older tritonclient has no build of numpy for Python 3.13, the newer one needs a newer glibc.
"""
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))
import host_tests  # noqa: E402

if __name__ == "__main__":
    sys.exit(host_tests.main(HERE, __doc__, "grpc-venv", "GRPC", GRPC_VERBOSITY="NONE"))
