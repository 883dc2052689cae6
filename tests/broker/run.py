#!/usr/bin/env python3
"""Runs the bridge of `bridge_host` against brokers (mosquitto) with stock MQTT clients, in a virtual environment of their own.

    run.py --host build/release/tests/broker/bridge_host [--venv build/mqtt-venv] [test names as for unittest]

Made and used as that of the end-to-end tests is (tests/e2e/run.py). Every broker is the test's own, on a free port of
127.0.0.1, and ends with it.
"""
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))
import host_tests  # noqa: E402

if __name__ == "__main__":
    sys.exit(host_tests.main(HERE, __doc__, "mqtt-venv", "BRIDGE"))
