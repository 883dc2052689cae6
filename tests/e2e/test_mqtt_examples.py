"""The example clients of examples/mqtt, as shipped: Python with paho-mqtt, C++ with libmosquitto."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

from harness import STEP_S
from test_mqtt import Chat, mqtt_port, serve, text_of

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples" / "mqtt"


class Examples(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        source = EXAMPLES / "chat.cc"
        program = os.path.join(cls.folder.name, "mqtt_chat")
        compiler = re.search(r"^//   g\+\+ (.*) chat\.cc -o mqtt_chat (.*)$", source.read_text(), re.M)
        subprocess.run([os.environ.get("CXX", "g++"), *compiler.group(1).split(), str(source), "-o", program, *compiler.group(2).split()],
                       check=True)
        cls.commands = {"python": [sys.executable, str(EXAMPLES / "chat.py")], "cpp": [program]}
        cls.server = serve(cls.folder.name)
        cls.port = mqtt_port(cls.server)

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0

    def run_example(self, name, text, user="ada", session="s", more=()):
        return subprocess.run([*self.commands[name], "127.0.0.1", str(self.port), user, session, *more], input=text,
                              capture_output=True, text=True, timeout=5 * STEP_S)

    def test_both_chat_and_show_what_the_server_remembers(self):
        for name in self.commands:
            done = self.run_example(name, "Name one river.\nAnd a colour.\n", session=name)
            self.assertEqual(done.returncode, 0, done.stderr)
            observer = Chat(self.port, "ada", name)
            observer.control(type="history", id="h")
            items = observer.out.get(timeout=STEP_S)["items"]
            self.assertEqual([i["content"] for i in items if i["role"] == "user"], ["Name one river.", "And a colour."])
            self.assertEqual(done.stdout, "".join(i["content"] + "\n" for i in items if i["role"] == "assistant"))
            observer.close()

    def test_both_leave_a_tenth_of_a_second_between_two_sends(self):
        for name in self.commands:
            start = time.monotonic()
            done = self.run_example(name, "\n" * 11, session=name + "-quick")  # refused at once, each
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 11, done.stderr)
            self.assertGreater(time.monotonic() - start, 1.0)

    def test_of_two_in_one_session_each_shows_its_own_answer(self):
        observer = Chat(self.port, "ada", "both")
        other = subprocess.Popen([*self.commands["python"], "127.0.0.1", str(self.port), "ada", "both"], stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, text=True)
        other.stdin.write("Name one river.\n")
        other.stdin.flush()
        mine = self.run_example("cpp", "Name one colour.\n", session="both")
        theirs, _ = other.communicate(timeout=5 * STEP_S)
        finals = []
        while len(finals) < 2:
            event = observer.out.get(timeout=STEP_S)
            if event["type"] in ("response.completed", "response.incomplete"):
                finals.append(text_of(event) + "\n")
        self.assertEqual(sorted([mine.stdout, theirs]), sorted(finals))
        observer.close()

    def test_who_is_not_let_in_is_told(self):
        with tempfile.TemporaryDirectory() as folder:
            server = serve(folder)
            port = mqtt_port(server)
            subprocess.run([os.environ["E2E_BINARY"], "users", "create", "ada", "--password-stdin", "--store",
                            os.path.join(folder, "store")], input="correct horse battery\n", text=True, check=True, capture_output=True)
            for word, good in (("correct horse battery", True), ("wrong horse battery", False)):
                password = pathlib.Path(folder, "password")
                password.write_text(word + "\n")
                for name, command in self.commands.items():
                    done = subprocess.run([*command, "127.0.0.1", str(port), "ada", "s", str(password)], input="", capture_output=True,
                                          text=True, timeout=STEP_S)
                    self.assertEqual(done.returncode == 0, good, (name, done.stderr))
                    self.assertEqual("not let in" in done.stderr, not good)
            self.assertEqual(server.stop(), 0)
