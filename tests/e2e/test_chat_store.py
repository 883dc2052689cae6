"""`tutti chat --store`: a dialog with a local model survives the process, even a killed one."""
import os
import signal
import subprocess
import tempfile
import unittest

from harness import STEP_S, default_model
from test_chat import Terminal


class KeptDialogs(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="tutti-chats-")
        self.addCleanup(self.folder.cleanup)
        self.store = os.path.join(self.folder.name, "chats")

    def chat(self, *options, tokens=12):
        terminal = Terminal("chat", default_model(), "--threads", "1", "--temperature", "0", "-n", str(tokens),
                            "--store", self.store, *options)
        self.addCleanup(terminal.close)
        terminal.until(b"\n> ")
        return terminal

    @staticmethod
    def leave(terminal):
        terminal.type("/exit\r")
        terminal.process.wait(STEP_S)

    def history(self, terminal):
        return [line for line in terminal.say("/history").decode().splitlines() if line.startswith(("you: ", "model: "))]

    def test_after_kill_9_between_turns_the_next_run_has_the_history(self):
        first = self.chat()
        first.say("The word is zebra.")
        first.say("Name a colour.")
        said = self.history(first)
        self.assertEqual([line for line in said if line.startswith("you: ")], ["you: The word is zebra.", "you: Name a colour."])
        first.process.send_signal(signal.SIGKILL)
        first.process.wait()
        second = self.chat()
        self.assertEqual(self.history(second)[:len(said)], said)
        second.say("What was the word?")
        self.assertEqual(self.history(second)[:len(said)], said)
        # Another session of the same store, which only one process may have.
        locked = subprocess.run([os.environ["E2E_BINARY"], "chat", default_model(), "--store", self.store], input="",
                                text=True, capture_output=True, timeout=3 * STEP_S)
        self.assertNotEqual(locked.returncode, 0)
        self.assertIn("store", locked.stderr)
        self.leave(second)
        other = self.chat("--session", "other")
        self.assertEqual(self.history(other), [])
        self.leave(other)
        third = self.chat("--session", "main")
        third.say("/clear")
        third.process.send_signal(signal.SIGKILL)
        third.process.wait()
        self.assertEqual(self.history(self.chat()), [])

    def test_after_kill_9_in_mid_answer_the_next_run_answers(self):
        first = self.chat(tokens=400)
        first.type("Tell a very long story about a river.\r")
        first.until(b"river.")  # the echo of what was typed
        first.until(b" ")       # of the answer
        first.process.send_signal(signal.SIGKILL)
        first.process.wait()
        second = self.chat()
        second.say("And then?")
        asked = [line for line in self.history(second) if line.startswith("you: ")]
        self.assertEqual(asked, ["you: Tell a very long story about a river.", "you: And then?"])

    def test_a_session_needs_a_place_where_it_is_kept(self):
        refused = subprocess.run([os.environ["E2E_BINARY"], "chat", "--session", "x"], input="", text=True,
                                 capture_output=True, timeout=STEP_S)
        self.assertEqual(refused.returncode, 78)
        self.assertIn("--store", refused.stderr)
