"""`tutti quantize`: a file that can be served, a report, and no files left after a failure or a kill."""
import json
import os
import resource
import signal
import subprocess
import tempfile
import time
import unittest

from harness import STEP_S, default_model


def quantize(*arguments, **options):
    return subprocess.run([os.environ["E2E_BINARY"], "quantize", *arguments], capture_output=True, timeout=3 * STEP_S,
                          stdin=subprocess.DEVNULL, **options)


class Quantize(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tutti-quantize-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def test_a_file_that_was_made_is_sound_and_answers(self):
        made = quantize(default_model(), self.path("q8.gguf"), "--type", "q8_0", "--json", self.path("report.json"))
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertIn(b"token_embd.weight", made.stdout)
        with open(self.path("report.json")) as file:
            report = json.load(file)
        self.assertEqual(report["schema"], "tutti.quantize.v1")
        self.assertEqual(report["bytes_after"], os.path.getsize(self.path("q8.gguf")))
        forms = {tensor["name"]: tensor["to"] for tensor in report["tensors"]}
        self.assertEqual((forms["blk.0.attn_q.weight"], forms["blk.0.attn_norm.weight"]), ("Q8_0", "F32"))
        self.assertEqual(sorted(os.listdir(self.folder)), ["q8.gguf", "report.json"])
        for command in (["inspect", self.path("q8.gguf")], ["run", self.path("q8.gguf"), "-p", "Hello", "-n", "4", "--threads", "1"]):
            done = subprocess.run([os.environ["E2E_BINARY"], *command], capture_output=True, timeout=3 * STEP_S,
                                  stdin=subprocess.DEVNULL)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(done.stdout)

    def test_what_cannot_be_is_refused_with_a_code(self):
        there = self.path("there.gguf")
        with open(there, "w") as file:
            file.write("mine")
        for arguments, status, code in (
                ([default_model(), there, "--type", "Q8_0"], 1, b"output_exists"),
                ([default_model(), self.path("x.gguf"), "--type", "Q9"], 78, b"invalid_value"),
                ([self.path("none.gguf"), self.path("x.gguf"), "--type", "Q8_0"], 1, b"model_"),
                ([there, self.path("x.gguf"), "--type", "Q8_0"], 1, b"gguf_"),
                ([default_model() + ":f16", self.path("x.gguf"), "--type", "Q8_0"], 78, b"invalid_value"),
                ([self.folder, self.path("x.gguf"), "--type", "Q8_0"], 1, b"model_path"),
                ([there, there, "--type", "Q8_0", "--force"], 1, b"output_path"),
                ([default_model(), self.path("none/x.gguf"), "--type", "Q8_0"], 1, b"output_path")):
            done = quantize(*arguments)
            self.assertEqual(done.returncode, status, (arguments, done.stderr))
            self.assertIn(b"tutti: " + code, done.stderr)
        self.assertEqual(os.listdir(self.folder), ["there.gguf"])
        with open(there) as file:
            self.assertEqual(file.read(), "mine")

    def test_a_link_to_a_device_stays_one(self):
        link = self.path("device.gguf")
        os.symlink("/dev/null", link)
        done = quantize(default_model(), link, "--type", "Q8_0", "--force")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(b"no regular file", done.stderr)
        self.assertTrue(os.path.islink(link))

    def test_a_disk_that_fills_and_a_kill_leave_nothing(self):
        def little():
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        done = quantize(default_model(), self.path("x.gguf"), "--type", "Q4_K_M", preexec_fn=little)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(b"storage_full", done.stderr)
        self.assertEqual(os.listdir(self.folder), [])
        process = subprocess.Popen([os.environ["E2E_BINARY"], "quantize", default_model(), self.path("x.gguf"), "--type",
                                    "Q4_K_M", "--threads", "1"], stdout=subprocess.DEVNULL)
        time.sleep(0.3)
        process.kill()
        if process.wait(timeout=STEP_S) == -signal.SIGKILL:  # a fast machine may have been done
            self.assertEqual(os.listdir(self.folder), [])


if __name__ == "__main__":
    unittest.main()
