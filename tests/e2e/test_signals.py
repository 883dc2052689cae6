"""Signals and closed pipes, as each command gets them from a terminal."""
import os
import signal
import subprocess
import threading
import time
import unittest

from harness import STEP_S, Server, default_model

LONG = ["--raw", "-p", "Once upon a time", "-n", "4000", "--temperature", "0.9", "--seed", "3", "--threads", "1"]


def ignore_sigpipe():
    """For a child, before its program: Python's own disposition may have been changed by a library (Helm's, of Go)."""
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)


class Commands(unittest.TestCase):
    def start(self, *arguments, **more):
        process = subprocess.Popen([os.environ["E2E_BINARY"], *arguments], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0, **more)

        def end():
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()
        self.addCleanup(end)
        return process

    def read_until(self, process, wanted):
        """Reads what the program prints until `wanted` was there; a program that hangs is ended."""
        watchdog = threading.Timer(3 * STEP_S, process.kill)
        watchdog.start()
        text = b""
        while wanted not in text:
            piece = process.stdout.read(64)
            if not piece:
                self.fail(f"the output ended before {wanted!r}: {text[-300:]!r}")
            text += piece
        watchdog.cancel()
        return text

    def test_run_is_stopped_by_each_ending_signal(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(number):
                process = self.start("run", default_model(), *LONG)
                process.stdout.read(1)
                process.send_signal(number)
                self.assertEqual(process.wait(STEP_S), -number)

    def test_a_load_for_run_can_be_stopped(self):
        process = self.start("run", default_model(), *LONG)
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(STEP_S), -signal.SIGINT)

    def test_run_ends_quietly_when_nobody_reads_on(self):
        # Python's child has the default action of SIGPIPE restored.
        for ignored, status in ((False, -signal.SIGPIPE), (True, 0)):
            with self.subTest(ignored=ignored):
                process = self.start("run", default_model(), *LONG, preexec_fn=ignore_sigpipe if ignored else None)
                process.stdout.read(1)
                process.stdout.close()
                self.assertEqual(process.wait(STEP_S), status)

    def test_output_errors_are_reported_except_for_a_closed_pipe(self):
        """Also where it is an early write of many that fails."""
        command = [os.environ["E2E_BINARY"], "inspect", default_model(), "--json"]
        with open("/dev/full", "wb") as full:
            done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=STEP_S)
        self.assertEqual(done.returncode, 1)
        self.assertIn("tutti: standard output", done.stderr)
        self.assertNotIn("Success", done.stderr)
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=STEP_S,
                              preexec_fn=ignore_sigpipe)
        os.close(writer)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_ctrl_c_stops_the_answer_and_again_the_program(self):
        process = self.start("chat", default_model(), "--threads", "1", "--temperature", "0")
        self.read_until(process, b"> ")
        process.stdin.write(b"Write a very long story about a river, with many chapters.\n")
        process.stdout.read(4)
        process.send_signal(signal.SIGINT)
        self.read_until(process, b"(stopped)\n> ")
        process.stdin.write(b"/history\n")
        self.assertIn(b"you: Write a very long story", self.read_until(process, b"> "))
        process.send_signal(signal.SIGINT)  # between answers
        self.assertEqual(process.wait(STEP_S), -signal.SIGINT)

    def test_a_chat_ends_by_sigterm(self):
        process = self.start("chat", default_model(), "--threads", "1")
        self.read_until(process, b"> ")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(STEP_S), -signal.SIGTERM)

    def test_print_config_works_in_every_command_that_offers_it(self):
        for arguments in (["serve"], ["run", default_model(), "-p", "x"], ["chat", default_model()]):
            with self.subTest(arguments):
                process = self.start(*arguments, "--print-config", "--max-num-seqs", "5")
                self.assertRegex(process.communicate(timeout=STEP_S)[0].decode(), r"max-num-seqs *= *5\b")
                self.assertEqual(process.returncode, 0)

    def test_a_signal_abandons_the_load_of_a_server(self):
        server = Server("--threads", "1", wait=False)
        self.addCleanup(lambda: server.process.poll() is None and server.process.kill())
        server.wait_listening()
        server.process.send_signal(signal.SIGTERM)
        self.assertEqual(server.process.wait(STEP_S), 0)
        server.stop()
        self.assertNotIn("serving", "".join(server.output))


if __name__ == "__main__":
    unittest.main()
