"""The package is typed: mypy --strict accepts it and a user's program, and refuses a user's mistakes."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import tutti

HERE = pathlib.Path(__file__).resolve().parent
CONFIG = HERE.parents[1] / "python" / "pyproject.toml"
TYPES_PYTHON = os.environ["TYPES_PYTHON"]  # of an environment with mypy; the package's own has none


class Types(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name

    def mypy(self, *arguments):
        return subprocess.run([TYPES_PYTHON, "-m", "mypy", "--config-file", CONFIG, "--python-executable", sys.executable, "--cache-dir",
                               f"{self.folder}/cache", *arguments], cwd=self.folder, capture_output=True, text=True, timeout=300, check=False)

    def test_the_package_and_a_program_are_accepted(self):
        done = self.mypy("-p", "tutti")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        done = self.mypy(HERE / "typed_example.py")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_each_mistake_of_a_program_is_found(self):
        file = HERE / "mistyped_example.py"
        expected = {number for number, line in enumerate(file.read_text().splitlines(), 1) if line.endswith("# mistake")}
        done = self.mypy(file)
        self.assertEqual({int(line) for line in re.findall(r":(\d+): error:", done.stdout)}, expected, done.stdout + done.stderr)

    def test_every_public_name_has_a_docstring(self):
        self.assertEqual([name for name in tutti.__all__ if not getattr(tutti, name).__doc__], [])


if __name__ == "__main__":
    unittest.main()
