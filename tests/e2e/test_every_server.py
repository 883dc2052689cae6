"""The same constraint and the same tools through every API (R04, R05): one question, the same tokens."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import grpc
import jsonschema
from grpc_tools import protoc

from harness import MODEL, STEP_S, RealModel, default_model, free_port, grpc_streams
from test_chat_socket import Talk
from test_jobs import ended, submit
from test_mqtt import Chat, mqtt_port, serve

ROOT = pathlib.Path(__file__).resolve().parents[2]
QUESTION = "Where is it warm?"
SAMPLING = {"temperature": 0.7, "seed": 3}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 20}, "unit": {"enum": ["C", "F"]}},
          "required": ["city", "unit"], "additionalProperties": False}
GRAMMAR = 'root ::= "a" [0-9]{2}'
# Each constraint as a field of HTTP, as a field of gRPC, and as options of `tutti run`.
CONSTRAINTS = {
    "schema": ({"guided_json": SCHEMA}, {"json_schema": json.dumps(SCHEMA)}, ("--json-schema", json.dumps(SCHEMA))),
    "object": ({"format": "json"}, {"json_object": True}, None),
    "regex": ({"guided_regex": "(yes|no), [a-z]{3,9}"}, {"regex": "(yes|no), [a-z]{3,9}"}, ("--regex", "(yes|no), [a-z]{3,9}")),
    "choice": ({"guided_choice": ["lemon", "winter"]}, {"choice": {"values": ["lemon", "winter"]}},
               ("--choice", "lemon", "--choice", "winter")),
    "grammar": ({"grammar": GRAMMAR}, {"grammar": GRAMMAR}, ("--grammar", GRAMMAR)),
}
TOOL = {"name": "get_weather", "description": "Current weather at a place", "parameters": {
    "type": "object", "properties": {"city": {"enum": ["Oslo", "Rome"]}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
    "required": ["city", "days"], "additionalProperties": False}}
NESTED_TOOLS = {"tools": [{"type": "function", "function": TOOL}], "tool_choice": "required", "parallel_tool_calls": False}
FLAT_TOOLS = {"tools": [{"type": "function", **TOOL}], "tool_choice": "required", "parallel_tool_calls": False}


def output_text(response):
    return "".join(part["text"] for item in response["output"] if item["type"] == "message" for part in item["content"])


def output_calls(response):
    return [(item["name"], item["arguments"]) for item in response["output"] if item["type"] == "function_call"]


@grpc_streams()
class EveryServer(RealModel, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        assert protoc.main(["protoc", f"-I{ROOT / 'proto'}", f"--python_out={folder.name}", f"--grpc_python_out={folder.name}",
                            "tutti/v1/tutti.proto"]) == 0
        sys.path.insert(0, folder.name)
        cls.addClassCleanup(sys.path.remove, folder.name)
        from tutti.v1 import tutti_pb2, tutti_pb2_grpc
        cls.pb = tutti_pb2
        cls.server = serve(options=("--grpc-port", str(free_port())))
        cls.addClassCleanup(cls.server.stop)
        address = re.search(r"grpc://([0-9.:]+)", "".join(cls.server.output) + cls.server.log()).group(1)
        channel = grpc.insecure_channel(address)
        cls.addClassCleanup(channel.close)
        cls.stub = tutti_pb2_grpc.TuttiStub(channel)
        cls.turns = 0

    def chat(self, **more):
        body = {"model": MODEL, "messages": [{"role": "user", "content": QUESTION}], "max_tokens": 120, **SAMPLING, **more}
        return self.server.post_json("/v1/chat/completions", body)["choices"][0]

    def over_grpc(self, conversation=None, **more):
        request = self.pb.GenerateRequest(
            model=MODEL, max_tokens=120, **SAMPLING, **more,
            conversation={"messages": [{"role": "user", "content": QUESTION}], **(conversation or {})})
        text, calls, reason = "", [], ""
        for piece in self.stub.Generate(request, timeout=STEP_S):
            text += piece.text
            reason += piece.finish_reason
            for delta in piece.tool_calls:
                if delta.index == len(calls):
                    calls.append(["", ""])
                calls[delta.index][0] += delta.name
                calls[delta.index][1] += delta.arguments
        return text, [tuple(call) for call in calls], reason

    def turn(self, talk, session=None, question=QUESTION, **more):
        """The response of one message over WebSocket, or over MQTT where `talk` is such a client."""
        type(self).turns += 1
        fields = {"max_output_tokens": 120, **SAMPLING, **more}
        if isinstance(talk, Chat):
            talk.say(question, f"m-{self.turns}", **fields)
            return talk.turn()[-1]["response"]
        talk.message(session or f"s-{self.turns}", f"m-{self.turns}", question, **fields)
        return json.loads(talk.texts()[-1])["response"]

    def run_once(self, *options):
        done = subprocess.run([os.environ["E2E_BINARY"], "run", default_model(), "-p", QUESTION, "-n", "120", "--temperature", "0.7",
                               "--seed", "3", *options], capture_output=True, timeout=STEP_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.decode()  # not text=True, which takes "\n" for "\r\n"

    def file(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return str(path)

    def test_a_constraint_gives_the_same_tokens_over_each(self):
        for kind, (http, over_grpc, options) in CONSTRAINTS.items():
            with self.subTest(kind):
                choice = self.chat(**http)
                text = choice["message"]["content"]
                self.assertNotEqual(text, self.chat()["message"]["content"])
                job = ended(self.server, submit(self.server, {
                    "model": MODEL, "messages": [{"role": "user", "content": QUESTION}], "max_tokens": 120, **SAMPLING, **http})["id"])
                self.assertEqual(job["result"]["choices"][0]["message"]["content"], text, "as a job")
                self.assertEqual(self.over_grpc(**over_grpc), (text, [], choice["finish_reason"]), "over gRPC")
                with Talk(self.server) as talk:
                    self.assertEqual(output_text(self.turn(talk, **http)), text, "over WebSocket")
                chat = Chat(mqtt_port(self.server), "ada", f"s-{kind}")
                self.addCleanup(chat.close)
                self.assertEqual(output_text(self.turn(chat, **http)), text, "over MQTT")
                if options is None:
                    continue
                if kind == "grammar":
                    options = (options[0], self.file("grammar.gbnf", options[1]))
                self.assertEqual(self.run_once(*options), text + "\n", "by `tutti run`")

    def test_kserve_parameters_constrain_as_completions_do(self):
        for kind, (http, _, _) in CONSTRAINTS.items():
            with self.subTest(kind):
                text = self.server.post_json("/v1/completions", {"model": MODEL, "prompt": QUESTION, "max_tokens": 120, **SAMPLING,
                                                                 **http})["choices"][0]["text"]
                answer = self.server.post_json(f"/v2/models/{MODEL}/generate", {
                    "text_input": QUESTION, "exclude_input_in_output": True,
                    "sampling_parameters": json.dumps({"max_tokens": 120, **SAMPLING, **http})})
                self.assertEqual(answer["text_output"], text)

    def test_a_tool_is_called_alike_over_each(self):
        message = self.chat(**NESTED_TOOLS)["message"]
        calls = [(call["function"]["name"], call["function"]["arguments"]) for call in message["tool_calls"]]
        self.assertEqual(calls[0][0], TOOL["name"])
        jsonschema.validate(json.loads(calls[0][1]), TOOL["parameters"])
        tools = {"tools": [{**TOOL, "parameters": json.dumps(TOOL["parameters"])}],
                 "tool_choice": {"mode": "REQUIRED"}, "parallel_tool_calls": False}
        self.assertEqual(self.over_grpc(tools), ("", calls, "tool_calls"))
        with Talk(self.server) as talk:
            self.assertEqual(output_calls(self.turn(talk, **FLAT_TOOLS)), calls)
        chat = Chat(mqtt_port(self.server), "ada", "tools")
        self.addCleanup(chat.close)
        self.assertEqual(output_calls(self.turn(chat, **FLAT_TOOLS)), calls)
        for tools in (NESTED_TOOLS["tools"], NESTED_TOOLS):  # a list, or a request's body
            printed = self.run_once("--tools", self.file("tools.json", json.dumps(tools)), "--tool-choice", "required")
            first = json.loads(printed.splitlines()[0])
            self.assertEqual((first["name"], first["arguments"]), (calls[0][0], json.loads(calls[0][1])))

    def test_a_session_takes_the_result_of_its_call(self):
        result = lambda call_id: [{"type": "function_call_output", "call_id": call_id, "output": "9 degrees"}]
        chat = Chat(mqtt_port(self.server), "ada", "loop")
        self.addCleanup(chat.close)
        texts = []
        with Talk(self.server) as talk:
            for client in (talk, chat):
                called = self.turn(client, "loop-ws", **FLAT_TOOLS)
                call = next(item for item in called["output"] if item["type"] == "function_call")
                answer = self.turn(client, "loop-ws", result(call["call_id"]), **{**FLAT_TOOLS, "tool_choice": "none"})
                self.assertEqual(output_calls(answer), [])
                texts.append(output_text(answer))
        self.assertTrue(texts[0])
        self.assertEqual(texts[0], texts[1])
        # The prompt held the call and its result: the same dialog over chat completions has the same words.
        arguments = call["arguments"]
        told = self.chat(**{**NESTED_TOOLS, "tool_choice": "none"}, messages=[
            {"role": "user", "content": QUESTION},
            {"role": "assistant", "content": None, "tool_calls": [
                {"id": call["call_id"], "type": "function", "function": {"name": call["name"], "arguments": arguments}}]},
            {"role": "tool", "tool_call_id": call["call_id"], "content": "9 degrees"}])
        self.assertEqual(told["message"]["content"], texts[0])

    def test_wrong_options_of_run_are_refused_with_their_name(self):
        def refusal(*options):
            done = subprocess.run([os.environ["E2E_BINARY"], "run", default_model(), "-p", "x", "-n", "2", *options],
                                  capture_output=True, text=True, timeout=STEP_S)
            self.assertNotEqual(done.returncode, 0)
            self.assertEqual(done.stdout, "")
            return done.stderr

        self.assertIn("--regex", refusal("--regex", "("))
        self.assertIn("--json-schema", refusal("--json-schema", "no such file"))
        self.assertIn("uniqueItems", refusal("--json-schema", '{"uniqueItems": true}'))
        self.assertIn("--tools", refusal("--tools", self.file("broken.json", "[{]")))
        self.assertIn("tools[0]", refusal("--tools", '[{"type": "web_search"}]'))
        self.assertIn("tool_choice", refusal("--tools", json.dumps(NESTED_TOOLS["tools"]), "--tool-choice", "another"))
        self.assertIn("excludes", refusal("--regex", "a", "--choice", "b"))
        self.assertIn("--raw", refusal("--raw", "--tools", json.dumps(NESTED_TOOLS["tools"])))


if __name__ == "__main__":
    unittest.main()
