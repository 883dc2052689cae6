"""Starts on a machine that has too little: address space for weights, cache or the stacks of threads."""
import os
import resource
import subprocess
import tempfile
import threading
import unittest

import tiny_model
from harness import MODEL, STEP_S, judged

MIB = 1 << 20


def limited(address_space_mib, stack_mib=8):
    """For a child process: what it may map, and how much of that each thread's stack takes."""
    def apply():
        resource.setrlimit(resource.RLIMIT_STACK, (stack_mib * MIB, stack_mib * MIB))
        resource.setrlimit(resource.RLIMIT_AS, (address_space_mib * MIB, address_space_mib * MIB))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    return apply


@unittest.skipUnless(judged("starts with too little address space", "a sanitizer maps terabytes of its own"), "sanitized")
class TooLittleMemory(unittest.TestCase):
    """Every start either succeeds or ends with exit status 1 and a last line that says why.

    Threads once stayed joinable while a failed start was unwound, and memory that ran out on a thread of its own was
    nobody's: both ended in an abort.
    """

    def start(self, arguments, limits):
        """(exit status, standard error); a server that gets ready is ended by SIGTERM."""
        process = subprocess.Popen([os.environ["E2E_BINARY"], *arguments], stdin=subprocess.DEVNULL, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=limited(*limits))
        watchdog = threading.Timer(STEP_S, process.kill)
        watchdog.start()
        if arguments[0] == "serve" and "serving" in process.stdout.readline():
            process.terminate()
        errors = process.communicate()[1]
        watchdog.cancel()
        return process.returncode, errors

    def check(self, arguments, ladder, stack_mib=8):
        ended = set()
        for address_space_mib in ladder:
            limits = (address_space_mib, stack_mib)
            if self.start(["version"], limits)[0] != 0:
                continue  # not even the program's libraries fit
            with self.subTest(arguments=arguments, limits=limits):
                status, errors = self.start(arguments, limits)
                ended.add(status)
                self.assertIn(status, (0, 1), errors)
                self.assertNotIn("terminate called", errors)
                if status == 1:
                    lines = errors.splitlines()
                    self.assertTrue(lines[-1].startswith("tutti: "), errors)
                    self.assertEqual(sum(line.startswith("tutti: ") for line in lines), 1, errors)
        return ended

    def test_weights_and_cache_that_do_not_fit_are_refused_in_one_line(self):
        ladder = (64, 96, 128, 160, 200, 240, 280, 330, 400, 600, 1200, 3000)
        for arguments in (["run", MODEL, "-p", "Hi", "-n", "2", "--threads", "4"],
                          ["chat", MODEL, "--threads", "4"],
                          ["serve", MODEL, "--port", "0", "--threads", "4"]):
            self.assertEqual(self.check(arguments, ladder), {0, 1})

    def test_threads_that_cannot_start_are_refused_in_one_line(self):
        # Each stack takes 64 MiB of the address space, so that every step of the ladder starts one thread more.
        with tempfile.TemporaryDirectory() as folder:
            model = os.path.join(folder, "tiny.gguf")
            tiny_model.write(model)
            small = ("--threads", "6", "--kv-cache-bytes", "8MiB")
            ladder = range(96, 1500, 64)
            for arguments in (["run", model, "-p", "Hi", "-n", "2", *small], ["serve", model, "--port", "0", *small],
                              ["doctor"]):
                self.assertEqual(self.check(arguments, ladder, stack_mib=64), {0, 1})


if __name__ == "__main__":
    unittest.main()
