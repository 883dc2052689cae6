#!/usr/bin/env python3
"""Tests of the runner: a check's result determines its cell, and no failure is lost. Needs no client and no server."""
import pathlib
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import page  # noqa: E402
import importlib.util  # noqa: E402

spec = importlib.util.spec_from_file_location("clients_run", HERE / "run.py")  # its name is also that of the end-to-end runner
run = importlib.util.module_from_spec(spec)
spec.loader.exec_module(run)

HEAD = """from checks import Client, agree
client = Client("one", section="apis", version="1")
"""
PORTS = {"CLIENTS_PORT": "1", "CLIENTS_GRPC_PORT": "1", "CLIENTS_MQTT_PORT": "1"}


class Runner(unittest.TestCase):
    def judge(self, text):
        """(rows, faults) of a script."""
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder, "script.py")
            script.write_text(HEAD + text)
            lines, _, printed = run.run_script(script, pathlib.Path(sys.executable), PORTS)
            return run.gather(script, lines, printed)

    def state(self, text, column="chat"):
        rows, faults = self.judge(text)
        return rows["one"]["cells"][column]["state"], faults

    def test_a_check_that_returns_passes(self):
        self.assertEqual(self.state("@client.check('chat')\ndef chat(): agree(' a', 'a')\n"), ("yes", []))
        self.assertEqual(self.state("@client.check('chat')\nasync def chat(): agree('a', 'a')\n"), ("yes", []))

    def test_a_check_that_raises_is_a_fault(self):
        state, faults = self.state("@client.check('chat')\ndef chat(): agree('a', 'b')\n")
        self.assertEqual(state, "failed")
        self.assertIn("one, chat: AssertionError: 'a' is not 'b'", faults[0])

    def test_a_reason_needs_the_error_it_declares(self):
        declared = "@client.check('chat', cannot='words', error='KeyError: .x')\n"
        self.assertEqual(self.state(declared + "def chat(): {}['x']\n"), ("cannot", []))
        wrapped = "def chat():\n    try: {}['x']\n    except KeyError: raise ValueError\n"
        self.assertEqual(self.state(declared + wrapped), ("cannot", []))
        self.assertEqual(self.state(declared + "def chat(): {}['y']\n")[0], "failed")

    def test_a_reason_that_no_longer_holds_is_a_fault(self):
        state, faults = self.state("@client.check('chat', cannot='words', error='KeyError')\ndef chat(): pass\n")
        self.assertEqual(state, "failed")
        self.assertIn("passes now", faults[0])

    def test_a_script_that_does_not_load_is_a_fault(self):
        rows, faults = self.judge("import no_such_module\n")
        self.assertEqual(rows, {})
        self.assertIn("No module named 'no_such_module'", faults[0])

    def test_a_check_that_ends_the_process_is_a_fault(self):
        _, faults = self.judge("import os\n@client.check('chat')\ndef chat(): os._exit(0)\n")
        self.assertIn("did not end as it should", faults[0])
        self.assertIn("one, chat: no result", faults[1])

    def test_a_client_without_checks_is_a_fault(self):
        self.assertEqual(self.judge("")[1], ["one has no checks"])

    def test_the_page_is_compared_with_the_rows(self):
        rows, _ = self.judge("@client.check('chat')\ndef chat(): pass\n"
                             "@client.check('stream', cannot='words', error='KeyError')\ndef stream(): {}['x']\n")
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "clients.md")
            self.assertEqual(len(page.compare(rows, path)), 1)
            path.write_text(page.make(rows, []))
            self.assertIn("| one | 1 | yes | 1 |", path.read_text())
            self.assertIn("1. one: words", path.read_text())
            self.assertEqual(page.compare(rows, path), [])
            path.write_text(path.read_text().replace("| yes | 1 |", "| yes | yes |"))
            self.assertEqual(len(page.compare(rows, path)), 1)


if __name__ == "__main__":
    unittest.main()
