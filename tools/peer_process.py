"""A peer's server for a comparison, stopped at its end."""
import pathlib
import subprocess
import sys
import time
import urllib.request

PATIENCE_S = 300


class Process:
    """A program that is ended with it, and what it printed."""

    def __init__(self, command, ready, log):
        self.log = open(log, "w+")
        self.process = subprocess.Popen([str(part) for part in command], stdout=self.log, stderr=subprocess.STDOUT)
        end = time.monotonic() + PATIENCE_S
        while not ready(self):
            if self.process.poll() is not None or time.monotonic() > end:
                self.stop()
                sys.exit(f"{command[0]} did not start:\n{pathlib.Path(log).read_text()[-3000:]}")
            time.sleep(0.05)

    def printed(self):
        return pathlib.Path(self.log.name).read_text()

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(60)
        self.log.close()


def llama_server(binaries, model, port, sequences, threads, log, options=()):
    """llama-server with a context of 1,024 tokens for each of its slots, once it answers."""
    def healthy(_):
        try:
            return urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1).status == 200
        except OSError:
            return False
    return Process([binaries / "llama-server", "-m", model, "--host", "127.0.0.1", "--port", port, "-np", sequences,
                    "-c", 1024 * sequences, "-t", threads, "-tb", threads, "--no-webui", *options], healthy, log)
