"""The stock anthropic client against the real model: the Messages API (R07)."""
import asyncio
import json
import unittest

import anthropic
import jsonschema

from harness import MODEL, STEP_S, RealModel, ServerCase, eventually, events

QUESTION = [{"role": "user", "content": "Name three colours."}]
TOOL = {"name": "get_weather", "description": "The weather of a city.",
        "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}
HISTORY = [
    {"role": "user", "content": "What is the weather in Rome?"},
    {"role": "assistant", "content": [{"type": "text", "text": "I look."},
                                      {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Rome"}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "sunny"}]},
                                 {"type": "text", "text": "Say it in one word."}]}]


def text_of(message):
    return "".join(block.text for block in message.content if block.type == "text")


class Messages(RealModel, ServerCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.client = anthropic.Anthropic(base_url=cls.server.url, api_key="none", timeout=STEP_S, max_retries=0)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        super().tearDownClass()

    def create(self, body=None, **options):
        """`body`: members that this client has no arguments for, such as temperature."""
        return self.client.messages.create(
            **{"model": MODEL, "messages": QUESTION, "max_tokens": 24, **options}, extra_body={"temperature": 0, **(body or {})})

    def chat(self, messages, **options):
        answer = self.server.post_json("/v1/chat/completions", {
            "model": MODEL, "messages": messages, "max_tokens": 24, "temperature": 0, **options})
        return answer["choices"][0]["message"]["content"], answer["usage"]

    def test_an_answer_is_that_of_the_chat_completion(self):
        message = self.create()
        self.assertTrue(message.id.startswith("msg_"))
        self.assertEqual((message.type, message.role, message.model), ("message", "assistant", MODEL))
        self.assertEqual((message.stop_reason, message.stop_sequence), ("max_tokens", None))
        self.assertTrue(message._request_id)
        text, usage = self.chat(QUESTION)
        self.assertEqual(text_of(message), text)
        self.assertEqual(message.usage.output_tokens, usage["completion_tokens"])
        self.assertEqual(message.usage.input_tokens + message.usage.cache_read_input_tokens, usage["prompt_tokens"])
        self.assertEqual(message.usage.cache_creation_input_tokens, 0)

    def test_system_and_turns_mean_the_same_as_there(self):
        turns = [{"role": "user", "content": "I am Ann."}, {"role": "assistant", "content": "Hello, Ann."},
                 {"role": "user", "content": "Who am I?"}]
        system = "You answer in one sentence."
        expected, _ = self.chat([{"role": "system", "content": system}, *turns])
        self.assertEqual(text_of(self.create(system=system, messages=turns)), expected)
        blocks = [{"type": "text", "text": system, "cache_control": {"type": "ephemeral"}}]
        self.assertEqual(text_of(self.create(system=blocks, messages=turns)), expected)

    def test_a_prefilled_answer_is_continued(self):
        prefilled = [*QUESTION, {"role": "assistant", "content": "Red, green and"}]
        expected, _ = self.chat(prefilled, continue_final_message=True, add_generation_prompt=False)
        self.assertEqual(text_of(self.create(messages=prefilled)), expected)

    def test_streamed_and_whole_answers_agree(self):
        whole = self.create()
        with self.client.messages.stream(model=MODEL, messages=QUESTION, max_tokens=24, extra_body={"temperature": 0}) as stream:
            text = "".join(stream.text_stream)
            final = stream.get_final_message()
        self.assertEqual(text, text_of(whole))
        self.assertEqual(text_of(final), text)
        self.assertEqual(final.stop_reason, whole.stop_reason)
        self.assertEqual(final.usage.output_tokens, whole.usage.output_tokens)
        kinds = [event.type for event in self.create(stream=True)]
        self.assertEqual(kinds[:2] + kinds[-3:], ["message_start", "content_block_start", "content_block_stop", "message_delta",
                                                  "message_stop"])
        self.assertEqual(set(kinds[2:-3]), {"content_block_delta"})

    def test_events_are_named_as_their_data(self):
        _, _, text = self.server.post("/v1/messages", {"model": MODEL, "max_tokens": 4, "messages": QUESTION, "stream": True})
        names = []
        for event in events(text):
            name, data = event.split("\n")
            names.append(name.removeprefix("event: "))
            self.assertEqual(json.loads(data.removeprefix("data: "))["type"], names[-1])
        self.assertEqual(names[:3], ["message_start", "content_block_start", "ping"])

    def test_the_asynchronous_client_streams_side_by_side(self):
        async def one(client):
            async with client.messages.stream(model=MODEL, messages=QUESTION, max_tokens=24, extra_body={"temperature": 0}) as stream:
                return text_of(await stream.get_final_message())

        async def all_of_them():
            async with anthropic.AsyncAnthropic(base_url=self.server.url, api_key="none", timeout=STEP_S) as client:
                return await asyncio.gather(*(one(client) for _ in range(6)))

        self.assertEqual(set(asyncio.run(all_of_them())), {text_of(self.create())})

    def test_a_stop_sequence_ends_the_answer_and_is_told(self):
        text = text_of(self.create())
        stop = text[8:12]
        message = self.create(stop_sequences=["\x01", stop])
        self.assertEqual((message.stop_reason, message.stop_sequence), ("stop_sequence", stop))
        self.assertEqual(text_of(message), text[:text.index(stop)])

    def test_tokens_are_counted_as_they_are_used(self):
        for options in ({}, {"system": "Be brief."}, {"messages": HISTORY}):
            counted = self.client.messages.count_tokens(**{"model": MODEL, "messages": QUESTION, **options})
            usage = self.create(max_tokens=1, **options).usage
            self.assertEqual(counted.input_tokens, usage.input_tokens + usage.cache_read_input_tokens, options)

    def test_a_second_question_reads_its_beginning_from_the_cache(self):
        system = "You are a patient teacher. " * 30
        self.create(system=system, max_tokens=1)
        usage = self.create(system=system, max_tokens=1, messages=[{"role": "user", "content": "And two animals?"}]).usage
        self.assertGreater(usage.cache_read_input_tokens, 64)
        self.assertLess(usage.input_tokens, 64)

    def test_errors_are_those_that_the_client_knows(self):
        with self.assertRaises(anthropic.NotFoundError) as failed:
            self.create(model="nobody")
        self.assertEqual(failed.exception.body["error"]["type"], "not_found_error")
        self.assertTrue(failed.exception.request_id)
        for options, said in (({"body": {"temperature": 1.5}}, "temperature"), ({"messages": []}, "messages"),
                              ({"max_tokens": 0}, "max_tokens"),
                              ({"messages": [{"role": "user", "content": [
                                  {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "eA=="}}]}]},
                               "messages[0].content[0]"),
                              ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "tools[0]"),
                              ({"messages": [{"role": "user", "content": "long " * 20000}]}, "messages")):
            with self.assertRaises(anthropic.BadRequestError) as failed:
                self.create(**options)
            self.assertEqual(failed.exception.body["error"]["type"], "invalid_request_error", options)
            self.assertIn(said, failed.exception.body["error"]["message"])

    def test_a_history_with_calls_and_their_results_is_answered(self):
        self.assertTrue(text_of(self.create(messages=HISTORY)))

    def test_fields_that_ask_for_nothing_pass(self):
        expected = text_of(self.create())
        message = self.create(tools=[], thinking={"type": "disabled"}, metadata={"user_id": "ann"}, service_tier="auto",
                              extra_headers={"anthropic-beta": "anything-2025-01-01"})
        self.assertEqual(text_of(message), expected)

    def test_an_output_format_is_kept(self):
        schema = {"type": "object", "properties": {"colour": {"type": "string", "maxLength": 12}}, "required": ["colour"],
                  "additionalProperties": False}
        message = self.create(max_tokens=60, output_config={"format": {"type": "json_schema", "schema": schema}})
        self.assertEqual(message.stop_reason, "end_turn")
        jsonschema.validate(json.loads(text_of(message)), schema)

    def test_a_batch_runs_and_its_results_are_read(self):
        def request(number, **options):
            return {"custom_id": f"r-{number}", "params": {"model": MODEL, "max_tokens": 24, "temperature": 0, "messages": QUESTION,
                                                           **options}}

        batches = self.client.messages.batches
        batch = batches.create(requests=[request(0), request(1, max_tokens=1), request(2, messages=[
            {"role": "user", "content": "long " * 20000}])])
        self.assertEqual((batch.type, batch.processing_status, batch.request_counts.processing), ("message_batch", "in_progress", 3))
        eventually(lambda: batches.retrieve(batch.id).processing_status == "ended", limit_s=STEP_S)
        ended = batches.retrieve(batch.id)
        self.assertEqual((ended.request_counts.succeeded, ended.request_counts.errored), (2, 1))
        self.assertGreaterEqual(ended.ended_at, ended.created_at)
        results = {line.custom_id: line.result for line in batches.results(batch.id)}
        self.assertEqual([results[f"r-{number}"].type for number in range(3)], ["succeeded", "succeeded", "errored"])
        self.assertEqual(text_of(results["r-0"].message), text_of(self.create()))
        self.assertEqual(results["r-1"].message.usage.output_tokens, 1)
        self.assertEqual(results["r-2"].error.error.type, "invalid_request_error")
        self.assertIn(batch.id, [each.id for each in batches.list(limit=5)])
        self.assertEqual(batches.delete(batch.id).type, "message_batch_deleted")
        with self.assertRaises(anthropic.NotFoundError):
            batches.retrieve(batch.id)

    def test_a_client_that_leaves_cancels(self):
        with self.client.messages.stream(model=MODEL, messages=QUESTION, max_tokens=2000,
                                         extra_body={"temperature": 0, "ignore_eos": True}) as stream:
            next(iter(stream.text_stream))
        self.server.wait_idle()


class Keys(ServerCase):
    ENVIRONMENT = {"TUTTI_API_KEY": "sk-anthropic-0123456789"}

    def ask(self, **credentials):
        with anthropic.Anthropic(base_url=self.server.url, max_retries=0, timeout=STEP_S, **credentials) as client:
            return client.messages.create(model=MODEL, max_tokens=1, messages=QUESTION)

    def test_a_key_is_taken_from_either_field(self):
        key = self.ENVIRONMENT["TUTTI_API_KEY"]
        self.assertTrue(self.ask(api_key=key))
        self.assertTrue(self.ask(auth_token=key))
        self.assertTrue(self.ask(api_key=key, default_headers={"Authorization": "Bearer " + key}))
        for wrong in ({"api_key": "sk-wrong"}, {"api_key": key, "default_headers": {"Authorization": "Bearer sk-other"}}):
            with self.assertRaises(anthropic.AuthenticationError) as failed:
                self.ask(**wrong)
            self.assertEqual(failed.exception.body["error"]["type"], "authentication_error")


if __name__ == "__main__":
    unittest.main()
