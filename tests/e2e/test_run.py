"""`tutti run`: sources of the prompt, and the effect of the sampling options."""
import json
import os
import pty
import subprocess
import unittest

from harness import STEP_S, default_model

FEW = ["-n", "8", "--threads", "1"]


def run(*arguments, text=None):
    """The ended process; its standard input is `text`, or nothing."""
    return subprocess.run([os.environ["E2E_BINARY"], "run", *arguments], input=text, capture_output=True,
                          timeout=3 * STEP_S, **({} if text is not None else {"stdin": subprocess.DEVNULL}))


class Prompts(unittest.TestCase):
    def answer(self, *arguments, text=None):
        done = run(default_model(), *FEW, *arguments, text=text)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_a_prompt_on_standard_input_is_the_one_of_the_option(self):
        question = "Why is the sky blue? Grüße!"
        wanted = self.answer("-p", question)
        for options, text in (([], question), ([], question + "\n"), (["-p", "-"], question + "\r\n")):
            self.assertEqual(self.answer(*options, text=text.encode()), wanted, (options, text))
        # An option stands above what standard input offers.
        self.assertEqual(self.answer("-p", question, text=b"Name three rivers."), wanted)
        # The shell adds one line end, and the user a second one.
        tokens = [json.loads(self.answer("--json", text=b"Hi" + end))["prompt_tokens"] for end in (b"", b"\n", b"\n\n")]
        self.assertEqual(tokens[0], tokens[1])
        self.assertEqual(tokens[2], tokens[0] + 1)

    def test_without_any_prompt_the_use_is_explained(self):
        done = run(default_model())
        self.assertEqual((done.returncode, done.stdout), (2, b""))
        self.assertIn(b"-p TEXT", done.stderr)
        ours, theirs = pty.openpty()  # without -p at a terminal: an error, and no wait for input
        try:
            done = subprocess.run([os.environ["E2E_BINARY"], "run", default_model()], stdin=theirs, capture_output=True, timeout=STEP_S)
        finally:
            os.close(ours)
            os.close(theirs)
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"-p TEXT", done.stderr)

    def test_one_ctrl_d_ends_a_prompt_that_is_typed(self):
        """A second one was once waited for."""
        question = b"Why is the sky blue?"
        ours, theirs = pty.openpty()
        try:
            process = subprocess.Popen([os.environ["E2E_BINARY"], "run", default_model(), "-p", "-", "-n", "12"], stdin=theirs,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            os.write(ours, question + b"\n\x04")
            typed = process.communicate(timeout=3 * STEP_S)[0]
        finally:
            process.kill()
            process.wait()
            os.close(ours)
            os.close(theirs)
        self.assertEqual(process.returncode, 0)
        self.assertEqual(typed, run(default_model(), "-n", "12", text=question).stdout)

    def test_too_long_a_standard_input_is_refused(self):
        done = run(default_model(), text=b"x" * ((16 << 20) + 70000))
        self.assertEqual(done.returncode, 78)
        self.assertIn(b"16 MiB", done.stderr)

    def test_a_system_message_is_part_of_the_chat(self):
        plain, told = (json.loads(self.answer("-p", "Hi", "--json", *more)) for more in ([], ["--system", "Be brief, and kind."]))
        self.assertNotEqual(plain["prompt_tokens"], told["prompt_tokens"])
        done = run(default_model(), "-p", "Hi", "--raw", "--system", "x")
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"--system excludes --raw", done.stderr)

    def test_a_seed_repeats_a_sampled_answer_and_top_k_1_is_greedy(self):
        sampled = ["--raw", "-p", "Once upon a time", "--temperature", "1.5"]
        first = self.answer(*sampled, "--seed", "7")
        self.assertEqual(self.answer(*sampled, "--seed", "7"), first)
        self.assertNotEqual(self.answer(*sampled, "--seed", "8"), first)
        greedy = self.answer("--raw", "-p", "Once upon a time")
        self.assertEqual(self.answer(*sampled, "--top-k", "1", "--seed", "7"), greedy)
        for nothing in ("0.0001", "0"):
            self.assertEqual(self.answer(*sampled, "--top-p", nothing, "--seed", "7"), greedy)

    def test_a_value_out_of_range_is_refused_before_the_model_loads(self):
        for options in (["--top-p", "-0.1"], ["--temperature", "3"], ["--seed", "9223372036854775808"], ["-n", "0"]):
            done = run("/nonexistent.gguf", "-p", "x", *options)
            self.assertEqual(done.returncode, 78, (options, done.stderr))
            self.assertIn(options[0].lstrip("-").encode() if options[0] != "-n" else b"--max-tokens", done.stderr)


if __name__ == "__main__":
    unittest.main()
