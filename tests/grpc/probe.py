"""A well-behaved client during an attack, in a process of its own: in the attacker's process it would wait for Python's lock.

As a program (`probe.py HOST:PORT`) it makes calls until its standard input ends, and prints a line for each call: its time
in ms, or the status it failed with.
"""
import subprocess
import sys
import threading
import time

import grpc

PAUSE_S = 0.002


class Probe:
    """Latencies in ms (`took`) and names of failures (`failed`), as they come."""

    def __init__(self, url):
        self.process = subprocess.Popen([sys.executable, __file__, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)
        self.took, self.failed, self.first = [], [], threading.Event()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            try:
                self.took.append(float(line))
                self.first.set()
            except ValueError:
                self.failed.append(line.strip())

    def stop(self):
        self.process.stdin.close()
        status = self.process.wait(90)
        self.reader.join()
        self.process.stdout.close()
        assert status == 0, f"the probe ended with {status}"
        return self.took


def main():
    done = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), done.set()), daemon=True).start()
    with grpc.insecure_channel(sys.argv[1]) as channel:
        live = channel.unary_unary("/inference.GRPCInferenceService/ServerLive")
        while not done.is_set():
            begin = time.perf_counter()
            try:
                live(b"", timeout=60)
                print((time.perf_counter() - begin) * 1e3, flush=True)
            except grpc.RpcError as error:
                print(error.code().name, flush=True)
            time.sleep(PAUSE_S)


if __name__ == "__main__":
    main()
