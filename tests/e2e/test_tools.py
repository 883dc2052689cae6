"""Tool calls by the stock client: every call names an offered tool, and its arguments satisfy the tool's schema (R05)."""
import concurrent.futures
import json
import unittest

import anthropic
import jsonschema
import openai

from harness import MODEL, RealModel, ServerCase, amount, eventually

TOOLS = (
    ("get_weather", "Current weather at a place", {
        "type": "object", "properties": {"city": {"type": "string", "maxLength": 30}, "unit": {"enum": ["celsius", "fahrenheit"]},
                                         "days": {"type": "integer", "minimum": 1, "maximum": 14}},
        "required": ["city"], "additionalProperties": False}),
    ("add", "Adds numbers", {
        "type": "object", "properties": {"values": {"type": "array", "items": {"type": "number"}, "minItems": 1, "maxItems": 4}},
        "required": ["values"], "additionalProperties": False}),
    ("send_mail", "Sends a mail", {
        "type": "object", "properties": {"to": {"type": "string", "pattern": "^[a-z]{1,12}@example\\.org$"},
                                         "subject": {"type": "string", "maxLength": 40}, "urgent": {"type": "boolean"}},
        "required": ["to", "subject"], "additionalProperties": False}),
    ("now", "The current time", {"type": "object", "properties": {}, "additionalProperties": False}),
)
SCHEMAS = {name: schema for name, _, schema in TOOLS}
QUESTIONS = ("How warm is it in Oslo?", "What is 2 plus 3.5?", "Tell Ann by mail that I am late.", "What time is it?",
             "Weather in Rome for 3 days, then add 1 and 2.", "Hello!")


def tools(strict=False):
    return [{"type": "function", "function": {"name": name, "description": text, "parameters": schema, "strict": strict}}
            for name, text, schema in TOOLS]


class Tools(RealModel, ServerCase):

    def client(self):
        return openai.OpenAI(base_url=self.server.url + "/v1", api_key="none", max_retries=0)

    def ask(self, question, **more):
        return self.client().chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": question}], tools=tools(),
            **{"max_tokens": 160, "temperature": 1, **more})

    def check_calls(self, calls):
        for call in calls:
            self.assertEqual(call.type, "function")
            self.assertIn(call.function.name, SCHEMAS)
            jsonschema.validate(json.loads(call.function.arguments), SCHEMAS[call.function.name])
        self.assertEqual(len({call.id for call in calls}), len(calls))

    def test_required_calls_are_valid_or_cut_by_length(self):
        def one(number):
            choice = self.ask(QUESTIONS[number % len(QUESTIONS)], tool_choice="required", seed=number,
                              parallel_tool_calls=number % 3 != 0).choices[0]
            return number, choice

        whole = 0
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for number, choice in pool.map(one, range(amount(12, 12, 1000))):
                self.assertIn(choice.finish_reason, ("tool_calls", "length"))
                if choice.finish_reason == "length":
                    continue
                whole += 1
                self.assertFalse(choice.message.content)
                self.assertGreaterEqual(len(choice.message.tool_calls), 1)
                if number % 3 == 0:
                    self.assertEqual(len(choice.message.tool_calls), 1)
                self.check_calls(choice.message.tool_calls)
        self.assertGreater(whole, 0)

    def test_calls_that_are_cut_are_counted_and_logged(self):
        before = self.server.metric("tutti_broken_tool_calls_total", reason="cut")
        choice = self.ask("Tell Ann by mail that I am late.", max_tokens=9, temperature=0,
                          tool_choice={"type": "function", "function": {"name": "send_mail"}}).choices[0]
        self.assertEqual(choice.finish_reason, "length")
        eventually(lambda: self.server.metric("tutti_broken_tool_calls_total", reason="cut") == before + 1)
        self.server.expect_log(r"tools\.broken_call .*reason=cut")

    def test_named_calls_that_function(self):
        for name in SCHEMAS:
            choice = self.ask("Do it.", tool_choice={"type": "function", "function": {"name": name}}, seed=3).choices[0]
            if choice.finish_reason == "length":
                continue
            self.assertEqual([call.function.name for call in choice.message.tool_calls], [name])
            self.check_calls(choice.message.tool_calls)

    def test_auto_answers_with_text_or_valid_calls(self):
        for number in range(amount(4, 4, 100)):
            choice = self.ask(QUESTIONS[number % len(QUESTIONS)], seed=number).choices[0]
            if choice.message.tool_calls and choice.finish_reason == "tool_calls":
                self.check_calls(choice.message.tool_calls)
            else:
                self.assertNotIn("<tool_call>", choice.message.content or "")

    def test_none_never_calls(self):
        for number in range(amount(2, 2, 4)):
            choice = self.ask(QUESTIONS[number], tool_choice="none", seed=number).choices[0]
            self.assertIsNone(choice.message.tool_calls)
            self.assertNotIn("<tool_call>", choice.message.content)

    def test_streamed_and_whole_answers_agree(self):
        for number in range(amount(2, 2, 60)):
            options = {"tool_choice": "required" if number % 2 == 0 else "auto", "seed": number}
            question = QUESTIONS[number % len(QUESTIONS)]
            message = self.ask(question, **options).choices[0].message
            content, calls, reason = "", [], None
            for chunk in self.ask(question, stream=True, **options):
                for choice in chunk.choices:
                    content += choice.delta.content or ""
                    reason = choice.finish_reason or reason
                    for delta in choice.delta.tool_calls or ():
                        if delta.index == len(calls):
                            self.assertTrue(delta.id)
                            calls.append([delta.function.name, ""])
                        calls[delta.index][1] += delta.function.arguments or ""
            self.assertEqual(content, message.content or "")
            self.assertEqual(calls, [[c.function.name, c.function.arguments] for c in message.tool_calls or ()])
            self.assertIsNotNone(reason)

    def test_a_loop_of_calls_and_results_ends_with_an_answer(self):
        client = self.client()
        messages = [{"role": "system", "content": "You are brief."}, {"role": "user", "content": "What time is it?"}]
        first = client.chat.completions.create(model=MODEL, messages=messages, tools=tools(strict=True), max_tokens=120,
                                               tool_choice={"type": "function", "function": {"name": "now"}}, temperature=0)
        message = first.choices[0].message
        self.assertEqual(first.choices[0].finish_reason, "tool_calls")
        messages.append(message)
        for call in message.tool_calls:
            messages.append({"role": "tool", "tool_call_id": call.id, "content": "12:30"})
        second = client.chat.completions.create(model=MODEL, messages=messages, tools=tools(), tool_choice="none", max_tokens=40,
                                                temperature=0)
        self.assertTrue(second.choices[0].message.content)

    def test_a_loop_over_responses(self):
        client = self.client()
        now = [{"type": "function", "name": "now", "description": "The current time", "strict": False,
                "parameters": {"type": "object", "properties": {}, "additionalProperties": False}}]
        items = [{"role": "user", "content": "What time is it?"}]
        options = {"model": MODEL, "tools": now, "max_output_tokens": 80, "temperature": 0}
        named = {"type": "function", "name": "now"}
        first = client.responses.create(input=items, tool_choice=named, **options)
        calls = [item for item in first.output if item.type == "function_call"]
        self.assertEqual([call.name for call in calls], ["now"])
        streamed = []
        with client.responses.stream(input=items, tool_choice=named, **options) as stream:
            for event in stream:
                if event.type == "response.function_call_arguments.done":
                    streamed.append(event.arguments)
        self.assertEqual(streamed, [call.arguments for call in calls])
        results = [{"type": "function_call_output", "call_id": call.call_id, "output": "12:30"} for call in calls]
        whole = client.responses.create(input=items + first.output + results, tool_choice="none", **options)
        chained = client.responses.create(input=results, previous_response_id=first.id, tool_choice="none", **options)
        self.assertTrue(whole.output_text)
        self.assertEqual(chained.output_text, whole.output_text)

    def test_a_loop_over_messages_gives_the_text_of_chat_completions(self):
        client = anthropic.Anthropic(base_url=self.server.url, api_key="none", max_retries=0)
        now = [{"name": "now", "description": "The current time",
                "input_schema": {"type": "object", "properties": {}, "additionalProperties": False}}]
        messages = [{"role": "user", "content": "What time is it?"}]
        # The client has no argument for the temperature.
        options = {"model": MODEL, "tools": now, "max_tokens": 80, "extra_body": {"temperature": 0}}
        first = client.messages.create(messages=messages, tool_choice={"type": "tool", "name": "now"}, **options)
        self.assertEqual(first.stop_reason, "tool_use")
        calls = [block for block in first.content if block.type == "tool_use"]
        self.assertEqual([(call.name, call.input) for call in calls], [("now", {})])
        with client.messages.stream(messages=messages, tool_choice={"type": "tool", "name": "now"}, **options) as stream:
            streamed = [block for block in stream.get_final_message().content if block.type == "tool_use"]
        self.assertEqual([(call.name, call.input) for call in streamed], [("now", {})])
        dialog = messages + [{"role": "assistant", "content": first.content},
                             {"role": "user", "content": [{"type": "tool_result", "tool_use_id": calls[0].id, "content": "12:30"}]}]
        second = client.messages.create(messages=dialog, tool_choice={"type": "none"}, **options)
        chat = self.client().chat.completions.create(
            model=MODEL, max_tokens=80, temperature=0, tool_choice="none",
            tools=[{"type": "function", "function": {"name": "now", "description": "The current time",
                                                     "parameters": now[0]["input_schema"]}}],
            messages=messages + [
                {"role": "assistant", "content": None, "tool_calls": [
                    {"id": calls[0].id, "type": "function", "function": {"name": "now", "arguments": "{}"}}]},
                {"role": "tool", "tool_call_id": calls[0].id, "content": "12:30"}])
        self.assertEqual("".join(block.text for block in second.content), chat.choices[0].message.content)

    def test_what_is_wrong_with_a_tool_is_named(self):
        def refused(**fields):
            with self.assertRaises(openai.BadRequestError) as caught:
                self.client().chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "x"}], **fields)
            return caught.exception

        def function(**fields):
            return [{"type": "function", "function": {"name": "f", **fields}}]

        broken = function(parameters={"type": "object", "properties": {"a": {"not": {"type": "null"}}}}, strict=True)
        error = refused(tools=broken, tool_choice="required")
        self.assertEqual(error.code, "schema_unsupported")
        self.assertEqual(error.param, "tools[0].function.parameters.properties.a.not")
        self.assertEqual(refused(tools=function() + function()).param, "tools[1].function.name")
        self.assertEqual(refused(tools=tools(), tool_choice={"type": "function", "function": {"name": "rm"}}).param, "tool_choice")
        self.assertEqual(refused(tools=[{"type": "web_search"}]).param, "tools[0]")
        self.assertEqual(refused(tools=[tools()[0]] * 129).param, "tools")

    def test_a_schema_partly_unsupported_keeps_types_unless_strict(self):
        schema = {"type": "object", "properties": {"a": {"type": "integer", "not": {"const": 3}}}, "required": ["a"]}
        choice = self.client().chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": "Go."}], tool_choice="required", max_tokens=100, temperature=1, seed=1,
            tools=[{"type": "function", "function": {"name": "f", "parameters": schema}}], parallel_tool_calls=False).choices[0]
        if choice.finish_reason == "tool_calls":
            self.assertIsInstance(json.loads(choice.message.tool_calls[0].function.arguments)["a"], int)

    def test_the_same_call_alone_and_among_others(self):
        def arguments():
            calls = self.ask(QUESTIONS[0], tool_choice="required", seed=9).choices[0].message.tool_calls
            return [(call.function.name, call.function.arguments) for call in calls or ()]

        alone = arguments()
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            others = [pool.submit(self.ask, "Hello", seed=i, tool_choice="auto", max_tokens=60) for i in range(5)]
            self.assertEqual(pool.submit(arguments).result(), alone)
            for other in others:
                other.result()


if __name__ == "__main__":
    unittest.main()
