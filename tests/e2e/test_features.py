"""Each pair of features of docs/features.md, as tests/features.toml lists them: computed together and checked, or refused (N64, R44).

A request with both features of a pair is sent; each feature checks its part of the answer, and the choices equal those of the same
request without what must not change them. Three servers: a plain one, one with a response cache and speculative decoding, and a frontend
with a worker.
"""
import copy
import json
import os
import pathlib
import re
import sys
import tempfile
import time
import unittest
import uuid

import jsonschema

import lora_files
from harness import MODEL, STEP_S, Server, events, eventually, stand_in
from test_workers import World

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import feature_page  # noqa: E402

DATA = feature_page.read(ROOT / "tests/features.toml")
CHAT = "/v1/chat/completions"
# With the template longer than a block of the prefix cache.
QUESTION = "Name three rivers of Europe and three of Asia, with the seas that they flow into."
SCHEMA = {"type": "object", "properties": {"river": {"enum": ["Rhine", "Po", "Ob"]}, "km": {"type": "integer", "minimum": 1, "maximum": 9999}},
          "required": ["river", "km"], "additionalProperties": False}
PARAMETERS = {"type": "object", "properties": {"city": {"enum": ["Oslo", "Rome"]}}, "required": ["city"], "additionalProperties": False}
TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": PARAMETERS}}]
LORA = "tone"
ENDED = ("completed", "failed", "cancelled", "expired")


class Call:
    """A request, how it is sent, and where."""

    def __init__(self):
        self.body = {"model": MODEL, "messages": [{"role": "user", "content": QUESTION}], "max_tokens": 24,
                     "seed": uuid.uuid4().int % 2**40, "temperature": 0.8}
        # Each answer is computed: the response cache is a feature of its own.
        self.headers = {"Cache-Control": "no-store"}
        self.way = "at once"
        self.server = "plain"


def anew(call, **fields):
    """The same call with other fields, and without the key that would repeat its answer."""
    other = copy.deepcopy(call)
    other.body.update(fields)
    other.headers.pop("Idempotency-Key", None)
    return other


def cached_tokens(answer):
    return answer.whole["usage"]["prompt_tokens_details"]["cached_tokens"]


class Answer:
    """What came back, in one form for all ways of sending."""

    def __init__(self, status, headers=None, whole=None, error=None, chunks=0, of=None):
        self.status, self.headers, self.error, self.chunks = status, headers or {}, error, chunks
        self.of = of  # id of the job or batch
        self.whole = whole or {}
        self.choices = self.whole.get("choices", [])

    def said(self):
        """What must not differ between two ways to ask the same. Ids of calls are drawn anew."""
        return [(choice.get("finish_reason"), choice["message"].get("content") or "",
                 [(call["function"]["name"], call["function"]["arguments"]) for call in choice["message"].get("tool_calls") or ()])
                for choice in self.choices]


def joined(text):
    """The answer of a stream in the form of one that is not streamed."""
    chunks = [json.loads(event.removeprefix("data: ")) for event in events(text) if event != "data: [DONE]"]
    if failed := next((chunk for chunk in chunks if "error" in chunk), None):
        return Answer(200, error=failed["error"], chunks=len(chunks))
    choices = {}
    for chunk in chunks:
        for part in chunk["choices"]:
            choice = choices.setdefault(part["index"], {"index": part["index"], "message": {"content": ""}, "logprobs": None})
            choice["message"]["content"] += part["delta"].get("content") or ""
            for delta in part["delta"].get("tool_calls") or ():
                calls = choice["message"].setdefault("tool_calls", [])
                if delta["index"] == len(calls):
                    calls.append({"function": {"name": "", "arguments": ""}})
                for name, value in delta["function"].items():
                    calls[delta["index"]]["function"][name] += value
            if part.get("logprobs"):
                choice["logprobs"] = {"content": ((choice["logprobs"] or {}).get("content") or []) + part["logprobs"]["content"]}
            choice["finish_reason"] = part.get("finish_reason") or choice.get("finish_reason")
    whole = {**chunks[0], "choices": [choices[index] for index in sorted(choices)], "usage": chunks[-1].get("usage")}
    assert text.rstrip().endswith("data: [DONE]"), text[-200:]
    return Answer(200, whole=whole, chunks=len(chunks))


class Sender:
    """Sends calls to one server, whichever way they go."""

    def __init__(self, server):
        self.server = server

    def send(self, call):
        return {"at once": self.at_once, "job": self.job, "batch": self.batch}[call.way](call)

    def at_once(self, call):
        status, headers, text = self.server.post(CHAT, call.body, headers=call.headers)
        if status == 200 and headers["Content-Type"].startswith("text/event-stream"):
            answer = joined(text)
            answer.headers = headers
            return answer
        body = json.loads(text)
        return Answer(status, headers, body, body.get("error"))

    def job(self, call):
        status, headers, text = self.server.post(CHAT, call.body, headers=call.headers)
        body = json.loads(text)
        if status != 202:
            return Answer(status, headers, body, body.get("error"))
        found = {}

        def over():
            found.update(json.loads(self.server.get(f"/v1/jobs/{body['id']}?wait=20")[2]))
            return found["status"] in ENDED
        eventually(over, lambda: str(found))
        return Answer(status, headers, found.get("result"), found.get("error"), of=body["id"])

    def batch(self, call):
        line = {"custom_id": "a", "method": "POST", "url": CHAT, "body": call.body}
        mark = uuid.uuid4().hex
        form = "".join(f'--{mark}\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n{value}\r\n' for name, more, value in (
            ("purpose", "", "batch"), ("file", '; filename="in.jsonl"', json.dumps(line)))) + f"--{mark}--\r\n"
        file = json.loads(self.server.post("/v1/files", form, headers={"Content-Type": f"multipart/form-data; boundary={mark}"})[2])
        status, headers, text = self.server.post("/v1/batches", {"input_file_id": file["id"], "endpoint": CHAT, "completion_window": "24h"},
                                                 headers={name: value for name, value in call.headers.items() if name != "Cache-Control"})
        batch = json.loads(text)
        if "error" in batch and batch["error"]:
            return Answer(status, headers, error=batch["error"])
        end = time.monotonic() + STEP_S
        while batch["status"] not in ENDED and time.monotonic() < end:
            time.sleep(0.02)
            batch = json.loads(self.server.get(f"/v1/batches/{batch['id']}")[2])
        out = batch.get("output_file_id") or batch.get("error_file_id")
        if out is None:
            return Answer(status, headers, error=(batch.get("errors") or {}).get("data", [batch])[0])
        result = json.loads(self.server.get(f"/v1/files/{out}/content")[2].splitlines()[0])["response"]
        return Answer(status, headers, result["body"], result["body"].get("error"), of=batch["id"])


# --- the features: what they do to a call, and what they check in its answer ---

class Stream:
    changes = False

    def apply(self, call):
        call.body.update(stream=True, stream_options={"include_usage": True})

    def check(self, case, answer, call, send):
        case.assertGreater(answer.chunks, 2)


class Choices:
    changes = True

    def apply(self, call):
        call.body["n"] = 2

    def check(self, case, answer, call, send):
        case.assertEqual(len(answer.choices), 2)
        if "tools" not in call.body:  # whose few answers may be equal
            case.assertNotEqual(answer.said()[0], answer.said()[1])


class LogProbabilities:
    changes = False

    def apply(self, call):
        call.body.update(logprobs=True, top_logprobs=2)

    def check(self, case, answer, call, send):
        for choice in answer.choices:
            tokens = choice["logprobs"]["content"]
            case.assertTrue(tokens)
            case.assertTrue(all(token["logprob"] <= 0 and len(token["top_logprobs"]) == 2 for token in tokens), tokens)
            if not choice["message"].get("tool_calls"):
                case.assertEqual("".join(token["token"] for token in tokens if token["bytes"] is not None).count("\ufffd") > 0
                                 or "".join(token["token"] for token in tokens).startswith(choice["message"]["content"]), True)


class PromptLogProbabilities:
    changes = False

    def apply(self, call):
        call.body["prompt_logprobs"] = 1

    def check(self, case, answer, call, send):
        listed = answer.whole.get("prompt_logprobs") or answer.choices[0].get("prompt_logprobs")
        case.assertEqual(len(listed), answer.whole["usage"]["prompt_tokens"])


class Schema:
    changes = True

    def apply(self, call):
        call.body.update(response_format={"type": "json_schema", "json_schema": {"name": "river", "schema": SCHEMA}}, max_tokens=60)

    def check(self, case, answer, call, send):
        for choice in answer.choices:
            if not choice["message"].get("tool_calls"):
                jsonschema.validate(json.loads(choice["message"]["content"]), SCHEMA)


class ToolCalls:
    changes = True

    def apply(self, call):
        call.body.update(tools=TOOLS, tool_choice="required", parallel_tool_calls=False, max_tokens=80)

    def check(self, case, answer, call, send):
        for choice in answer.choices:
            (called,) = choice["message"]["tool_calls"]
            jsonschema.validate(json.loads(called["function"]["arguments"]), PARAMETERS)
            case.assertEqual(choice["finish_reason"], "tool_calls")


class Adapter:
    changes = True

    def apply(self, call):
        call.body["model"] = LORA

    def check(self, case, answer, call, send):
        case.assertEqual(answer.whole["model"], LORA)


class Flex:
    changes = False

    def apply(self, call):
        call.body["service_tier"] = "flex"

    def check(self, case, answer, call, send):
        case.assertEqual(answer.whole.get("service_tier"), "flex")


class Deadline:
    changes = False

    def apply(self, call):
        call.body["deadline_ms"] = 60_000

    def check(self, case, answer, call, send):
        """A deadline that cannot be met ends the same request."""
        late = anew(call, deadline_ms=1, messages=[{"role": "user", "content": QUESTION * 4 + uuid.uuid4().hex}])
        if not {"tools", "response_format"} & set(late.body):
            late.body.update(ignore_eos=True, max_tokens=1000)
        ended = send(late)
        case.assertTrue(ended.error, ended.whole)
        case.assertEqual(ended.error["code"], "deadline_exceeded", ended.error)


class Idempotency:
    changes = False

    def apply(self, call):
        call.headers["Idempotency-Key"] = uuid.uuid4().hex

    def check(self, case, answer, call, send):
        again = send(call)
        case.assertEqual(again.said(), answer.said())
        case.assertEqual(again.whole, answer.whole)
        if call.way == "job":
            case.assertEqual(again.of, answer.of)
        else:
            case.assertEqual(again.headers["Idempotency-Replayed"], "true")


class Job:
    changes = False

    def apply(self, call):
        call.way = "job"
        call.headers["Prefer"] = "respond-async"

    def check(self, case, answer, call, send):
        case.assertEqual(answer.status, 202)


class Batch:
    changes = False

    def apply(self, call):
        call.way = "batch"

    def check(self, case, answer, call, send):
        case.assertEqual(answer.status, 200)


class Prefix:
    changes = False

    def apply(self, call):
        call.body.update(cache_salt=uuid.uuid4().hex, explain_cache=True)

    def check(self, case, answer, call, send):
        """The second request finds the prompt of the first."""
        again = send(anew(call, seed=call.body["seed"] + 1) if call.server == "cached" else anew(call))
        if call.server != "cached":
            case.assertEqual(again.said(), answer.said())
        case.assertEqual(cached_tokens(answer), 0)
        case.assertGreaterEqual(cached_tokens(again), 16)


class ResponseCache:
    changes = False

    def apply(self, call):
        call.server = "cached"
        call.headers.pop("Cache-Control")

    def check(self, case, answer, call, send):
        again = send(anew(call))
        case.assertEqual(again.said(), answer.said())
        case.assertIs(again.whole["usage"].get("cached_response"), True, again.whole["usage"])
        if call.way == "at once":
            case.assertEqual((answer.headers["x-cache"], again.headers["x-cache"]), ("miss", "hit"))


class Speculation:
    changes = False

    def apply(self, call):
        call.server = "cached"
        call.body["prediction"] = {"type": "content", "content": "The Rhine, the Po and the Ob. " * 3}

    def check(self, case, answer, call, send):
        details = answer.whole["usage"]["completion_tokens_details"]
        case.assertGreaterEqual(details["accepted_prediction_tokens"], 0)
        case.assertIn("rejected_prediction_tokens", details)


class Workers:
    changes = False

    def apply(self, call):
        call.server = "workers"

    def check(self, case, answer, call, send):
        case.assertGreater(len(answer.choices), 0)


FEATURES = {"stream": Stream(), "n": Choices(), "logprobs": LogProbabilities(), "prompt_logprobs": PromptLogProbabilities(), "schema": Schema(),
            "tools": ToolCalls(), "lora": Adapter(), "flex": Flex(), "deadline": Deadline(), "idempotency": Idempotency(), "job": Job(),
            "batch": Batch(), "prefix": Prefix(), "response_cache": ResponseCache(), "speculation": Speculation(), "workers": Workers()}


class Pairs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        adapter = os.path.join(folder.name, "tone.gguf")
        lora_files.write_gguf(adapter)
        lora = ("--lora", f"{LORA}={adapter}")
        fast = ("--speculate", "ngram")
        cached = ("--cache-exact", "on")
        plain = Server("--store", os.path.join(folder.name, "plain"), *lora, model=stand_in())
        cls.addClassCleanup(plain.stop)
        both = Server("--store", os.path.join(folder.name, "cached"), *lora, *fast, *cached, model=stand_in())
        cls.addClassCleanup(both.stop)
        world = World(worker=(*lora, *fast, *cached), model=stand_in())
        cls.addClassCleanup(world.__exit__)
        cls.senders = {"plain": Sender(plain), "cached": Sender(both), "workers": Sender(world.frontend)}

    def call(self, first, second):
        call = Call()
        for name, feature in FEATURES.items():
            if name in (first, second):
                feature.apply(call)
        return call, self.senders[call.server].send

    def together(self, first, second):
        """Both features work in one request."""
        call, send = self.call(first, second)
        answer = send(call)
        self.assertIsNone(answer.error)
        for name in (first, second):
            if name not in SILENT.get((first, second), ()):
                FEATURES[name].check(self, answer, call, send)
        alone = Call()
        for name in (first, second):
            if FEATURES[name].changes:
                FEATURES[name].apply(alone)
        alone.body["seed"] = call.body["seed"]
        self.assertEqual(answer.said(), self.senders["plain"].send(alone).said())
        return call, answer, send

    def refused(self, first, second, code, param):
        call, send = self.call(first, second)
        answer = send(call)
        self.assertIsNotNone(answer.error, answer.whole)
        self.assertEqual((answer.error["code"], answer.error["param"]), (code, param), answer.error)
        self.assertEqual(answer.choices, [])

    def no_effect(self, first, second):
        """All but the checks of the feature that does nothing, and that it does nothing."""
        call, answer, send = self.together(first, second)
        again = send(call)
        self.assertEqual(again.said(), answer.said())
        if "prefix" in (first, second):
            self.assertEqual((cached_tokens(answer), cached_tokens(again)), (0, 0))
        elif "response_cache" in (first, second):
            self.assertEqual((answer.headers["x-cache"], again.headers["x-cache"]), ("bypass", "bypass"))
        elif "idempotency" in (first, second):
            self.assertNotIn("Idempotency-Replayed", again.headers)
            self.assertNotEqual((again.of, again.whole["id"]), (answer.of, answer.whole["id"]))
        else:
            self.assertEqual((first, second, answer.status), ("job", "batch", 200))


# The feature of a pair of [no_effect] whose own check does not hold.
SILENT = {tuple(key.split(" + ")): {name} for key, name in (
    ("stream + idempotency", "idempotency"), ("prompt_logprobs + prefix", "prefix"), ("tools + response_cache", "response_cache"),
    ("idempotency + batch", "idempotency"), ("job + batch", "job"))}


def of_pair(first, second):
    key = f"{first} + {second}"
    if key in DATA["refused"]:
        return lambda self: self.refused(first, second, *DATA["refused"][key])
    if key in DATA["no_effect"]:
        return lambda self: self.no_effect(first, second)
    return lambda self: self.together(first, second) and None


for one, other in feature_page.pairs(DATA):
    setattr(Pairs, f"test_{one}_with_{other}", of_pair(one, other))


class Page(unittest.TestCase):
    def test_the_page_is_written_from_the_data(self):
        self.assertEqual(feature_page.PAGE.read_text(), feature_page.text(DATA), "run tools/feature_page.py")

    def test_each_feature_has_its_test(self):
        self.assertEqual([feature["id"] for feature in DATA["feature"]], list(FEATURES))
        self.assertEqual({" + ".join(pair) for pair in SILENT}, set(DATA["no_effect"]))
        pairs = list(feature_page.pairs(DATA))
        self.assertEqual(len(pairs), 120)
        for first, second in pairs:
            self.assertTrue(callable(getattr(Pairs, f"test_{first}_with_{second}")))

    def test_named_tests_exist(self):
        sources = "".join(path.read_text() for folder in ("src", "tests") for path in (ROOT / folder).rglob("*_test.cc"))
        known = set(re.findall(r"\bTEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\s*\)", sources))
        named = [test for tests in DATA["also"].values() for test in tests]
        self.assertGreater(len(named), 20)
        for test in named:
            if ": " in test:
                file, name = test.split(": ")
                self.assertRegex((ROOT / "tests/e2e" / file).read_text(), rf"\n    def {name}\(")
            else:
                self.assertIn(tuple(test.split(".")), known)


if __name__ == "__main__":
    unittest.main()
