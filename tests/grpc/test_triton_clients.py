"""Flows of the published examples of Triton's clients, with the stock client, against the test models."""
import asyncio
import queue
import time
import unittest
import uuid

import grpc
import numpy as np
import tritonclient.grpc as triton
import tritonclient.grpc.aio as triton_aio
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException

from host import HostCase


def numbers(name, values, kind="INT32"):
    tensor = triton.InferInput(name, list(values.shape), kind)
    tensor.set_data_from_numpy(values)
    return tensor


def texts(name, values):
    data = np.array([str(value).encode() for value in np.asarray(values).flatten()], dtype=np.object_)
    tensor = triton.InferInput(name, list(np.asarray(values).shape), "BYTES")
    tensor.set_data_from_numpy(data.reshape(np.asarray(values).shape))
    return tensor


class TritonCase(HostCase):
    SETTINGS = {"name": "triton"}

    def setUp(self):
        self.client = triton.InferenceServerClient(self.host.url)
        self.addCleanup(self.client.close)
        self.first = np.arange(16, dtype=np.int32).reshape(1, 16)
        self.second = np.full((1, 16), 3, dtype=np.int32)

    def simple(self):
        return [numbers("INPUT0", self.first), numbers("INPUT1", self.second)]

    def judge(self, result):
        np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), self.first + self.second)
        np.testing.assert_array_equal(result.as_numpy("OUTPUT1"), self.first - self.second)


class Infer(TritonCase):
    def test_sums_and_differences_with_and_without_named_outputs(self):
        outputs = [triton.InferRequestedOutput("OUTPUT0"), triton.InferRequestedOutput("OUTPUT1")]
        self.judge(self.client.infer("simple", self.simple(), outputs=outputs, request_id="1", client_timeout=60,
                                     headers={"test": "1"}))
        self.judge(self.client.infer("simple", self.simple()))
        one = self.client.infer("simple", self.simple(), outputs=outputs[1:])
        self.assertIsNone(one.as_numpy("OUTPUT0"))
        self.assertEqual(one.as_numpy("OUTPUT1")[0][15], 12)

    def test_compressed_requests(self):
        for algorithm in ("gzip", "deflate"):
            self.judge(self.client.infer("simple", self.simple(), compression_algorithm=algorithm))

    def test_many_at_once_by_callback(self):
        done = queue.Queue()
        for _ in range(20):
            self.client.async_infer("simple", self.simple(), lambda result, error: done.put((result, error)))
        for _ in range(20):
            result, error = done.get(timeout=60)
            self.assertIsNone(error)
            self.judge(result)

    def test_asyncio(self):
        async def flow():
            async with triton_aio.InferenceServerClient(self.host.url) as client:
                self.assertTrue(await client.is_server_live())
                for result in await asyncio.gather(*[client.infer("simple", self.simple()) for _ in range(8)]):
                    self.judge(result)
                with self.assertRaisesRegex(InferenceServerException, "Request for unknown model"):
                    await client.get_model_metadata("wrong_model_name")
        asyncio.run(flow())

    def test_texts(self):
        result = self.client.infer("simple_string", [texts("INPUT0", self.first), texts("INPUT1", self.second)])
        sums = [int(text) for text in result.as_numpy("OUTPUT0")[0]]
        self.assertEqual(sums, list((self.first + self.second)[0]))
        # Bytes that are no text, and one with a zero in it, come back as they went.
        raw = np.array([[b"a\x00b", b"", b"\xff\xfe"]], dtype=np.object_)
        tensor = triton.InferInput("INPUT0", [1, 3], "BYTES")
        tensor.set_data_from_numpy(raw)
        back = self.client.infer("simple_identity", [tensor]).as_numpy("OUTPUT0")
        self.assertEqual(list(back[0]), list(raw[0]))

    def test_batches_up_to_the_models(self):
        self.first = np.arange(128, dtype=np.int32).reshape(8, 16)
        self.second = np.ones((8, 16), dtype=np.int32)
        self.judge(self.client.infer("simple", self.simple()))
        self.first = np.zeros((9, 16), dtype=np.int32)
        self.second = np.zeros((9, 16), dtype=np.int32)
        with self.assertRaisesRegex(InferenceServerException, "batch-size must be <= 8 for 'simple'"):
            self.client.infer("simple", self.simple())

    def test_typed_contents_of_the_generated_stub(self):
        stub = service_pb2_grpc.GRPCInferenceServiceStub(grpc.insecure_channel(self.host.url))

        def ask(model, kind, fill):
            request = service_pb2.ModelInferRequest(model_name=model)
            for name, low in (("INPUT0", 0), ("INPUT1", 100)):
                tensor = request.inputs.add(name=name, datatype=kind, shape=[1, 16])
                fill(tensor.contents, range(low, low + 16))
            return stub.ModelInfer(request).raw_output_contents

        sums = ask("simple", "INT32", lambda contents, values: contents.int_contents.extend(values))
        self.assertEqual(list(np.frombuffer(sums[0], np.int32)), [100 + 2 * i for i in range(16)])
        sums = ask("simple_int8", "INT8", lambda contents, values: contents.int_contents.extend(values))
        self.assertEqual(list(np.frombuffer(sums[1], np.int8)), [-100] * 16)
        sums = ask("simple_string", "BYTES",
                   lambda contents, values: contents.bytes_contents.extend(str(v).encode() for v in values))
        self.assertIn(b"\x03\x00\x00\x00100", sums[0])
        with self.assertRaises(grpc.RpcError) as error:
            request = service_pb2.ModelInferRequest(model_name="simple", model_version="wrong_specification")
            stub.ModelInfer(request)
        self.assertIn("failed to get model version from specified version string", error.exception.details())

    def test_channel_arguments_and_keepalive(self):
        arguments = [("grpc.primary_user_agent", "test"), ("grpc.max_send_message_length", 1 << 30)]
        with triton.InferenceServerClient(self.host.url, channel_args=arguments) as client:
            self.judge(client.infer("simple", self.simple()))
        options = triton.KeepAliveOptions(keepalive_time_ms=6000, keepalive_timeout_ms=20000,
                                          keepalive_permit_without_calls=True, http2_max_pings_without_data=0)
        with triton.InferenceServerClient(self.host.url, keepalive_options=options) as client:
            self.judge(client.infer("simple", self.simple()))

    def test_a_call_that_is_cancelled_and_one_that_is_too_late(self):
        delay = [numbers("IN", np.array([1], dtype=np.int32)),
                 numbers("DELAY", np.array([30000], dtype=np.uint32), "UINT32"),
                 numbers("WAIT", np.array([0], dtype=np.uint32), "UINT32")]
        with self.assertRaisesRegex(InferenceServerException, "DEADLINE_EXCEEDED"):
            self.client.infer("repeat_int32", delay, client_timeout=0.2)
        with self.assertRaisesRegex(InferenceServerException, "timeout expired"):
            self.client.infer("repeat_int32", delay, timeout=200_000)
        done = queue.Queue()
        call = self.client.async_infer("repeat_int32", delay, lambda result, error: done.put(error))
        time.sleep(0.1)
        call.cancel()
        self.assertIn("CANCELLED", str(done.get(timeout=30)))


class AboutModels(TritonCase):
    def test_health_and_metadata(self):
        self.assertTrue(self.client.is_server_live(headers={"test": "1", "dummy": "2"}))
        self.assertTrue(self.client.is_server_ready())
        self.assertTrue(self.client.is_model_ready("simple"))
        self.assertFalse(self.client.is_model_ready("wrong_model_name"))
        self.assertEqual(self.client.get_server_metadata().name, "triton")
        metadata = self.client.get_model_metadata("simple", as_json=True)
        self.assertEqual(metadata["name"], "simple")
        self.assertEqual(metadata["inputs"][0], {"name": "INPUT0", "datatype": "INT32", "shape": ["-1", "16"]})
        with self.assertRaisesRegex(InferenceServerException, "Request for unknown model") as error:
            self.client.get_model_metadata("wrong_model_name")
        self.assertEqual(error.exception.status(), "StatusCode.NOT_FOUND")
        config = self.client.get_model_config("simple").config
        self.assertEqual((config.name, config.max_batch_size), ("simple", 8))

    def test_statistics(self):
        before = self.client.get_inference_statistics("simple").model_stats
        self.assertEqual(len(before), 1)
        self.judge(self.client.infer("simple", self.simple()))
        after = self.client.get_inference_statistics("simple").model_stats
        self.assertEqual(after[0].inference_count - before[0].inference_count, 1)
        self.assertEqual(after[0].execution_count - before[0].execution_count, 1)
        self.assertEqual(after[0].inference_stats.success.count - before[0].inference_stats.success.count, 1)
        self.assertGreater(len(self.client.get_inference_statistics().model_stats), 8)

    def test_the_repository_and_what_is_not_offered(self):
        names = {model.name for model in self.client.get_model_repository_index().models}
        self.assertGreaterEqual(names, {"simple", "simple_string", "simple_identity", "simple_sequence",
                                        "simple_dyna_sequence", "repeat_int32"})
        for call in (self.client.load_model, self.client.unload_model):
            with self.assertRaisesRegex(InferenceServerException, "PERMISSION_DENIED|loaded when the server"):
                call("simple")
        self.client.unregister_system_shared_memory()
        self.client.unregister_cuda_shared_memory()
        with self.assertRaises(InferenceServerException) as error:
            self.client.register_system_shared_memory("region", "/key", 64)
        self.assertEqual(error.exception.status(), "StatusCode.UNIMPLEMENTED")


VALUES = [11, 7, 5, 3, 2, 0, 1]


class Sequences(TritonCase):
    """The requests and results of the examples simple_grpc_sequence_*."""

    def steps(self, first, sign):
        return [first] + [sign * value for value in VALUES]

    def send_sync(self, model, identity, values):
        results = []
        for i, value in enumerate(values):
            result = self.client.infer(
                model, [numbers("INPUT", np.full((1, 1), value, dtype=np.int32))],
                outputs=[triton.InferRequestedOutput("OUTPUT")], sequence_id=identity,
                sequence_start=i == 0, sequence_end=i + 1 == len(values))
            results.append(int(result.as_numpy("OUTPUT")[0][0]))
        return results

    def send_stream(self, requests):
        """{request id: result} of [(model, sequence, values)] on one stream."""
        done = queue.Queue()
        total = 0
        with triton.InferenceServerClient(self.host.url) as client:
            client.start_stream(lambda result, error: done.put((result, error)))
            for model, identity, values in requests:
                for i, value in enumerate(values):
                    client.async_stream_infer(
                        model, [numbers("INPUT", np.full((1, 1), value, dtype=np.int32))],
                        request_id=f"{identity}_{i}", sequence_id=identity, sequence_start=i == 0,
                        sequence_end=i + 1 == len(values))
                    total += 1
            results = {}
            for _ in range(total):
                result, error = done.get(timeout=60)
                self.assertIsNone(error)
                results[result.get_response().id] = int(result.as_numpy("OUTPUT")[0][0])
        return results

    def judge_stream(self, model, text_model, text_id, text_expected):
        dyna = model != "simple_sequence"
        requests = [(model, 1000, self.steps(0, 1)), (model, 1001, self.steps(100, -1)),
                    (text_model, text_id, self.steps(20, -1))]
        results = self.send_stream(requests)
        expected = {1000: [1] + VALUES, 1001: [101] + [-v for v in VALUES], text_id: text_expected}
        if dyna:
            expected[1000][-1] += 1000
            expected[1001][-1] += 1001
        for identity, wanted in expected.items():
            self.assertEqual([results[f"{identity}_{i}"] for i in range(8)], wanted)

    def test_calls_one_after_the_other(self):
        self.assertEqual(self.send_sync("simple_sequence", 1000, self.steps(0, 1)), [1] + VALUES)
        self.assertEqual(self.send_sync("simple_sequence", str(uuid.uuid4()), self.steps(20, -1)),
                         [21] + [-v for v in VALUES])
        dyna = [101] + [-v for v in VALUES]
        dyna[-1] += 1001
        self.assertEqual(self.send_sync("simple_dyna_sequence", 1001, self.steps(100, -1)), dyna)
        running = list(np.cumsum(self.steps(20, -1)))
        running[-1] += 1002
        self.assertEqual(self.send_sync("simple_string_dyna_sequence", "1002", self.steps(20, -1)), running)

    def test_three_sequences_on_a_stream(self):
        self.judge_stream("simple_sequence", "simple_sequence", str(uuid.uuid4()), [21] + [-v for v in VALUES])
        running = [int(value) for value in np.cumsum(self.steps(20, -1))]
        running[-1] += 1002
        self.judge_stream("simple_dyna_sequence", "simple_string_dyna_sequence", "1002", running)

    def test_a_sequence_without_its_start(self):
        with self.assertRaisesRegex(InferenceServerException, "must specify the START flag"):
            self.client.infer("simple_sequence", [numbers("INPUT", np.ones((1, 1), dtype=np.int32))], sequence_id=77)


class Decoupled(TritonCase):
    def repeat(self, count, delay_ms):
        return [numbers("IN", np.arange(100, 100 + count, dtype=np.int32)),
                numbers("DELAY", np.full(count, delay_ms, dtype=np.uint32), "UINT32"),
                numbers("WAIT", np.array([0], dtype=np.uint32), "UINT32")]

    def test_one_request_is_answered_ten_times(self):
        done = queue.Queue()
        self.client.start_stream(lambda result, error: done.put((result, error)))
        begin = time.monotonic()
        self.client.async_stream_infer("repeat_int32", self.repeat(10, 20), request_id="r",
                                       outputs=[triton.InferRequestedOutput("OUT")],
                                       enable_empty_final_response=True)
        for i in range(10):
            result, error = done.get(timeout=60)
            self.assertIsNone(error)
            self.assertEqual(list(result.as_numpy("OUT")), [100 + i])
            self.assertFalse(result.get_response().parameters["triton_final_response"].bool_param)
        self.assertGreaterEqual(time.monotonic() - begin, 0.19)
        result, _ = done.get(timeout=60)
        self.assertTrue(result.get_response().parameters["triton_final_response"].bool_param)
        self.client.stop_stream()

    def test_text_is_streamed_and_cancelling_one_keeps_the_others(self):
        words = " ".join(f"word{i}" for i in range(60))
        streams = []
        for _ in range(8):
            client = triton.InferenceServerClient(self.host.url)
            self.addCleanup(client.close)
            done = queue.Queue()
            client.start_stream(lambda result, error, done=done: done.put((result, error)))
            client.async_stream_infer("chat", [texts("text_input", [words]),
                                               numbers("stream", np.array([True]), "BOOL"),
                                               texts("sampling_parameters", ['{"max_tokens": 100}'])])
            streams.append((client, done))
        self.assertIsNone(streams[3][1].get(timeout=60)[1])
        streams[3][0].stop_stream(cancel_requests=True)
        for i, (client, done) in enumerate(streams):
            if i == 3:
                continue
            text, final = "", False
            while not final:
                result, error = done.get(timeout=60)
                self.assertIsNone(error)
                text += result.as_numpy("text_output")[0].decode()
                final = result.get_response().parameters["triton_final_response"].bool_param
            self.assertEqual(text, words)
            self.assertEqual(result.as_numpy("finish_reason")[0], b"stop")
            client.stop_stream()

    def test_a_failed_request_leaves_the_stream_open(self):
        done = queue.Queue()
        self.client.start_stream(lambda result, error: done.put((result, error)))
        self.client.async_stream_infer("simple", self.simple()[:1], request_id="bad")
        self.client.async_stream_infer("simple", self.simple(), request_id="good")
        _, error = done.get(timeout=60)
        self.assertIn("missing required input(s) ['INPUT1']", str(error))
        result, error = done.get(timeout=60)
        self.assertIsNone(error)
        self.judge(result)
        self.client.stop_stream()


class Texts(TritonCase):
    def test_vectors_and_scores(self):
        result = self.client.infer("minilm", [texts("text", ["one", "three"])])
        vectors = result.as_numpy("embedding")
        self.assertEqual(vectors.shape, (2, 4))
        self.assertEqual(vectors.dtype, np.float32)
        self.assertEqual(list(vectors[:, 0]), [3, 5])
        scores = self.client.infer("cross", [texts("query", ["abcd"]), texts("documents", ["ab", "abcd", "x"])])
        self.assertEqual(list(scores.as_numpy("score")), [2, 4, 0])

    def test_an_answer_that_is_not_streamed(self):
        plain = self.client.infer("chat", [texts("text_input", ["a b"]),
                                           numbers("exclude_input_in_output", np.array([True]), "BOOL")],
                                  parameters={"max_tokens": 1})
        self.assertEqual(plain.as_numpy("text_output")[0], b"a")
        self.assertEqual(plain.as_numpy("finish_reason")[0], b"length")


if __name__ == "__main__":
    unittest.main()
