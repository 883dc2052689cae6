"""A model that reasons before it answers, with the stock clients: budgets, answers under a schema, reasoning as an item (R06).

The weights are random, so the model never ends its reasoning but by chance: what ends it here is the budget.
"""
import contextlib
import json
import os
import pty
import re
import subprocess
import tempfile
import unittest

import anthropic
import jsonschema
import openai

import thinking_model
from harness import STEP_S, Server, eventually

QUESTION = "How many are there?"
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 999}}, "required": ["n"],
          "additionalProperties": False}
FORMAT = {"type": "json_schema", "json_schema": {"name": "it", "schema": SCHEMA}}
TEXT = {"format": {"type": "json_schema", "name": "it", "schema": SCHEMA}}
TOOL = {"type": "function", "name": "count", "parameters": SCHEMA}
BUDGETS = (0, 1, 7, 40)
LENGTH = 200


class Reasoning(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="thinking-")
        cls.addClassCleanup(folder.cleanup)
        path = cls.path = os.path.join(folder.name, "thinking")
        thinking_model.write(path)
        cls.server = Server("--store", os.path.join(folder.name, "store"), model=path)
        cls.addClassCleanup(cls.server.stop)
        cls.model = cls.server.models()[0]
        cls.client = openai.OpenAI(base_url=cls.server.url + "/v1", api_key="none", timeout=STEP_S, max_retries=0)
        cls.addClassCleanup(cls.client.close)
        cls.anthropic = anthropic.Anthropic(base_url=cls.server.url, api_key="none", timeout=STEP_S, max_retries=0)
        cls.addClassCleanup(cls.anthropic.close)

    def chat(self, budget, messages=None, **options):
        return self.client.chat.completions.create(
            model=self.model, messages=messages or [{"role": "user", "content": QUESTION}], temperature=0, max_tokens=LENGTH,
            extra_body={} if budget is None else {"thinking_token_budget": budget}, **options)

    def create(self, budget=7, **options):
        body = {} if budget is None else {"thinking_token_budget": budget}
        return self.client.responses.create(**{
            "model": self.model, "input": QUESTION, "temperature": 0, "max_output_tokens": LENGTH, "extra_body": body, **options})

    def call(self, **options):
        return self.create(tools=[TOOL], tool_choice="required", parallel_tool_calls=False, **options)

    def check(self, answer, tokens, budget):
        jsonschema.validate(json.loads(answer), SCHEMA)
        self.assertLessEqual(tokens, budget)

    def test_a_chat_keeps_its_thinking_budget_and_its_schema(self):
        lengths = set()
        for budget in BUDGETS:
            with self.subTest(budget):
                answer = self.chat(budget, response_format=FORMAT)
                message, usage = answer.choices[0].message, answer.usage
                self.assertEqual(answer.choices[0].finish_reason, "stop")
                self.check(message.content, usage.completion_tokens_details.reasoning_tokens, budget)
                self.assertLess(usage.completion_tokens_details.reasoning_tokens, usage.completion_tokens)
                lengths.add(usage.completion_tokens_details.reasoning_tokens)
                thought, text, deltas = "", "", 0
                for chunk in self.chat(budget, response_format=FORMAT, stream=True):
                    for choice in chunk.choices:
                        piece = (choice.delta.model_extra or {}).get("reasoning_content") or ""
                        self.assertFalse(piece and text, "reasoning behind the answer")
                        thought, text, deltas = thought + piece, text + (choice.delta.content or ""), deltas + bool(piece)
                self.assertEqual((thought, text), (message.reasoning_content, message.content))
                self.assertLessEqual(deltas, budget + 1)  # the last one is the line end before the tag
                self.assertNotIn("think>", thought + text)
        self.assertGreater(len(lengths), 2, "the model ended its reasoning by itself")

    def test_an_answer_that_goes_on_within_reasoning_ends_it_first(self):
        answer = self.client.chat.completions.create(
            model=self.model, temperature=0, max_tokens=LENGTH, response_format=FORMAT,
            messages=[{"role": "user", "content": QUESTION}, {"role": "assistant", "content": "<think>\nFirst"}],
            extra_body={"continue_final_message": True, "add_generation_prompt": False, "thinking_token_budget": 7})
        self.assertTrue(answer.choices[0].message.reasoning_content)
        self.check(answer.choices[0].message.content, answer.usage.completion_tokens_details.reasoning_tokens, 7)

    def test_a_budget_gives_an_answer_where_thinking_would_not_end(self):
        endless = self.chat(None)
        self.assertEqual((endless.choices[0].finish_reason, endless.choices[0].message.content or ""), ("length", ""))
        self.assertEqual(endless.usage.completion_tokens_details.reasoning_tokens, LENGTH)
        answer = self.client.chat.completions.create(
            model=self.model, messages=[{"role": "user", "content": QUESTION}], temperature=0, max_tokens=LENGTH,
            extra_body={"thinking_token_budget": 20, "ignore_eos": True})
        self.assertTrue(answer.choices[0].message.content)
        self.assertLessEqual(answer.usage.completion_tokens_details.reasoning_tokens, 20)

    def test_a_response_has_a_reasoning_item_before_its_message(self):
        for budget in BUDGETS:
            with self.subTest(budget):
                chat = self.chat(budget, response_format=FORMAT)
                answer = self.create(budget, text=TEXT, include=["reasoning.encrypted_content"], reasoning={"summary": "auto"})
                self.check(answer.output_text, answer.usage.output_tokens_details.reasoning_tokens, budget)
                self.assertEqual(answer.output_text, chat.choices[0].message.content)
                self.assertEqual(answer.usage.output_tokens_details.reasoning_tokens,
                                 chat.usage.completion_tokens_details.reasoning_tokens)
                thought = chat.choices[0].message.reasoning_content
                self.assertEqual([item.type for item in answer.output], ["reasoning", "message"] if thought.strip() else ["message"])
                if thought.strip():
                    item = answer.output[0]
                    self.assertEqual((item.status, item.summary, item.encrypted_content), ("completed", [], None))
                    self.assertEqual([(part.type, part.text) for part in item.content], [("reasoning_text", thought)])
                    self.assertTrue(item.id.startswith("rs_"))
                self.assertEqual(self.client.responses.retrieve(answer.id).to_dict(), answer.to_dict())

    def test_an_answer_that_is_cut_while_it_thinks_has_no_message(self):
        answer = self.create(None, max_output_tokens=16)
        self.assertEqual((answer.status, [item.type for item in answer.output]), ("incomplete", ["reasoning"]))
        self.assertEqual((answer.output[0].status, answer.output_text), ("incomplete", ""))
        self.assertEqual(answer.usage.output_tokens_details.reasoning_tokens, 16)

    def test_a_stream_has_reasoning_events_and_resumes_at_each(self):
        events = list(self.create(text=TEXT, stream=True))
        self.assertEqual([e.sequence_number for e in events], list(range(len(events))))
        names = [e.type.removeprefix("response.") for e in events]
        self.assertEqual([n for i, n in enumerate(names) if names[i - 1:i] != [n]], [
            "created", "in_progress",
            "output_item.added", "content_part.added", "reasoning_text.delta", "reasoning_text.done", "content_part.done", "output_item.done",
            "output_item.added", "content_part.added", "output_text.delta", "output_text.done", "content_part.done", "output_item.done",
            "completed"])
        whole = events[-1].response
        for index, kind in enumerate(("reasoning_text", "output_text")):
            item = whole.output[index]
            of_item = [e for e in events if getattr(e, "output_index", None) == index]
            self.assertEqual("".join(e.delta for e in of_item if e.type == f"response.{kind}.delta"), item.content[0].text)
            self.assertEqual([e.text for e in of_item if e.type == f"response.{kind}.done"], [item.content[0].text])
            self.assertEqual([e.part.type for e in of_item if e.type.startswith("response.content_part")], [kind, kind])
            self.assertEqual({e.item_id for e in of_item if hasattr(e, "item_id")}, {item.id})
            self.assertEqual([e.item for e in of_item if e.type == "response.output_item.done"], [item])
        for place in range(len(events) - 1):
            rest = self.client.responses.retrieve(whole.id, stream=True, starting_after=place)
            self.assertEqual([e.to_dict() for e in rest], [e.to_dict() for e in events[place + 1:]])

    def test_the_streaming_helper_of_the_client_follows_it(self):
        with self.client.responses.stream(model=self.model, input=QUESTION, max_output_tokens=LENGTH, temperature=0, text=TEXT,
                                          extra_body={"thinking_token_budget": 7}) as stream:
            kinds = {event.type for event in stream}
            final = stream.get_final_response()
        self.assertIn("response.reasoning_text.delta", kinds)
        whole = self.create(text=TEXT)
        self.assertEqual(final.output_text, whole.output_text)
        self.assertEqual(final.output[0].content[0].text, whole.output[0].content[0].text)

    def test_the_background_and_the_next_process_have_it(self):
        quick = self.create(text=TEXT, background=True)
        eventually(lambda: self.client.responses.retrieve(quick.id).status == "completed", lambda: quick.id)
        self.assertEqual([item.type for item in self.client.responses.retrieve(quick.id).output], ["reasoning", "message"])
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "thinking")
            thinking_model.write(path)
            shown = []
            for _ in range(2):
                server = Server("--store", os.path.join(folder, "store"), model=path)
                with openai.OpenAI(base_url=server.url + "/v1", api_key="none", timeout=STEP_S, max_retries=0) as client:
                    if not shown:
                        made = client.responses.create(model="thinking", input=QUESTION, temperature=0, max_output_tokens=LENGTH, text=TEXT,
                                                       extra_body={"thinking_token_budget": 7})
                    shown.append((client.responses.retrieve(made.id).to_dict(),
                                  [e.to_dict() for e in client.responses.retrieve(made.id, stream=True)]))
                self.assertEqual(server.stop(), 0)
        self.assertEqual(shown[0], shown[1])
        self.assertEqual(shown[1][0]["usage"]["output_tokens_details"]["reasoning_tokens"], made.usage.output_tokens_details.reasoning_tokens)

    def expect_same(self, answers):
        """Their prompts were the same, and so were their answers."""
        self.assertEqual(len({a.usage.input_tokens for a in answers}), 1, [a.usage.input_tokens for a in answers])
        self.assertEqual(len({a.output_text for a in answers}), 1)
        self.assertEqual(len({a.output[0].content[0].text for a in answers if a.output[0].type == "reasoning"}), 1)

    def test_a_loop_of_calls_gives_the_reasoning_back_by_every_way(self):
        first = self.call()
        self.assertEqual([item.type for item in first.output], ["reasoning", "function_call"])
        call = first.output[1]
        jsonschema.validate(json.loads(call.arguments), SCHEMA)
        output = {"type": "function_call_output", "call_id": call.call_id, "output": "12"}
        items = [{"role": "user", "content": QUESTION}]
        items += first.output
        items.append(output)
        options = {"tools": [TOOL], "tool_choice": "none", "text": TEXT}
        sent = self.create(input=items, **options)
        named = self.create(input=[output], previous_response_id=first.id, **options)
        conversation = self.client.conversations.create()
        again = self.call(conversation=conversation.id)
        of_conversation = self.create(input=[{**output, "call_id": again.output[1].call_id}], conversation=conversation.id, **options)
        self.expect_same([sent, named, of_conversation])
        chat = self.chat(7, [
            {"role": "user", "content": QUESTION},
            {"role": "assistant", "content": "", "reasoning_content": first.output[0].content[0].text, "tool_calls": [
                {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}]},
            {"role": "tool", "tool_call_id": call.call_id, "content": "12"}],
            tools=[{"type": "function", "function": {"name": TOOL["name"], "parameters": SCHEMA}}], tool_choice="none", response_format=FORMAT)
        self.assertEqual(chat.usage.prompt_tokens, sent.usage.input_tokens)
        self.assertEqual(chat.choices[0].message.content, sent.output_text)
        without = self.create(input=[items[0], *first.output[1:], output], **options)
        self.assertLess(without.usage.input_tokens, sent.usage.input_tokens)
        counted = self.client.responses.input_tokens.count(model=self.model, input=items, **options)
        self.assertEqual(counted.input_tokens, sent.usage.input_tokens)
        listed = self.client.responses.input_items.list(sent.id, order="asc").data
        self.assertEqual([item.type for item in listed], ["message", "reasoning", "function_call", "function_call_output"])
        self.assertEqual(listed[1].content[0].text, first.output[0].content[0].text)

    def test_reasoning_before_an_answer_is_in_no_later_prompt(self):
        first = self.create(text=TEXT)
        self.assertEqual(first.output[0].type, "reasoning")
        items = [{"role": "user", "content": QUESTION}]
        items += first.output
        items.append({"role": "user", "content": "And then?"})
        sent = self.create(input=items, text=TEXT)
        named = self.create(input="And then?", text=TEXT, previous_response_id=first.id)
        conversation = self.client.conversations.create()
        self.create(text=TEXT, conversation=conversation.id)
        of_conversation = self.create(input="And then?", text=TEXT, conversation=conversation.id)
        plain = self.create(input=[items[0], {"role": "assistant", "content": first.output_text}, items[-1]], text=TEXT)
        self.expect_same([sent, named, of_conversation, plain])

    def test_a_conversation_lists_reasoning_among_its_items(self):
        conversation = self.client.conversations.create()
        answer = self.create(text=TEXT, conversation=conversation.id)
        items = self.client.conversations.items.list(conversation.id, order="asc").data
        self.assertEqual([item.type for item in items], ["message", "reasoning", "message"])
        self.assertEqual([item.id for item in items[1:]], [item.id for item in answer.output])
        self.assertEqual(items[1].to_dict(), answer.output[0].to_dict())
        found = self.client.conversations.items.retrieve(items[1].id, conversation_id=conversation.id)
        self.assertEqual(found.to_dict(), items[1].to_dict())
        added = self.client.conversations.items.create(conversation.id, items=[answer.output[0].to_dict(), answer.output[1].to_dict()])
        self.assertEqual([item.type for item in added.data], ["reasoning", "message"])

    def test_messages_have_the_same_thinking_as_a_block(self):
        for budget in BUDGETS[1:]:
            with self.subTest(budget):
                chat = self.chat(budget, response_format=FORMAT).choices[0].message
                options = {"model": self.model, "messages": [{"role": "user", "content": QUESTION}], "max_tokens": LENGTH,
                           "thinking": {"type": "enabled", "budget_tokens": budget},
                           "extra_body": {"temperature": 0, "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}}
                message = self.anthropic.messages.create(**options)
                self.assertEqual([block.type for block in message.content], ["thinking", "text"])
                self.assertEqual((message.content[0].thinking, message.content[1].text), (chat.reasoning_content, chat.content))
                with self.anthropic.messages.stream(**options) as stream:
                    final = stream.get_final_message()
                self.assertEqual([block.to_dict() for block in final.content], [block.to_dict() for block in message.content])

    def test_the_terminal_shows_reasoning_dimmed_before_the_answer(self):
        for where in ([self.path], ["--url", self.server.url], [self.path, "--store", self.path + ".chats"]):
            with self.subTest(where[0]):
                ours, theirs = pty.openpty()
                command = [os.environ["E2E_BINARY"], "chat", *where, "-n", "12", "--temperature", "0"]
                done = subprocess.run(command, input=QUESTION, stdout=subprocess.PIPE, stderr=theirs, text=True, timeout=STEP_S)
                os.close(theirs)
                shown = b""
                with contextlib.suppress(OSError):  # the terminal's end
                    while more := os.read(ours, 1 << 16):
                        shown += more
                os.close(ours)
                shown = shown.decode(errors="replace")
                thought = re.search(r"\x1b\[2m(.+?)\x1b\[0m", shown, re.DOTALL)
                self.assertIsNotNone(thought, shown)
                self.assertNotIn(thought[1].strip(), done.stdout)
                self.assertEqual(done.returncode, 0)


if __name__ == "__main__":
    unittest.main()
