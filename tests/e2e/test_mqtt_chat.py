"""`tutti chat --mqtt`: the program as a client of the program, over the embedded listener."""
import os
import re
import select
import signal
import subprocess
import tempfile
import threading
import time
import unittest

from harness import STEP_S, Server, default_model, eventually, free_port, stand_in
from mqtt_world import PASSWORDS, World
from test_chat import CTRL_D, Terminal
from test_mqtt import Chat, mqtt_port, serve


def chat(port, *options, text="", scheme="mqtt", host="127.0.0.1"):
    """The exit status and the output of `tutti chat`."""
    done = subprocess.run([os.environ["E2E_BINARY"], "chat", "--mqtt", f"{scheme}://{host}:{port}", "--temperature", "0", *options],
                          input=text, capture_output=True, text=True, timeout=5 * STEP_S)
    return done.returncode, done.stdout, done.stderr


class OverTheListener(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = serve()
        cls.port = mqtt_port(cls.server)

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0

    def test_it_answers_as_the_model_in_the_same_process_does(self):
        status, said, errors = chat(self.port, "--user", "ada", "-n", "12", text="Name three colours.\n")
        self.assertEqual(status, 0, errors)
        local = subprocess.run([os.environ["E2E_BINARY"], "chat", default_model(), "--temperature", "0", "-n", "12"],
                               input="Name three colours.\n", capture_output=True, text=True, timeout=5 * STEP_S)
        answer = said.splitlines()[2:]
        self.assertEqual(answer, local.stdout.splitlines()[2:])
        self.assertTrue("".join(answer).strip())

    def test_a_session_goes_on_where_it_was_and_is_shown(self):
        for text in ("My name is Ada.\n", "Hello again.\n"):
            self.assertEqual(chat(self.port, "--user", "ada", "--session", "kitchen", "-n", "8", text=text)[0], 0)
        status, said, errors = chat(self.port, "--user", "ada", "--session", "kitchen", text="/history\n")
        self.assertEqual(status, 0, errors)
        self.assertEqual(re.findall(r"^(?:> )?you: (.*)$", said, re.M), ["My name is Ada.", "Hello again."])
        self.assertEqual(len(re.findall(r"^model: ", said, re.M)), 2)
        # Another user's session of that name is another one.
        _, said, _ = chat(self.port, "--user", "bob", "--session", "kitchen", text="/history\n")
        self.assertNotIn("Ada", said)

    def test_clear_restarts_a_named_session_under_its_name(self):
        """The chat once continued in a session of another name, and the next chat of the first name had the whole
        history again."""
        name = ("--user", "ada", "--session", "cleared")
        self.assertEqual(chat(self.port, *name, "-n", "8", text="My name is Ada.\n")[0], 0)
        status, said, errors = chat(self.port, *name, "-n", "8", text="/clear\n/history\nName a river.\n")
        self.assertEqual(status, 0, errors)
        self.assertIn("(forgotten)", said)
        self.assertNotIn("My name", said)
        _, said, _ = chat(self.port, *name, text="/history\n")
        self.assertEqual(re.findall(r"^(?:> )?you: (.*)$", said, re.M), ["Name a river."])
        # A session without a name cannot be found again.
        _, said, _ = chat(self.port, "--user", "ada", text="/clear\n")
        self.assertRegex(said, r"\(a new session: chat-\w+\)")

    def test_without_a_user_it_is_the_open_servers_local_one(self):
        status, said, errors = chat(self.port, "-n", "4", text="Hello.\n")
        self.assertEqual(status, 0, errors)
        self.assertIn("user local", said)

    def test_two_in_one_session_get_their_own_answers_alone(self):
        said = {}

        def run(word):
            said[word] = chat(self.port, "--user", "ada", "--session", "both", "-n", "6", text=f"Say {word}.\n" * 2)
        threads = [threading.Thread(target=run, args=(word,)) for word in ("one", "two")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        observer = Chat(self.port, "ada", "both")
        observer.control(type="history", id="h", limit=100)
        items = observer.out.get(timeout=STEP_S)["items"]
        observer.close()
        for word in said:
            self.assertEqual(said[word][0], 0, said[word][2])
            answers = [items[i + 1]["content"] for i, each in enumerate(items) if each["content"] == f"Say {word}."]
            self.assertEqual(len(answers), 2)
            self.assertIn("\n> ".join(answers), said[word][1])

    def test_what_cannot_work_is_said_clearly(self):
        for options, word in ((["--user", "a/b"], "the user must be"), (["--session", "#"], "the session must be"),
                              (["--project", "a b"], "the project must be"), (["--project", "p", "--seed", "1"], "--seed"),
                              (["--password-file", "/nonexistent", "--user", "ada"], "/nonexistent")):
            status, _, errors = chat(self.port, *options)
            self.assertNotEqual(status, 0, options)
            self.assertIn(word, errors)
        status, _, errors = chat(9, "--user", "ada")
        self.assertEqual(status, 1)
        self.assertIn("mqtt://127.0.0.1:9", errors)
        for url in ("http://127.0.0.1", "mqtt://me:hunter2@127.0.0.1"):
            done = subprocess.run([os.environ["E2E_BINARY"], "chat", "--mqtt", url], capture_output=True, text=True)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("--mqtt", done.stderr)
            self.assertNotIn("hunter2", done.stderr)
        # An error of a request is shown, and the chat goes on; if no request was answered, the chat fails at its end.
        status, said, errors = chat(self.port, "no-such-model", "--user", "ada", text="Hello.\n/history\n")
        self.assertEqual(status, 1, errors)
        self.assertIn("no-such-model", said.splitlines()[2])

    def test_ctrl_c_ends_the_servers_work_and_the_chat_goes_on(self):
        process = subprocess.Popen([os.environ["E2E_BINARY"], "chat", "--mqtt", f"mqtt://127.0.0.1:{self.port}", "--user", "ada",
                                    "--session", "stop", "--temperature", "0"],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
        self.addCleanup(lambda: (process.kill(), process.wait(), process.stdout.close(), process.stderr.close()))
        output = b""

        def until(wanted):
            nonlocal output
            while not re.search(wanted, output):
                self.assertTrue(select.select([process.stdout], [], [], STEP_S)[0], output)
                piece = os.read(process.stdout.fileno(), 4096)
                self.assertTrue(piece, output)
                output += piece
        process.stdin.write(b"Write a very long story about a river, with many chapters.\n")
        until(rb"(?s)answer\n.{20}")
        process.send_signal(signal.SIGINT)
        until(rb"\(stopped\)")
        process.stdin.write(b"Hello.\n/history\n")
        until(rb"(?s)you: Hello.*model: ")  # what was stopped has left nothing
        self.assertNotIn(b"you: Write", output)
        process.stdin.close()
        self.assertEqual(process.wait(STEP_S), 0)
        observer = Chat(self.port, "ada", "stop")

        def idle():
            observer.control(type="cancel", id="c")
            return observer.out.get(timeout=STEP_S).get("response_id", "") is None
        eventually(idle, self.server.log)
        observer.close()


class OverABroker(unittest.TestCase):
    def test_a_server_that_is_away_is_told_at_once(self):
        """The question once waited at the broker, and the chat waited silently."""
        world = World(model=stand_in())
        self.addCleanup(world.close)
        password = world.path / "password-of-anna"
        password.write_text(PASSWORDS["anna"] + "\n")
        password.chmod(0o600)
        login = ("--user", "anna", "--password-file", str(password), "-n", "4")
        self.assertEqual(chat(world.broker.port, *login, text="Hi\n")[0], 0)
        world.server.stop()
        began = time.monotonic()
        status, said, _ = chat(world.broker.port, *login, text="Hi\n")
        took = time.monotonic() - began
        world.start_server()
        self.assertEqual(status, 1)
        self.assertIn("the server is offline", said)
        self.assertLess(took, STEP_S / 6)


class OverALongerWay(unittest.TestCase):
    def test_the_server_may_be_started_anew_between_two_questions(self):
        with tempfile.TemporaryDirectory() as folder:
            server = serve(folder)
            port = mqtt_port(server)
            process = subprocess.Popen([os.environ["E2E_BINARY"], "chat", "--mqtt", f"mqtt://127.0.0.1:{port}", "--user", "ada",
                                        "--session", "anew", "--temperature", "0", "-n", "8"],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
            process.stdin.write("Hello.\n/history\n")
            process.stdin.flush()
            while not process.stdout.readline().startswith("model: "):
                pass
            self.assertEqual(server.stop(), 0)
            server = Server("--mqtt-port", str(port), environment={"TUTTI_STORE": os.path.join(folder, "store")})
            try:
                said, _ = process.communicate("Hello again.\n/history\n", timeout=5 * STEP_S)
                self.assertEqual(process.returncode, 0)
                self.assertEqual(re.findall(r"^(?:> )?you: (.*)$", said, re.M), ["Hello.", "Hello again."])
            finally:
                self.assertEqual(server.stop(), 0)

    def test_over_tls_with_a_password_that_no_argument_holds(self):
        with tempfile.TemporaryDirectory() as folder:
            cert, key = os.path.join(folder, "cert.pem"), os.path.join(folder, "key.pem")
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                            "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key, "-out", cert],
                           check=True, capture_output=True)
            os.chmod(key, 0o600)
            password = os.path.join(folder, "password")
            with open(os.open(password, os.O_WRONLY | os.O_CREAT, 0o600), "w") as out:
                out.write("correct horse battery\n")
            store = os.path.join(folder, "store")
            subprocess.run([os.environ["E2E_BINARY"], "users", "create", "ada", "--password-stdin", "--store", store],
                           input="correct horse battery\n", text=True, check=True, capture_output=True)
            server = serve(folder, TUTTI_TLS_CERT=cert, TUTTI_TLS_KEY=key)
            try:
                port = mqtt_port(server)
                login = ("--user", "ada", "--password-file", password)
                for host in ("localhost", "127.0.0.1"):
                    status, said, errors = chat(port, *login, "--ca-file", cert, "-n", "4", text="Hello.\n", scheme="mqtts", host=host)
                    self.assertEqual(status, 0, errors)
                    self.assertTrue("".join(said.splitlines()[2:]).strip())
                terminal = Terminal("chat", "--mqtt", f"mqtts://localhost:{port}", "--user", "ada", "--ask-password", "--ca-file", cert)
                self.addCleanup(terminal.close)
                terminal.until(b"Password: ")
                terminal.type("correct horse battery\r")
                self.assertNotIn(b"horse", terminal.until(b"\n> "))
                terminal.type(CTRL_D)
                self.assertEqual(terminal.process.wait(STEP_S), 0)
                status, _, errors = chat(port, *login, scheme="mqtts")
                self.assertEqual(status, 1)
                self.assertIn("TLS", errors)  # no authority that this machine trusts has signed it
                status, _, errors = chat(port, "--user", "bob", "--password-file", password, "--ca-file", cert, scheme="mqtts")
                self.assertEqual(status, 1)
                self.assertIn("user name or the password", errors)
                os.chmod(password, 0o644)
                status, _, errors = chat(port, *login, "--ca-file", cert, scheme="mqtts")
                self.assertIn("chmod 600", errors)
            finally:
                self.assertEqual(server.stop(), 0)


class OfProjects(unittest.TestCase):
    """Each form of answers that a project may have, as `tutti chat` shows them."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        port = free_port()
        config = os.path.join(cls.folder.name, "tutti.toml")
        with open(config, "w") as out:
            out.write(f"[mqtt]\nport = {port}\n")
            for name, more in (("plain", ""), ("json", 'reply_format = "json"'), ("chunks", "stream = true"), ("rated", 'rate = "2/3s"')):
                out.write(f'[[mqtt.project]]\nname = "{name}"\n{more}\n')
        cls.server = Server("--config", config)
        cls.port = mqtt_port(cls.server)

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0
        cls.folder.cleanup()

    def test_every_form_of_reply_is_shown_alike_over_two_runs(self):
        shown = set()
        for project in ("plain", "json", "chunks"):
            said = ""
            for _ in range(2):  # the second run goes on
                status, output, errors = chat(self.port, "--project", project, "--session", "car", "-n", "10", text="Name a river.\n")
                self.assertEqual(status, 0, errors)
                said += "\n".join(output.splitlines()[2:])
            self.assertNotIn("{", said)
            shown.add(said)
        self.assertEqual(len(shown), 1, shown)
        status, output, errors = chat(self.port, "--project", "plain", "--session", "car", "-n", "10", text="/clear\nName a river.\n")
        self.assertIn("(forgotten)", output, errors)
        self.assertTrue(shown.pop().startswith("> " + output.splitlines()[3][2:]), "as the first one")

    def test_it_waits_for_a_rate_limit_and_gets_every_answer(self):
        status, output, errors = chat(self.port, "--project", "rated", "--session", "quick", "-n", "2", text="Hello.\n" * 4)
        self.assertEqual(status, 0, errors)
        self.assertIn("the server asks to wait", errors)
        self.assertEqual(len([line for line in output.splitlines()[2:] if line.strip("> ")]), 4, output)
        self.assertNotIn("(", "".join(output.splitlines()[2:]))

    def test_of_a_project_that_is_not_there_nobody_may_hear(self):
        status, output, errors = chat(self.port, "--project", "absent", text="Hello.\n")
        self.assertEqual((status, output), (1, ""))
        self.assertIn("may not use project absent, or there is none", errors)
        self.assertIn("absent/assistant_response", errors)
