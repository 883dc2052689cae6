"""Answers under a schema, an expression, a choice or a grammar: each satisfies it, over every API (R01, R04)."""
import concurrent.futures
import enum
import json
import re
import time
import typing
import unittest

import jsonschema
import openai
import pydantic

from harness import MODEL, ServerCase, amount, figure, judged
from schemas import SCHEMAS

def chat(text, **more):
    return {"model": MODEL, "messages": [{"role": "user", "content": text}], "max_tokens": 120, **more}


class StructuredOutput(ServerCase):

    def answer(self, body):
        choice = self.server.post_json("/v1/chat/completions", body)["choices"][0]
        return choice["message"]["content"], choice["finish_reason"]

    def test_sampled_answers_satisfy_their_schema_unless_cut(self):
        def one(number):
            schema = SCHEMAS[number % len(SCHEMAS)]
            body = chat("Give me an example as JSON.", temperature=1, seed=number,
                        response_format={"type": "json_schema", "json_schema": {"name": "it", "schema": schema}})
            return schema, *self.answer(body)

        whole, count = 0, amount(10, 24, 1000)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for schema, text, reason in pool.map(one, range(count)):
                if reason == "length":
                    continue
                whole += 1
                value = json.loads(text)
                jsonschema.validate(value, schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
        figure(f"{whole} of {count} answers ended before their length")
        self.assertGreater(whole, count // 2)

    def test_the_same_answer_alone_and_among_others(self):
        body = chat("A person?", temperature=0.8, seed=5, response_format={
            "type": "json_schema", "json_schema": {"name": "it", "schema": SCHEMAS[0]}})
        alone = self.answer(body)
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            others = [pool.submit(self.answer, chat("Hello", temperature=1, seed=i, max_tokens=60)) for i in range(5)]
            self.assertEqual(pool.submit(self.answer, body).result(), alone)
            for other in others:
                other.result()

    def test_the_stock_client_parses_into_its_own_types(self):
        class Unit(str, enum.Enum):
            celsius = "celsius"
            fahrenheit = "fahrenheit"

        class Weather(pydantic.BaseModel):
            city: str = pydantic.Field(max_length=30)
            unit: Unit
            degrees: typing.Optional[int]

        client = openai.OpenAI(base_url=self.server.url + "/v1", api_key="x")
        done = client.chat.completions.parse(model=MODEL, messages=[{"role": "user", "content": "Weather in Paris?"}],
                                             response_format=Weather, temperature=0, max_tokens=200)
        self.assertIsInstance(done.choices[0].message.parsed, Weather)
        response = client.responses.parse(model=MODEL, input="Weather in Paris?", text_format=Weather, temperature=0,
                                          max_output_tokens=200)
        self.assertEqual(response.output_parsed, done.choices[0].message.parsed)

    def test_every_spelling_gives_the_same_tokens(self):
        schema = SCHEMAS[1]
        tag = {"type": "structural_tag", "triggers": ["<"], "structures": [{"begin": "<a>", "schema": schema, "end": "</a>"}]}
        spellings = {
            "tag": ({"response_format": tag}, {"structured_outputs": {"structural_tag": tag}}),
            "schema": ({"response_format": {"type": "json_schema", "json_schema": {"name": "it", "schema": schema}}},
                       {"response_format": {"type": "json_object", "schema": schema}}, {"guided_json": schema},
                       {"guided_json": json.dumps(schema)}, {"structured_outputs": {"json": schema}}, {"json_schema": schema},
                       {"format": schema}, {"response_format": {"type": "json_object", "value": schema}},
                       {"response_format": {"type": "json", "value": schema}}),
            "object": ({"response_format": {"type": "json_object"}}, {"format": "json"}, {"structured_outputs": {"json_object": True}}),
            "regex": ({"guided_regex": "(yes|no), [a-z]{3,9}"}, {"structured_outputs": {"regex": "(yes|no), [a-z]{3,9}"}},
                      {"response_format": {"type": "regex", "value": "(yes|no), [a-z]{3,9}"}}),
            "choice": ({"guided_choice": ["lemon", "winter"]}, {"structured_outputs": {"choice": ["lemon", "winter"]}}),
            "grammar": ({"guided_grammar": 'root ::= "a" [0-9]{2}'}, {"grammar": 'root ::= "a" [0-9]{2}'},
                        {"structured_outputs": {"grammar": 'root ::= "a" [0-9]{2}'}}),
        }
        for kind, ways in spellings.items():
            answers = [self.answer(chat("Well?", temperature=0.7, seed=3, **way)) for way in ways]
            self.assertEqual(answers, [answers[0]] * len(ways), kind)
        self.assertRegex(self.answer(chat("Well?", **spellings["regex"][0]))[0], re.compile("(yes|no), [a-z]{3,9}$"))
        self.assertIn(self.answer(chat("Well?", **spellings["choice"][0]))[0], ("lemon", "winter"))

    def test_penalties_logprobs_choices_and_stops_stay_inside(self):
        schema = SCHEMAS[0]
        form = {"response_format": {"type": "json_schema", "json_schema": {"name": "it", "schema": schema}}}
        body = chat("A person as JSON.", temperature=1, seed=9, n=3, logprobs=True, top_logprobs=2, frequency_penalty=1.5,
                    presence_penalty=1, logit_bias={"28": 40}, ignore_eos=True, min_tokens=4, **form)
        for choice in self.server.post_json("/v1/chat/completions", body)["choices"]:
            if choice["finish_reason"] != "length":
                jsonschema.validate(json.loads(choice["message"]["content"]), schema)
            self.assertEqual("".join(t["token"] for t in choice["logprobs"]["content"]), choice["message"]["content"])

    def test_what_cannot_be_kept_is_refused_by_its_path_and_soon(self):
        def refusal(**more):
            begin = time.monotonic()
            status, _, text = self.server.post("/v1/chat/completions", chat("x", **more))
            if judged("the time to refuse a grammar", "a sanitized build of it takes five times as long"):
                self.assertLess(time.monotonic() - begin, 5)
            self.assertEqual(status, 400, text)
            error = json.loads(text)["error"]
            return error["code"], error["param"]

        def schema(of):
            return {"response_format": {"type": "json_schema", "json_schema": {"name": "it", "schema": of}}}

        at = "response_format.json_schema.schema"
        self.assertEqual(refusal(**schema({"properties": {"a": {"uniqueItems": True}}})),
                         ("schema_unsupported", at + ".properties.a.uniqueItems"))
        self.assertEqual(refusal(**schema({"properties": {"a": {"pattern": "(?=a)"}}})),
                         ("grammar_regex", at + ".properties.a.pattern"))
        self.assertEqual(refusal(guided_regex="(a|b)*a(a|b){40}"), ("grammar_too_complex", "guided_regex"))
        self.assertEqual(refusal(grammar="root ::= root \"a\" | \"b\""), ("grammar_left_recursion", "grammar"))
        self.assertEqual(refusal(guided_json={"type": "string"}, guided_regex="a")[0], "invalid_value")
        self.assertEqual(refusal(response_format={"type": "xml"}), ("unsupported_parameter", "response_format.type"))
        self.assertEqual(refusal(response_format={"type": "json_schema"}), ("missing_required_parameter", "response_format.json_schema"))

    def test_streamed_and_whole_answers_agree(self):
        body = chat("A person?", temperature=0.8, seed=5, response_format={
            "type": "json_schema", "json_schema": {"name": "it", "schema": SCHEMAS[0]}})
        client = openai.OpenAI(base_url=self.server.url + "/v1", api_key="x")
        parts = [chunk.choices[0].delta.content or "" for chunk in client.chat.completions.create(**body, stream=True) if chunk.choices]
        self.assertEqual("".join(parts), self.answer(body)[0])


if __name__ == "__main__":
    unittest.main()
