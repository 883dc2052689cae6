#!/usr/bin/env python3
"""Writes the dialogs of src/chat_template/testing/dialogs: for each tool-call format at least 20 answers of a model, each with the text
and the calls that a client is to see; and testing/reasoning.json: answers with reasoning for each family's tags.

The answers are written by the encoders below, which know nothing of the parser under test, or by hand where a model errs. What is
expected follows the reference parser that each format names:

* text before a call stays text, without the white space between them;
* calls are whole ones of offered functions; their arguments are equal as JSON;
* an answer whose call is broken, cut or of a function that was not offered stays text. (The reference parsers pass calls of other
  functions on, and some of them cut calls: this server guarantees that a call is one of the request's.)
* text behind the last call stays text, where some reference parsers drop it.

tools/compare_tool_dialogs.py compares them with a parser that runs.

    python3 tools/make_tool_dialogs.py
"""
import json
import pathlib

TOOLS = [
    {"name": "get_weather", "parameters": {"type": "object", "properties": {
        "city": {"type": "string"}, "days": {"type": "integer"}, "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]}},
        "required": ["city"]}},
    {"name": "add", "parameters": {"type": "object", "properties": {"values": {"type": "array", "items": {"type": "number"}}},
                                   "required": ["values"]}},
    {"name": "save_note", "parameters": {"type": "object", "properties": {
        "text": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string"}}, "pinned": {"type": "boolean"},
        "parent": {"type": ["integer", "null"]}, "meta": {"type": "object"}}, "required": ["text"]}},
    {"name": "now", "parameters": {"type": "object", "properties": {}}},
]

OSLO = ("get_weather", {"city": "Oslo"})
LONG = "The quick brown fox jumps over the lazy dog. " * 8


def dumps(value, compact=False):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":") if compact else None)


class Format:
    """How a family writes calls. `begin`, `end`: around all calls; `before`, `after`: around each."""

    begin = end = before = after = separator = ""
    listed = False
    parallel = True
    marked = True  # calls begin with a marker, so that text may come before them
    reference = ""

    def call(self, name, arguments, index):
        raise NotImplementedError

    def answer(self, *calls):
        texts = [self.before + self.call(name, arguments, i) + self.after for i, (name, arguments) in enumerate(calls)]
        inner = self.separator.join(texts)
        return self.begin + ("[" + inner + "]" if self.listed else inner) + self.end

    def extra(self):
        """Further cases: (name, text, content, calls)."""
        return []


class Json(Format):
    key = "arguments"
    keys = ("name",)

    def call(self, name, arguments, index):
        return '{"name": %s, "%s": %s}' % (dumps(name), self.key, dumps(arguments))

    def wrap(self, text):
        return self.begin + ("[" if self.listed else "") + self.before + text + self.after + ("]" if self.listed else "") + self.end

    def extra(self):
        arguments = {"city": "Oslo", "days": 2}
        head = '"%s": ' % self.key
        return [
            ("members in another order", self.wrap('{%s%s, "name": "get_weather"}' % (head, dumps(arguments))), "",
             [("get_weather", arguments)]),
            ("arguments as a text", self.wrap('{"name": "get_weather", %s%s}' % (head, dumps(dumps(arguments)))), "",
             [("get_weather", arguments)]),
            ("compact JSON", self.wrap('{"name":"get_weather","%s":%s}' % (self.key, dumps(arguments, True))), "",
             [("get_weather", arguments)]),
            ("indented JSON", self.wrap(json.dumps({"name": "get_weather", self.key: arguments}, indent=2)), "",
             [("get_weather", arguments)]),
        ]


class Hermes(Json):
    name, reference = "hermes", "vLLM hermes_tool_parser"
    before, after, separator = "<tool_call>\n", "\n</tool_call>", "\n"

    def extra(self):
        call = self.answer(OSLO)
        return super().extra() + [
            ("no line ends around the object", '<tool_call>{"name": "now", "arguments": {}}</tool_call>', "", [("now", {})]),
            ("the end of the text takes the place of the closing tag", call[:-len("\n</tool_call>")], "", [OSLO]),
            ("two opening tags", "<tool_call><tool_call>", "<tool_call><tool_call>", []),
            ("an empty block", "<tool_call>\n</tool_call>", "<tool_call>\n</tool_call>", []),
            ("a broken block before a whole one", "<tool_call>\n{oops}\n</tool_call>\n" + call, "<tool_call>\n{oops}\n</tool_call>",
             [OSLO]),
            ("text between calls", call + "\nAnd the sum.\n" + self.answer(("now", {})), "\nAnd the sum.", [OSLO, ("now", {})]),
        ]


class Generic(Hermes):
    name, reference = "generic", "vLLM hermes_tool_parser"


class Llama3Json(Json):
    name, reference = "llama3-json", "vLLM llama_tool_parser"
    key, parallel, marked = "parameters", False, False

    def extra(self):
        return super().extra() + [
            ("the key of other families", '{"name": "now", "arguments": {}}', "", [("now", {})]),
            ("an object that is no call", '{"answer": 4}', '{"answer": 4}', []),
            ("an object behind a text", 'Call {"name": "now", "parameters": {}}', 'Call {"name": "now", "parameters": {}}', []),
            ("a name alone", '{"name": "now"}', '{"name": "now"}', []),
        ]


def pythonic(value, quote='"'):
    if value is None or isinstance(value, bool):
        return repr(value)
    if isinstance(value, str):
        text = dumps(value)
        return text if quote == '"' else "'" + text[1:-1].replace('\\"', '"').replace("'", "\\'") + "'"
    if isinstance(value, list):
        return "[" + ", ".join(pythonic(one, quote) for one in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(pythonic(key, quote) + ": " + pythonic(one, quote) for key, one in value.items()) + "}"
    return dumps(value)


class Pythonic(Format):
    listed, separator = True, ", "

    def call(self, name, arguments, index):
        return name + "(" + ", ".join(key + "=" + pythonic(value) for key, value in arguments.items()) + ")"

    def extra(self):
        wrap = lambda text: self.begin + "[" + text + "]" + self.end
        quoted = {"text": "it's \"so\"", "tags": ["a'b"]}
        return [
            ("single quotes", wrap("save_note(" + ", ".join(key + "=" + pythonic(value, "'") for key, value in quoted.items()) + ")"), "",
             [("save_note", quoted)]),
            ("white space between tokens", wrap(" get_weather( city = \"Oslo\" ,days=2 ) "), "", [("get_weather", {"city": "Oslo", "days": 2})]),
            ("a comma behind the last argument", wrap("get_weather(city=\"Oslo\",)"), "", [OSLO]),
        ]


class LlamaPythonic(Pythonic):
    name, reference, marked = "llama-pythonic", "vLLM llama4_pythonic_tool_parser", False

    def extra(self):
        return super().extra() + [
            ("a list that is no call", "[1, 2] are numbers", "[1, 2] are numbers", []),
            ("a link", "[docs](https://example.org) say so", "[docs](https://example.org) say so", []),
            ("a list behind a text", "Call [now()]", "Call [now()]", []),
        ]


class Lfm2(Pythonic):
    name, reference = "lfm2", "vLLM lfm2_tool_parser"
    begin, end = "<|tool_call_start|>", "<|tool_call_end|>"


class Mistral(Json):
    name, reference = "mistral", "vLLM mistral_tool_parser (tokenizers before v11)"
    begin, separator, listed = "[TOOL_CALLS]", ", ", True

    def extra(self):
        return super().extra() + [
            ("a blank behind the marker", '[TOOL_CALLS] [{"name": "now", "arguments": {}}]', "", [("now", {})]),
            ("an id of the model's own", '[TOOL_CALLS][{"name": "now", "arguments": {}, "id": "abcDEF123"}]', "", [("now", {})]),
            ("a marker without a list", "[TOOL_CALLS] none", "[TOOL_CALLS] none", []),
        ]


class MistralArgs(Format):
    name, reference = "mistral-args", "vLLM mistral_tool_parser (tokenizers from v11 on)"
    before = "[TOOL_CALLS]"

    def call(self, name, arguments, index):
        return name + "[ARGS]" + dumps(arguments)

    def extra(self):
        return [
            ("white space before the arguments", '[TOOL_CALLS]now[ARGS] {}', "", [("now", {})]),
            ("compact JSON", '[TOOL_CALLS]get_weather[ARGS]{"city":"Oslo"}', "", [OSLO]),
            ("a marker without a name", "[TOOL_CALLS][ARGS]{}", "[TOOL_CALLS][ARGS]{}", []),
        ]


class Granite(Json):
    name, reference = "granite", "vLLM granite_tool_parser"
    begin, separator, listed = "<|tool_call|>", ", ", True


class Phi4(Json):
    name, reference = "phi4", "chat template of Phi-4-mini-instruct"
    begin, end, separator, listed = "<|tool_call|>", "<|/tool_call|>", ", ", True


class Named(Format):
    def extra(self):
        compact = self.answer(OSLO).replace('{"city": "Oslo"}', '{"city":"Oslo"}')
        indented = self.answer(OSLO).replace('{"city": "Oslo"}', '{\n  "city": "Oslo"\n}')
        return [("compact JSON", compact, "", [OSLO]), ("indented JSON", indented, "", [OSLO])]


class DeepSeekV3(Named):
    name, reference = "deepseek-v3", "vLLM deepseekv3_tool_parser"
    begin, end = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
    before, after, separator = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>", "\n```<｜tool▁call▁end｜>", "\n"

    def call(self, name, arguments, index):
        return name + "\n```json\n" + dumps(arguments)


class DeepSeekV31(Named):
    name, reference = "deepseek-v3.1", "vLLM deepseekv31_tool_parser"
    begin, end = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
    before, after = "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"

    def call(self, name, arguments, index):
        return name + "<｜tool▁sep｜>" + dumps(arguments)


class Kimi(Named):
    name, reference = "kimi", "vLLM kimi_k2_tool_parser"
    begin, end = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"
    before, after = "<|tool_call_begin|>", "<|tool_call_end|>"

    def call(self, name, arguments, index):
        return "functions.%s:%d<|tool_call_argument_begin|>%s" % (name, index, dumps(arguments))

    def extra(self):
        return super().extra() + [
            ("white space between markers", '<|tool_calls_section_begin|>\n<|tool_call_begin|> functions.now:0 '
             '<|tool_call_argument_begin|> {} <|tool_call_end|>\n<|tool_calls_section_end|>', "", [("now", {})])]


class Functionary(Named):
    name, reference = "functionary", "llama.cpp common_chat_params_init_functionary_v3_1_llama_3_1"
    before, after = "<function=", "</function>"

    def call(self, name, arguments, index):
        return name + ">" + dumps(arguments)


class Tagged(Format):
    key_begin = key_end = value_end = ""

    def call(self, name, arguments, index):
        return name + self.name_end + "".join(
            self.key_begin + key + self.key_end + (value if isinstance(value, str) else dumps(value)) + self.value_end
            for key, value in arguments.items())

    def extra(self):
        text = {"text": "12"}
        markup = {"text": "<b>1 < 2</b> & more"}
        code = {"text": "if x:\n    y()\n\nz()"}
        return [
            ("a text that looks like a number", self.answer(("save_note", text)), "", [("save_note", text)]),
            ("markup in a text", self.answer(("save_note", markup)), "", [("save_note", markup)]),
            ("lines in a text", self.answer(("save_note", code)), "", [("save_note", code)]),
        ]


class Qwen3Coder(Tagged):
    name, reference = "qwen3-coder", "vLLM qwen3coder_tool_parser"
    before, after, separator = "<tool_call>\n<function=", "</function>\n</tool_call>", "\n"
    name_end, key_begin, key_end, value_end = ">\n", "<parameter=", ">\n", "\n</parameter>\n"


class Glm(Tagged):
    name, reference = "glm", "vLLM glm4_moe_tool_parser"
    before, after, separator = "<tool_call>", "</tool_call>", "\n"
    name_end, key_begin, key_end, value_end = "\n", "<arg_key>", "</arg_key>\n<arg_value>", "</arg_value>\n"


class MiniMax(Tagged):
    name, reference = "minimax", "vLLM minimax_m2_tool_parser"
    begin, end = "<minimax:tool_call>\n", "</minimax:tool_call>"
    before, after = "<invoke name=\"", "</invoke>\n"
    name_end, key_begin, key_end, value_end = "\">\n", "<parameter name=\"", "\">", "</parameter>\n"


class Command(Json):
    name, reference = "command", "llama.cpp common_chat_params_init_command_r7b"
    begin, end, separator, listed = "<|START_ACTION|>", "<|END_ACTION|>", ",\n    ", True
    key = "parameters"

    def call(self, name, arguments, index):
        return '{"tool_call_id": "%d", "tool_name": %s, "parameters": %s}' % (index, dumps(name), dumps(arguments))

    def answer(self, *calls):
        inner = self.separator.join(self.call(name, arguments, i) for i, (name, arguments) in enumerate(calls))
        return self.begin + "[\n    " + inner + "\n]" + self.end

    def extra(self):
        return [
            ("one line", '<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "now", "parameters": {}}]<|END_ACTION|>', "", [("now", {})]),
            ("without ids", '<|START_ACTION|>[{"tool_name": "now", "parameters": {}}]<|END_ACTION|>', "", [("now", {})]),
            ("members in another order", '<|START_ACTION|>[{"tool_name": "now", "parameters": {}, "tool_call_id": "0"}]<|END_ACTION|>', "",
             [("now", {})]),
            ("ids that go on from the last turn", '<|START_ACTION|>[\n    {"tool_call_id": "7", "tool_name": "now", "parameters": {}}\n]'
             '<|END_ACTION|>', "", [("now", {})]),
        ]


class Bare(Format):
    def value(self, value):
        if isinstance(value, str):
            return self.quote + value + self.quote
        if isinstance(value, list):
            return "[" + ",".join(self.value(one) for one in value) + "]"
        if isinstance(value, dict):
            return "{" + ",".join(key + ":" + self.value(one) for key, one in sorted(value.items())) + "}"
        return dumps(value)

    def call(self, name, arguments, index):
        return "call:" + name + self.value(arguments)

    def extra(self):
        wrap = lambda text: self.before + text + self.after
        return [
            ("blanks behind commas", wrap("call:get_weather{city:" + self.value("Oslo") + ", days:2}"), "",
             [("get_weather", {"city": "Oslo", "days": 2})]),
            ("a word without quotes", wrap("call:get_weather{city:Oslo}"), "", [OSLO]),
            ("None as templates print it", wrap("call:save_note{parent:None,text:" + self.value("x") + "}"), "",
             [("save_note", {"parent": None, "text": "x"})]),
            ("a text that looks like a number", wrap("call:save_note{text:" + self.value("12") + "}"), "", [("save_note", {"text": "12"})]),
        ]


class Gemma(Bare):
    name, reference = "gemma", "vLLM gemma4_tool_parser"
    before, after, quote = "<|tool_call>", "<tool_call|>", '<|"|>'


class FunctionGemma(Bare):
    name, reference = "functiongemma", "vLLM functiongemma_tool_parser"
    before, after, quote = "<start_function_call>", "<end_function_call>", "<escape>"

    def extra(self):
        return super().extra() + [
            ("a number between quotes", "<start_function_call>call:get_weather{city:<escape>Oslo<escape>,days:<escape>2<escape>}"
             "<end_function_call>", "", [("get_weather", {"city": "Oslo", "days": 2})])]


def common(form):
    yield "a plain answer", "It is 4 degrees in Oslo.", "It is 4 degrees in Oslo.", []
    text = "Oslo: 4 °C ☁️\n\nThe sum is 0.5 (see {\"a\": [1, 2]} and <b>this</b>)."
    yield "an answer after results", text, text, []
    yield "only white space", " \n", " \n", []
    calls = {
        "one call": [OSLO],
        "arguments of several types": [("get_weather", {"city": "Bergen", "days": 3, "unit": "celsius"})],
        "no arguments": [("now", {})],
        "a list of numbers": [("add", {"values": [1, -2.5, 1e3, 0, 12345678901]})],
        "nested objects and lists": [("save_note", {"text": "x", "tags": ["a", "b"], "meta": {"by": {"id": 1, "names": ["n", "m"]}, "ok": True}})],
        "other languages": [("save_note", {"text": "Grüße, 世界! 🙂 Ω", "tags": ["日本", "é"]})],
        "line ends and tabs in a text": [("save_note", {"text": "one\ntwo\tthree\n\nfour"})],
        "quotes and backslashes in a text": [("save_note", {"text": "a \"quoted\" 'word' and C:\\dir\\new"})],
        "brackets and commas in a text": [("save_note", {"text": "f(a, [b]); {c: d}, e=1 } ] )"})],
        "booleans and null": [("save_note", {"text": "x", "pinned": True, "parent": None})],
        "empty values": [("save_note", {"text": "", "tags": [], "meta": {}})],
        "a long text": [("save_note", {"text": LONG.strip()})],
    }
    if form.parallel:
        calls["two calls"] = [OSLO, ("add", {"values": [1, 2.5, -3]})]
        calls["three calls of one function"] = [("get_weather", {"city": city}) for city in ("Oslo", "Rome", "Paris")]
    for name, made in calls.items():
        yield name, form.answer(*made), "", made
    call = form.answer(OSLO)
    yield "white space before the call", "\n\n" + call, "", [OSLO]
    if form.marked:
        yield "text before the call", "Let me see." + call, "Let me see.", [OSLO]
        yield "lines of text before the call", "Let me see.\n\n- weather\n\n" + call, "Let me see.\n\n- weather", [OSLO]
        marker = (form.begin or form.before).strip()
        half = marker[:max(2, len(marker) // 2)]
        yield "half a marker", "Write %s to begin." % half, "Write %s to begin." % half, []
        yield "half a marker at the end", "Write " + half, "Write " + half, []
        yield "a marker alone", "Write " + marker, "Write " + marker, []
    unknown = form.answer(("remove_all", {"path": "/"}))
    yield "a function that was not offered", unknown, unknown, []
    cut = call[:call.index("Oslo") + 2]
    yield "cut within the arguments", cut, cut, []
    if isinstance(form, (Json, Named, MistralArgs)):
        broken = call.replace('"Oslo"', "Oslo", 1)
        yield "arguments that are no JSON", broken, broken, []


HARMONY = [
    ("a final message", "<|channel|>final<|message|>Cold.<|return|>", "", "Cold.", []),
    ("a final message without an end", "<|channel|>final<|message|>Cold.", "", "Cold.", []),
    ("reasoning and an answer", "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Cold.<|return|>", "Hm.",
     "Cold.", []),
    ("two messages of reasoning", "<|channel|>analysis<|message|>One.<|end|><|start|>assistant<|channel|>analysis<|message|> Two.<|end|>"
     "<|start|>assistant<|channel|>final<|message|>Yes", "One. Two.", "Yes", []),
    ("one call", '<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"city": "Oslo"}<|call|>', "", "", [OSLO]),
    ("a call after reasoning", '<|channel|>analysis<|message|>Need weather.<|end|><|start|>assistant<|channel|>commentary '
     'to=functions.get_weather <|constrain|>json<|message|>{"city":"Oslo","days":2}<|call|>', "Need weather.", "",
     [("get_weather", {"city": "Oslo", "days": 2})]),
    ("a remark before the call", '<|channel|>commentary<|message|>One moment.<|end|><|start|>assistant<|channel|>commentary '
     'to=functions.now <|constrain|>json<|message|>{}<|call|>', "", "One moment.", [("now", {})]),
    ("the recipient before the channel", ' to=functions.now<|channel|>commentary <|constrain|>json<|message|>{}<|call|>', "", "", [("now", {})]),
    ("a call in the channel of reasoning", ' to=functions.now<|channel|>analysis<|message|>{}<|call|>', "", "", [("now", {})]),
    ("the type without its mark", '<|channel|>commentary to=functions.now json<|message|>{}<|call|>', "", "", [("now", {})]),
    ("two calls", '<|channel|>commentary to=functions.now <|constrain|>json<|message|>{}<|call|><|start|>assistant<|channel|>commentary '
     'to=functions.add <|constrain|>json<|message|>{"values": [1, 2.5]}<|call|>', "", "", [("now", {}), ("add", {"values": [1, 2.5]})]),
    ("nested objects and lists", '<|channel|>commentary to=functions.save_note <|constrain|>json<|message|>{"text": "x", "meta": {"a": [1, '
     '{"b": null}]}}<|call|>', "", "", [("save_note", {"text": "x", "meta": {"a": [1, {"b": None}]}})]),
    ("other languages", '<|channel|>commentary to=functions.save_note <|constrain|>json<|message|>{"text": "Grüße, 世界! 🙂"}<|call|>', "", "",
     [("save_note", {"text": "Grüße, 世界! 🙂"})]),
    ("what looks like a mark in a text", '<|channel|>commentary to=functions.save_note <|constrain|>json<|message|>{"text": "a <|b|> <|cal"}'
     '<|call|>', "", "", [("save_note", {"text": "a <|b|> <|cal"})]),
    ("what looks like a mark in an answer", "<|channel|>final<|message|>1 < 2, <| and |> and <|x|>", "", "1 < 2, <| and |> and <|x|>", []),
    ("a function that was not offered", '<|channel|>commentary to=functions.remove_all <|constrain|>json<|message|>{"path": "/"}<|call|>', "",
     '{"path": "/"}', []),
    ("cut within reasoning", "<|channel|>analysis<|message|>Let me th", "Let me th", "", []),
    ("cut within a header", "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|chan", "Hm.", "", []),
    ("a text without a header", "Just text.", "", "Just text.", []),
    ("lines in an answer", "<|channel|>final<|message|>a\n\nb\n", "", "a\n\nb\n", []),
    ("a call after an answer", '<|channel|>final<|message|>Done.<|end|><|start|>assistant<|channel|>commentary to=functions.now '
     '<|constrain|>json<|message|>{}<|call|>', "", "Done.", [("now", {})]),
    ("nothing", "", "", "", []),
]


# The tags of src/chat_template/reasoning_syntax.cc: name, around the reasoning, around the answer.
TAGS = [
    ("think", "<think>", "</think>", "", ""),
    ("mistral", "[THINK]", "[/THINK]", "", ""),
    ("command", "<|START_THINKING|>", "<|END_THINKING|>", "<|START_RESPONSE|>", "<|END_RESPONSE|>"),
    ("command-4", "<|START_THINKING|>", "<|END_THINKING|>", "<|START_TEXT|>", "<|END_TEXT|>"),
    ("gemma", "<|channel>thought\n", "<channel|>", "", ""),
    ("seed", "<seed:think>", "</seed:think>", "", ""),
    ("minimax", "<mm:think>", "</mm:think>", "", ""),
    ("apertus", "<|inner_prefix|>", "<|inner_suffix|>", "", ""),
    ("granite", "<think>", "</think>", "<response>", "</response>"),
    ("granite-3.2", "Here is my thought process:", "Here is my response:", "", ""),
    ("hunyuan", "<think>", "</think>", "<answer>", "</answer>"),
]


def reasoning_cases(begin, end, answer_begin, answer_end):
    """(name, whether the prompt ends within reasoning, text, reasoning, content)"""
    answer = lambda text: answer_begin + text + answer_end
    yield "reasoning and an answer", False, begin + "Let me see." + end + answer("It is 4."), "Let me see.", "It is 4."
    yield "line ends around the tags", False, begin + "\nLet me see.\n" + end + "\n\n" + answer("It is 4."), "\nLet me see.\n", "It is 4."
    yield "no reasoning", False, answer("It is 4."), "", "It is 4."
    yield "empty reasoning", False, begin + end + answer("x"), "", "x"
    yield "the prompt has begun it", True, "Let me see." + end + answer("It is 4."), "Let me see.", "It is 4."
    yield "cut within it", False, begin + "Let me s", "Let me s", ""
    yield "cut within what the prompt has begun", True, "Let me s", "Let me s", ""
    yield "cut within the closing tag", False, begin + "Let me see." + end[:-1], "Let me see." + end[:-1], ""
    yield "cut behind the closing tag", False, begin + "Let me see." + end + "\n", "Let me see.", ""
    yield "cut within the opening tag", False, begin.strip()[:-1], "", begin.strip()[:-1]
    yield "half an opening tag", False, answer("a " + begin[:2] + " b"), "", "a " + begin[:2] + " b"
    yield "a closing tag alone", False, answer("a " + end + " b"), "", "a " + end + " b"
    yield "an opening tag within it", False, begin + "a " + begin + " b" + end + answer("c"), "a " + begin + " b", "c"
    yield "half a closing tag within it", False, begin + "a " + end[:3] + " b" + end + answer("c"), "a " + end[:3] + " b", "c"
    yield "lines, markup and other languages", False, begin + "Ünï <b>\n- 世界 🙂\n\n" + end + answer("a < b\n\n```c\nx;\n```"), \
        "Ünï <b>\n- 世界 🙂\n\n", "a < b\n\n```c\nx;\n```"
    yield "nothing", False, "", "", ""
    if answer_begin:
        yield "an answer without its tags", False, begin + "Hm." + end + "It is 4.", "Hm.", "It is 4."
        yield "white space within the answer's tags", False, begin + "Hm." + end + "\n" + answer("\nIt is\n4.\n") + "\n", "Hm.", "It is\n4."
        yield "cut within the answer", False, begin + "Hm." + end + answer_begin + "It i", "Hm.", "It i"
        yield "cut within the answer's closing tag", False, answer_begin + "It is" + answer_end[:-2], "", "It is" + answer_end[:-2]
        yield "the answer's opening tag within a text", False, "Write " + answer_begin + " first.", "", "Write " + answer_begin + " first."


def case(name, text, content, calls, reasoning=None):
    made = {"name": name, "text": text, "content": content}
    if reasoning is not None:
        made["reasoning"] = reasoning
    made["calls"] = [{"name": function, "arguments": arguments} for function, arguments in calls]
    return made


def main():
    folder = pathlib.Path(__file__).resolve().parent.parent / "src/chat_template/testing/dialogs"
    folder.mkdir(parents=True, exist_ok=True)

    def write(name, value):
        (folder / (name + ".json")).write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n")

    write("tools", TOOLS)
    for make in (Generic, Hermes, Qwen3Coder, Llama3Json, LlamaPythonic, Mistral, MistralArgs, Granite, Phi4, DeepSeekV3, DeepSeekV31, Kimi,
                 Lfm2, Functionary, Glm, MiniMax, Command, Gemma, FunctionGemma):
        form = make()
        cases = [case(*one) for one in [*common(form), *form.extra()]]
        write(form.name, {"format": form.name, "reference": form.reference, "cases": cases})
        print("%s: %d dialogs" % (form.name, len(cases)))
    cases = [case(name, text, content, calls, reasoning) for name, text, reasoning, content, calls in HARMONY]
    write("harmony", {"format": "harmony", "reference": "OpenAI harmony response format guide", "cases": cases})
    print("harmony: %d dialogs" % len(cases))
    formats = []
    for name, begin, end, answer_begin, answer_end in TAGS:
        cases = [{"name": case, "inside": inside, "text": text, "reasoning": reasoning, "content": content}
                 for case, inside, text, reasoning, content in reasoning_cases(begin, end, answer_begin, answer_end)]
        formats.append({"format": name, "cases": cases})
        print("reasoning of %s: %d answers" % (name, len(cases)))
    (folder.parent / "reasoning.json").write_text(json.dumps(formats, ensure_ascii=False, indent=1) + "\n")


if __name__ == "__main__":
    main()
