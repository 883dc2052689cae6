"""The Responses API with the stock openai client against the real model: answers, events, storage and resumption."""
import os
import signal
import tempfile
import unittest

import openai

from harness import MODEL, STEP_S, Server, ServerCase, eventually

QUESTION = "Name three colours."


def client_of(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="none", timeout=STEP_S, max_retries=0)


class Responses(ServerCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.client = client_of(cls.server)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        super().tearDownClass()

    def create(self, **options):
        return self.client.responses.create(
            **{"model": MODEL, "input": QUESTION, "max_output_tokens": 24, "temperature": 0, **options})

    def test_an_answer_is_the_chats_and_says_how_it_ended(self):
        chat = self.client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": QUESTION}], max_tokens=24, temperature=0)
        answer = self.create()
        self.assertTrue(answer.id.startswith("resp_"))
        self.assertEqual(answer.output_text, chat.choices[0].message.content)
        self.assertEqual((answer.status, answer.incomplete_details.reason), ("incomplete", "max_output_tokens"))
        self.assertEqual(answer.usage.output_tokens, 24)
        self.assertEqual(answer.usage.input_tokens, chat.usage.prompt_tokens)
        self.assertEqual(answer.output[0].content[0].type, "output_text")

    def test_events_are_numbered_without_gaps_and_join_to_the_answer(self):
        events = list(self.create(stream=True))
        self.assertEqual([e.sequence_number for e in events], list(range(len(events))))
        types = [e.type for e in events]
        self.assertEqual(types[0], "response.created")
        self.assertEqual(types[-1], "response.incomplete")
        text = "".join(e.delta for e in events if e.type == "response.output_text.delta")
        self.assertEqual(text, events[-1].response.output_text)
        self.assertEqual(text, self.create().output_text)

    def test_logprobs_are_those_of_a_chat_in_every_form(self):
        chat = self.client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": QUESTION}], max_tokens=24, temperature=0, logprobs=True, top_logprobs=3)
        wanted = [(token.token, token.logprob, [(other.token, other.logprob) for other in token.top_logprobs])
                  for token in chat.choices[0].logprobs.content]

        def plain(logprobs):
            return [(token.token, token.logprob, [(other.token, other.logprob) for other in token.top_logprobs]) for token in logprobs]
        asked = {"include": ["message.output_text.logprobs"], "top_logprobs": 3}
        answer = self.create(**asked)
        part = answer.output[0].content[0]
        self.assertEqual(plain(part.logprobs), wanted)
        self.assertEqual("".join(token.token for token in part.logprobs), part.text)
        self.assertTrue(all(bytes(token.bytes).decode() == token.token for token in part.logprobs))
        self.assertEqual(answer.top_logprobs, 3)
        events = list(self.create(stream=True, **asked))
        deltas = [event for event in events if event.type == "response.output_text.delta"]
        self.assertEqual([token for event in deltas for token in plain(event.logprobs)], wanted)
        for event in deltas:
            self.assertEqual("".join(token.token for token in event.logprobs), event.delta)
        done, = (event for event in events if event.type == "response.output_text.done")
        self.assertEqual(plain(done.logprobs), wanted)
        self.assertEqual(plain(events[-1].response.output[0].content[0].logprobs), wanted)
        # Stored with the response.
        again = self.client.responses.retrieve(answer.id, include=["message.output_text.logprobs"])
        self.assertEqual(plain(again.output[0].content[0].logprobs), wanted)
        self.assertEqual(self.create().output[0].content[0].logprobs, [])
        with self.assertRaisesRegex(openai.BadRequestError, "top_logprobs needs include"):
            self.create(top_logprobs=3)

    def test_the_streaming_helper_of_the_client_works(self):
        with self.client.responses.stream(model=MODEL, input=QUESTION, max_output_tokens=24, temperature=0) as stream:
            text = "".join(e.delta for e in stream if e.type == "response.output_text.delta")
        self.assertEqual(text, self.create().output_text)

    def test_instructions_and_a_list_of_messages_equal_a_chat(self):
        messages = [{"role": "user", "content": "I am Ada."}, {"role": "assistant", "content": "Hello Ada."},
                    {"role": "user", "content": [{"type": "input_text", "text": "Who am I?"}]}]
        answer = self.create(input=messages, instructions="Answer in one word.")
        chat = self.client.chat.completions.create(
            model=MODEL, max_tokens=24, temperature=0,
            messages=[{"role": "system", "content": "Answer in one word."}, *messages[:2],
                      {"role": "user", "content": "Who am I?"}])
        self.assertEqual(answer.output_text, chat.choices[0].message.content)

    def test_what_is_stored_is_found_again_and_gone_when_deleted(self):
        answer = self.create(metadata={"colour": "blue"})
        again = self.client.responses.retrieve(answer.id)
        self.assertEqual(again.to_dict(), answer.to_dict())
        self.assertEqual(again.metadata, {"colour": "blue"})
        items = self.client.responses.input_items.list(answer.id).data
        self.assertEqual([(i.role, i.content[0].text) for i in items], [("user", QUESTION)])
        self.client.responses.delete(answer.id)
        with self.assertRaises(openai.NotFoundError):
            self.client.responses.retrieve(answer.id)

    def test_what_is_not_stored_is_not_found(self):
        answer = self.create(store=False)
        with self.assertRaises(openai.NotFoundError):
            self.client.responses.create(model=MODEL, input="And then?", previous_response_id=answer.id)

    def test_a_call_goes_on_from_the_response_before(self):
        first = self.create(input="My name is Ada.")
        second = self.create(input="What is my name?", previous_response_id=first.id)
        chat = self.client.chat.completions.create(
            model=MODEL, max_tokens=24, temperature=0,
            messages=[{"role": "user", "content": "My name is Ada."},
                      {"role": "assistant", "content": first.output_text},
                      {"role": "user", "content": "What is my name?"}])
        self.assertEqual(second.output_text, chat.choices[0].message.content)
        self.assertEqual(second.previous_response_id, first.id)
        self.assertGreater(second.usage.input_tokens_details.cached_tokens, 0)

    def test_the_background_answers_at_once_and_can_be_cancelled(self):
        quick = self.create(background=True)
        self.assertIn(quick.status, ("queued", "in_progress"))
        eventually(lambda: self.client.responses.retrieve(quick.id).status == "incomplete", lambda: quick.id)
        self.assertEqual(self.client.responses.retrieve(quick.id).output_text, self.create().output_text)
        long = self.create(background=True, max_output_tokens=4000, extra_body={"ignore_eos": True})
        for _ in range(2):
            cancelled = self.client.responses.cancel(long.id)
            self.assertEqual((cancelled.id, cancelled.status), (long.id, "cancelled"))
        self.assertEqual(self.client.responses.retrieve(long.id).status, "cancelled")
        self.assertEqual(self.client.responses.cancel(quick.id).status, "incomplete")

    def test_a_stream_is_resumed_elsewhere_with_each_event_once(self):
        for cut in (1, 4, 9, 20):
            with self.create(stream=True, background=True) as stream:
                events = []
                for event in stream:
                    events.append(event)
                    if len(events) == cut:
                        break
            rest = list(self.client.responses.retrieve(
                events[0].response.id, stream=True, starting_after=events[-1].sequence_number))
            self.assertEqual([e.sequence_number for e in events + rest], list(range(cut + len(rest))))
            text = "".join(e.delta for e in events + rest if e.type == "response.output_text.delta")
            self.assertEqual(text, rest[-1].response.output_text)

    def test_what_is_wrong_is_refused_by_name(self):
        for options, code, param in [
                ({"temperature": 3}, "invalid_value", "temperature"),
                ({"max_output_tokens": 3}, "invalid_value", "max_output_tokens"),
                ({"background": True, "store": False}, "invalid_value", None),
                ({"previous_response_id": "resp_none"}, "not_found", "previous_response_id"),
                ({"tools": [{"type": "web_search"}]}, "unsupported_parameter", "tools[0]"),
                ({"model": "no-such-model"}, "model_not_found", "model"),
                ({"input": []}, "empty_prompt", None)]:
            with self.assertRaises(openai.APIStatusError, msg=str(options)) as raised:
                self.create(**options)
            self.assertEqual(raised.exception.code, code, options)
            if param is not None:
                self.assertEqual(raised.exception.param, param)
        for call in (lambda: self.client.responses.retrieve("resp_" + "0" * 32),
                     lambda: self.client.responses.cancel("resp_" + "0" * 32),
                     lambda: self.client.responses.delete("nothing")):
            with self.assertRaises(openai.NotFoundError):
                call()


class ResponsesOutlastTheProcess(unittest.TestCase):
    def test_a_killed_server_finishes_accepted_and_keeps_ended_ones(self):
        with tempfile.TemporaryDirectory() as folder:
            environment = {"TUTTI_STORE": os.path.join(folder, "store")}
            server = Server(environment=environment)
            client = client_of(server)
            done = client.responses.create(model=MODEL, input=QUESTION, max_output_tokens=16, temperature=0)
            options = {"model": MODEL, "input": "Tell me a long story.", "max_output_tokens": 200,
                       "extra_body": {"seed": 7, "ignore_eos": True}}
            expected = client.responses.create(**options).output_text
            running = client.responses.create(background=True, **options)
            eventually(lambda: client.responses.retrieve(running.id).status == "in_progress", server.log)
            server.process.send_signal(signal.SIGKILL)
            server.process.wait()
            client.close()

            server = Server(environment=environment)
            client = client_of(server)
            try:
                self.assertEqual(client.responses.retrieve(done.id).to_dict(), done.to_dict())
                eventually(lambda: client.responses.retrieve(running.id).status == "incomplete", server.log)
                again = client.responses.retrieve(running.id)
                self.assertEqual(again.output_text, expected)
                events = list(client.responses.retrieve(running.id, stream=True, starting_after=0))
                self.assertEqual([e.sequence_number for e in events], list(range(1, len(events) + 1)))
            finally:
                client.close()
                self.assertEqual(server.stop(), 0)
