"""What an actor of Ray Data does with a batch (R41), without Ray; tests/ship/ray_cluster.py runs it on a cluster."""
import pathlib
import sys
import tempfile
import unittest

import numpy

import tutti
import tutti.ray
from tutti import SamplingParams

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import tiny_model  # noqa: E402
SMALL = {"kv_cache_bytes": "32MiB", "max_model_len": 64}
DRAWN = SamplingParams(max_tokens=3, ignore_eos=True)


def column(*values):
    return numpy.array(values, dtype=object)


class Batches(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.model = f"{folder.name}/model.gguf"
        tiny_model.write(self.model)

    def batches(self, **options):
        made = tutti.ray.Batches(self.model, model_options=SMALL, sampling_params=DRAWN, **options)
        self.addCleanup(made.close)
        return made

    def test_a_row_says_the_same_in_every_block(self):
        answers = self.batches(prompts="p", seed=5, seed_column="id")
        whole = answers({"p": column(*"abcdabcd"), "id": numpy.arange(8), "more": column(*range(8))})
        self.assertEqual(list(whole), ["p", "id", "more", "answer", "answer_finish_reason", "answer_prompt_tokens", "answer_completion_tokens"])
        self.assertEqual(set(whole["answer_completion_tokens"]), {3})
        self.assertNotEqual(whole["answer"][0], whole["answer"][4], "equal prompts with seeds of their own")
        for begin, end in ((0, 3), (3, 8), (7, 8)):
            part = answers({"p": whole["p"][begin:end], "id": whole["id"][begin:end]})
            self.assertEqual(list(part["answer"]), list(whole["answer"][begin:end]))
        with tutti.LLM(self.model, progress=False, **SMALL) as llm:
            alone = llm.generate("c", SamplingParams(max_tokens=3, ignore_eos=True, seed=5 + 2))[0].text
        self.assertEqual(whole["answer"][2], alone)

    def test_seeds_come_from_the_input_without_a_column(self):
        answers = self.batches(prompts="p")
        twice = answers({"p": column("a", "b", "a")})["answer"]
        self.assertEqual(twice[0], twice[2])
        self.assertEqual(answers({"p": column("b")})["answer"][0], twice[1])
        self.assertNotEqual(self.batches(prompts="p", seed=9)({"p": column("a")})["answer"][0], twice[0])

    def test_a_refused_row_is_kept_or_raised(self):
        batch = {"p": column("a", "long " * 99, "b")}
        with self.assertRaisesRegex(tutti.InvalidArgumentError, "context"):
            self.batches(prompts="p")(batch)
        kept = self.batches(prompts="p", on_error="keep", output="out")(batch)
        self.assertEqual(list(kept["out_finish_reason"]), ["length", "error", "length"])
        self.assertIn("context_length_exceeded", kept["out_error"][1])
        self.assertEqual(self.batches(prompts="p", on_error="keep")({"p": column("b")})["answer"][0], kept["out"][2])

    def test_messages_and_texts_are_read(self):
        messages = [{"role": "user", "content": "a", "name": None}]
        found = self.batches(messages="m", call_options={"choice": ["yes", "no"]})({"m": column(numpy.array(messages), numpy.array(messages))})
        self.assertTrue(set(found["answer"]) <= {"yes", "no"}, found)
        texts = tutti.ray.Batches("all-minilm-l6-v2", texts="t")
        self.addCleanup(texts.close)
        self.assertEqual(texts({"t": column("a", "b")})["embedding"].shape, (2, 384))

    def test_what_is_wrong_is_named(self):
        for call, param in ((lambda: tutti.ray.Batches(self.model), "prompts"),
                            (lambda: tutti.ray.Batches(self.model, prompts="p", texts="t"), "prompts"),
                            (lambda: self.batches(prompts="p", on_error="x"), "on_error"),
                            (lambda: tutti.ray.Batches(self.model, prompts="p", seed_column="s", sampling_params=tutti.SamplingParams(seed=1)),
                             "seed_column"),
                            (lambda: self.batches(prompts="p")({"q": column("a")}), "prompts"),
                            (lambda: self.batches(prompts="p", seed_column="s")({"p": column("a")}), "seed_column")):
            with self.assertRaises(tutti.InvalidArgumentError) as raised:
                call()
            self.assertEqual(raised.exception.param, param)

    def test_without_ray_it_says_what_to_install(self):
        for call in (lambda: tutti.ray.map_batches(None, self.model, prompts="p"), tutti.ray.deployment, lambda: tutti.ray.app({})):
            with self.assertRaisesRegex(ImportError, r"pip install 'tutti\[ray\]'"):
                call()


if __name__ == "__main__":
    unittest.main()
