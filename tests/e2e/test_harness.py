"""Tests of the harness: a process with a sanitizer report fails its test."""
import signal
import unittest

from harness import SANITIZER, STEP_S, Server


@unittest.skipUnless(SANITIZER, "this program has no sanitizer")
class Reports(unittest.TestCase):
    def test_a_server_that_crashes_fails_its_test_with_the_report(self):
        server = Server()
        server.process.send_signal(signal.SIGSEGV)
        server.process.wait(STEP_S)
        with self.assertRaisesRegex(AssertionError, "exit status 86; (?s:.*)(Address|Thread)Sanitizer: SEGV"):
            server.stop()


if __name__ == "__main__":
    unittest.main()
