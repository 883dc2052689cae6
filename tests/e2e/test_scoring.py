"""Scoring as evaluation harnesses do it: token-id prompts with echo, one output token and log-probabilities."""
import unittest

from harness import MODEL, RealModel, ServerCase


class Scoring(RealModel, ServerCase):
    EVEN_SANITIZED = True

    def ids(self, text):
        return self.server.post_json("/tokenize", {"prompt": text})["tokens"]

    def score(self, prompts, **more):
        body = {"model": MODEL, "prompt": prompts, "temperature": 0, "max_tokens": 1, "logprobs": 1, "seed": 1234, "echo": True, **more}
        return self.server.post_json("/v1/completions", body)["choices"]

    def judge(self, choice, context):
        """(sum over the continuation, whether greedy decoding would have written it), as lm-evaluation-harness reads it."""
        logprobs = choice["logprobs"]
        tokens = logprobs["token_logprobs"][context:-1]
        best = [max(top.values()) for top in logprobs["top_logprobs"][context:-1]]
        return sum(tokens), all(a == b for a, b in zip(tokens, best))

    def test_the_likeliest_continuation_wins_in_batches_too(self):
        question = "The capital of France is"
        context = len(self.ids(question))
        continuations = [" Paris", " London", " Rome", " banana"]
        prompts = [self.ids(question + c) for c in continuations]
        together = [self.judge(choice, context) for choice in self.score(prompts)]
        self.assertEqual([choice["index"] for choice in self.score(prompts)], [0, 1, 2, 3])
        self.assertEqual(max(range(4), key=lambda i: together[i][0]), 0, together)
        self.assertTrue(together[0][1], "greedy decoding writes it")
        self.assertFalse(together[3][1])
        for prompt, (value, greedy) in zip(prompts, together):
            alone, alone_greedy = self.judge(self.score([prompt])[0], context)
            self.assertAlmostEqual(alone, value, places=5)
            self.assertEqual(alone_greedy, greedy)

    def test_scores_do_not_depend_on_text_or_ids_nor_on_the_output(self):
        text = "One, two, three, four, five"
        from_text = self.score(text)[0]["logprobs"]
        from_ids = self.score([self.ids(text)])[0]["logprobs"]
        scored_only = self.score(text, max_tokens=0)[0]["logprobs"]
        self.assertEqual(from_text["token_logprobs"], from_ids["token_logprobs"])
        self.assertEqual(len(scored_only["tokens"]), len(from_text["tokens"]) - 1)
        for one, other in zip(scored_only["token_logprobs"][1:], from_text["token_logprobs"][1:]):
            self.assertAlmostEqual(one, other, places=5)
        self.assertEqual("".join(scored_only["tokens"]), text)

    def test_a_rolling_window_adds_up(self):
        """Perplexity over windows: the sum over a text equals the sum of its continuation given its beginning plus the beginning's."""
        tokens = self.ids("The quick brown fox jumps over the lazy dog. " * 4)
        whole = self.score([tokens], max_tokens=0)[0]["logprobs"]["token_logprobs"]
        half = self.score([tokens[:20]], max_tokens=0)[0]["logprobs"]["token_logprobs"]
        for one, other in zip(whole[1:20], half[1:]):
            self.assertAlmostEqual(one, other, places=4)

    def test_generation_until_a_stop_text(self):
        body = {"model": MODEL, "prompt": ["Q: 2+2?\nA:", "Q: 3+3?\nA:"], "max_tokens": 32, "temperature": 0, "stop": ["\n", "Q:"], "seed": 1234}
        for choice in self.server.post_json("/v1/completions", body)["choices"]:
            self.assertNotIn("\n", choice["text"])


if __name__ == "__main__":
    unittest.main()
