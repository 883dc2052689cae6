"""Decisions: /v1/decisions with the stock openai client and /v1/systemone, compared with the log-probabilities that
/v1/completions gives for the same tokens on the same server."""
import concurrent.futures
import json
import math
import unittest

import openai

from harness import MODEL, STEP_S, RealModel, ServerCase

TEXT = "Help! My payouts have been failing for three days, and nobody answers me. " * 3
PREDICATE = {"type": "predicate", "name": "angry", "instructions": "Is the customer angry?"}
CHOICE = {"type": "choice", "instructions": "Which team?", "choices": [
    {"value": "billing"}, {"value": "customer support desk"}, {"value": "tech", "description": "outages"}, {"value": True}]}
SCORE = {"type": "score", "name": "urgency", "instructions": "How urgent?", "levels": [
    {"label": "calm"}, {"label": "soon"}, {"label": "now", "description": "at once"}]}
# What the model reads behind the text, and the labels whose probabilities the answers have.
ASKED = (
    (PREDICATE, "Is the customer angry?\nAnswer with yes or no.", ["yes", "no"]),
    (CHOICE, "Which team?\nAnswer with one of these:\nbilling\ncustomer support desk\ntech: outages\ntrue",
     ["billing", "customer support desk", "tech", "true"]),
    (SCORE, "How urgent?\nAnswer with the number of the level that fits best:\n0: calm\n1: soon\n2: now (at once)", ["0", "1", "2"]),
)


def probabilities(answer):
    if answer["type"] == "predicate":
        return [answer["probability"], 1 - answer["probability"]]
    return [label["probability"] for label in answer["probabilities"]]


class Decisions(RealModel, ServerCase):
    EVEN_SANITIZED = True

    def decide(self, questions, text=TEXT, **more):
        return self.server.post_json("/v1/decisions", {"model": MODEL, "input": text, "questions": questions, **more})

    def expected(self, question, labels):
        """Softmax over the labels of the sums of their tokens' log-probabilities, from /v1/completions."""
        prompt = self.server.post_json("/tokenize", {"model": MODEL, "messages": [{"role": "user", "content": f"{TEXT}\n\n{question}"}]})
        sums = []
        for label in labels:
            tokens = self.server.post_json("/tokenize", {"model": MODEL, "prompt": label, "add_special_tokens": False})["tokens"]
            scored = self.server.post_json("/v1/completions", {
                "model": MODEL, "prompt": prompt["tokens"] + tokens, "max_tokens": 0, "echo": True, "logprobs": 0})
            sums.append(sum(scored["choices"][0]["logprobs"]["token_logprobs"][len(prompt["tokens"]):]))
        total = sum(math.exp(value) for value in sums)
        return [math.exp(value) / total for value in sums]

    def test_probabilities_are_those_of_the_labels_tokens(self):
        answers = self.decide([question for question, _, _ in ASKED])["answers"]
        for answer, (_, text, labels) in zip(answers, ASKED):
            for got, wanted in zip(probabilities(answer), self.expected(text, labels), strict=True):
                self.assertAlmostEqual(got, wanted, delta=1e-5 * max(wanted, 1e-3), msg=text)
        self.assertEqual([answer["name"] for answer in answers], ["angry", None, "urgency"])
        self.assertAlmostEqual(answers[2]["score"], sum(i * p for i, p in enumerate(probabilities(answers[2]))), places=9)

    def test_system_one_gives_the_same_numbers(self):
        asked = {"angry": {"type": "noul", "instructions": "Is the customer angry?"},
                 "team": {"type": "choice", "instructions": "Which team?",
                          "criteria": {"billing": None, "customer support desk": None, "tech": "outages", "true": None}}}
        one = self.server.post_json("/v1/systemone", {"model": MODEL, "state": TEXT, "questions": asked})["answers"]
        other = self.decide([PREDICATE, CHOICE])["answers"]
        self.assertEqual(one["angry"], {"type": "noul", "noul": other[0]["probability"]})
        self.assertEqual(list(one["team"]["probabilities"].values()), probabilities(other[1]))
        self.assertEqual((one["team"]["choice"], one["team"]["confidence"]), (other[1]["choice"], other[1]["confidence"]))

    def test_the_stock_client_reads_the_answers(self):
        with openai.OpenAI(base_url=self.server.url + "/v1", api_key="none", timeout=STEP_S) as client:
            decision = client.decisions.create(model=MODEL, input=[{"role": "user", "content": [{"type": "input_text", "text": TEXT}]}],
                                               questions=[PREDICATE, CHOICE, SCORE])
        plain = self.decide([PREDICATE, CHOICE, SCORE])
        self.assertEqual([answer.to_dict() for answer in decision.answers], plain["answers"])
        self.assertEqual(decision.usage.input_tokens, plain["usage"]["input_tokens"])

    def test_a_job_gives_the_same_answer(self):
        body = {"model": MODEL, "input": TEXT, "questions": [PREDICATE, CHOICE]}
        status, _, text = self.server.post("/v1/decisions", body, headers={"Prefer": "respond-async, wait=30"})
        self.assertEqual(status, 200, text)
        self.assertEqual(json.loads(text)["answers"], self.decide([PREDICATE, CHOICE])["answers"])

    def test_questions_share_the_text(self):
        questions = [{"type": "predicate", "instructions": f"Is it about number {i}?"} for i in range(16)]
        text = "Sixteen questions are asked about this text, which is computed once. " * 12
        alone = self.decide(questions[:1], text)["usage"]["input_tokens"]
        usage = self.decide(questions, text + "Again.")["usage"]
        self.assertGreater(usage["input_tokens_details"]["cached_tokens"], 14 * (alone - 64), usage)
        self.assertLess(usage["input_tokens_details"]["cached_tokens"], usage["input_tokens"] - alone // 2)

    def test_the_same_bits_at_any_load(self):
        alone = [self.decide([question], cache="bypass")["answers"][0] for question, _, _ in ASKED]
        texts = [TEXT, "Another text. " * 20, TEXT, "A third one. " * 30]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            runs = [pool.submit(self.decide, [PREDICATE, CHOICE, SCORE], texts[i % 4]) for i in range(16)]
            chats = [pool.submit(self.server.post_json, "/v1/completions", {"model": MODEL, "prompt": f"Number {i}", "max_tokens": 24})
                     for i in range(8)]
            for i, run in enumerate(runs):
                if texts[i % 4] == TEXT:
                    self.assertEqual(run.result()["answers"], alone)
            for chat in chats:
                chat.result()

    def test_refusals_name_the_field(self):
        two = {"type": "choice", "instructions": "Which?"}
        for body, param, code in (
                ({"questions": [{"type": "box", "instructions": "x"}]}, "questions[0].type", "invalid_value"),
                ({"questions": [{**two, "choices": [{"value": "a"}, {"value": "a"}]}]}, "questions[0].choices[1].value", "invalid_value"),
                ({"questions": [{**two, "choices": [{"value": str(i)} for i in range(256)]}]}, "questions[0].choices", "invalid_value"),
                ({"questions": [PREDICATE], "input": "word " * 9000}, "input", "context_length_exceeded"),
                ({"questions": [PREDICATE], "model": "none"}, "model", "model_not_found")):
            status, _, text = self.server.post("/v1/decisions", {"model": MODEL, "input": "x", **body})
            error = json.loads(text)["error"]
            self.assertIn(status, (400, 404))
            self.assertEqual((error["param"], error["code"]), (param, code), error)


if __name__ == "__main__":
    unittest.main()
