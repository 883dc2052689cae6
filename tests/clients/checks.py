"""Shared by the scripts of clients: declaration of checks, address of the server, and judging of answers.

    from checks import MODEL, V1, Client, agree, expected
    client = Client("openai", section="apis", distribution="openai")

    @client.check("chat")
    def chat(): ...

A check passes when it returns, and fails when it raises. Where the client itself falls short, the check says so,
`cannot="sends no tool results"`, with a pattern of the error that proves it, `error="KeyError"`: then it must fail with that error,
so that a reason which no longer holds is found.
"""
import dataclasses
import functools
import http.client
import json
import os
import threading
import typing

from page import COLUMNS, SECTIONS

MODEL = "smollm2-135m-instruct"
EMBEDDER = "all-minilm-l6-v2"
RERANKER = "reranker"
CALLER = "caller"  # calls get_weather when asked, and answers when it has the result: for APIs without tool_choice
WIDTH = 384  # of the embedder's vectors

HOST = "127.0.0.1"
PORT = int(os.environ["CLIENTS_PORT"])
GRPC_PORT = int(os.environ["CLIENTS_GRPC_PORT"])
MQTT_PORT = int(os.environ["CLIENTS_MQTT_PORT"])
URL = f"http://{HOST}:{PORT}"
V1 = URL + "/v1"

PROMPT = "Name three colours."
MESSAGES = [{"role": "user", "content": PROMPT}]
TOKENS = 24
QUESTION = "What is the weather in Rome?"
TEXTS = ["A cat sits on the mat.", "Dogs bark.", "The sea is calm tonight."]
QUERY = "Which animal barks?"

CLIENTS = []  # those of the script that is run


@dataclasses.dataclass
class Check:
    column: str
    function: typing.Callable
    cannot: str = ""  # why it must fail, in words of the page
    error: str = ""   # a regular expression that is found in the error of such a failure


class Client:
    """A row of the page. `distribution`: the package whose version is shown; `version` for what is no package."""

    def __init__(self, name, section, distribution=None, version=None):
        assert section in SECTIONS, section
        self.name, self.section, self.distribution, self.version = name, section, distribution or name, version
        self.checks = []
        CLIENTS.append(self)

    def check(self, column, cannot="", error=""):
        assert column in COLUMNS, column
        assert bool(cannot) == bool(error), f"{self.name}, {column}: a reason needs the error that proves it"

        def declare(function):
            assert all(check.column != column for check in self.checks), f"{self.name} has two checks of {column}"
            self.checks.append(Check(column, function, cannot, error))
            return function
        return declare


# --- what is asked ---

@functools.cache
def weather_schema():
    return {"type": "object", "properties": {"city": {"type": "string", "enum": ["Rome", "Oslo"]}}, "required": ["city"],
            "additionalProperties": False}


class Calls:
    """Functions to offer as tools, and the arguments they were called with."""

    def __init__(self):
        self.cities = []
        self.lock = threading.Lock()

        def get_weather(city: str) -> str:
            """The weather of a city now.

            Args:
                city: The name of the city.
            """
            return self.record(city)

        def get_weather_of(city: typing.Literal["Rome", "Oslo"]) -> str:
            """The weather of a city now.

            Args:
                city: The name of the city.
            """
            return self.record(city)

        get_weather_of.__name__ = get_weather_of.__qualname__ = "get_weather"
        self.plain, self.function = get_weather, get_weather_of  # any text as the city, or one of two

    def record(self, city):
        with self.lock:
            self.cities.append(city)
        return "sunny, 24 degrees"

    def judge(self):
        """The tool was called, with arguments that its schema allows."""
        assert self.cities, "the tool was never called"
        for city in self.cities:
            assert isinstance(city, str) and city, f"the tool was called with {city!r}"


REVIEW = "The film was wonderful, five stars of five."


def review_schema():
    return {"type": "object", "properties": {"mood": {"type": "string", "enum": ["good", "bad"]},
                                             "stars": {"type": "integer", "minimum": 1, "maximum": 5}},
            "required": ["mood", "stars"], "additionalProperties": False}


def review_type():
    """The review as a pydantic type."""
    import pydantic

    class Review(pydantic.BaseModel, extra="forbid"):
        mood: typing.Literal["good", "bad"]
        stars: int = pydantic.Field(ge=1, le=5)
    Review.__doc__ = "How somebody liked a film."
    return Review


TOOL = {"type": "function", "function": {"name": "get_weather", "description": "The weather of a city now.",
                                         "parameters": weather_schema(), "strict": True}}
NAMED = {"type": "function", "function": {"name": "get_weather"}}  # as a tool_choice


def openai_loop(ask):
    """The loop of tools for clients with OpenAI's messages: `ask(messages, tool_choice)` gives the assistant's message, an object."""
    calls = Calls()
    messages = [{"role": "user", "content": QUESTION}]
    first = ask(messages, NAMED)
    messages.append({"role": "assistant", "content": first.content or "", "tool_calls": [
        {"id": call.id, "type": "function", "function": {"name": call.function.name, "arguments": call.function.arguments}}
        for call in first.tool_calls]})
    for call in first.tool_calls:
        assert call.function.name == "get_weather", call
        messages.append({"role": "tool", "tool_call_id": call.id,
                         "content": calls.record(**json.loads(call.function.arguments))})
    calls.judge()
    said(ask(messages, "none").content)


# --- how an answer is judged ---

def judge_review(value):
    """`value`: an object of that type, a dictionary or its JSON."""
    if isinstance(value, str):
        value = json.loads(value)
    if not isinstance(value, dict):
        value = {"mood": value.mood, "stars": value.stars}
    assert set(value) == {"mood", "stars"}, value
    assert value["mood"] in ("good", "bad") and type(value["stars"]) is int and 1 <= value["stars"] <= 5, value


def request(method, path, body=None, headers=None):
    """(status, text) by the standard library, the independent witness of what clients report."""
    connection = http.client.HTTPConnection(HOST, PORT, timeout=60)
    try:
        data = None if body is None else json.dumps(body)
        connection.request(method, path, data, {"Content-Type": "application/json", **(headers or {})})
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


@functools.cache
def expected(prompt=PROMPT, tokens=TOKENS):
    """The server's answer to a prompt at temperature 0, which every client must show unchanged."""
    status, text = request("POST", "/v1/chat/completions", {
        "model": MODEL, "messages": [{"role": "user", "content": prompt}], "max_tokens": tokens, "temperature": 0})
    assert status == 200, text
    return json.loads(text)["choices"][0]["message"]["content"]


@functools.cache
def expected_completion(prompt="The capital of France is", tokens=8):
    status, text = request("POST", "/v1/completions", {"model": MODEL, "prompt": prompt, "max_tokens": tokens, "temperature": 0})
    assert status == 200, text
    return json.loads(text)["choices"][0]["text"]


@functools.cache
def expected_answer():
    """The answer of the model CALLER to a dialog that ends in a tool's result."""
    status, text = request("POST", "/v1/chat/completions", {"model": CALLER, "temperature": 0, "messages": [
        {"role": "user", "content": QUESTION},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "call_1", "type": "function", "function": {
            "name": "get_weather", "arguments": json.dumps({"city": "Rome"})}}]},
        {"role": "tool", "tool_call_id": "call_1", "content": Calls().record("Rome")}]})
    assert status == 200, text
    return json.loads(text)["choices"][0]["message"]["content"]


@functools.cache
def expected_vectors():
    status, text = request("POST", "/v1/embeddings", {"model": EMBEDDER, "input": TEXTS})
    assert status == 200, text
    return [item["embedding"] for item in json.loads(text)["data"]]


@functools.cache
def expected_scores():
    """Scores of TEXTS for QUERY."""
    status, text = request("POST", "/v1/rerank", {"model": RERANKER, "query": QUERY, "documents": TEXTS})
    assert status == 200, text
    scores = {item["index"]: item["relevance_score"] for item in json.loads(text)["results"]}
    return [scores[i] for i in range(len(TEXTS))]


def agree(text, wanted=None):
    """`text` is the server's own answer. Clients may trim white space at its ends."""
    wanted = expected() if wanted is None else wanted
    assert isinstance(text, str), f"not a text: {text!r}"
    assert wanted.strip() and text.strip() == wanted.strip(), f"{text!r} is not {wanted!r}"


def agree_pieces(pieces, wanted=None):
    """The pieces of a stream: several, and together the server's own answer."""
    pieces = [piece for piece in pieces if piece]
    assert len(pieces) > 2, f"the answer came in {len(pieces)} pieces: {pieces!r}"
    agree("".join(pieces), wanted)


def same(streamed, whole):
    """For clients that add instructions: several pieces, which together equal the same client's unstreamed answer."""
    streamed = [piece for piece in streamed if piece]
    assert len(streamed) > 2, f"the answer came in {len(streamed)} pieces: {streamed!r}"
    assert whole.strip() and "".join(streamed).strip() == whole.strip(), f"{streamed!r} is not {whole!r}"


def agree_vectors(vectors, tolerance=1e-5):
    wanted = expected_vectors()
    vectors = [[float(x) for x in vector] for vector in vectors]
    assert [len(vector) for vector in vectors] == [WIDTH] * len(wanted), [len(vector) for vector in vectors]
    worst = max(abs(x - y) for a, b in zip(vectors, wanted) for x, y in zip(a, b))
    assert worst <= tolerance, f"vectors differ by {worst}"


def agree_scores(scores, tolerance=1e-5):
    """`scores`: {index of the text: score}."""
    wanted = expected_scores()
    assert set(scores) == set(range(len(wanted))), scores
    worst = max(abs(float(scores[i]) - wanted[i]) for i in scores)
    assert worst <= tolerance, f"scores differ by {worst}: {scores} and {wanted}"


def said(text):
    """For answers whose words the client's own instructions decide: there is one."""
    assert isinstance(text, str) and text.strip(), f"no answer: {text!r}"
