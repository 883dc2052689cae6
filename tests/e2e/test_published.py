"""Folders in the form of published models: their tokens, templates and answers are those of transformers."""
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import published_folder
from harness import STEP_S

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden" / "published_folders.json"


def tutti(*arguments, text=""):
    return subprocess.run([os.environ["E2E_BINARY"], *arguments], capture_output=True, input=text.encode(), timeout=3 * STEP_S)


def shown(text):
    """Libraries differ in what they show of bytes that are no characters, and in the space at the beginning."""
    return re.sub("[\ufffd\\x00-\\x1f\\x7f]+", "", text).strip()


class PublishedFolders(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        golden = json.loads(GOLDEN.read_text())
        cls.tokens, cls.models = golden["tokens"], golden["models"]

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="published-")
        self.addCleanup(self.folder.cleanup)

    def write(self, model):
        path = os.path.join(self.folder.name, model["name"])
        return published_folder.write(path, model["config"], published_folder.tokenizer_file(model["name"]), model["shapes"], model["seed"],
                                      model["settings"], model["template"])

    def expect_texts(self, path, model):
        for case in model["texts"]:
            prompt = [case["prompt"]] if model["chats"] else ["--raw", "-p", case["prompt"]]
            done = tutti("run", path, "--json", "--dtype", "f32", "--temperature", "0", "-n", str(self.tokens), "--threads", "1", *prompt)
            self.assertEqual(done.returncode, 0, done.stderr)
            answer = json.loads(done.stdout)
            self.assertEqual(answer["prompt_tokens"], case["prompt_tokens"], case["prompt"])
            self.assertEqual(shown(answer["text"]), shown(case["text"]), case["prompt"])

    def test_greedy_texts_are_those_of_transformers(self):
        self.assertEqual(len(self.models), 7)
        for model in self.models:
            with self.subTest(model["name"]):
                self.expect_texts(self.write(model), model)

    def test_inspect_tells_how_texts_are_read(self):
        path = self.write(self.models[0])
        done = tutti("inspect", path)
        self.assertEqual(done.returncode, 0, done.stderr)
        for line in (b"ok: qwen2", b"tokenizer:          byte-level BPE", b"chat template:", b"tool calls as hermes", b'"<|im_end|>"', b"fill in the middle: no",
                     b"sampling:"):
            self.assertIn(line, done.stdout)

    def test_a_tokenizer_is_read_without_weights_or_a_known_model(self):
        model = next(m for m in self.models if not m["chats"])
        path = pathlib.Path(self.write(model))
        before = tutti("tokenize", str(path), "--ids", text=model["texts"][1]["prompt"])
        self.assertEqual(len(json.loads(before.stdout)), model["texts"][1]["prompt_tokens"], before.stderr)
        (path / "model.safetensors").unlink()
        (path / "config.json").write_text('{"model_type":"gpt_neo"}')
        after = tutti("tokenize", str(path), "--ids", text=model["texts"][1]["prompt"])
        self.assertEqual(after.stdout, before.stdout, after.stderr)

    def test_a_packed_file_reads_texts_as_its_folder(self):
        for model in self.models:
            name = model["name"]
            packed = os.path.join(self.folder.name, name + ".tutti")
            done = tutti("pack", self.write(model), packed, "--dtype", "f32")
            self.assertEqual(done.returncode, 0, done.stderr)
            with self.subTest(name):
                self.expect_texts(packed, model)


if __name__ == "__main__":
    unittest.main()
