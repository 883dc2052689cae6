"""KServe v2 over HTTP through tritonclient, with its own readings of requests and answers: the built-in test models,
all-MiniLM-L6-v2 against reference vectors, and a decoder's generate and generate_stream, which that client does not
know."""
import http.client
import json
import unittest

import numpy
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException, serialize_byte_tensor

import encoder_models
from encoder_models import EMBEDDER
from harness import STEP_S, Server, amount, default_model, eventually

REFERENCES = encoder_models.vectors()
PARIS = "The capital of France is"


def tensor(name, array, datatype, binary=True):
    made = triton.InferInput(name, list(array.shape), datatype)
    made.set_data_from_numpy(array, binary_data=binary)
    return made


def texts(*values):
    return numpy.array([value.encode() if isinstance(value, str) else value for value in values], dtype=object)


class KserveCase(unittest.TestCase):
    """One server with an embedder, a decoder and the test models."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server("chat=" + default_model(), "--kserve-test-models", "on", model=f"{EMBEDDER}={EMBEDDER}:f32")
        cls.server.wait_models(2)
        cls.client = triton.InferenceServerClient(f"127.0.0.1:{cls.server.port}", connection_timeout=STEP_S,
                                                  network_timeout=STEP_S, concurrency=4)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        status = cls.server.stop()
        assert status == 0, f"exit status {status} after SIGTERM"

    def ask(self, path, body, headers=()):
        """Status, headers and body of a request that the client does not make."""
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=STEP_S)
        try:
            connection.request("POST", path, body, dict(headers))
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        finally:
            connection.close()

    def refused(self, call, *arguments, **options):
        """The text of the error that `call` ends with."""
        with self.assertRaises(InferenceServerException) as raised:
            call(*arguments, **options)
        return raised.exception.message()


class Shapes(KserveCase):
    """Answers have the fields, and these the types, that the Open Inference Protocol's OpenAPI description (version 2.0)
    demands. A shape here: {field: type or shape, [one] for lists}; a field whose name ends in ? may be missing."""
    TENSOR = {"name": str, "datatype": str, "shape": [int]}
    SERVER = {"name": str, "version": str, "extensions": [str]}
    MODEL = {"name": str, "versions?": [str], "platform": str, "inputs?": [TENSOR], "outputs?": [TENSOR]}
    OUTPUT = {**TENSOR, "data": [(int, float, str, bool, list)], "parameters?": dict}
    INFERENCE = {"model_name": str, "model_version?": str, "id?": str, "parameters?": dict, "outputs": [OUTPUT]}
    ERROR = {"error": str}

    def check(self, value, shape, where="answer"):
        if isinstance(shape, dict):
            self.assertIsInstance(value, dict, where)
            known = {field.rstrip("?"): field for field in shape}
            self.assertLessEqual({field for field in shape if not field.endswith("?")}, set(value), where)
            for field, found in value.items():
                self.assertIn(field, known, where)
                self.check(found, shape[known[field]], f"{where}.{field}")
        elif isinstance(shape, list):
            self.assertIsInstance(value, list, where)
            for i, one in enumerate(value):
                self.check(one, shape[0], f"{where}[{i}]")
        else:
            self.assertIsInstance(value, shape, where)

    def get(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=STEP_S)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()

    def test_answers_have_the_published_shapes(self):
        for path, shape in (("/v2/", self.SERVER), ("/v2/models/simple/versions/1", self.MODEL),
                            (f"/v2/models/{EMBEDDER}/versions/1", self.MODEL), ("/v2/models/chat/versions/1", self.MODEL)):
            status, answer = self.get(path)
            self.assertEqual(status, 200)
            self.check(answer, shape, path)
        for path in ("/v2/health/live", "/v2/health/ready", "/v2/models/simple/versions/1/ready"):
            self.assertEqual(self.get(path)[0], 200)
        self.check(self.get("/v2/models/none/versions/1")[1], self.ERROR)
        numbers = {"shape": [1, 16], "datatype": "INT32", "data": list(range(16))}
        asked = {"simple": [{"name": "INPUT0", **numbers}, {"name": "INPUT1", **numbers}],
                 "simple_identity": [{"name": "INPUT0", "shape": [1, 2], "datatype": "BYTES", "data": [["a", "b"]]}],
                 EMBEDDER: [{"name": "text", "shape": [1], "datatype": "BYTES", "data": ["a cat"]}]}
        for model, inputs in asked.items():
            body = json.dumps({"id": "42", "inputs": inputs, "outputs": []})
            status, _, answer = self.ask(f"/v2/models/{model}/versions/1/infer", body)
            self.assertEqual(status, 200, answer)
            self.check(json.loads(answer), self.INFERENCE, model)
        status, _, answer = self.ask("/v2/models/simple/versions/1/infer", json.dumps({"inputs": [numbers]}))
        self.assertEqual(status, 400)
        self.check(json.loads(answer), self.ERROR)


class WhatThereIs(KserveCase):
    def test_health_and_metadata_as_the_stock_example_asks_for_them(self):
        self.assertTrue(self.client.is_server_live())
        self.assertTrue(self.client.is_server_ready())
        for model in ("simple", EMBEDDER, "chat"):
            self.assertTrue(self.client.is_model_ready(model))
            self.assertTrue(self.client.is_model_ready(model, "1"))
            self.assertEqual(self.client.get_model_metadata(model)["name"], model)
        self.assertFalse(self.client.is_model_ready("simple", "2"))
        self.assertFalse(self.client.is_model_ready("none"))
        server = self.client.get_server_metadata()
        self.assertEqual(server["name"], "tutti")
        self.assertIn("binary_tensor_data", server["extensions"])
        simple = self.client.get_model_metadata("simple", "1")
        self.assertEqual(simple["inputs"][0], {"name": "INPUT0", "datatype": "INT32", "shape": [-1, 16]})
        self.assertEqual(self.client.get_model_config("simple")["max_batch_size"], 8)
        embedder = self.client.get_model_config(EMBEDDER, "1")
        self.assertEqual(embedder["output"][0]["dims"], [-1, encoder_models.WIDTH])
        for entry in embedder["input"]:  # perf_analyzer builds its requests from both
            self.assertIn(entry["name"], [each["name"] for each in self.client.get_model_metadata(EMBEDDER)["inputs"]])

    def test_a_wrong_name_says_so_in_the_words_that_clients_look_for(self):
        for call in (self.client.get_model_metadata, self.client.get_model_config, self.client.get_inference_statistics):
            self.assertEqual(self.refused(call, "wrong_model_name"),
                             "Request for unknown model: 'wrong_model_name' is not found")
        with self.assertRaises(InferenceServerException) as raised:
            self.client.infer("wrong_model_name", [tensor("INPUT0", numpy.zeros((1, 16), numpy.int32), "INT32")])
        self.assertEqual(raised.exception.status(), "404")
        self.assertIn("Request for unknown model", raised.exception.message())

    def test_the_index_lists_all_and_loading_is_an_operators(self):
        index = {model["name"]: model for model in self.client.get_model_repository_index()}
        self.assertLessEqual({"simple", "simple_identity", EMBEDDER, "chat"}, set(index))
        self.assertEqual({model["state"] for model in index.values()}, {"READY"})
        self.assertIn("failed to load", self.refused(self.client.load_model, "simple"))
        self.assertIn("failed to unload", self.refused(self.client.unload_model, "simple"))

    def test_what_is_not_offered_is_refused_but_unregister_succeeds(self):
        self.client.unregister_system_shared_memory()
        self.client.unregister_cuda_shared_memory()
        for call in (self.client.get_system_shared_memory_status, self.client.get_trace_settings,
                     self.client.get_log_settings):
            self.refused(call)
        self.refused(self.client.register_system_shared_memory, "region", "/key", 64)

    def test_statistics_count_requests_and_their_items(self):
        def counts():
            (model,) = self.client.get_inference_statistics("simple_int8")["model_stats"]
            return (model["inference_count"], model["execution_count"], model["inference_stats"]["success"]["count"],
                    model["inference_stats"]["fail"]["count"])

        before = counts()
        for batch in (1, 3, 8):
            numbers = numpy.ones((batch, 16), numpy.int8)
            self.client.infer("simple_int8", [tensor(name, numbers, "INT8") for name in ("INPUT0", "INPUT1")])
        self.refused(self.client.infer, "simple_int8", [])
        self.assertEqual([after - was for was, after in zip(before, counts())], [12, 3, 3, 1])
        everything = self.client.get_inference_statistics()["model_stats"]
        self.assertIn(EMBEDDER, [model["name"] for model in everything])


class Inference(KserveCase):
    def simple(self, binary_in=True, binary_out=True, **options):
        a = numpy.arange(32, dtype=numpy.int32).reshape(2, 16)
        b = numpy.full((2, 16), -7, numpy.int32)
        outputs = [triton.InferRequestedOutput(name, binary_data=binary_out) for name in ("OUTPUT0", "OUTPUT1")]
        result = self.client.infer("simple", [tensor("INPUT0", a, "INT32", binary_in),
                                              tensor("INPUT1", b, "INT32", binary_in)], outputs=outputs, **options)
        numpy.testing.assert_array_equal(result.as_numpy("OUTPUT0"), a + b)
        numpy.testing.assert_array_equal(result.as_numpy("OUTPUT1"), a - b)
        return result.get_response()

    def test_json_binary_and_compressed_give_the_same_numbers(self):
        for binary_in in (False, True):
            for binary_out in (False, True):
                for coding in (None, "gzip", "deflate"):
                    with self.subTest(binary_in=binary_in, binary_out=binary_out, coding=coding):
                        answer = self.simple(binary_in, binary_out, request_id="mine", request_compression_algorithm=coding,
                                             response_compression_algorithm=coding)
                        self.assertEqual(answer["id"], "mine")
                        self.assertEqual("data" in answer["outputs"][0], not binary_out)
        self.simple(model_version="1", priority=1, timeout=5_000_000, query_params={"any": "thing"},
                    parameters={"my_own": 1})

    def test_without_a_list_of_outputs_all_of_them_come_in_binary(self):
        numbers = numpy.ones((1, 16), numpy.int32)
        result = self.client.infer("simple", [tensor(name, numbers, "INT32") for name in ("INPUT0", "INPUT1")])
        self.assertEqual([output["parameters"] for output in result.get_response()["outputs"]],
                         [{"binary_data_size": 64}] * 2)

    def test_many_at_once_over_kept_connections(self):
        numbers = numpy.ones((1, 16), numpy.int32)
        inputs = [tensor(name, numbers, "INT32") for name in ("INPUT0", "INPUT1")]
        asked = [self.client.async_infer("simple", inputs, request_id=str(i)) for i in range(amount(20, 200, 1000))]
        for i, each in enumerate(asked):
            result = each.get_result()
            self.assertEqual(result.get_response()["id"], str(i))
            numpy.testing.assert_array_equal(result.as_numpy("OUTPUT0"), numbers * 2)

    def test_texts_are_bytes_of_any_kind(self):
        for binary in (False, True):
            numbers = texts(*(str(i) for i in range(16))).reshape(1, 16)
            ones = texts(*["1"] * 16).reshape(1, 16)
            result = self.client.infer("simple_string", [tensor("INPUT0", numbers, "BYTES", binary),
                                                         tensor("INPUT1", ones, "BYTES", binary)])
            self.assertEqual([int(each) for each in result.as_numpy("OUTPUT0")[0]], list(range(1, 17)))
            self.assertEqual([int(each) for each in result.as_numpy("OUTPUT1")[0]], list(range(-1, 15)))
        odd = texts(b"\xff\x00\x01", "", "grüße", "x" * 100_000).reshape(1, 4)
        for coding in (None, "deflate"):
            result = self.client.infer("simple_identity", [tensor("INPUT0", odd, "BYTES")],
                                       response_compression_algorithm=coding)
            numpy.testing.assert_array_equal(result.as_numpy("OUTPUT0"), odd)
        self.assertIn("binary data", self.refused(
            self.client.infer, "simple_identity", [tensor("INPUT0", odd, "BYTES")],
            outputs=[triton.InferRequestedOutput("OUTPUT0", binary_data=False)]))

    def test_a_raw_body_is_the_only_input(self):
        status, headers, body = self.ask("/v2/models/simple_identity/infer", b"\xffraw",
                                         {"Inference-Header-Content-Length": "0"})
        self.assertEqual(status, 200)
        head = int(headers["Inference-Header-Content-Length"])
        self.assertEqual(body[head:], serialize_byte_tensor(texts(b"\xffraw")).item())

    def test_two_sequences_do_not_mix(self):
        def ask(sequence, value, **flags):
            number = numpy.array([[value]], numpy.int32)
            result = self.client.infer("simple_sequence", [tensor("INPUT", number, "INT32")], sequence_id=sequence, **flags)
            return int(result.as_numpy("OUTPUT")[0][0])

        self.assertEqual(ask(1001, 11, sequence_start=True), 12)
        self.assertEqual(ask("a text", 100, sequence_start=True), 101)
        self.assertEqual(ask(1001, 7), 7)
        self.assertEqual(ask("a text", -100, sequence_end=True), -100)
        self.assertEqual(ask(1001, 5, sequence_end=True), 5)
        self.assertIn("START flag", self.refused(ask, 1001, 5))

    def test_what_does_not_fit_the_model_is_refused_by_name(self):
        numbers = numpy.ones((1, 8), numpy.int32)
        wrong = [tensor("INPUT0", numbers, "INT32"), tensor("INPUT1", numbers, "INT32")]
        self.assertIn("unexpected shape for input 'INPUT0' for model 'simple'",
                      self.refused(self.client.infer, "simple", wrong))
        many = [tensor(name, numpy.ones((9, 16), numpy.int32), "INT32") for name in ("INPUT0", "INPUT1")]
        self.assertIn("inference request batch-size must be <= 8 for 'simple'",
                      self.refused(self.client.infer, "simple", many))
        self.assertIn("unexpected inference input 'OTHER' for model 'simple'", self.refused(
            self.client.infer, "simple", [tensor("OTHER", numbers, "INT32")]))
        short = tensor("INPUT0", numpy.ones((1, 16), numpy.int32), "INT32")
        short.set_shape([2, 16])
        second = tensor("INPUT1", numpy.ones((2, 16), numpy.int32), "INT32")
        self.assertIn("input byte size mismatch for input 'INPUT0'",
                      self.refused(self.client.infer, "simple", [short, second]))

    def test_vectors_equal_those_of_the_reference_and_of_json(self):
        chosen = REFERENCES[::amount(100, 20, 5)]
        for at in range(0, len(chosen), 16):
            part = chosen[at:at + 16]
            inputs = [tensor("text", texts(*(text for text, _, _ in part)), "BYTES")]
            options = {"parameters": {"truncate": True}}
            result = self.client.infer(EMBEDDER, inputs, **options)
            given = result.as_numpy("embedding")
            self.assertEqual(given.shape, (len(part), encoder_models.WIDTH))
            wanted = numpy.array([vector for _, _, vector in part], numpy.float32)
            self.assertLessEqual(abs(given - wanted).max(), 1e-4)
            self.assertGreaterEqual((given * wanted).sum(axis=1).min(), 0.9999)
            again = self.client.infer(EMBEDDER, inputs, outputs=[triton.InferRequestedOutput("embedding", binary_data=False)],
                                      response_compression_algorithm="gzip", **options)
            numpy.testing.assert_array_equal(again.as_numpy("embedding"), given, "JSON and binary, to the last bit")


class Generation(KserveCase):
    def generate(self, route, body):
        """Status, content type and body."""
        status, headers, text = self.ask(f"/v2/models/chat/{route}", json.dumps(body))
        return status, headers["Content-Type"], text.decode()

    def test_a_stream_joined_is_the_answer_and_that_of_other_routes(self):
        asked = {"text_input": PARIS, "exclude_input_in_output": True, "parameters": {"max_tokens": 64, "temperature": 0}}
        status, kind, text = self.generate("generate", asked)
        self.assertEqual((status, kind), (200, "application/json"))
        whole = json.loads(text)
        self.assertEqual((whole["model_name"], whole["model_version"]), ("chat", "1"))
        status, kind, text = self.generate("generate_stream", dict(asked, id="7"))
        self.assertEqual((status, kind), (200, "text/event-stream; charset=utf-8"))
        events = [json.loads(line.removeprefix("data: ")) for line in text.split("\n\n") if line.startswith("data: ")]
        self.assertGreater(len(events), 1)
        self.assertEqual({event["id"] for event in events}, {"7"})
        self.assertEqual("".join(event["text_output"] for event in events), whole["text_output"])
        self.assertEqual({event["finish_reason"] for event in events[:-1]}, {""})
        self.assertEqual(events[-1]["finish_reason"], whole["finish_reason"])
        completion = self.server.post_json("/v1/completions", {
            "model": "chat", "prompt": PARIS, "max_tokens": 64, "temperature": 0})
        self.assertEqual(completion["choices"][0]["text"], whole["text_output"])
        with_prompt = json.loads(self.generate("generate", {"text_input": PARIS, "max_tokens": 1})[2])
        self.assertTrue(with_prompt["text_output"].startswith(PARIS))

    def test_refusals_are_a_status_and_a_text(self):
        for body, wanted in (({}, 400), ({"text_input": 7}, 400), ({"text_input": PARIS, "max_tokens": -1}, 400)):
            for route in ("generate", "generate_stream"):
                status, kind, text = self.generate(route, body)
                self.assertEqual((status, kind), (wanted, "application/json"))
                self.assertEqual(list(json.loads(text)), ["error"])

    def test_leaving_a_stream_ends_it(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=STEP_S)
        connection.request("POST", "/v2/models/chat/generate_stream", json.dumps(
            {"text_input": PARIS, "ignore_eos": True, "max_tokens": 4000}))
        response = connection.getresponse()
        first = response.readline()
        self.assertTrue(first.startswith(b"data: "))
        self.assertIn("text_output", json.loads(first.removeprefix(b"data: ")))
        eventually(lambda: self.server.load()["running"] == 1)  # what is published at the end of the step
        connection.sock.close()
        response.close()
        eventually(lambda: self.server.load()["running"] == 0)
