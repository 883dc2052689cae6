"""The debug log of conversations (U42), and the numbers of chat over MQTT (U38), of a running server."""
import json
import os
import pathlib
import stat
import subprocess
import tempfile
import unittest

from harness import Server, free_port, stand_in
from test_mqtt import Chat


class ConversationLog(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.file = pathlib.Path(self.folder.name, "said.jsonl")

    def serve(self, *options):
        self.port = free_port()
        server = Server("--mqtt-port", str(self.port), *options, model=stand_in())
        self.addCleanup(lambda: server.process.poll() is None and server.stop())
        return server

    def say(self, user, text):
        chat = Chat(self.port, user)
        chat.say(text, "m-1", max_output_tokens=8)
        answer = chat.turn()[-1]
        chat.close()
        return answer["response"]["output"][0]["content"][0]["text"]

    def test_it_is_off_by_default_and_no_log_contains_any_message(self):
        server = self.serve()
        answer = self.say("ada", "The zebra sings.")
        for word in ("zebra", answer):
            self.assertNotIn(word, server.log())
        self.assertEqual(os.listdir(self.folder.name), [])

    def test_one_session_alone_is_written_with_masked_secrets(self):
        server = self.serve("--debug-conversations", str(self.file), "--debug-session", "ada/s1")
        answer = self.say("ada", "The zebra sings. My key is sk-live_abcdefghij.")
        self.say("bob", "The giraffe is silent.")
        self.assertEqual(server.stop(), 0)
        lines = [json.loads(line) for line in self.file.read_text().splitlines()]
        self.assertEqual([(line["session"], line["turn"], line["role"], line["text"]) for line in lines],
                         [("ada/s1", 1, "user", "The zebra sings. My key is ***"), ("ada/s1", 1, "assistant", answer)])
        self.assertEqual(stat.S_IMODE(self.file.stat().st_mode), 0o600)

    def test_it_is_refused_without_a_session(self):
        refused = subprocess.run([os.environ["E2E_BINARY"], "serve", stand_in(), "--port", "0", "--debug-conversations", str(self.file)],
                                 capture_output=True, text=True)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("debug.session", refused.stderr)

    def test_metrics_count_what_became_of_each_message(self):
        server = self.serve()
        chat = Chat(self.port, "ada")
        for number in range(5):
            chat.say("Hello.", f"m-{number}", max_output_tokens=8)
            chat.turn()
        chat.say("Hello.", "m-x", temperature=9)
        self.assertEqual(chat.turn()[-1]["type"], "error")
        chat.close()
        counted = {outcome: server.metric("tutti_mqtt_messages_total", server="listener", outcome=outcome)
                   for outcome in ("processed", "error", "rejected")}
        self.assertEqual(counted, {"processed": 5, "error": 1, "rejected": 0})
        self.assertEqual(server.metric("tutti_mqtt_waiting_messages", server="listener"), 0)
        self.assertGreater(server.metric("tutti_mqtt_answer_seconds_total", server="listener"), 0)


if __name__ == "__main__":
    unittest.main()
