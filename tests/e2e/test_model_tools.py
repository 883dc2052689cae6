"""Each tool for model files on each format (row U88): what it makes of a sound file, and of one that was cut short."""
import json
import os
import shutil
import subprocess
import tempfile
import unittest

import encoder_models
import folder_model
import lora_files
import tiny_model
from harness import STEP_S

# Format: (file that is cut short, status and words of inspect, of quantize, and of pack). Words are in the output of a
# success, or in the error.
SOUND, REFUSED = 0, 1
FORMATS = {
    "tiny.gguf": ("", (SOUND, "ok: llama"), (SOUND, "Q8_0"), (SOUND, "packed for --dtype int8")),
    "folder": ("model.safetensors", (SOUND, "ok: llama"), (SOUND, "Q8_0"), (SOUND, "packed for --dtype int8")),
    "tiny.tutti": ("", (SOUND, "packed for int8"), (REFUSED, "name the model it was made of"), (REFUSED, "packed")),
    "encoder": ("model.safetensors", (SOUND, "ok: bert"), (REFUSED, "encoders are quantised at load"), (REFUSED, "encoders are not packed")),
    "adapter.gguf": ("", (REFUSED, "--lora NAME=PATH"), (REFUSED, "--lora NAME=PATH"), (REFUSED, "--lora NAME=PATH")),
    "adapter": ("", (REFUSED, "--lora NAME=PATH"), (REFUSED, "--lora NAME=PATH"), (REFUSED, "--lora NAME=PATH")),
}


def tutti(*arguments):
    return subprocess.run([os.environ["E2E_BINARY"], *arguments], capture_output=True, text=True, timeout=3 * STEP_S,
                          stdin=subprocess.DEVNULL)


class ModelTools(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="tutti-tools-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        tiny_model.write(cls.path("tiny.gguf"))
        folder_model.write(cls.path("folder"))
        lora_files.write_gguf(cls.path("adapter.gguf"))
        lora_files.write_folder(cls.path("adapter"))
        shutil.copytree(encoder_models.embedder_folder(), cls.path("encoder"))
        made = tutti("pack", cls.path("tiny.gguf"), cls.path("tiny.tutti"))
        assert made.returncode == 0, made.stderr

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder, name)

    def expect(self, done, expected, out=None):
        status, words = expected
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertIn(words, done.stdout + done.stderr)
        if out is not None:
            self.assertEqual(os.path.exists(out), status == SOUND, "a file is left by a success alone")

    def test_each_tool_takes_or_refuses_each_format(self):
        for name, (_, inspected, quantized, packed) in FORMATS.items():
            with self.subTest(name=name):
                self.expect(tutti("inspect", self.path(name)), inspected)
                report = json.loads(tutti("inspect", self.path(name), "--json").stdout)
                self.assertEqual(report["verdict"] == "ok", inspected[0] == SOUND, report)
                out = self.path(f"{name}.q8.gguf")
                self.expect(tutti("quantize", self.path(name), out, "--type", "Q8_0"), quantized, out)
                if quantized[0] == SOUND:
                    self.expect(tutti("inspect", out), (SOUND, "ok: llama"))
                out = self.path(f"{name}.packed")
                self.expect(tutti("pack", self.path(name), out), packed, out)

    def test_a_file_that_was_cut_short_is_refused_by_each_tool(self):
        for name, (inside, (status, _), _, _) in FORMATS.items():
            if status != SOUND:
                continue
            with self.subTest(name=name):
                copy = self.path("cut-" + name)
                (shutil.copytree if inside else shutil.copy)(self.path(name), copy)
                file = os.path.join(copy, inside) if inside else copy
                os.truncate(file, os.path.getsize(file) * 2 // 3)
                for command in (["inspect", copy], ["quantize", copy, self.path("x.gguf"), "--type", "Q8_0"], ["pack", copy, self.path("x")]):
                    done = tutti(*command)
                    self.assertEqual(done.returncode, REFUSED, (command, done.stdout))
                    self.assertRegex(done.stdout + done.stderr, r"[a-z]+_[a-z_]+: ")
                    self.assertEqual([left for left in os.listdir(self.folder) if left.startswith("x")], [])


if __name__ == "__main__":
    unittest.main()
