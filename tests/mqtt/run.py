#!/usr/bin/env python3
"""Runs stock MQTT clients against the listener of `mqtt_host`, in a virtual environment of their own.

    run.py --host build/release/tests/mqtt/mqtt_host [--venv build/mqtt-venv] [test names as for unittest]

Made and used as that of the end-to-end tests is (tests/e2e/run.py).
"""
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))
import host_tests  # noqa: E402

if __name__ == "__main__":
    sys.exit(host_tests.main(HERE, __doc__, "mqtt-venv", "MQTT"))
