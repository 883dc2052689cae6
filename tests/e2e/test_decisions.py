"""Decisions: /v1/decisions with the stock openai client and /v1/systemone, compared with the log-probabilities that
/v1/completions gives for the same tokens on the same server, with transformers, and, of classifiers, with /predict."""
import concurrent.futures
import json
import math
import os
import subprocess
import tempfile
import unittest

import openai

import encoder_models
from harness import MODEL, STEP_S, RealModel, Server, ServerCase, amount, eventually, figure, make_key
from test_batches import client_of, lines_of
from test_batches import ended as ended_batch
from test_batches import upload
from test_jobs import ended as ended_job
from test_jobs import submit

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


def run_batch(client, endpoint, bodies):
    """{custom_id: response} of a batch that has ended, and the batch."""
    text = "".join(json.dumps({"custom_id": name, "method": "POST", "url": endpoint, "body": body}) + "\n" for name, body in bodies.items())
    batch = client.batches.create(input_file_id=upload(client, text).id, endpoint=endpoint, completion_window="24h")
    batch = ended_batch(client, batch.id)
    lines = lines_of(client, batch.output_file_id) + lines_of(client, batch.error_file_id)
    return {line["custom_id"]: line["response"] for line in lines}, batch


class Reference(RealModel, ServerCase):
    """The default model in float32, compared with transformers (tools/make_decision_goldens.py)."""
    OPTIONS = ("--dtype", "f32", "--kv-dtype", "fp32")
    EVEN_SANITIZED = True

    def test_probabilities_are_those_of_transformers(self):
        golden = json.loads((encoder_models.GOLDEN / "decisions.json").read_text())
        self.assertEqual(len(golden), 5)
        furthest = 0
        for each in golden:
            answer = self.server.post_json("/v1/decisions", {"model": MODEL, "input": each["input"], "questions": each["questions"]})
            for got, wanted in zip(answer["answers"], each["probabilities"], strict=True):
                distances = [abs(a - b) for a, b in zip(probabilities(got), wanted, strict=True)]
                furthest = max(furthest, *distances)
        figure(f"decisions in float32: probabilities within {furthest:.1e} of transformers")
        self.assertLess(furthest, 1e-3)


class Classifiers(unittest.TestCase):
    """Classifiers made of all-MiniLM-L6-v2 with the generated heads that transformers' scores are of."""
    TEXTS = [text for text, _, _ in encoder_models.vectors()]
    SIGNS = ("NEGATIVE", "POSITIVE")
    STARS = ("1 star", "2 stars", "3 stars")

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        models = []
        for name, labels in (("signs", cls.SIGNS), ("stars", cls.STARS), ("cold", cls.SIGNS)):
            path = os.path.join(folder.name, name)
            os.mkdir(path)
            encoder_models.write_cross_encoder(path, labels)
            models.append(f"{name}={path}")
        cls.server = Server(*models[1:], "--dtype", "f32", "--decision-temperature", "cold=0.5", model=models[0],
                            environment={"TUTTI_STORE": os.path.join(folder.name, "store")})
        cls.server.wait_models(3)

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0

    def predicted(self, model, text):
        """{label: probability} by Text Embeddings Inference's route."""
        return {each["label"]: each["score"] for each in self.server.post_json("/predict", {"model": model, "inputs": text})}

    def decide(self, model, text, *questions):
        return self.server.post_json("/v1/decisions", {"model": model, "input": text, "questions": questions})

    @staticmethod
    def choice(*labels):
        return {"type": "choice", "instructions": "Which?", "choices": [{"value": label} for label in labels]}

    def test_a_choice_equals_predict_and_transformers(self):
        whole = [(text, logits) for text, tokens, logits in encoder_models.label_logits(self.TEXTS) if tokens < 256]
        self.assertGreater(len(whole), 60)
        for text, logits in whole[::amount(4, 2, 1)]:
            answer = self.decide("stars", text, self.choice("3 stars", "1 star", "2 stars"))["answers"][0]
            got = {each["value"]: each["probability"] for each in answer["probabilities"]}
            predicted = self.predicted("stars", text)
            total = sum(math.exp(logit) for logit in logits)
            for number, label in enumerate(self.STARS):
                self.assertAlmostEqual(got[label], predicted[label], delta=1e-6)
                self.assertAlmostEqual(got[label], math.exp(logits[number]) / total, delta=1e-3)
            self.assertEqual(answer["choice"], max(predicted, key=predicted.get))

    def test_some_of_the_labels_share_all_of_the_probability(self):
        text = "The sea is calm."
        first, _, third = (self.predicted("stars", text)[label] for label in self.STARS)
        answer = self.decide("stars", text, self.choice("1 star", "3 stars"))["answers"][0]
        self.assertAlmostEqual(answer["probabilities"][0]["probability"], first / (first + third), delta=1e-6)

    def test_levels_and_yes_mean_labels(self):
        text = "Nobody answers me."
        stars = self.predicted("stars", text)
        score = {"type": "score", "name": "stars", "instructions": "How many?", "levels": [{"label": label} for label in self.STARS]}
        one = self.decide("stars", text, score)["answers"][0]
        self.assertAlmostEqual(one["score"], sum(i * stars[label] for i, label in enumerate(self.STARS)), delta=1e-5)
        yes = self.decide("signs", text, PREDICATE, self.choice("POSITIVE", "NEGATIVE"))["answers"]
        self.assertAlmostEqual(yes[0]["probability"], self.predicted("signs", text)["POSITIVE"], delta=1e-6)
        self.assertEqual(yes[1]["probabilities"][0]["probability"], yes[0]["probability"])
        asked = {"good": {"type": "noul", "instructions": "Is it good?"},
                 "which": {"type": "choice", "instructions": "Which?", "criteria": {"POSITIVE": None, "NEGATIVE": "bad"}}}
        other = self.server.post_json("/v1/systemone", {"model": "signs", "state": text, "questions": asked})["answers"]
        self.assertEqual(other["good"]["noul"], yes[0]["probability"])
        self.assertEqual(other["which"]["probabilities"]["POSITIVE"], yes[0]["probability"])

    def test_the_question_is_not_read_and_usage_counts_the_text(self):
        text = "Nobody answers me."
        asked = [{**PREDICATE, "instructions": words} for words in ("Is it?", "Is it not, or rather the opposite?")]
        answer = self.decide("signs", text, *asked)
        self.assertEqual(answer["answers"][0]["probability"], answer["answers"][1]["probability"])
        tokens = len(self.server.post_json("/tokenize", {"model": "signs", "prompt": text})["tokens"])
        self.assertEqual(answer["usage"]["input_tokens"], 2 * tokens)

    def test_the_questions_of_a_call_share_its_text(self):
        done = subprocess.run([os.environ["E2E_BINARY"], "bench", "decisions", os.path.join(self.folder, "stars"), "--tokens", "16",
                               "--questions", "1,8", "--labels", "3", "--decisions", "64", "--threads", "1", "--json", "-"],
                              capture_output=True, timeout=3 * STEP_S, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        one, eight = json.loads(done.stdout)["rows"]
        self.assertEqual([row["equal"] for row in (one, eight)], [True, True])
        self.assertEqual((one["decisions"], eight["decisions"]), (64, 64))
        self.assertEqual(one["computed_tokens"], one["prompt_tokens"])
        self.assertLess(eight["computed_tokens"], eight["prompt_tokens"] / 4)
        refused = subprocess.run([os.environ["E2E_BINARY"], "bench", "decisions", "all-minilm-l6-v2"], capture_output=True, timeout=STEP_S, text=True)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("without labels", refused.stderr)

    def test_a_temperature_sharpens_and_is_shown(self):
        text = "The sea is calm."
        warm, cold = self.decide("signs", text, PREDICATE), self.decide("cold", text, PREDICATE)
        p = warm["answers"][0]["probability"]
        self.assertAlmostEqual(cold["answers"][0]["probability"], p * p / (p * p + (1 - p) ** 2), delta=1e-5)
        self.assertEqual(cold["temperature"], 0.5)
        self.assertNotIn("temperature", warm)

    def test_refusals_name_the_label(self):
        for model, question, param, words in (
                ("stars", self.choice("1 star", "5 stars"), "questions[0].choices[1].value", "2 stars"),
                ("stars", self.choice("5 stars", "1 star"), "questions[0].choices[0].value", "5 stars"),
                ("stars", PREDICATE, "questions[0]", "has 3"),
                ("signs", {"type": "score", "instructions": "?", "levels": [{"label": "POSITIVE"}, {"label": "x"}]},
                 "questions[0].levels[1].label", "x")):
            status, _, text = self.server.post("/v1/decisions", {"model": model, "input": "a", "questions": [question]})
            error = json.loads(text)["error"]
            self.assertEqual((status, error["code"], error["param"]), (400, "invalid_value", param), error)
            self.assertIn(words, error["message"])
        status, _, text = self.server.post("/v1/decisions", {"model": "signs", "input": "word " * 9000, "questions": [PREDICATE]})
        error = json.loads(text)["error"]
        self.assertEqual((status, error["code"], error["param"]), (400, "context_length_exceeded", "input"), error)

    def test_the_same_bits_at_any_load(self):
        texts = [text for text, tokens, _ in encoder_models.label_logits(self.TEXTS) if tokens < 256][:12]
        questions = (self.choice(*self.STARS), self.choice("2 stars", "1 star"))
        alone = [self.decide("stars", text, *questions)["answers"] for text in texts]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            again = list(pool.map(lambda text: self.decide("stars", text, *questions)["answers"], texts * 4))
        self.assertEqual(again, alone * 4)

    def test_a_batch_and_a_job_give_the_same_answers(self):
        body = {"model": "stars", "input": "The sea is calm.", "questions": [self.choice(*self.STARS)]}
        at_once = self.server.post_json("/v1/decisions", body)
        with client_of(self.server) as client:
            lines, batch = run_batch(client, "/v1/decisions", {"good": body, "bad": {**body, "questions": [self.choice("a", "b")]}})
        self.assertEqual((batch.request_counts.completed, batch.request_counts.failed), (1, 1))
        self.assertEqual(lines["good"]["body"]["answers"], at_once["answers"])
        self.assertEqual(lines["bad"]["body"]["error"]["param"], "questions[0].choices[0].value")
        job = ended_job(self.server, submit(self.server, body, "/v1/decisions")["id"])
        self.assertEqual((job["status"], job["result"]["answers"]), ("completed", at_once["answers"]))


class Charged(unittest.TestCase):
    """Decisions of a caller: at once, in a batch and as a job, and what they are charged."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.store = os.path.join(cls.folder.name, "store")
        cls.server = Server(environment={"TUTTI_STORE": cls.store})

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0

    def used(self, tenant):
        """(requests, prompt tokens less those from the cache) of a tenant, from the ledger."""
        def rows():
            done = subprocess.run([os.environ["E2E_BINARY"], "usage", "--export", "json", "--store", self.store],
                                  capture_output=True, text=True, timeout=STEP_S, check=True)
            return [row for row in map(json.loads, done.stdout.splitlines()) if row["tenant"] == tenant]
        found = rows()
        return len(found), sum(row["prompt_tokens"] - row["cached_tokens"] for row in found), {row["route"] for row in found}

    def test_batches_and_jobs_answer_and_charge_as_calls_do(self):
        key = make_key(self.store, "asker", "--tenant", "askers")
        headers = {"Authorization": "Bearer " + key}
        body = {"model": MODEL, "input": TEXT, "questions": [PREDICATE, CHOICE]}
        status, _, text = self.server.post("/v1/decisions", body, headers=headers)
        self.assertEqual(status, 200, text)
        at_once = json.loads(text)
        with client_of(self.server, key) as client:
            lines, batch = run_batch(client, "/v1/decisions", {f"r-{i}": {**body, "input": TEXT + str(i)} for i in range(4)} | {"same": body})
            self.assertEqual(batch.request_counts.completed, 5, lines)
            one, _ = run_batch(client, "/v1/systemone", {"s": {"model": MODEL, "state": TEXT, "questions": {
                "angry": {"type": "noul", "instructions": PREDICATE["instructions"]}}}})
        self.assertEqual(lines["same"]["body"]["answers"], at_once["answers"])
        self.assertEqual(one["s"]["body"]["answers"]["angry"]["noul"], at_once["answers"][0]["probability"])
        job = submit(self.server, body, "/v1/decisions", Authorization="Bearer " + key)
        status, _, text = self.server.get(f"/v1/jobs/{job['id']}?wait=30", headers=headers)
        self.assertEqual((status, json.loads(text)["result"]["answers"]), (200, at_once["answers"]))

        answers = [at_once, json.loads(text)["result"], one["s"]["body"], *(line["body"] for line in lines.values())]
        charged = sum(each["usage"]["input_tokens"] - each["usage"]["input_tokens_details"]["cached_tokens"] for each in answers)
        eventually(lambda: self.used("askers")[1] == charged, lambda: f"{self.used('askers')} is not {charged}")
        # A label is a request: six for each call with both questions, and two of the other form.
        self.assertEqual(self.used("askers")[0], 7 * 6 + 2)
        self.assertEqual(self.used("nobody")[0], 0)

    def test_the_days_tokens_refuse_decisions(self):
        key = make_key(self.store, "daily", "--tenant", "daily", "--daily-tokens", "600")
        statuses, charged = [], 0
        for i in range(12):
            body = {"model": MODEL, "input": f"Number {i}. " + TEXT, "questions": [PREDICATE]}
            status, _, text = self.server.post("/v1/decisions", body, headers={"Authorization": "Bearer " + key})
            statuses.append(status)
            if status != 200:
                self.assertEqual(json.loads(text)["error"]["code"], "insufficient_quota", text)
                break
            usage = json.loads(text)["usage"]
            charged += usage["input_tokens"] - usage["input_tokens_details"]["cached_tokens"]
        self.assertEqual(statuses[-1], 429, statuses)
        self.assertGreater(len(statuses), 2)
        self.assertLessEqual(charged, 600)


class Temperature(ServerCase):
    OPTIONS = ("--decision-temperature", "2")

    def test_log_probabilities_are_divided(self):
        questions = [PREDICATE, CHOICE]
        answer = self.server.post_json("/v1/decisions", {"model": MODEL, "input": TEXT, "questions": questions})
        self.assertEqual(answer["temperature"], 2)
        plain = Server()
        try:
            one = plain.post_json("/v1/decisions", {"model": MODEL, "input": TEXT, "questions": questions})
        finally:
            self.assertEqual(plain.stop(), 0)
        for warm, cold in zip(answer["answers"], one["answers"], strict=True):
            roots = [math.sqrt(p) for p in probabilities(cold)]
            for got, root in zip(probabilities(warm), roots, strict=True):
                self.assertAlmostEqual(got, root / sum(roots), delta=1e-4)

    def test_a_temperature_out_of_range_is_refused(self):
        for text, words in (("0", "from 0.01 to 100"), (f"{MODEL}x=2", "is not served")):
            server = Server("--decision-temperature", text, wait=False)
            self.assertNotEqual(server.process.wait(STEP_S), 0)
            self.assertIn(words, server.log())
            server.stop()


if __name__ == "__main__":
    unittest.main()
