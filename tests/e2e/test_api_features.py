"""Each feature of a request through each API, as the second matrix of docs/features.md has it: answered and checked, or refused (N64, R44).

One strict server, so that a field that an API does not have is refused and not ignored. tests/features.toml lists what is refused.
"""
import importlib
import json
import os
import pathlib
import re
import sys
import tempfile
import time
import unittest
import uuid

import grpc
import jsonschema
from grpc_tools import protoc

import lora_files
from harness import MODEL, STAND_IN_AT_START, STEP_S, events, eventually, free_port, grpc_streams, use_stand_in
from test_features import DATA, ENDED, LORA, PARAMETERS, QUESTION, SCHEMA, feature_page
from test_mqtt import Chat, mqtt_port, serve
from test_websocket import Client

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = {"name": "get_weather", "parameters": PARAMETERS}
TOKENS = 24


def compiled(proto, cleanup):
    """The Python modules of a file of proto/: messages and stubs."""
    folder = tempfile.TemporaryDirectory()
    cleanup(folder.cleanup)
    assert protoc.main(["protoc", f"-I{ROOT / 'proto'}", f"--python_out={folder.name}", f"--grpc_python_out={folder.name}", proto]) == 0
    sys.path.insert(0, folder.name)
    cleanup(sys.path.remove, folder.name)
    name = proto.removesuffix(".proto").replace("/", ".")
    return importlib.import_module(name + "_pb2"), importlib.import_module(name + "_pb2_grpc")


class Reply:
    def __init__(self, status=200, texts=(), calls=(), pieces=0, error=None, headers=None, raw=None, of=None):
        self.status, self.texts, self.calls, self.pieces, self.error = status, list(texts), list(calls), pieces, error
        self.headers, self.raw, self.of = headers or {}, raw, of


class Http:
    """An API over HTTP: how a request, each feature and an answer look. `read` and `piece` return (texts, calls) of a body or an event."""
    path = batch_path = None
    fields = {}  # feature: fields of the body
    tokens = "max_tokens"

    def __init__(self, server):
        self.server = server

    @property
    def long(self):
        return {"ignore_eos": True, self.tokens: 400}

    def body(self, seed):
        return {"model": MODEL, self.tokens: TOKENS, "seed": seed, "temperature": 0.8, **self.prompt}

    def ask(self, *features, seed=None, headers=None, **more):
        seed = uuid.uuid4().int % 2**40 if seed is None else seed
        body, headers = self.body(seed), {"Cache-Control": "no-store", **(headers or {})}
        for feature in features:
            merge(body, self.fields.get(feature, {}))
        merge(body, more)
        if "response_cache" in features:
            headers.pop("Cache-Control")
        if "job" in features:
            headers["Prefer"] = "respond-async"
        if "batch" in features:
            return self.batch(body)
        status, fields, text = self.server.post(self.target(body), body, headers=headers)
        if status == 202:
            return self.wait(json.loads(text)["id"])
        if status != 200:
            return Reply(status, error=self.error(json.loads(text), fields), headers=fields)
        if fields["Content-Type"].startswith(("text/event-stream", "application/x-ndjson")):
            return self.joined(text, fields)
        return self.whole(json.loads(text), fields)

    def late(self):
        """With a deadline that cannot be met."""
        return self.ask(headers={"X-Request-Timeout-Ms": "1"}, **self.long)

    def target(self, body):
        return self.path

    def error(self, body, headers):
        error = body.get("error", body)
        if isinstance(error, dict) and "code" not in error and isinstance(error.get("message"), str):
            error = {**error, "code": headers.get("x-tutti-error-code")}
        return error if isinstance(error, dict) and "code" in error else {
            "code": headers.get("x-tutti-error-code"), "param": None, "message": str(error)}

    def whole(self, body, headers=None):
        texts, calls = self.read(body)
        return Reply(texts=texts, calls=calls, headers=headers, raw=body)

    def joined(self, text, headers):
        told = [json.loads(re.sub(r"^(?:event: .*\n)?data: ", "", event)) for event in self.split(text) if not event.endswith("[DONE]")]
        failed = next((event for event in told if event.get("error")), None)
        if failed:
            return Reply(error=self.error(failed, headers), headers=headers)
        return Reply(texts=["".join(self.piece(event) for event in told)], pieces=len(told), headers=headers, raw=told)

    def split(self, text):
        return events(text)

    def wait(self, job_id):
        found = {}

        def over():
            found.update(json.loads(self.server.get(f"/v1/jobs/{job_id}?wait=20")[2]))
            return found["status"] in ENDED
        eventually(over, lambda: str(found))
        reply = self.whole(found["result"]) if found.get("result") else Reply(error=found["error"])
        reply.status, reply.of = 202, job_id
        return reply

    def batch(self, body):
        path = self.batch_path or self.path
        line = {"custom_id": "a", "method": "POST", "url": path, "body": body}
        mark = uuid.uuid4().hex
        form = "".join(f'--{mark}\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n{value}\r\n' for name, more, value in (
            ("purpose", "", "batch"), ("file", '; filename="in.jsonl"', json.dumps(line)))) + f"--{mark}--\r\n"
        file = json.loads(self.server.post("/v1/files", form, headers={"Content-Type": f"multipart/form-data; boundary={mark}"})[2])
        status, headers, text = self.server.post("/v1/batches", {"input_file_id": file["id"], "endpoint": path, "completion_window": "24h"})
        batch = json.loads(text)
        if status != 200:
            return Reply(status, error=batch["error"])
        end = time.monotonic() + STEP_S
        while batch["status"] not in ENDED and time.monotonic() < end:
            time.sleep(0.02)
            batch = json.loads(self.server.get(f"/v1/batches/{batch['id']}")[2])
        out = batch.get("output_file_id") or batch.get("error_file_id")
        if out is None:
            return Reply(error=batch["errors"]["data"][0])
        response = json.loads(self.server.get(f"/v1/files/{out}/content")[2].splitlines()[0])["response"]
        if response["status_code"] != 200:
            return Reply(response["status_code"], error=response["body"]["error"])
        reply = self.whole(response["body"])
        reply.of = batch["id"]
        return reply


def merge(body, fields):
    for name, value in fields.items():
        if isinstance(value, dict) and isinstance(body.get(name), dict):
            merge(body[name], value)
        else:
            body[name] = value


COMMON = {"stream": {"stream": True}, "lora": {"model": LORA}, "flex": {"service_tier": "flex"}, "n": {"n": 2}}
MESSAGES = {"messages": [{"role": "user", "content": QUESTION}]}
NESTED = {"tools": [{"type": "function", "function": TOOL}], "tool_choice": "required", "parallel_tool_calls": False, "max_tokens": 80}


class ChatCompletions(Http):
    path = "/v1/chat/completions"
    prompt = MESSAGES
    fields = {**COMMON, "logprobs": {"logprobs": True}, "schema": {"guided_json": SCHEMA, "max_tokens": 60}, "tools": NESTED}

    def read(self, body):
        return ([choice["message"]["content"] for choice in body["choices"]],
                [(call["function"]["name"], call["function"]["arguments"]) for choice in body["choices"]
                 for call in choice["message"].get("tool_calls") or ()])

    def piece(self, event):
        return "".join(choice["delta"].get("content") or "" for choice in event["choices"])

    def logprobs(self, raw):
        return [token["logprob"] for token in raw["choices"][0]["logprobs"]["content"]]


class Completions(ChatCompletions):
    path = "/v1/completions"
    prompt = {"prompt": QUESTION}
    fields = {**ChatCompletions.fields, "logprobs": {"logprobs": 2}}

    def read(self, body):
        return [choice["text"] for choice in body["choices"]], []

    def piece(self, event):
        return "".join(choice["text"] for choice in event["choices"])

    def logprobs(self, raw):
        return raw["choices"][0]["logprobs"]["token_logprobs"]


class Generate(Http):
    path = "/generate"
    prompt = {**MESSAGES, "stream": False}
    fields = {**ChatCompletions.fields, "logprobs": {"logprobs": True}}

    def read(self, body):
        return [body.get("text") or body.get("response") or ""], [(call["function"]["name"], call["function"]["arguments"])
                                                                  for call in body.get("tool_calls") or ()]

    def piece(self, event):
        return event.get("text") or event.get("token") or event.get("response") or ""


class Responses(Http):
    path = "/v1/responses"
    prompt = {"input": QUESTION, "store": False}
    tokens = "max_output_tokens"
    fields = {**COMMON, "logprobs": {"include": ["message.output_text.logprobs"], "top_logprobs": 2},
              "schema": {"text": {"format": {"type": "json_schema", "name": "river", "schema": SCHEMA}}, "max_output_tokens": 60},
              "tools": {"tools": [{"type": "function", **TOOL}], "tool_choice": "required", "parallel_tool_calls": False, "max_output_tokens": 80},
              "job": {"background": True, "store": True}, "batch": {"store": True}}

    def whole(self, body, headers=None):
        end = time.monotonic() + STEP_S
        while body["status"] in ("queued", "in_progress") and time.monotonic() < end:
            time.sleep(0.01)
            body = json.loads(self.server.get(f"/v1/responses/{body['id']}")[2])
        return super().whole(body, headers)

    def read(self, body):
        parts = [part for item in body["output"] if item["type"] == "message" for part in item["content"]]
        return (["".join(part["text"] for part in parts)],
                [(item["name"], item["arguments"]) for item in body["output"] if item["type"] == "function_call"])

    def piece(self, event):
        return event["delta"] if event["type"] == "response.output_text.delta" else ""

    def logprobs(self, raw):
        return [token["logprob"] for item in raw["output"] for part in item["content"] for token in part["logprobs"]]


class Messages(Http):
    path = "/v1/messages"
    prompt = MESSAGES
    fields = {**COMMON, "logprobs": {"logprobs": True}, "schema": {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}},
                                                                   "max_tokens": 60},
              "tools": {"tools": [{"name": TOOL["name"], "input_schema": PARAMETERS}],
                        "tool_choice": {"type": "any", "disable_parallel_tool_use": True}, "max_tokens": 80}}

    def read(self, body):
        return (["".join(block["text"] for block in body["content"] if block["type"] == "text")],
                [(block["name"], json.dumps(block["input"])) for block in body["content"] if block["type"] == "tool_use"])

    def piece(self, event):
        return event["delta"].get("text", "") if event["type"] == "content_block_delta" else ""

    def batch(self, body):
        """Batches of its own."""
        status, _, text = self.server.post("/v1/messages/batches", {"requests": [{"custom_id": "a", "params": body}]})
        batch = json.loads(text)
        assert status == 200, text
        end = time.monotonic() + STEP_S
        while batch["processing_status"] != "ended" and time.monotonic() < end:
            time.sleep(0.02)
            batch = json.loads(self.server.get(f"/v1/messages/batches/{batch['id']}")[2])
        result = json.loads(self.server.get(f"/v1/messages/batches/{batch['id']}/results")[2].splitlines()[0])["result"]
        reply = self.whole(result["message"])
        reply.of = batch["id"]
        return reply


class Ollama(Http):
    path = "/api/chat"
    fields = {**COMMON, "logprobs": {"logprobs": True, "top_logprobs": 1}, "schema": {"format": SCHEMA, "options": {"num_predict": 60}},
              "tools": {"tools": [{"type": "function", "function": TOOL}], "options": {"num_predict": 80}}}

    long = {"options": {"num_predict": 400}}

    def body(self, seed):
        return {"model": MODEL, "stream": False, "options": {"num_predict": TOKENS, "seed": seed, "temperature": 0.8}, **MESSAGES}

    def read(self, body):
        return ([body["message"]["content"]], [(call["function"]["name"], json.dumps(call["function"]["arguments"]))
                                               for call in body["message"].get("tool_calls") or ()])

    def split(self, text):
        return text.splitlines()

    def piece(self, event):
        return event["message"]["content"]

    def logprobs(self, raw):
        return [token["logprob"] for token in raw["logprobs"]]


class Kserve(Http):
    batch_path = f"/v2/models/{MODEL}/generate"
    fields = {**ChatCompletions.fields, "logprobs": {"logprobs": 2}, "schema": {"sampling_parameters": json.dumps({"guided_json": SCHEMA}),
                                                                                 "max_tokens": 60}}
    prompt = {"text_input": QUESTION, "exclude_input_in_output": True}

    def body(self, seed):
        return {"model": MODEL, "max_tokens": TOKENS, "seed": seed, "temperature": 0.8, **self.prompt}

    def target(self, body):
        return f"/v2/models/{body.pop('model')}/{'generate_stream' if body.pop('stream', False) else 'generate'}"

    def read(self, body):
        texts = body["text_output"]
        return texts if isinstance(texts, list) else [texts], []

    def piece(self, event):
        return event["text_output"]


class Grpc:
    """tutti.v1. A stream by nature."""
    # Features whose field would have one of these names.
    names = {"logprobs": ("logprobs", "top_logprobs"), "flex": ("priority", "service_tier"), "idempotency": ("idempotency_key",),
             "job": ("background", "prefer"), "batch": ("batch",)}

    def __init__(self, server, pb, stub):
        self.server, self.pb, self.stub = server, pb, stub

    def has(self, feature):
        return any(name in self.pb.GenerateRequest.DESCRIPTOR.fields_by_name for name in self.names[feature])

    def ask(self, *features, seed=None, deadline=False):
        fields = {"max_tokens": TOKENS}
        conversation = {"messages": [{"role": "user", "content": QUESTION}]}
        if "schema" in features:
            fields.update(json_schema=json.dumps(SCHEMA), max_tokens=60)
        if "n" in features:
            fields["n"] = 2
        if "tools" in features:
            conversation.update(tools=[{"name": TOOL["name"], "parameters": json.dumps(PARAMETERS)}], tool_choice={"mode": "REQUIRED"},
                                parallel_tool_calls=False)
            fields["max_tokens"] = 80
        if deadline:
            fields.update(ignore_eos=True, max_tokens=400)
        request = self.pb.GenerateRequest(model=LORA if "lora" in features else MODEL, seed=seed or uuid.uuid4().int % 2**40, temperature=0.8,
                                          conversation=conversation, **fields)
        texts, calls, pieces = {}, [], 0
        metadata = () if "response_cache" in features else (("cache-control", "no-store"),)
        try:
            stream = self.stub.Generate(request, timeout=0.001 if deadline else STEP_S, metadata=metadata)
            headers = dict(stream.initial_metadata())
            for piece in stream:
                pieces += 1
                texts[piece.choice] = texts.get(piece.choice, "") + piece.text
                for delta in piece.tool_calls:
                    if delta.index == len(calls):
                        calls.append(["", ""])
                    calls[delta.index][0] += delta.name
                    calls[delta.index][1] += delta.arguments
        except grpc.RpcError as error:
            return Reply(error={"code": error.code().name.lower(), "param": None, "message": error.details()})
        return Reply(texts=[texts[index] for index in sorted(texts)], calls=[tuple(call) for call in calls], pieces=pieces, headers=headers)


class Socket(Responses):
    """Responses over WebSocket."""
    batch_path = "/v1/ws"
    fields = {**Responses.fields, "idempotency": {"idempotency_key": "k"}}

    def ask(self, *features, seed=None, **more):
        if "batch" in features:
            return self.batch({})
        body = self.body(uuid.uuid4().int % 2**40 if seed is None else seed)
        for feature in features:
            merge(body, self.fields.get(feature, {}) if feature != "stream" else {})
        merge(body, more)
        return self.told(self.talk(body))

    def late(self):
        return self.ask(deadline_ms=1, **self.long)

    def talk(self, body):
        with Client(self.server) as client:
            client.say(type="response.create", **body)
            return client.answer()

    def told(self, told):
        last = told[-1]
        if "response" not in last:
            return Reply(last.get("status"), error=last.get("error", last))
        reply = self.whole(last["response"])
        deltas = [event["delta"] for event in told if event["type"] == "response.output_text.delta"]
        reply.pieces = len(deltas)
        if deltas:
            reply.texts = ["".join(deltas)]
        if last["response"].get("error"):
            reply.error = last["response"]["error"]
        return reply


class Mqtt(Socket):
    """A message of the native profile."""
    batch_path = "llm/v1/ada/s1/in"
    fields = {**Responses.fields, "schema": {"guided_json": SCHEMA, "max_output_tokens": 60}, "idempotency": {"idempotency_key": "k"}}
    count = 0

    def talk(self, body):
        type(self).count += 1
        chat = Chat(mqtt_port(self.server), "ada", f"s{self.count}")
        try:
            body = {name: value for name, value in body.items() if name not in ("store", "input")}
            chat.say(QUESTION, f"m{self.count}", **body)
            return chat.turn()
        finally:
            chat.close()


KINDS = {"completions": Completions, "generate": Generate, "responses": Responses, "messages": Messages, "ollama": Ollama, "kserve": Kserve,
         "socket": Socket, "mqtt": Mqtt}


@grpc_streams()
class Apis(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        use_stand_in(True)
        cls.addClassCleanup(use_stand_in, STAND_IN_AT_START)
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        adapter = os.path.join(folder.name, "tone.gguf")
        lora_files.write_gguf(adapter)
        cls.server = serve(folder.name, ("--lora", f"{LORA}={adapter}", "--cache-exact", "on", "--strict", "on",
                                         "--grpc-port", str(free_port())))
        cls.addClassCleanup(cls.server.stop)
        tutti_pb2, tutti_pb2_grpc = compiled("tutti/v1/tutti.proto", cls.addClassCleanup)
        channel = grpc.insecure_channel(re.search(r"grpc://([0-9.:]+)", "".join(cls.server.output) + cls.server.log()).group(1))
        cls.addClassCleanup(channel.close)
        cls.apis = {name: kind(cls.server) for name, kind in KINDS.items()}
        cls.apis["grpc"] = Grpc(cls.server, tutti_pb2, tutti_pb2_grpc.TuttiStub(channel))

    def send(self, name, feature, seed):
        """The reply to a request with this feature."""
        api = self.apis[name]
        if feature == "deadline":
            return api.ask(deadline=True) if name == "grpc" else api.late()
        if feature == "idempotency" and isinstance(api, Http) and not isinstance(api, Socket):
            return api.ask(seed=seed, headers={"Idempotency-Key": f"{name}-{seed}"})
        return api.ask(feature, seed=seed)

    def works(self, name, feature):
        seed = uuid.uuid4().int % 2**40
        reply = self.send(name, feature, seed)
        if feature == "deadline":
            self.assertIsNotNone(reply.error)
            self.assertEqual(reply.error["code"], "deadline_exceeded", reply.error)
            return
        self.assertIsNone(reply.error)
        getattr(self, "check_" + feature)(name, reply, seed)
        if feature not in ("n", "schema", "tools", "lora"):
            self.assertEqual(reply.texts, self.apis[name].ask(seed=seed).texts)

    def check_stream(self, name, reply, seed):
        self.assertGreater(reply.pieces, 1)

    def check_n(self, name, reply, seed):
        self.assertEqual(len(set(reply.texts)), 2, reply.texts)

    def check_logprobs(self, name, reply, seed):
        found = self.apis[name].logprobs(reply.raw)
        self.assertGreater(len(found), 4)
        self.assertTrue(all(number <= 0 for number in found), found)

    def check_schema(self, name, reply, seed):
        jsonschema.validate(json.loads(reply.texts[0]), SCHEMA)

    def check_tools(self, name, reply, seed):
        if name == "ollama":  # which cannot ask for a call: the prompt has the tool
            self.assertGreater(reply.raw["prompt_eval_count"], self.apis[name].ask(seed=seed).raw["prompt_eval_count"] + 20)
            return
        ((called, arguments),) = reply.calls
        self.assertEqual(called, TOOL["name"])
        jsonschema.validate(json.loads(arguments), PARAMETERS)

    def check_lora(self, name, reply, seed):
        self.assertNotEqual(reply.texts, self.apis[name].ask(seed=seed).texts)

    def check_flex(self, name, reply, seed):
        """That the server is strict shows that the field is known; the answer is the same."""

    def check_idempotency(self, name, reply, seed):
        again = self.send(name, "idempotency", seed)
        self.assertEqual((again.headers.get("Idempotency-Replayed"), again.raw), ("true", reply.raw))

    def check_job(self, name, reply, seed):
        if name == "responses":
            self.assertIs(reply.raw["background"], True)
        else:
            self.assertEqual(reply.status, 202)

    def check_batch(self, name, reply, seed):
        self.assertTrue(reply.of)

    def hits(self):
        return self.server.metric("tutti_cache_lookups_total", cache="exact", outcome="hit")

    def check_response_cache(self, name, reply, seed):
        before = self.hits()
        again = self.apis[name].ask("response_cache", seed=seed)
        self.assertEqual(again.texts, reply.texts)
        self.assertEqual(self.hits(), before + 1)
        if name not in ("socket", "mqtt"):
            self.assertEqual((reply.headers["x-cache"], again.headers["x-cache"]), ("miss", "hit"))

    def refused(self, name, feature, code):
        reply = self.send(name, feature, 1)
        self.assertIsNotNone(reply.error, reply.texts)
        self.assertEqual(reply.error["code"], code, reply.error)

    def absent(self, name, feature):
        """Nothing of the API asks for the feature, or what does is not read."""
        if name == "grpc":
            self.assertFalse(self.apis[name].has(feature))
            return
        seed = uuid.uuid4().int % 2**40
        reply, again = (self.send(name, feature, seed) for _ in range(2))
        self.assertEqual((reply.status, reply.error), (200, None))
        self.assertEqual(reply.texts, again.texts)
        self.assertNotIn("Idempotency-Replayed", again.headers)
        self.assertIsNone(reply.of)

    def test_one_question_has_one_answer(self):
        for names in (("generate", "responses", "messages", "ollama", "grpc", "socket", "mqtt"), ("completions", "kserve")):
            self.assertEqual(len({tuple(self.apis[name].ask(seed=77).texts) for name in names}), 1, names)


def of_cell(feature, api):
    key = f"{feature} + {api}"
    if key in DATA["api_refused"]:
        return lambda self: self.refused(api, feature, DATA["api_refused"][key][0])
    if key in DATA["api_absent"]:
        return lambda self: self.absent(api, feature)
    return lambda self: self.works(api, feature)


for one, other in feature_page.api_cells(DATA):
    setattr(Apis, f"test_{one}_over_{other}", of_cell(one, other))


class Page(unittest.TestCase):
    def test_each_cell_has_its_test(self):
        cells = feature_page.api_cells(DATA)
        self.assertEqual(len(cells), 108)
        self.assertEqual({api for _, api in cells}, {*KINDS, "grpc"})
        for feature, api in cells:
            self.assertTrue(callable(getattr(Apis, f"test_{feature}_over_{api}")))


if __name__ == "__main__":
    unittest.main()
