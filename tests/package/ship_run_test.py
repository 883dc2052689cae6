#!/usr/bin/env python3
"""The driver of `make check-ship` on scripts of the test: what passes, fails and hangs, and the page that it writes."""
import contextlib
import io
import pathlib
import sys
import tempfile
import time
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "ship"))
import run  # noqa: E402

GOOD = "print('12:00:00 fine in', __file__)\n"
BAD = "import sys; print('x FAILED: this'); print('more'); sys.exit(3)\n"
# Its child outlives it unless both are ended.
HANGS = """
import pathlib, subprocess, time
child = subprocess.Popen(['sleep', '900'])
pathlib.Path(__file__).with_suffix('.pid').write_text(str(child.pid))
print('begun')
time.sleep(900)
"""


def runs(pid):
    try:
        return "State:\tZ" not in pathlib.Path("/proc", pid, "status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


class Driver(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.scripts = self.root / "tests/ship"
        self.scripts.mkdir(parents=True)
        self.page = self.root / "ship.md"
        places = {"ROOT": self.root, "HERE": self.scripts, "LOGS": self.root / "log", "PAGE": self.page, "MAKE": ["echo", "made"],
                  "PLAN": {"hangs": (2, [])}}
        for name, value in places.items():
            patch = mock.patch.object(run, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def drive(self, *arguments, **scripts):
        for name, text in scripts.items():
            (self.scripts / f"{name}.py").write_text(text)
        said = io.StringIO()
        with mock.patch.object(sys, "argv", ["run.py", "--build", str(self.root / "build"), *arguments]), contextlib.redirect_stdout(said):
            return run.main(), said.getvalue()

    def test_all_scripts_pass(self):
        status, said = self.drive(good=GOOD, other=GOOD)
        self.assertEqual(status, 0, said)
        self.assertIn("check-ship: 3 passed", said)
        page = self.page.read_text()
        self.assertIn("| good | passed | 0 s |", page)
        self.assertIn("\nfine in tests/ship/good.py\n", page, "neither the time nor this machine's folders")
        self.assertNotIn(str(self.root), page)

    def test_a_failure_and_a_hang_fail_the_whole(self):
        status, said = self.drive(bad=BAD, good=GOOD, hangs=HANGS)
        self.assertEqual(status, 1, said)
        self.assertRegex(said, r"bad +FAILED, status 3 .*x FAILED: this")
        self.assertRegex(said, r"good +passed")
        self.assertRegex(said, r"hangs +FAILED, ended after 2 s")
        self.assertIn("check-ship: 2 of 4 failed: bad, hangs", said)
        self.assertIn("4 steps, 2 failed", self.page.read_text())
        child = (self.scripts / "hangs.pid").read_text()
        end = time.monotonic() + 10
        while runs(child):
            self.assertLess(time.monotonic(), end, "the hanging script's child runs on")
            time.sleep(0.02)

    def test_some_scripts_write_no_page(self):
        for arguments in (("--only", "good"), ("--skip", "bad"), ("--skip", "bad", "--no-make")):
            status, said = self.drive(*arguments, good=GOOD, bad=BAD)
            self.assertEqual(status, 0, said)
            self.assertNotIn("FAILED", said)
            self.assertFalse(self.page.exists())

    def test_no_script_runs_when_making_fails_or_time_is_over(self):
        with mock.patch.object(run, "MAKE", ["false"]):
            status, said = self.drive(good=GOOD)
        self.assertEqual((status, "fine" in said), (1, False), said)
        status, said = self.drive("--limit", "0.001", good=GOOD)
        self.assertEqual((status, "fine" in said), (1, False), said)
        self.assertIn("no time was left", said)


if __name__ == "__main__":
    unittest.main()
