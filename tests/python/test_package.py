"""The Python package (R40) as its users see it: installed, on the models of the suite."""
import asyncio
import concurrent.futures
import dataclasses
import gc
import json
import os
import pathlib
import pickle
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

import numpy

import tutti
from tutti import Encoder, LLM, PoolingParams, SamplingParams

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tests" / "e2e"))
import encoder_models  # noqa: E402
import hub_server  # noqa: E402
import page_blocks  # noqa: E402
import tiny_model  # noqa: E402
GREEDY = SamplingParams(temperature=0, max_tokens=12, ignore_eos=True)
QUESTION = [{"role": "user", "content": "What is 2 + 2?"}]
WEATHER = {"type": "function", "function": {"name": "get_weather", "description": "The weather of a place", "parameters": {
    "type": "object", "properties": {"place": {"type": "string", "maxLength": 12}}, "required": ["place"], "additionalProperties": False}}}


def resident_mb():
    """What the process holds."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


class Answers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.llm = LLM(kv_cache_bytes="256MiB")

    @classmethod
    def tearDownClass(cls):
        cls.llm.close()

    def test_answers_come_in_the_order_of_the_prompts(self):
        prompts = [f"The number {i} is" for i in range(40)]
        outputs = self.llm.generate(prompts, GREEDY)
        self.assertEqual([out.prompt for out in outputs], prompts)
        for i in (0, 17, 39):
            alone = self.llm.generate(prompts[i], GREEDY)[0]
            self.assertEqual(outputs[i].token_ids, alone.token_ids)
            self.assertEqual(outputs[i].text, alone.text)
        self.assertEqual([len(out.token_ids) for out in outputs], [12] * 40)
        self.assertEqual({out.finish_reason for out in outputs}, {"length"})

    def test_more_prompts_than_the_queue_takes(self):
        with LLM(threads=2, max_num_seqs=4, queue=2, kv_cache_bytes="64MiB", progress=False) as llm:
            outputs = llm.generate([f"{i}" for i in range(30)], SamplingParams(temperature=0, max_tokens=2))
            self.assertEqual(len(outputs), 30)

    def test_a_seed_gives_the_same_answer_and_each_prompt_its_own(self):
        params = SamplingParams(max_tokens=12, seed=7, temperature=1.0)
        first, second = self.llm.generate(["Once upon a time", "Once upon a time"], params)
        self.assertNotEqual(first.token_ids, second.token_ids)
        again = self.llm.generate(["Once upon a time"], params)[0]
        self.assertEqual(first.token_ids, again.token_ids)
        each = self.llm.generate(["Once upon a time"] * 2, [params, params])
        self.assertEqual([out.token_ids for out in each], [first.token_ids] * 2)

    def test_the_program_gives_the_same_text(self):
        program = pathlib.Path(sys.executable).parent / "tutti"
        out = subprocess.run([program, "run", "--raw", "--temperature", "0", "--max-tokens", "12", "smollm2-135m-instruct", "The river"],
                             capture_output=True, text=True, check=True, timeout=120)
        self.assertEqual(out.stdout.rstrip("\n"), self.llm.generate("The river", SamplingParams(temperature=0, max_tokens=12))[0].text.rstrip("\n"))

    def test_token_ids_are_a_prompt(self):
        ids = self.llm.tokenize("The river")
        text = self.llm.generate("The river", GREEDY)[0].text
        for prompt in (ids, numpy.array(ids), {"prompt_token_ids": ids}, {"prompt": "The river"}, [ids]):
            out = self.llm.generate(prompt, GREEDY)
            self.assertEqual([each.text for each in out], [text])
        self.assertEqual(self.llm.detokenize(ids), "The river")
        self.assertEqual(self.llm.generate([]), [])

    def test_threads_share_the_model(self):
        prompts = [f"{word} is" for word in ("Red", "Blue", "Iron", "Paris", "Snow", "Time", "Bread", "Music")]
        expected = [self.llm.generate(prompt, GREEDY)[0].token_ids for prompt in prompts]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda prompt: [self.llm.generate(prompt, GREEDY)[0].token_ids for _ in range(3)], prompts))
        self.assertEqual(found, [[ids] * 3 for ids in expected])

    def test_python_goes_on_while_a_model_computes(self):
        done = threading.Event()
        thread = threading.Thread(target=lambda: (self.llm.generate("Long ago", SamplingParams(max_tokens=60, ignore_eos=True)), done.set()))
        thread.start()
        steps = 0
        while not done.is_set():
            steps += 1
        thread.join()
        self.assertGreater(steps, 10_000)

    def test_several_answers_and_their_probabilities(self):
        params = SamplingParams(n=3, max_tokens=4, seed=1, logprobs=2, prompt_logprobs=1, ignore_eos=True)
        out = self.llm.generate("A good day", params)[0]
        self.assertEqual([each.index for each in out.outputs], [0, 1, 2])
        for each in out.outputs:
            self.assertEqual(len(each.logprobs), 4)
            for token, position in zip(each.token_ids, each.logprobs):
                ranks = sorted(entry.rank for entry in position.values() if entry.rank)
                self.assertEqual(ranks, [1, 2])
                self.assertIn(token, position)
            total = sum(position[token].logprob for token, position in zip(each.token_ids, each.logprobs))
            self.assertAlmostEqual(each.cumulative_logprob, total, 4)
        self.assertEqual(out.prompt_logprobs[0], None)
        self.assertEqual(len(out.prompt_logprobs), out.prompt_tokens)
        self.assertEqual(out.completion_tokens, 12)

    def test_what_ended_an_answer_is_told(self):
        whole = self.llm.generate("The river", GREEDY)[0]
        word = whole.text[8:14]
        out = self.llm.generate("The river", dataclasses.replace(GREEDY, stop=["never there", word]))[0]
        self.assertEqual((out.finish_reason, out.outputs[0].stop_reason), ("stop", word))
        self.assertEqual(out.text, whole.text[:whole.text.index(word)])
        token = whole.token_ids[5]
        out = self.llm.generate("The river", dataclasses.replace(GREEDY, stop_token_ids=[token]))[0]
        self.assertEqual((out.finish_reason, out.outputs[0].stop_reason), ("stop", token))
        self.assertNotEqual(self.llm.generate("The\0river", GREEDY)[0].prompt_tokens, self.llm.generate("The", GREEDY)[0].prompt_tokens)

    def test_constraints_hold(self):
        schema = {"type": "object", "properties": {"age": {"type": "integer", "maximum": 99, "minimum": 1}}, "required": ["age"],
                  "additionalProperties": False}
        params = SamplingParams(max_tokens=60, seed=3)
        for given in (schema, json.dumps(schema)):
            self.assertIn("age", json.loads(self.llm.chat(QUESTION, params, json_schema=given)[0].text))
        self.assertIn(self.llm.generate("Say", params, choice=["yes", "no"])[0].text, ("yes", "no"))
        self.assertRegex(self.llm.generate("Say", params, regex="[ab]{3}")[0].text, "^[ab]{3}$")
        self.assertEqual(self.llm.generate("Say", params, grammar='root ::= "x" "y"')[0].text, "xy")
        with self.assertRaisesRegex(tutti.InvalidArgumentError, "only one of"):
            self.llm.generate("Say", params, regex="a", choice=["b"])

    def test_messages_are_rendered_by_the_model(self):
        rendered = self.llm.render(QUESTION)
        self.assertIn("What is 2 + 2?", rendered)
        parts = [{"role": "user", "content": [{"type": "text", "text": "What is "}, {"type": "text", "text": "2 + 2?"}]}]
        self.assertEqual(self.llm.render(parts), rendered)
        self.assertEqual(self.llm.chat(QUESTION, GREEDY)[0].text, self.llm.generate(rendered, GREEDY)[0].text)
        self.assertEqual(len(self.llm.chat([QUESTION, QUESTION], GREEDY)), 2)
        begun = QUESTION + [{"role": "assistant", "content": "It is"}]
        self.assertTrue(self.llm.render(begun, add_generation_prompt=False, continue_final_message=True).endswith("It is"))

    def test_a_tool_is_called_and_answered(self):
        out = self.llm.chat(QUESTION, SamplingParams(max_tokens=80, seed=1), tools=[WEATHER], tool_choice="required")[0]
        self.assertEqual(out.finish_reason, "tool_calls")
        call = out.tool_calls[0]
        self.assertEqual(call.name, "get_weather")
        self.assertIn("place", json.loads(call.arguments))
        named = {"type": "function", "function": {"name": "get_weather"}}
        self.assertTrue(self.llm.chat(QUESTION, SamplingParams(max_tokens=80, seed=1), tools=[WEATHER], tool_choice=named)[0].tool_calls)
        messages = QUESTION + [{"role": "assistant", "content": None, "tool_calls": [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}]},
            {"role": "tool", "tool_call_id": call.id, "content": "sunny"}]
        self.assertIn("sunny", self.llm.render(messages, tools=[WEATHER]))
        self.assertEqual(self.llm.chat(messages, GREEDY, tools=[WEATHER], tool_choice="none")[0].tool_calls, [])


class Streams(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.llm = LLM(kv_cache_bytes="256MiB")

    def test_pieces_are_the_answer(self):
        stream = self.llm.stream("The sea", GREEDY)
        pieces = list(stream)
        self.assertGreater(len(pieces), 5)
        self.assertEqual("".join(piece.text for piece in pieces), stream.result().text)
        self.assertEqual(stream.result().text, self.llm.generate("The sea", GREEDY)[0].text)
        self.assertTrue("".join(map(str, self.llm.stream(QUESTION, GREEDY))))

    def test_leaving_a_stream_cancels_it(self):
        stream = self.llm.stream("The sea", SamplingParams(max_tokens=4000, ignore_eos=True))
        for _ in stream:
            break
        self.assertEqual(stream.result().finish_reason, "cancelled")
        with self.llm.stream("The sea", SamplingParams(max_tokens=4000, ignore_eos=True)) as other:
            next(iter(other))
        self.assertEqual(other.result().finish_reason, "cancelled")

    def test_many_streams_of_asyncio(self):
        async def read(prompt):
            return "".join([piece.text async for piece in self.llm.stream(prompt, GREEDY)])

        async def all_of_them():
            return await asyncio.gather(*(read(f"The number {i} is") for i in range(24)))

        texts = asyncio.run(all_of_them())
        self.assertEqual(texts, [out.text for out in self.llm.generate([f"The number {i} is" for i in range(24)], GREEDY)])

    def test_asyncio_leaves_a_stream_and_sees_errors(self):
        async def leave():
            stream = self.llm.stream("The sea", SamplingParams(max_tokens=4000, ignore_eos=True))
            async for _ in stream:
                break
            return await asyncio.to_thread(stream.result)

        self.assertEqual(asyncio.run(leave()).finish_reason, "cancelled")

        async def fail():
            async for _ in self.llm.stream("The sea", SamplingParams(timeout_s=0.05, max_tokens=4000, ignore_eos=True)):
                pass

        with self.assertRaises(tutti.DeadlineExceededError):
            asyncio.run(fail())
        self.assertEqual(asyncio.run(self.llm.generate_async("The sea", GREEDY))[0].text, self.llm.generate("The sea", GREEDY)[0].text)


class Errors(unittest.TestCase):
    def refusal(self, call):
        with self.assertRaises(tutti.TuttiError) as raised:
            call()
        copy = pickle.loads(pickle.dumps(raised.exception))
        self.assertEqual((type(copy), str(copy)), (type(raised.exception), str(raised.exception)))
        return type(raised.exception), raised.exception.code, raised.exception.param

    def test_each_has_its_class_code_and_parameter(self):
        with LLM(kv_cache_bytes="64MiB", max_model_len=64, progress=False) as llm:
            invalid = tutti.InvalidArgumentError
            for call, expected in (
                    (lambda: llm.generate(""), (invalid, "empty_prompt", "prompt")),
                    (lambda: llm.generate("a", SamplingParams(stop="b\0")), (invalid, "invalid_value", "stop")),
                    (lambda: llm.generate("\ud800"), (invalid, "invalid_value", "prompt")),
                    (lambda: llm.generate([[1, 2], "x", 3]), (invalid, "invalid_value", "prompt")),
                    (lambda: llm.generate([10**6]), (invalid, "token_out_of_range", "prompt")),
                    (lambda: llm.generate("x", SamplingParams(temperature=9)), (invalid, "invalid_value", "temperature")),
                    (lambda: llm.generate("x", SamplingParams(temperature="hot")), (invalid, "invalid_value", "temperature")),
                    (lambda: llm.generate("x", SamplingParams(max_tokens=1.5)), (invalid, "invalid_value", "max_tokens")),
                    (lambda: llm.generate("x", SamplingParams(stop=[3])), (invalid, "invalid_type", "stop")),
                    (lambda: llm.generate("word " * 100), (invalid, "context_length_exceeded", "")),
                    (lambda: llm.generate(["x", "y"], [GREEDY]), (invalid, "invalid_value", "sampling_params")),
                    (lambda: llm.chat([]), (invalid, "invalid_value", "messages")),
                    (lambda: llm.chat([{"role": "king", "content": "x"}]), (invalid, "invalid_value", "messages[0].role")),
                    (lambda: llm.chat([{"role": "user", "content": 3}]), (invalid, "invalid_value", "messages[0].content")),
                    (lambda: llm.chat(QUESTION, tools=[3]), (invalid, "invalid_value", "tools")),
                    (lambda: llm.chat(QUESTION, tool_choice="x"), (invalid, "invalid_value", "tool_choice")),
                    (lambda: LLM("/no/such.gguf"), (tutti.NotFoundError, "model_not_found", "")),
                    (lambda: LLM(threds=2), (invalid, "unknown_parameter", "threds")),
                    (lambda: LLM(threads=-1), (invalid, "invalid_value", "threads"))):
                self.assertEqual(self.refusal(call), expected)
            self.assertIsInstance(tutti.NotFoundError("x"), FileNotFoundError)
            llm.generate("x", SamplingParams(max_tokens=1))  # it still answers

    def test_an_exception_of_the_progress_function_is_raised(self):
        def stop(done, total):
            raise KeyError("enough")

        with self.assertRaisesRegex(KeyError, "enough"):
            LLM(progress=stop)

    def test_a_forked_process_is_told(self):
        with LLM(kv_cache_bytes="64MiB", progress=False) as llm:
            child = os.fork()
            if child == 0:
                try:
                    llm.generate("x")
                except tutti.FailedPreconditionError as error:
                    os._exit(0 if error.code == "forked" else 1)
                os._exit(2)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
            llm.generate("x", SamplingParams(max_tokens=1))

    def test_closing_frees_the_memory(self):
        llm = LLM(kv_cache_bytes="256MiB", progress=False)
        llm.generate("x" * 500, SamplingParams(max_tokens=4))
        held = resident_mb()
        llm.close()
        llm.close()
        self.assertLess(resident_mb(), held - 100)
        self.assertEqual(self.refusal(lambda: llm.generate("x")), (tutti.FailedPreconditionError, "closed", ""))
        other = LLM(kv_cache_bytes="256MiB", progress=False)
        stream = other.stream("x", SamplingParams(max_tokens=8, ignore_eos=True))
        other.close()
        self.assertEqual(len(stream.result().token_ids), 8)
        del other, stream
        gc.collect()
        self.assertLess(resident_mb(), held - 100)


class Vectors(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.encoder = Encoder("all-minilm-l6-v2")

    def test_vectors_are_arrays(self):
        vectors = self.encoder.encode(["A cat", "A dog", "A cat"])
        self.assertEqual((vectors.shape, vectors.dtype), ((3, 384), numpy.float32))
        numpy.testing.assert_allclose(numpy.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
        numpy.testing.assert_array_equal(vectors[0], vectors[2])
        numpy.testing.assert_array_equal(self.encoder.encode("A cat"), vectors[0])
        self.assertEqual(self.encoder.encode([]).shape, (0, 384))
        many = self.encoder.encode([f"Text {i}" for i in range(1100)])
        numpy.testing.assert_array_equal(many[1050], self.encoder.encode("Text 1050"))
        self.assertEqual((self.encoder.dimension, self.encoder.max_seq_length), (384, 256))

    def test_they_are_those_of_sentence_transformers(self):
        references = encoder_models.vectors()[::10]
        found = self.encoder.encode([text for text, _, _ in references])
        for (text, _, expected), row in zip(references, found):
            self.assertGreater(encoder_models.cosine(row, expected), 0.99, text)

    def test_scores_are_those_of_transformers(self):
        texts = [text for text, _, _ in encoder_models.vectors()]
        with tempfile.TemporaryDirectory() as folder:
            encoder_models.write_cross_encoder(folder)
            with Encoder(folder) as reranker:
                self.assertEqual(reranker.dimension, 0)
                for query, rows in encoder_models.scores(texts)[:4]:
                    found = reranker.scores(query, [document for document, _, _ in rows], raw_scores=True)
                    numpy.testing.assert_allclose(found, [logit for _, _, logit in rows], atol=0.05)
        with tempfile.TemporaryDirectory() as folder:
            encoder_models.write_cross_encoder(folder, labels=("good", "bad", "neither"))
            with Encoder(folder) as classifier:
                self.assertEqual(classifier.labels, ["good", "bad", "neither"])
                references = encoder_models.label_logits(texts)[:50]
                found = classifier.classify([text for text, _, _ in references], raw_scores=True)
                numpy.testing.assert_allclose(found, [logits for _, _, logits in references], atol=0.05)
                numpy.testing.assert_allclose(classifier.classify("A text").sum(), 1, rtol=1e-5)

    def test_documents_are_ranked(self):
        documents = ["Rivers run to the sea.", "The kitten naps on the sofa.", "Stocks fell."]
        ranked = self.encoder.rank("Where does the cat sleep?", documents)
        self.assertEqual([hit.corpus_id for hit in ranked][0], 1)
        self.assertEqual([hit.text for hit in ranked], [documents[hit.corpus_id] for hit in ranked])
        self.assertEqual(sorted((hit.score for hit in ranked), reverse=True), [hit.score for hit in ranked])
        self.assertEqual(len(self.encoder.rank("cat", documents, top_k=2)), 2)
        self.assertEqual(self.encoder.rank("cat", []), [])

    def test_threads_share_the_encoder(self):
        texts = [f"Text number {i}" for i in range(64)]
        expected = self.encoder.encode(texts)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for found in pool.map(lambda _: self.encoder.encode(texts), range(8)):
                numpy.testing.assert_array_equal(found, expected)

    def test_refused_texts_are_named(self):
        for call, param in ((lambda: self.encoder.encode(["a", ""]), "texts[1]"), (lambda: self.encoder.encode(["a", 3]), "texts[1]"),
                            (lambda: self.encoder.encode("word " * 600, truncate=False), "texts[0]"),
                            (lambda: self.encoder.rank("", ["a"]), "query"), (lambda: self.encoder.rank("a", ["b", "\ud800"]), "documents[1]"),
                            (lambda: self.encoder.encode("a", prompt_name="x"), "prompt_name"),
                            (lambda: self.encoder.encode("a", truncate_dim=10), "dimensions")):
            with self.assertRaises(tutti.InvalidArgumentError) as raised:
                call()
            self.assertEqual(raised.exception.param, param)
        self.assertEqual(self.encoder.encode("word " * 600).shape, (384,))
        with self.assertRaises(tutti.InvalidArgumentError):
            self.encoder.classify("a")


    def test_names_of_sentence_transformers(self):
        texts = ["A cat", "A dog", "Rust"]
        vectors = self.encoder.encode(texts, normalize_embeddings=True, batch_size=2, show_progress_bar=False)
        numpy.testing.assert_array_equal(vectors, self.encoder.encode(texts))
        rows = self.encoder.encode(texts, convert_to_numpy=False)
        self.assertIsInstance(rows, list)
        numpy.testing.assert_array_equal(rows[2], vectors[2])
        numpy.testing.assert_array_equal(self.encoder.encode(["dog"], prompt="A ")[0], vectors[1])
        self.assertEqual(self.encoder.encode_query("x").shape, self.encoder.encode_document("x").shape)
        cosines = self.encoder.similarity(vectors[:2], 3 * vectors)
        numpy.testing.assert_allclose(cosines, vectors[:2] @ vectors.T, rtol=1e-5)
        numpy.testing.assert_allclose(self.encoder.similarity_pairwise(vectors, vectors), 1, rtol=1e-5)
        self.assertEqual(self.encoder.similarity(vectors[0], vectors[1]).shape, (1, 1))
        pairs = [("A cat", "A dog"), ("Rust", "Iron"), ("A cat", "A kitten")]
        numpy.testing.assert_allclose(self.encoder.predict(pairs), [self.encoder.scores(a, [b])[0] for a, b in pairs], rtol=1e-5)
        for call, param in ((lambda: self.encoder.encode([*texts, ""], batch_size=3), "texts[3]"),
                            (lambda: self.encoder.encode(texts, prompt=3), "prompt"),
                            (lambda: self.encoder.encode(texts, prompt="a", prompt_name="b"), "prompt"),
                            (lambda: self.encoder.encode(texts, batch_size=0), "batch_size"),
                            (lambda: self.encoder.predict([("a", "b"), "cd"]), "pairs[1]")):
            with self.assertRaises(tutti.InvalidArgumentError) as raised:
                call()
            self.assertEqual(raised.exception.param, param)


class Pooling(unittest.TestCase):
    """LLM's embed, score and classify, by the names of vLLM."""

    def test_texts_become_vectors_and_scores(self):
        with Encoder() as encoder, LLM("all-minilm-l6-v2") as llm:
            self.assertEqual((llm.runner, llm.max_model_len), ("pooling", 256))
            outputs = llm.embed(["A cat", "A dog"])
            self.assertEqual([out.prompt for out in outputs], ["A cat", "A dog"])
            self.assertEqual((outputs[0].prompt_tokens, outputs[0].outputs.hidden_size), (4, 384))
            numpy.testing.assert_allclose([out.outputs.embedding for out in outputs], encoder.encode(["A cat", "A dog"]), rtol=1e-5)
            scores = [out.outputs.score for out in llm.score("A cat", ["A dog", "Rust"])]
            numpy.testing.assert_allclose(scores, encoder.scores("A cat", ["A dog", "Rust"]), rtol=1e-5)
            pairs = llm.score(["A cat", "Iron"], ["A dog", "Rust"])
            self.assertEqual([out.prompt for out in pairs], [("A cat", "A dog"), ("Iron", "Rust")])
            self.assertAlmostEqual(pairs[0].outputs.score, scores[0], 5)
            self.assertEqual(asyncio.run(llm.embed_async("A cat"))[0].outputs, outputs[0].outputs)
            for call, expected in ((lambda: llm.score(["a", "b"], ["c"]), "data_1"), (lambda: llm.embed(["a", ""]), "texts[1]"),
                                   (lambda: llm.embed("a", pooling_params=PoolingParams(dimensions=7)), "dimensions")):
                with self.assertRaises(tutti.InvalidArgumentError) as raised:
                    call()
                self.assertEqual(raised.exception.param, expected)

    def test_classes_have_probabilities(self):
        with tempfile.TemporaryDirectory() as folder:
            encoder_models.write_cross_encoder(folder, labels=("good", "bad", "neither"))
            with LLM(folder) as llm:
                self.assertEqual(llm.labels, ["good", "bad", "neither"])
                out = llm.classify(["A text"])[0].outputs
                self.assertEqual(out.num_classes, 3)
                self.assertAlmostEqual(sum(out.probs), 1, 5)
                raw = llm.classify("A text", pooling_params=PoolingParams(use_activation=False))[0].outputs.probs
                self.assertNotAlmostEqual(sum(raw), 1, 3)

    def test_one_copy_of_a_model_does_one_of_both(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        model = f"{folder.name}/model.gguf"
        tiny_model.write(model)
        with LLM(model, kv_cache_bytes="32MiB", progress=False) as llm:
            self.assertEqual(llm.runner, "generate")
            for call in (lambda: llm.embed("a"), lambda: llm.score("a", "b"), lambda: llm.classify("a")):
                with self.assertRaisesRegex(tutti.FailedPreconditionError, "Encoder") as raised:
                    call()
                self.assertEqual(raised.exception.code, "wrong_runner")
        with LLM(model, runner="pooling", kv_cache_bytes="32MiB", progress=False) as llm:
            self.assertGreater(llm.embed("a")[0].outputs.hidden_size, 0)
            with self.assertRaisesRegex(tutti.FailedPreconditionError, "generates text"):
                llm.generate("a")
        with self.assertRaisesRegex(tutti.FailedPreconditionError, "generates no text"):
            LLM("all-minilm-l6-v2", runner="generate")


class Fetched(unittest.TestCase):
    def load(self, *models):
        """A new process, whose caches are empty and whose hub is a local one."""
        code = ("import sys, tutti\nfor model in sys.argv[1:]:\n"
                "    print(tutti.LLM(model, kv_cache_bytes='32MiB').generate('a', tutti.SamplingParams(max_tokens=2, ignore_eos=True))[0].finish_reason)")
        environment = dict(os.environ, HF_ENDPOINT=self.hub.url, HF_HOME=self.folder, TUTTI_CACHE=f"{self.folder}/tutti", NO_PROXY="127.0.0.1")
        return subprocess.run([sys.executable, "-c", code, *models], env=environment, capture_output=True, text=True, timeout=120, check=False)

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        tiny_model.write(f"{self.folder}/model.gguf")
        data = pathlib.Path(self.folder, "model.gguf").read_bytes()
        self.hub = hub_server.HubServer({"org/tiny": hub_server.Repository({"model.gguf": data})})
        self.addCleanup(self.hub.stop)

    def test_a_model_that_is_not_here_is_fetched_once(self):
        done = self.load("org/tiny", "org/tiny")
        self.assertEqual((done.returncode, done.stdout), (0, "length\nlength\n"), done.stderr)
        self.hub.stop()
        self.assertEqual(self.load("org/tiny").stdout, "length\n", "from the cache")

    def test_one_that_no_hub_has_is_refused(self):
        done = self.load("org/other")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("tutti.errors.UnavailableError: org/other could not be fetched: ", done.stderr)
        self.assertNotIn("fetched: the lines above", done.stderr)


class Installed(unittest.TestCase):
    def test_the_program_is_on_the_path(self):
        program = pathlib.Path(sys.executable).parent / "tutti"
        out = subprocess.run([program, "--version"], capture_output=True, text=True, check=True, timeout=60)
        self.assertIn(tutti.__version__, out.stdout)
        fault = subprocess.run([program, "serve", "--port", "x"], capture_output=True, text=True, check=False, timeout=60)
        self.assertEqual(fault.returncode, 78)

    def test_the_lines_of_the_readme_run(self):
        name = "python/README.md"
        with tempfile.TemporaryDirectory() as folder:
            page = page_blocks.Page(folder, shutil.which("tutti"), dict(os.environ), {})
            try:
                faults = page_blocks.faults(page_blocks.blocks(name, (SOURCE / name).read_text()), page)
            finally:
                page.close()
        self.assertEqual([f"{name}:{fault.block.line}: {fault.message}" for fault in faults], [])

    def test_it_is_typed(self):
        self.assertTrue((pathlib.Path(tutti.__file__).parent / "py.typed").exists())


if __name__ == "__main__":
    unittest.main()
