"""With speculative decoding every answer is the same, to the last digit of every number (U75)."""
import concurrent.futures
import json
import os
import random
import subprocess
import tempfile
import unittest

import test_workers
import tiny_model
from harness import MODEL, STEP_S, RealModel, Server, amount, default_model, grpc_streams, judged

PROMPTS = amount(8, 10, 100)
LENGTHS = amount((24, 64), (20, 32), (24, 64))
PASSAGE = ("The harbour master keeps a list of ships: Aurora, 12 crates of lemons; Borealis, 7 crates of glass; "
           "Cassiopeia, 31 crates of copper wire; Delphinus, 4 crates of winter coats; Eridanus, 9 crates of seed. ")
# Request options whose effect depends on the tokens before.
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
        body = {"model": MODEL, "prompt": prompt, "max_tokens": rng.randint(*LENGTHS), "temperature": 0}
        out.append(body)
        out.append({**body, "seed": i, **FEATURES[i % len(FEATURES)]})
    return out


class Speculation(RealModel, unittest.TestCase):

    def answers(self, clients, *options):
        server = Server(*options)
        try:
            with concurrent.futures.ThreadPoolExecutor(clients) as pool:
                answers = list(pool.map(lambda body: server.post_json("/v1/completions", body), bodies()))
            server.wait_idle()
            proposed = server.metric("tutti_spec_draft_tokens_total")
            accepted = sum(server.metric("tutti_spec_accepted_tokens_total", position=i) for i in range(7))
        finally:
            server.stop()
        return [(a["choices"], a["usage"]["completion_tokens"]) for a in answers], proposed, accepted

    def test_the_same_answers_with_and_without(self):
        expected, proposed, _ = self.answers(8, "--speculate", "off")
        self.assertEqual(proposed, 0)
        folder = tempfile.TemporaryDirectory(prefix="tutti-draft-")
        self.addCleanup(folder.cleanup)
        small = os.path.join(folder.name, "small.gguf")
        made = subprocess.run([os.environ["E2E_BINARY"], "quantize", default_model(), small, "--type", "q4_0"],
                              capture_output=True, timeout=3 * STEP_S, stdin=subprocess.DEVNULL)
        self.assertEqual(made.returncode, 0, made.stderr)
        for options, clients in ((["--speculate", "ngram"], 1), (["--speculate", "ngram"], 8),
                                 (["--draft", default_model()], 8), (["--draft", small], 1)):
            got, proposed, accepted = self.answers(clients, *options)
            self.assertGreater(proposed, 0)
            self.assertLessEqual(accepted, proposed)
            print(f"{os.path.basename(options[-1])}, {clients} clients: "
                  f"{accepted:.0f} of {proposed:.0f} proposed tokens came true")
            for one, other, body in zip(got, expected, bodies()):
                self.assertEqual(one, other, body)

    @grpc_streams()  # to the worker
    def test_a_prediction_changes_no_answer_and_is_counted_in_usage(self):
        chat = {"model": MODEL, "messages": [{"role": "user", "content": "Write a short poem about a harbour."}],
                "max_tokens": 80, "temperature": 0}
        plain = Server("--speculate", "off")
        self.addCleanup(plain.stop)
        expected = plain.post_json("/v1/chat/completions", chat)["choices"]
        text = expected[0]["message"]["content"]
        predicted = {**chat, "prediction": {"type": "content", "content": text}}
        without = plain.post_json("/v1/chat/completions", predicted)
        self.assertEqual(without["choices"], expected)
        self.assertNotIn("accepted_prediction_tokens", without["usage"]["completion_tokens_details"])
        with test_workers.World(worker=("--speculate", "ngram")) as world:
            server = Server("--speculate", "ngram")
            self.addCleanup(server.stop)
            for server in (server, world.frontend):
                right = server.post_json("/v1/chat/completions", predicted)
                self.assertEqual(right["choices"], expected)
                details = right["usage"]["completion_tokens_details"]
                if judged("accepted predictions", "a few weights generate tokens other than those of their text"):
                    self.assertGreaterEqual(details["accepted_prediction_tokens"], right["usage"]["completion_tokens"] - 5)
                    self.assertLessEqual(details["rejected_prediction_tokens"], 5)
                words = text.split(" ")
                words[len(words) // 2] = "zebra"
                for parts in ([{"type": "text", "text": " ".join(words)}], [{"type": "text", "text": "quite another text"}]):
                    other = server.post_json("/v1/chat/completions", {**chat, "prediction": {"type": "content", "content": parts}})
                    self.assertEqual(other["choices"], expected)
                    self.assertGreater(other["usage"]["completion_tokens_details"]["rejected_prediction_tokens"], 0)
                status, _, answer = server.post("/v1/chat/completions", {**chat, "prediction": {"type": "diff", "content": "x"}})
                self.assertEqual((status, json.loads(answer)["error"]["param"]), (400, "prediction.type"))

    def test_what_the_two_options_say_together(self):
        refused = subprocess.run([os.environ["E2E_BINARY"], "serve", default_model(), "--port", "0", "--speculate", "draft"],
                                 capture_output=True, timeout=STEP_S, stdin=subprocess.DEVNULL)
        self.assertEqual(refused.returncode, 78, refused.stderr)
        self.assertIn(b"--draft MODEL", refused.stderr)
        # A model of other tokens: the generated one has some hundred.
        folder = tempfile.TemporaryDirectory(prefix="tutti-draft-")
        self.addCleanup(folder.cleanup)
        other = os.path.join(folder.name, "other.gguf")
        tiny_model.write(other)
        refused = subprocess.run([os.environ["E2E_BINARY"], "serve", default_model(), "--port", "0", "--draft", other],
                                 capture_output=True, timeout=STEP_S, stdin=subprocess.DEVNULL)
        self.assertEqual(refused.returncode, 78, refused.stderr)
        self.assertIn(b"same tokens", refused.stderr)


if __name__ == "__main__":
    unittest.main()
