"""Every scheduling strategy gives the same texts (U63)."""
import concurrent.futures
import random
import unittest

from harness import MODEL, Server, amount

STRATEGIES = ("continuous", "interleaved", "blocking", "static")
PROMPTS = amount(4, 4, 40)


class Strategies(unittest.TestCase):

    def texts(self, strategy):
        """The answers to every prompt, greedy and seeded, eight at a time in a shuffled order."""
        server = Server("--strategy", strategy)
        self.addCleanup(server.stop)
        rng = random.Random(5)
        words = "river stone cloud lemon seven north glass winter copper".split()
        bodies = []
        for i in range(PROMPTS):
            prompt = " ".join(rng.choice(words) for _ in range(rng.randint(1, 24)))
            body = {"model": MODEL, "prompt": prompt, "max_tokens": rng.randint(4, 16)}
            bodies += [dict(body, temperature=0), dict(body, temperature=0.8, top_k=40, seed=i)]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda body: server.post_json("/v1/completions", body), bodies))
        for answer, body in zip(answers, bodies):
            self.assertLessEqual(answer["usage"]["completion_tokens"], body["max_tokens"])
            self.assertGreater(answer["usage"]["completion_tokens"], 0)
        server.wait_idle()
        return [(answer["choices"][0]["text"], answer["choices"][0]["finish_reason"]) for answer in answers]

    def test_the_same_texts_whatever_the_strategy(self):
        expected = self.texts(STRATEGIES[0])
        self.assertGreater(len(set(expected)), PROMPTS, "the prompts have answers of their own")
        for strategy in STRATEGIES[1:]:
            self.assertEqual(self.texts(strategy), expected, strategy)


if __name__ == "__main__":
    unittest.main()
