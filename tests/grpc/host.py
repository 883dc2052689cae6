"""A `grpc_host` process for tests."""
import os
import pathlib
import re
import subprocess
import unittest

SHORT = os.environ.get("GRPC_SHORT") == "1"  # a slow build: fewer of everything
FULL = os.environ.get("GRPC_FULL", "") != ""  # as `make soak` runs them
START_LIMIT_S = 60


class Host:
    def __init__(self, **settings):
        words = [f"{key}={value}" for key, value in settings.items()]
        self.process = subprocess.Popen([os.environ["GRPC_HOST"], *words], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.port, http_port = map(int, self.process.stdout.readline().split()[-2:])
        self.url = f"127.0.0.1:{self.port}"
        self.http_url = f"127.0.0.1:{http_port}"

    def resident_kib(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status).group(1))

    def cpu_s(self):
        """Processor time of all threads so far."""
        tasks = pathlib.Path(f"/proc/{self.process.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9

    def stop(self):
        """The exit status after a drain."""
        self.process.stdin.close()
        try:
            return self.process.wait(START_LIMIT_S)
        finally:
            self.process.kill()
            self.process.stdout.close()


class HostCase(unittest.TestCase):
    """One host for the tests of a class."""
    SETTINGS = {}

    @classmethod
    def setUpClass(cls):
        cls.host = Host(**cls.SETTINGS)

    @classmethod
    def tearDownClass(cls):
        status = cls.host.stop()
        assert status == 0, f"exit status {status}"
