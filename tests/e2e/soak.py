"""`make soak`: every load of the end-to-end tests in its full amount, then canaries until the time is over.

    soak.py SECONDS     (run.py --soak sets the environment)

Each canary run starts a fresh server with another seed. Ends with one line; exit status 1 if anything failed.
"""
import os
import subprocess
import sys
import time

FIRST = ["test_load", "test_life", "test_limits", "test_scoring", "test_policies", "soak_measured", "test_mqtt_broker",
         "test_memory_kinds", "test_pull", "test_worker_models", "test_web", "test_web_open"]
CANARY_S = 60  # minimum time for the canaries


def run(tests, seed):
    environment = dict(os.environ, E2E_SEED=str(seed))
    return subprocess.run([sys.executable, "-m", "unittest", *tests], env=environment).returncode


def main():
    limit_s = float(sys.argv[1])
    begin = time.monotonic()
    failures, canaries = 0, 0
    for tests in FIRST:
        print(f"soak: {tests}, {time.monotonic() - begin:.0f} s", flush=True)
        failures += run([tests], 1) != 0
    first_s = time.monotonic() - begin
    while canaries == 0 or time.monotonic() - begin < max(limit_s, first_s + CANARY_S):
        canaries += 1
        print(f"soak: canary {canaries}, {time.monotonic() - begin:.0f} s", flush=True)
        failures += run(["test_canary"], canaries) != 0
    print(f"soak: {len(FIRST)} suites and {canaries} canary runs in {time.monotonic() - begin:.0f} s, {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
