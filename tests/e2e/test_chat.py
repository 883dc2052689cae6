"""`tutti chat` at a terminal and with a server."""
import fcntl
import http.server
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import tempfile
import termios
import threading
import time
import unittest

from encoder_models import EMBEDDER
from harness import MODEL, STEP_S, Server, ServerCase, default_model, eventually, judged

LEFT, UP, BACKSPACE = b"\x1b[D", b"\x1b[A", b"\x7f"
CTRL_A, CTRL_C, CTRL_D, CTRL_S, CTRL_Z = b"\x01", b"\x03", b"\x04", b"\x13", b"\x1a"
STORY = "Write a very long story about a river, with many chapters."
HANDLERS = unittest.skipUnless(judged("signals that end a chat", "ThreadSanitizer holds handlers back",
                                      by=("thread",)), "sanitized")
CONTROL = re.compile(rb"\x1b\[[0-9;]*[A-Z]|\r")


class Terminal:
    """A program on a pseudo-terminal of its own, typed at."""

    def __init__(self, *arguments, program=None):
        self.home = tempfile.TemporaryDirectory()
        self.master, slave = pty.openpty()
        self.path = os.ttyname(slave)
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))
        self.modes = termios.tcgetattr(self.master)
        self.process = subprocess.Popen(
            [*(program or [os.environ["E2E_BINARY"]]), *arguments], stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            env=dict(os.environ, TERM="xterm", HOME=self.home.name, LC_ALL="C",
                     TUTTI_CACHE=os.environ.get("TUTTI_CACHE", os.path.expanduser("~/.cache/tutti"))))
        os.close(slave)
        self.unread = b""

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.master)
        self.home.cleanup()

    def type(self, *keys):
        os.write(self.master, b"".join(key if isinstance(key, bytes) else key.encode() for key in keys))

    def until(self, wanted, limit_s=3 * STEP_S):
        """The output up to and including `wanted`, without the codes that move the cursor."""
        end = time.monotonic() + limit_s
        while True:
            self.unread = CONTROL.sub(b"", self.unread)
            before, found, after = self.unread.partition(wanted)
            if found:
                self.unread = after
                return before + found
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.master], [], [], left)[0]:
                raise AssertionError(f"no {wanted!r} in {self.unread[-500:]!r}")
            try:
                self.unread += os.read(self.master, 4096)
            except OSError:
                raise AssertionError(f"the program ended before {wanted!r}: {self.unread[-500:]!r}") from None

    def say(self, *keys):
        """Types a line; what came until the next prompt."""
        self.type(*keys, b"\r")
        return self.until(b"\n> ")


class AtATerminal(unittest.TestCase):
    def chat(self, *options):
        terminal = Terminal("chat", default_model(), "--threads", "1", "--temperature", "0", *options)
        self.addCleanup(terminal.close)
        terminal.until(b"\n> ")
        return terminal

    def users_lines(self, terminal):
        shown = terminal.say("/history").decode()
        return re.findall(r"^you: (.*)$", shown, re.MULTILINE)

    def test_a_line_can_be_edited_and_an_earlier_one_brought_back(self):
        chat = self.chat("-n", "4")
        chat.say("Hi wrld", LEFT * 3, "o")
        chat.say("gré", BACKSPACE, "üße 日本", LEFT, BACKSPACE, CTRL_A, BACKSPACE, "Die ")
        self.assertEqual(self.users_lines(chat), ["Hi world", "Die grüße 本"])
        chat.say(UP * 3)  # /history, the second line, the first
        self.assertEqual(self.users_lines(chat), ["Hi world", "Die grüße 本", "Hi world"])
        self.assertIn(b"(forgotten)", chat.say("/clear"))
        self.assertEqual(self.users_lines(chat), [])
        chat.type(CTRL_D)
        self.assertEqual(chat.process.wait(STEP_S), 0)

    def test_ctrl_c_discards_a_line_or_stops_an_answer(self):
        chat = self.chat()
        for keys in (["never sent"], ["never sent", LEFT * 4], []):
            chat.type(*keys, CTRL_C)
            self.assertIn(b"^C", chat.until(b"\n> "))
        chat.type(STORY, b"\r")
        chat.until(b"\n")
        chat.until(b"e")  # of the answer
        chat.type(CTRL_C)
        chat.until(b"(stopped)\n> ")
        self.assertEqual(self.users_lines(chat), [STORY])
        chat.type("x", CTRL_C)  # the terminal still gives the key, not the signal
        chat.until(b"\n> ")
        chat.type(CTRL_D)
        self.assertEqual(chat.process.wait(STEP_S), 0)
        self.assertEqual(termios.tcgetattr(chat.master), chat.modes)

    def test_a_burst_of_interrupts_never_ends_the_program(self):
        chat = self.chat()
        self.interrupt(chat, 200)
        chat.until(b"^C\n> ")
        self.settle(chat)
        chat.type(STORY, b"\r")
        chat.until(b"\n")
        chat.until(b"e")
        self.interrupt(chat, 200)  # some stop the answer, some come at the prompt after it
        chat.until(b"(stopped)\n")
        self.interrupt(chat, 50)
        self.settle(chat)
        self.assertEqual(self.users_lines(chat), [STORY])
        chat.type(CTRL_D)
        self.assertEqual(chat.process.wait(STEP_S), 0)
        self.assertEqual(termios.tcgetattr(chat.master), chat.modes)

    def settle(self, chat):
        """Until no late signal gives up a line: it could make a message to the model of the rest of a command."""
        while select.select([chat.master], [], [], 1)[0]:
            self.assertTrue(os.read(chat.master, 4096))
        chat.unread = b""
        chat.type("/settle\r")
        chat.until(b"(unknown command")
        chat.until(b"\n> ")

    def interrupt(self, chat, times):
        for _ in range(times):
            os.kill(chat.process.pid, signal.SIGINT)
            time.sleep(0.0005)

    def test_ctrl_z_suspends_and_fg_restores_the_line(self):
        line = '"$E2E_BINARY" chat "$0" --threads 1 -n 1; echo "in the shell"; read go; fg'
        shell = Terminal(line, default_model(), program=["sh", "-m", "-c"])
        self.addCleanup(shell.close)
        shell.until(b"\n> ")
        shell.type("begun")
        shell.until(b"begun")
        shell.type(CTRL_Z)
        shell.until(b"in the shell\n")
        self.assertEqual(termios.tcgetattr(shell.master), shell.modes)
        shell.type("go\r")
        shell.until(b"> begun")
        shell.say(" and ended")
        self.assertEqual(self.users_lines(shell), ["begun and ended"])
        shell.type(CTRL_D)
        self.assertEqual(shell.process.wait(STEP_S), 0)

    @HANDLERS
    def test_a_signal_at_the_prompt_leaves_the_terminal_as_it_was(self):
        for number in (signal.SIGTERM, signal.SIGHUP):
            chat = self.chat()
            self.assertNotEqual(termios.tcgetattr(chat.master), chat.modes)  # keys come one by one
            chat.process.send_signal(number)
            self.assertEqual(chat.process.wait(STEP_S), -number)
            self.assertEqual(termios.tcgetattr(chat.master), chat.modes)

    def test_ctrl_s_at_the_prompt_stops_no_output(self):
        chat = self.chat("-n", "4")
        chat.say("Hi", CTRL_S, " there")
        self.assertEqual(self.users_lines(chat), ["Hi there"])

    @HANDLERS
    def test_a_signal_ends_a_chat_whose_terminal_is_stopped(self):
        """The signal was once only recorded for a line reader that waited for the terminal to continue."""
        for number in (signal.SIGTERM, signal.SIGHUP):
            chat = self.chat("-n", "4")
            slave = os.open(chat.path, os.O_RDWR | os.O_NOCTTY)
            self.addCleanup(os.close, slave)
            termios.tcflow(slave, termios.TCOOFF)  # what Ctrl-S does while an answer is written
            chat.type("Hi\r")
            time.sleep(0.5)
            chat.process.send_signal(number)
            self.assertEqual(chat.process.wait(STEP_S), -number)
            self.assertEqual(termios.tcgetattr(chat.master), chat.modes)


class WithAServer(ServerCase):
    KEY = "sk-e2e-chat"
    ENVIRONMENT = {"TUTTI_API_KEY": KEY}

    def chat(self, *options, text="", key=KEY, url=None):
        """(exit status, output, errors) of a chat whose lines are `text`."""
        environment = {name: value for name, value in os.environ.items() if name != "TUTTI_API_KEY"}
        if key:
            environment["TUTTI_API_KEY"] = key
        done = subprocess.run([os.environ["E2E_BINARY"], "chat", "--url", url or self.server.url, *options], input=text,
                              capture_output=True, text=True, timeout=3 * STEP_S, env=environment)
        return done.returncode, done.stdout, done.stderr

    def test_a_server_answers_as_the_model_in_the_same_process_does(self):
        lines = "Why is the sky blue?\nAnd at dawn? Grüße!\n/history\n/clear\n/history\n"
        options = ("--temperature", "0", "-n", "12", "--system", "Be brief.")
        status, output, errors = self.chat(*options, text=lines)
        self.assertEqual(status, 0, errors)
        self.assertIn(f"{MODEL} at {self.server.url}", output)
        local = subprocess.run([os.environ["E2E_BINARY"], "chat", default_model(), "--threads", "1", *options], input=lines,
                               capture_output=True, text=True, timeout=3 * STEP_S)
        self.assertEqual(output.splitlines()[1:], local.stdout.splitlines()[1:])
        self.assertIn("system: Be brief.\nyou: Why is the sky blue?\nmodel: ", output)

    def test_the_answers_options_arrive(self):
        sampled = ("--temperature", "1.5", "-n", "24", "--top-p", "0.99", "--top-k", "500")
        tell = lambda seed: self.chat(*sampled, "--seed", seed, text="Tell me a story.\n")[1]
        self.assertEqual(tell("7"), tell("7"))
        self.assertNotEqual(tell("7"), tell("8"))
        greedy = self.chat("--temperature", "0", "-n", "24", text="Tell me a story.\n")[1]
        self.assertEqual(self.chat("--temperature", "1.5", "-n", "24", "--top-k", "1", text="Tell me a story.\n")[1], greedy)

    def test_the_key_may_stand_in_a_file(self):
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(self.KEY + "\n")
            file.flush()
            status, output, errors = self.chat("--api-key-file", file.name, "-n", "4", key=None, text="Hi\n")
        self.assertEqual((status, errors), (0, ""))
        self.assertRegex(output, r"> [^\n]*\S")

    def test_of_a_servers_models_the_first_that_generates_is_asked(self):
        """It was once the first of the list, even if that one generates no text."""
        server = Server(default_model(), model=EMBEDDER)
        self.addCleanup(server.stop)
        server.wait_models(2)
        status, output, errors = self.chat("-n", "4", key=None, url=server.url, text="Hi\n")
        self.assertEqual((status, errors), (0, ""))
        self.assertIn(f"{MODEL} at {server.url}", output)
        self.assertRegex(output, r"> [^\n]*\S")

    def test_what_cannot_work_is_said_clearly(self):
        status, _, errors = self.chat(key="sk-wrong")
        self.assertEqual(status, 1)
        self.assertIn("HTTP 401", errors)
        self.assertIn("--api-key-file", errors)
        status, _, errors = self.chat(url="http://127.0.0.1:9")
        self.assertEqual(status, 1)
        self.assertIn("http://127.0.0.1:9", errors)
        status, _, errors = self.chat(url="https://127.0.0.1:8080")
        self.assertEqual(status, 78)
        self.assertIn("https is not offered", errors)
        for options in (["--max-num-seqs", "4"], ["--config", "x.toml"], ["--isa", "scalar"]):
            status, _, errors = self.chat(*options)
            self.assertEqual(status, 2, options)
            self.assertIn("excludes", errors)
        done = subprocess.run([os.environ["E2E_BINARY"], "chat", "--api-key-file", "x"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--url", done.stderr)
        # A refused turn does not end the chat; with no answer at all it fails in the end.
        status, output, _ = self.chat("no-such-model", text="Hi\n/history\n")
        self.assertEqual(status, 1)
        self.assertIn("(HTTP 404 ", output)
        self.assertNotIn("you: Hi", output)

    def test_ctrl_c_ends_the_servers_work_too(self):
        process = subprocess.Popen([os.environ["E2E_BINARY"], "chat", "--url", self.server.url, "--temperature", "0"],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0,
                                   env=dict(os.environ, TUTTI_API_KEY=self.KEY))
        self.addCleanup(lambda: (process.kill(), process.wait(), process.stdin.close(), process.stdout.close()))

        def until(wanted):
            text = b""
            while wanted not in text:
                piece = process.stdout.read(64)
                self.assertTrue(piece, text)
                text += piece
        until(b"> ")
        process.stdin.write(STORY.encode() + b"\n")
        process.stdout.read(4)
        process.send_signal(signal.SIGINT)
        until(b"(stopped)\n> ")
        self.wait_idle()
        process.stdin.close()
        self.assertEqual(process.wait(STEP_S), 0)

    def wait_idle(self):
        running = lambda: int(re.search(r"^tutti_running_sequences\S* (\d+)", self.server.get(
            "/metrics", headers={"Authorization": f"Bearer {self.KEY}"})[2], re.MULTILINE).group(1))
        eventually(lambda: running() == 0)


class WithAnotherServer(unittest.TestCase):
    """Servers of other makers: legal streams and errors of other forms than this server's."""
    PIECES = ["Gr\u00fc", "\u00dfe"]

    def talk(self, body, kind="text/event-stream", models=1):
        listed = json.dumps({"object": "list", "data": [{"id": f"maker/m-{i}", "owned_by": "x" * 100} for i in range(models)]}).encode()
        chosen = {"GET": (listed, "application/json"), "POST": (body.encode(), kind)}

        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self):
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                data, media = chosen[self.command]
                self.send_response(200)
                self.send_header("Content-Type", media)
                self.end_headers()
                self.wfile.write(data)
            do_GET = do_POST = answer

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            done = subprocess.run([os.environ["E2E_BINARY"], "chat", "--url", f"http://127.0.0.1:{server.server_port}"], input="Hi\n",
                                  capture_output=True, text=True, timeout=STEP_S)
        finally:
            server.shutdown()
            server.server_close()
        return done.returncode, done.stdout, done.stderr

    def test_streams_in_any_legal_form_are_shown(self):
        events = [json.dumps({"choices": [{"index": 0, "delta": {"content": piece}}]}, ensure_ascii=False) for piece in self.PIECES]
        for body in ("".join(f"data: {e}\r\r" for e in events) + "data: [DONE]\r\r",
                     "\ufeff" + "".join("data: " + e.replace(":", ":\ndata: ", 1) + "\n\n" for e in events),
                     "".join(f": note\nid: 1\ndata:{e}\r\n\r\n" for e in events).rstrip()):
            status, output, errors = self.talk(body)
            self.assertEqual((status, errors), (0, ""), body)
            self.assertIn("".join(self.PIECES), output)

    def test_a_server_that_does_not_stream_is_shown_too(self):
        status, output, _ = self.talk(json.dumps({"choices": [{"message": {"content": "whole"}}]}), "application/json")
        self.assertEqual(status, 0)
        self.assertIn("whole", output)

    def test_errors_in_every_known_form_are_told(self):
        for error in ({"error": {"message": "too busy", "code": 500}}, {"error": "too busy"}, {"object": "error", "message": "too busy"}):
            status, output, _ = self.talk(f"data: {json.dumps(error)}\n\n")
            self.assertEqual(status, 1)
            self.assertIn("(too busy)", output)
        status, output, _ = self.talk("<html>nothing</html>", "text/html")
        self.assertEqual(status, 1)
        self.assertIn("is not JSON", output)
        status, output, _ = self.talk("")
        self.assertEqual(status, 1)
        self.assertIn("neither text nor an error", output)

    def test_a_list_of_thousands_of_models_is_read(self):
        status, output, errors = self.talk('data: {"choices": [{"delta": {"content": "here"}}]}\n\n', models=5000)
        self.assertEqual((status, errors), (0, ""))
        self.assertIn("maker/m-0 at ", output)


if __name__ == "__main__":
    unittest.main()
