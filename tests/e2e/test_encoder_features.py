"""Each feature of a request for vectors or scores through each API, as the third matrix of docs/features.md has it (N64, R44).

One strict server with an embedder and a reranker. tests/features.toml lists what is refused, and what an API does not have.
"""
import base64
import json
import os
import pathlib
import re
import struct
import tempfile
import time
import unittest
import uuid

import grpc

import encoder_models
from encoder_models import EMBEDDER
from harness import STEP_S, Server, eventually, free_port, grpc_streams
from test_api_features import compiled
from test_features import DATA, ENDED, feature_page

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEXTS = ["A cat sits on the mat.", "Dogs bark."]
LONG = "river " * 400  # beyond the limit of the models
MANY = ["river " * 150] * 64


class Reply:
    def __init__(self, values=(), error=None, headers=None, raw=None, of=None, status=200):
        self.values, self.error, self.headers, self.raw, self.of, self.status = list(values), error, headers or {}, raw, of, status


class Http:
    """An API over HTTP. `body` takes a text or a list of them, `read` returns the first vector, or the scores."""
    path = None
    fields = {}  # feature: fields of the body
    whole = {}  # what refuses a text that is too long, if that is not the rule

    def __init__(self, server):
        self.server = server

    def ask(self, feature=None, text=TEXTS[0], headers=None, **more):
        body = {**self.body(text), **self.fields.get(feature, {}), **more}
        headers = dict(headers or {})
        if feature == "idempotency":
            headers.setdefault("Idempotency-Key", uuid.uuid4().hex)
        if feature == "job":
            headers["Prefer"] = "respond-async"
        if feature == "batch":
            return self.batch(body)
        status, fields, answer = self.server.post(self.path, body, headers=headers)
        answer = json.loads(answer)
        if status == 202:
            return self.wait(answer["id"])
        if status != 200:
            error = answer["error"] if isinstance(answer.get("error"), dict) else {"code": answer.get("code") or fields.get("x-tutti-error-code"),
                                                                                    "message": answer.get("error")}
            return Reply(error=error, status=status)
        return Reply(self.read(answer), headers=fields, raw=answer)

    def late(self):
        """With a deadline that cannot be met."""
        return self.ask(text=MANY, headers={"X-Request-Timeout-Ms": "1"})

    def wait(self, job_id):
        found = {}

        def over():
            found.update(json.loads(self.server.get(f"/v1/jobs/{job_id}?wait=20")[2]))
            return found["status"] in ENDED
        eventually(over, lambda: str(found))
        if not found.get("result"):
            return Reply(error=found["error"], status=202)
        return Reply(self.read(found["result"]), raw=found["result"], of=job_id, status=202)

    def batch(self, body):
        line = {"custom_id": "a", "method": "POST", "url": self.path, "body": body}
        mark = uuid.uuid4().hex
        form = "".join(f'--{mark}\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n{value}\r\n' for name, more, value in (
            ("purpose", "", "batch"), ("file", '; filename="in.jsonl"', json.dumps(line)))) + f"--{mark}--\r\n"
        file = json.loads(self.server.post("/v1/files", form, headers={"Content-Type": f"multipart/form-data; boundary={mark}"})[2])
        status, _, text = self.server.post("/v1/batches", {"input_file_id": file["id"], "endpoint": self.path, "completion_window": "24h"})
        batch = json.loads(text)
        if status != 200:
            return Reply(error=batch["error"], status=status)
        end = time.monotonic() + STEP_S
        while batch["status"] not in ENDED and time.monotonic() < end:
            time.sleep(0.02)
            batch = json.loads(self.server.get(f"/v1/batches/{batch['id']}")[2])
        response = json.loads(self.server.get(f"/v1/files/{batch['output_file_id']}/content")[2].splitlines()[0])["response"]
        return Reply(self.read(response["body"]), raw=response["body"], of=batch["id"])


class Embeddings(Http):
    path = "/v1/embeddings"
    fields = {"dimensions": {"dimensions": 64}, "raw": {"normalize": False}, "truncate": {"truncate_prompt_tokens": -1},
              "base64": {"encoding_format": "base64"}, "flex": {"service_tier": "flex"}}

    def body(self, text):
        return {"model": EMBEDDER, "input": text}

    def read(self, answer):
        found = answer["data"][0]["embedding"]
        return struct.unpack(f"<{len(base64.b64decode(found)) // 4}f", base64.b64decode(found)) if isinstance(found, str) else found


class Tei(Http):
    path = "/embed"
    fields = {**Embeddings.fields, "truncate": {"truncate": True}}

    def body(self, text):
        return {"inputs": text}

    def read(self, answer):
        return answer[0]


class Ollama(Http):
    path = "/api/embed"
    fields = {**Embeddings.fields, "truncate": {"truncate": True}}
    whole = {"truncate": False}

    def body(self, text):
        return {"model": EMBEDDER, "input": text}

    def read(self, answer):
        return answer["embeddings"][0]


class Kserve(Http):
    path = f"/v2/models/{EMBEDDER}/infer"
    fields = {name: {"parameters": value} for name, value in {**Tei.fields, "flex": {"priority": 2}}.items()}

    def body(self, text):
        if isinstance(text, list) and isinstance(text[0], int):
            return {"inputs": [{"name": "token_ids", "shape": [1, len(text)], "datatype": "INT32", "data": text}]}
        texts = text if isinstance(text, list) else [text]
        return {"inputs": [{"name": "text", "shape": [len(texts)], "datatype": "BYTES", "data": texts}]}

    def read(self, answer):
        return answer["outputs"][0]["data"]


def both(text):
    return text if text is MANY else [text, TEXTS[1]]


class Rerank(Http):
    path = "/v1/rerank"
    fields = {"raw": {"raw_scores": True}, "truncate": {"truncate_prompt_tokens": -1}, "flex": {"service_tier": "flex"},
              "dimensions": {"dimensions": 64}, "base64": {"encoding_format": "base64"}}

    def body(self, text):
        return {"model": "reranker", "query": "Where do cats sit?", "documents": both(text)}

    def read(self, answer):
        return [one["relevance_score"] for one in sorted(answer["results"], key=lambda one: one["index"])]


class Score(Rerank):
    path = "/v1/score"

    def body(self, text):
        return {"model": "reranker", "text_1": "Where do cats sit?", "text_2": both(text)}

    def read(self, answer):
        return [one["score"] for one in answer["data"]]


class Grpc:
    """`Embed` of tutti.v1."""
    fields = {"dimensions": {"dimensions": 64}, "raw": {"normalize": False}, "truncate": {"truncation": 2}}
    # Features whose field would have one of these names.
    names = {"ids": ("token_ids", "ids"), "base64": ("encoding_format",), "flex": ("priority", "service_tier"),
             "idempotency": ("idempotency_key",), "job": ("background", "prefer"), "batch": ("batch",)}
    whole = {}

    def __init__(self, pb, stub):
        self.pb, self.stub = pb, stub

    def has(self, feature):
        return any(name in self.pb.EmbedRequest.DESCRIPTOR.fields_by_name for name in self.names[feature])

    def late(self):
        return self.ask(text=MANY, timeout=0.001)

    def ask(self, feature=None, text=TEXTS[0], timeout=STEP_S):
        request = self.pb.EmbedRequest(model=EMBEDDER, texts=text if isinstance(text, list) else [text], **self.fields.get(feature, {}))
        try:
            answer = self.stub.Embed(request, timeout=timeout)
        except grpc.RpcError as error:
            trailers = dict(error.trailing_metadata() or ())
            return Reply(error={"code": trailers.get("tutti-error-code", error.code().name.lower()), "message": error.details()})
        return Reply(answer.vectors[0].values)


KINDS = {"embeddings": Embeddings, "tei": Tei, "ollama": Ollama, "kserve": Kserve, "rerank": Rerank, "score": Score}
SCORES = ("rerank", "score")


@grpc_streams()
class Encoders(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        reranker = pathlib.Path(folder.name, "reranker")
        reranker.mkdir()
        encoder_models.write_cross_encoder(reranker)
        cls.server = Server(f"reranker={reranker}", "--store", os.path.join(folder.name, "store"), "--cache-embeddings", "on", "--strict", "on",
                            "--encode-dimensions", "any", "--grpc-port", str(free_port()), model=EMBEDDER)
        cls.addClassCleanup(cls.server.stop)
        cls.server.wait_models(2)
        cls.ids = json.loads(cls.server.post("/tokenize", {"model": EMBEDDER, "prompt": TEXTS[0]})[2])["tokens"]
        pb, stub = compiled("tutti/v1/tutti.proto", cls.addClassCleanup)
        channel = grpc.insecure_channel(re.search(r"grpc://([0-9.:]+)", "".join(cls.server.output) + cls.server.log()).group(1))
        cls.addClassCleanup(channel.close)
        cls.apis = {name: kind(cls.server) for name, kind in KINDS.items()}
        cls.apis["grpc"] = Grpc(pb, stub.TuttiStub(channel))

    def send(self, name, feature):
        api = self.apis[name]
        if feature == "deadline":
            return api.late()
        if feature == "ids":
            return api.ask(text=self.ids)
        return api.ask(feature)

    def works(self, name, feature):
        if feature == "truncate":
            api = self.apis[name]
            self.assertEqual(api.ask(text=LONG, **api.whole).error["code"], "context_length_exceeded")
            reply = api.ask(feature, text=LONG)
            self.assertIsNone(reply.error)
            self.assertEqual(len(reply.values), 2 if name in SCORES else encoder_models.WIDTH)
            return
        reply = self.send(name, feature)
        if feature == "deadline":
            self.assertIsNotNone(reply.error)
            self.assertEqual(reply.error["code"], "deadline_exceeded")
            return
        self.assertIsNone(reply.error)
        plain = self.apis[name].ask().values
        if feature == "dimensions":
            self.assertEqual(len(reply.values), 64)
            self.assertAlmostEqual(sum(value * value for value in reply.values), 1, places=4)
        elif feature == "raw":
            self.assertNotEqual(reply.values, plain)
        else:
            self.assertEqual(len(reply.values), len(plain))
            for value, same in zip(reply.values, plain):
                self.assertAlmostEqual(value, same, places=6)  # text has fewer digits than float32
        getattr(self, "check_" + feature, lambda *_: None)(name, reply)

    def check_idempotency(self, name, reply):
        key = uuid.uuid4().hex
        first, again = (self.apis[name].ask(headers={"Idempotency-Key": key}) for _ in range(2))
        self.assertEqual((again.headers.get("Idempotency-Replayed"), again.raw), ("true", first.raw))

    def check_job(self, name, reply):
        self.assertEqual(reply.status, 202)

    def check_batch(self, name, reply):
        self.assertTrue(reply.of)

    def check_embedding_cache(self, name, reply):
        def hits():
            return self.server.metric("tutti_cache_lookups_total", cache="embedding", outcome="hit")
        before = hits()
        self.assertEqual(self.apis[name].ask().values, reply.values)
        self.assertEqual(hits(), before + (2 if name in SCORES else 1))

    def refused(self, name, feature, code):
        reply = self.send(name, feature)
        self.assertIsNotNone(reply.error)
        self.assertEqual(reply.error["code"], code, reply.error)

    def absent(self, name, feature):
        """Nothing of the API asks for the feature, or what does is not read."""
        if name == "grpc":
            self.assertFalse(self.apis[name].has(feature))
            return
        reply = self.send(name, feature)
        self.assertEqual((reply.status, reply.error, reply.of), (200, None, None))

    def test_a_text_has_one_vector(self):
        vectors = [self.apis[name].ask().values for name in self.apis if name not in SCORES]
        for vector in vectors[1:]:
            for value, same in zip(vector, vectors[0]):
                self.assertAlmostEqual(value, same, places=6)


def of_cell(feature, api):
    key = f"{feature} + {api}"
    if key in DATA["encoder_refused"]:
        return lambda self: self.refused(api, feature, DATA["encoder_refused"][key][0])
    if key in DATA["encoder_absent"]:
        return lambda self: self.absent(api, feature)
    return lambda self: self.works(api, feature)


for one, other in feature_page.encoder_cells(DATA):
    setattr(Encoders, f"test_{one}_over_{other}", of_cell(one, other))


class Page(unittest.TestCase):
    def test_each_cell_has_its_test(self):
        cells = feature_page.encoder_cells(DATA)
        self.assertEqual(len(cells), 77)
        self.assertEqual({api for _, api in cells}, {*KINDS, "grpc"})
        for feature, api in cells:
            self.assertTrue(callable(getattr(Encoders, f"test_{feature}_over_{api}")))


if __name__ == "__main__":
    unittest.main()
