"""One configuration key changed: with proposed tokens every answer is the same, to the last number (U75)."""
import concurrent.futures
import random
import unittest

from harness import MODEL, Server, amount

PROMPTS = amount(8, 40, 100)
PASSAGE = ("The harbour master keeps a list of ships: Aurora, 12 crates of lemons; Borealis, 7 crates of glass; "
           "Cassiopeia, 31 crates of copper wire; Delphinus, 4 crates of winter coats; Eridanus, 9 crates of seed. ")
# What a request may ask for that depends on the tokens before.
FEATURES = (
    {"temperature": 0.8, "top_k": 40},
    {"temperature": 0.7, "top_p": 0.9, "frequency_penalty": 0.4},
    {"temperature": 0, "presence_penalty": 0.5, "repetition_penalty": 1.1},
    {"temperature": 0, "logprobs": 3},
    {"temperature": 0.6, "logprobs": 2, "n": 2},
    {"temperature": 0, "stop": [" crates of g", "Cass"]},
    {"temperature": 0, "stop": [" copper"], "min_tokens": 20},
    {"temperature": 0.5, "logit_bias": {"28": 3, "30": -4}},
    {"temperature": 0, "max_tokens": 7},
    {"temperature": 0, "stop_token_ids": [28, 30]},
)


def bodies():
    rng = random.Random(11)
    words = "river stone cloud lemon seven north glass winter copper harbour crate letter".split()
    out = []
    for i in range(PROMPTS):
        own = " ".join(rng.choice(words) for _ in range(rng.randint(1, 30)))
        prompt = own if i % 2 else f"{own}. {PASSAGE}\nThe same once more: {own}. {PASSAGE[:rng.randint(20, 120)]}"
        body = {"model": MODEL, "prompt": prompt, "max_tokens": rng.randint(24, 64), "temperature": 0}
        out.append(body)
        out.append({**body, "seed": i, **FEATURES[i % len(FEATURES)]})
    return out


class Speculation(unittest.TestCase):

    def answers(self, how, clients):
        server = Server("--speculate", how)
        self.addCleanup(server.stop)
        with concurrent.futures.ThreadPoolExecutor(clients) as pool:
            answers = list(pool.map(lambda body: server.post_json("/v1/completions", body), bodies()))
        server.wait_idle()
        proposed = server.metric("tutti_spec_draft_tokens_total")
        accepted = sum(server.metric("tutti_spec_accepted_tokens_total", position=i) for i in range(7))
        return [(a["choices"], a["usage"]["completion_tokens"]) for a in answers], proposed, accepted

    def test_the_same_answers_with_and_without(self):
        expected, proposed, _ = self.answers("off", 8)
        self.assertEqual(proposed, 0)
        for clients in (1, 8):
            got, proposed, accepted = self.answers("ngram", clients)
            self.assertLessEqual(accepted, proposed)
            print(f"{clients} clients: {accepted:.0f} of {proposed:.0f} proposed tokens came true")
            for one, other, body in zip(got, expected, bodies()):
                self.assertEqual(one, other, body)


if __name__ == "__main__":
    unittest.main()
