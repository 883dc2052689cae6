"""Encoders through stock clients: openai's for vectors, huggingface_hub's for Text Embeddings Inference, plain JSON for
rerank and score; all against reference outputs, with all-MiniLM-L6-v2 and a cross-encoder made of it, in float32."""
import base64
import concurrent.futures
import http.client
import json
import math
import os
import statistics
import struct
import tempfile
import time
import unittest

import huggingface_hub
import openai

import encoder_models
from encoder_models import EMBEDDER, cosine
from harness import STEP_S, Server, ServerCase, amount, eventually, raw_request

REFERENCES = encoder_models.vectors()
TEXTS = [text for text, _, _ in REFERENCES]


class EncoderCase(unittest.TestCase):
    """One server with the embedder and the cross-encoder."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        reranker = os.path.join(folder.name, "reranker")
        os.mkdir(reranker)
        encoder_models.write_cross_encoder(reranker)
        cls.server = Server("reranker=" + reranker, "--dtype", "f32", model=EMBEDDER)
        cls.server.wait_models(2)
        cls.client = openai.OpenAI(base_url=cls.server.url + "/v1", api_key="none", timeout=STEP_S)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        status = cls.server.stop()
        assert status == 0, f"exit status {status} after SIGTERM"

    def embed(self, texts, **options):
        return self.client.embeddings.create(model=EMBEDDER, input=texts, **options)


class Embeddings(EncoderCase):
    def test_vectors_equal_those_of_the_reference(self):
        """Requests of 1 to 64 texts, eight at once; in base64, which the client asks for by itself."""
        chosen = REFERENCES[::amount(50, 10, 1)]
        requests, size, at = [], 1, 0
        while at < len(chosen):
            requests.append(chosen[at:at + size])
            at += size
            size = size * 2 % 127

        # The reference cuts what is too long.
        def ask(references):
            answer = self.embed([text for text, _, _ in references], extra_body={"truncate_prompt_tokens": -1})
            self.assertEqual([item.index for item in answer.data], list(range(len(references))))
            self.assertEqual(answer.usage.prompt_tokens, sum(min(tokens, 256) for _, tokens, _ in references))
            return [(item.embedding, reference) for item, (_, _, reference) in zip(answer.data, references)]

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for pairs in pool.map(ask, requests):
                for given, reference in pairs:
                    self.assertEqual(len(given), encoder_models.WIDTH)
                    self.assertLessEqual(max(abs(x - y) for x, y in zip(given, reference)), 1e-4)
                    self.assertGreaterEqual(cosine(given, reference), 0.9999)

    def test_a_text_has_the_same_bits_in_any_batch_and_format(self):
        texts = TEXTS[:amount(8, 40, 40)]
        options = {"extra_body": {"truncate_prompt_tokens": -1}}
        together = [item.embedding for item in self.embed(texts, **options).data]
        numbers = self.embed(texts, encoding_format="float", **options)
        for i in (0, 3, len(texts) - 1):
            self.assertEqual(self.embed(texts[i], **options).data[0].embedding, together[i])
            # Numbers are written so that they read back as the same float32.
            again = struct.unpack("<384f", struct.pack("<384f", *numbers.data[i].embedding))
            self.assertEqual(list(again), list(together[i]))
        status, _, text = self.server.post("/v1/embeddings", {
            "model": EMBEDDER, "input": texts[0], "encoding_format": "base64", "truncate_prompt_tokens": -1})
        self.assertEqual(status, 200)
        raw = base64.b64decode(json.loads(text)["data"][0]["embedding"], validate=True)
        self.assertEqual(raw, struct.pack("<384f", *together[0]))

    def test_token_ids_are_used_as_they_are_given(self):
        text = "The sea is calm tonight."
        ids = [token["id"] for token in self.server.post_json("/tokenize", {"inputs": text})[0]]
        self.assertEqual((ids[0], ids[-1]), (101, 102), "[CLS] and [SEP]")
        by_text, by_ids = self.embed(text), self.embed(ids)
        self.assertEqual(by_ids.data[0].embedding, by_text.data[0].embedding)
        self.assertEqual(by_ids.usage.prompt_tokens, len(ids))
        several = self.embed([ids, ids[1:-1]])
        self.assertEqual(several.data[0].embedding, by_text.data[0].embedding)
        self.assertNotEqual(several.data[1].embedding, by_text.data[0].embedding)

    def test_what_cannot_be_embedded_is_refused_by_name(self):
        long = "word " * 300
        for body, code, param in (
                ({"input": ["fine", long]}, "context_length_exceeded", "input[1]"),
                ({"input": long}, "context_length_exceeded", "input"),
                ({"input": ["fine", ""]}, "empty_prompt", "input[1]"),
                ({"input": []}, "empty_prompt", "input"),
                ({"input": ["x"] * 2049}, "invalid_value", "input"),
                ({"input": [[5], [5, 30522]]}, "token_out_of_range", "input[1]"),
                ({"input": "x", "dimensions": 7}, "invalid_value", "dimensions"),
                ({"input": "x", "dimensions": 0}, "invalid_value", "dimensions"),
                ({"input": "x", "encoding_format": "hex"}, "invalid_value", "encoding_format"),
                ({"input": "x", "extra_body": {"prompt_name": "query"}}, "invalid_value", "prompt_name"),
                ({"input": "x", "extra_body": {"input_type": "query"}}, "unsupported_parameter", "input_type")):
            with self.assertRaises(openai.BadRequestError) as caught:
                self.client.embeddings.create(model=EMBEDDER, **body)
            self.assertEqual((caught.exception.code, caught.exception.param), (code, param))
        with self.assertRaises(openai.NotFoundError):
            self.client.embeddings.create(model="nobody", input="x")
        with self.assertRaises(openai.BadRequestError) as caught:
            self.client.embeddings.create(model="reranker", input="x")
        self.assertEqual(caught.exception.param, "model")
        self.assertEqual(self.embed(long, extra_body={"truncate_prompt_tokens": 9}).usage.prompt_tokens, 9)

    def test_a_large_answer_comes_whole(self):
        count = amount(200, 500, 2048)
        texts = [f"t{i % 7}" for i in range(count)]
        answer = self.embed(texts, encoding_format="float")
        self.assertEqual(len(answer.data), count)
        for i in range(7, count):
            self.assertEqual(answer.data[i].embedding, answer.data[i % 7].embedding)

    def test_clients_that_leave_stop_the_work(self):
        """Three times 600 texts of 200 tokens, of which the first batches are computed."""
        def count(name, **labels):
            return self.server.metric(name, model=EMBEDDER, **labels)

        ended, texts = count("tutti_requests_finished_total", finish_reason="abort"), count("tutti_encode_items_total")
        body = {"model": EMBEDDER, "input": ["word " * 200] * 600}
        clients = [raw_request(self.server.port, "POST", "/v1/embeddings", body) for _ in range(3)]
        eventually(lambda: count("tutti_encode_waiting_items") > 1200)
        for client in clients:
            client.close()
        eventually(lambda: count("tutti_requests_finished_total", finish_reason="abort") == ended + 3)
        eventually(lambda: self.server.metric("tutti_requests_in_flight", op="embed") == 0)
        self.assertEqual(len(self.embed("still here").data), 1)
        self.assertLess(count("tutti_encode_items_total") - texts, 1500)


class Stages(EncoderCase):
    """Where the time of a text goes, from the first byte read to the finished answer, as Server-Timing reports it."""

    def timings(self, clients, requests):
        """Per request: milliseconds by stage, and what the client saw."""
        def ask(_):
            connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=STEP_S)
            seen = []
            for i in range(requests // clients):
                body = json.dumps({"model": EMBEDDER, "input": TEXTS[i % 50][:80]})
                begin = time.monotonic()
                connection.request("POST", "/v1/embeddings", body, {"Content-Type": "application/json",
                                                                   "X-Tutti-Timings": "1"})
                answer = connection.getresponse()
                answer.read()
                took = (time.monotonic() - begin) * 1e3
                self.assertEqual(answer.status, 200)
                parts = dict(part.strip().split(";dur=") for part in answer.headers["Server-Timing"].split(","))
                seen.append(({name: float(ms) for name, ms in parts.items()}, took))
            connection.close()
            return seen

        with concurrent.futures.ThreadPoolExecutor(clients) as pool:
            return [one for seen in pool.map(ask, range(clients)) for one in seen]

    def test_stages_add_up_and_only_the_queue_grows_with_the_callers(self):
        alone, crowded = self.timings(1, amount(100, 300, 500)), self.timings(8, amount(96, 296, 496))
        for parts, took in alone + crowded:
            total = parts.pop("total")
            self.assertAlmostEqual(sum(parts.values()), total, delta=0.02 * total + 0.005)
            self.assertLessEqual(total, took)
            self.assertTrue(all(ms >= 0 for ms in parts.values()), parts)
        middle = lambda seen, stage: statistics.median(parts[stage] for parts, _ in seen)
        named = lambda parts: sum(ms for stage, ms in parts.items() if stage != "handover")
        # The time that no stage accounts for is little compared with the sum of the stages.
        self.assertLess(middle(alone, "handover"), statistics.median(named(parts) for parts, _ in alone))
        # An idle device takes a text at once; behind seven others it waits for about a batch.
        self.assertLess(middle(alone, "queue"), 0.2 * 10)
        self.assertGreater(middle(crowded, "queue"), 2 * middle(alone, "queue"))


class Scores(EncoderCase):
    def test_scores_and_order_are_those_of_the_reference(self):
        wrong = 0
        for number, (query, documents) in enumerate(encoder_models.scores(TEXTS)[::amount(50, 10, 1)]):
            body = {"model": "reranker", "query": query, "documents": [text for text, _, _ in documents],
                    "raw_scores": True, "truncate_prompt_tokens": -1}
            answer = self.server.post_json("/v1/rerank", body)
            self.assertEqual(answer["usage"]["prompt_tokens"], sum(tokens for _, tokens, _ in documents))
            results = answer["results"]
            self.assertEqual(sorted(r["index"] for r in results), list(range(len(documents))))
            for result in results:
                text, _, logit = documents[result["index"]]
                self.assertEqual(result["document"]["text"], text)
                self.assertLessEqual(abs(result["relevance_score"] - logit), 1e-4)
            order = sorted(range(len(documents)), key=lambda i: -documents[i][2])
            wrong += [r["index"] for r in results] != order
            if number >= amount(1, 4, 200):
                continue
            # Through the other routes the same scores, to the last bit.
            by_index = {r["index"]: r["relevance_score"] for r in results}
            scores = self.server.post_json("/v1/score", {**body, "documents": None, "query": None,
                                                         "text_1": query, "text_2": body["documents"]})
            self.assertEqual([d["score"] for d in scores["data"]], [by_index[i] for i in range(len(documents))])
            tei = self.server.post_json("/rerank", {"query": query, "texts": body["documents"], "raw_scores": True,
                                                    "truncate": True, "return_text": True})
            self.assertEqual([(r["index"], r["score"]) for r in tei], [(r["index"], r["relevance_score"]) for r in results])
            self.assertEqual([r["text"] for r in tei], [r["document"]["text"] for r in results])
        self.assertEqual(wrong, 0, "sets in another order than the reference's")

    def test_scores_lie_between_0_and_1_unless_they_are_asked_raw(self):
        body = {"query": "sea", "documents": TEXTS[:5], "truncate_prompt_tokens": -1, "top_n": 2, "return_documents": False}
        squashed = self.server.post_json("/v1/rerank", body)["results"]
        raw = self.server.post_json("/v1/rerank", {**body, "use_activation": False})["results"]
        self.assertEqual([len(squashed), len(raw)], [2, 2])
        for a, b in zip(squashed, raw):
            self.assertEqual((a["index"], list(a)), (b["index"], ["index", "relevance_score"]))
            self.assertAlmostEqual(a["relevance_score"], 1 / (1 + math.exp(-b["relevance_score"])), places=6)
        predicted = self.server.post_json("/predict", {"inputs": ["sea", TEXTS[0]], "model": "reranker", "truncate": True})
        self.assertEqual([p["label"] for p in predicted], ["relevance"])

    def test_an_embedder_is_no_reranker(self):
        status, _, text = self.server.post("/v1/rerank", {"model": EMBEDDER, "query": "q", "documents": ["a"]})
        self.assertEqual((status, json.loads(text)["error"]["param"]), (400, "model"))
        status, _, text = self.server.post("/rerank", {"model": EMBEDDER, "query": "q", "texts": ["a"]})
        self.assertEqual((status, json.loads(text)["error_type"]), (424, "Backend"))


class TextEmbeddingsInference(EncoderCase):
    """huggingface_hub's client, given an address instead of a model, as it is used with that server."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.hub = huggingface_hub.InferenceClient(timeout=STEP_S, api_key="none")

    def test_features_of_texts(self):
        reference = [float(x) for x in self.embed("The sea is calm.").data[0].embedding]
        for path in ("/embed", ""):
            features = self.hub.feature_extraction("The sea is calm.", model=self.server.url + path)
            self.assertEqual(features.shape, (1, encoder_models.WIDTH))
            self.assertEqual(features[0].tolist(), reference)
        raw = self.hub.feature_extraction("The sea is calm.", model=self.server.url + "/embed", normalize=False,
                                          truncate=True, truncation_direction="left")
        self.assertGreater(abs(float((raw[0] ** 2).sum()) - 1), 0.01, "as the model leaves it")

    def test_similar_sentences(self):
        sentences = ["A kitten is on the mat.", "Stocks fell on Monday."]
        close, far = self.hub.sentence_similarity("A cat sits on the mat.", sentences, model=self.server.url + "/similarity")
        self.assertGreater(close, 0.7)
        self.assertLess(far, 0.3)
        vectors = [item.embedding for item in self.embed(["A cat sits on the mat."] + sentences).data]
        self.assertAlmostEqual(close, cosine(vectors[0], vectors[1]), places=6)
        self.assertEqual(self.hub.sentence_similarity("A cat sits on the mat.", sentences, model=self.server.url), [close, far])

    def test_its_errors(self):
        with self.assertRaises(huggingface_hub.errors.HfHubHTTPError) as caught:
            self.hub.feature_extraction("word " * 300, model=self.server.url + "/embed")
        self.assertEqual(caught.exception.response.status_code, 422)
        error = caught.exception.response.json()
        self.assertEqual((error["error_type"], error["code"]), ("Validation", "context_length_exceeded"))

    def test_what_it_tells_of_itself(self):
        info = json.loads(self.server.get("/info")[2])
        self.assertEqual((info["model_id"], info["model_dtype"]), (EMBEDDER, "f32"))
        self.assertEqual(info["model_type"], {"embedding": {"pooling": "mean"}})
        self.assertEqual((info["max_input_length"], info["max_client_batch_size"]), (256, 2048))
        tokens = self.server.post_json("/tokenize", {"inputs": ["a cat", "seas"]})
        ids = [[token["id"] for token in text] for text in tokens]
        self.assertEqual(self.server.post_json("/decode", {"ids": ids}), ["a cat", "seas"])
        rows = self.server.post_json("/embed_all", {"inputs": "a cat"})
        self.assertEqual((len(rows[0]), len(rows[0][0])), (len(ids[0]), encoder_models.WIDTH))
        _, headers, _ = self.server.post("/embed", {"inputs": ["a cat", "seas"]})
        self.assertEqual((headers["x-compute-tokens"], headers["x-compute-characters"]), (str(sum(map(len, ids))), "9"))
        models = {model.id: model.tasks for model in self.client.models.list().data}
        self.assertEqual(models, {EMBEDDER: ["embed"], "reranker": ["rerank", "score"]})


class BesideChat(ServerCase):
    """The default model and an embedder in int8 share the machine."""
    OPTIONS = (EMBEDDER,)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server.wait_models(2)

    def test_answers_are_those_of_a_machine_of_ones_own(self):
        chat = {"messages": [{"role": "user", "content": "Name three colours."}], "max_tokens": 24, "temperature": 0}
        chat["model"] = self.server.models()[0]
        texts = {"model": EMBEDDER, "input": TEXTS[:32], "truncate_prompt_tokens": -1}

        def ask(path_and_body):
            answer = self.server.post_json(*path_and_body)
            return answer["choices"][0]["message"]["content"] if "choices" in answer else [d["embedding"] for d in answer["data"]]

        alone = [ask(("/v1/chat/completions", chat)), ask(("/v1/embeddings", texts))]
        worst = min(cosine(a, reference) for a, (_, _, reference) in zip(alone[1], REFERENCES))
        self.assertGreaterEqual(worst, 0.98, "int8")
        work = [("/v1/chat/completions", chat), ("/v1/embeddings", texts)] * amount(2, 3, 20)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for i, answer in enumerate(pool.map(ask, work)):
                self.assertEqual(answer, alone[i % 2])

    def test_each_model_is_asked_for_what_it_does(self):
        status, _, text = self.server.post("/v1/rerank", {"model": self.server.models()[0], "query": "x", "documents": ["y"]})
        self.assertEqual((status, json.loads(text)["error"]["param"]), (400, "model"))
        status, _, text = self.server.post("/v1/chat/completions", {
            "model": EMBEDDER, "messages": [{"role": "user", "content": "x"}]})
        self.assertEqual((status, json.loads(text)["error"]["param"]), (400, "model"))
        self.assertEqual(len(self.server.post_json("/embed", {"inputs": "x"})[0]), encoder_models.WIDTH)


if __name__ == "__main__":
    unittest.main()
