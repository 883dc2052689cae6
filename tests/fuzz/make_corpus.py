#!/usr/bin/env python3
"""Writes the generated part of the start corpora: one file per line of the catalogue below.

Files are named after their contents, so running it again changes nothing. Findings are added to the same folders by hand.
"""
import gzip
import json
import math
import pathlib
import re
import struct
import unicodedata

HERE = pathlib.Path(__file__).resolve().parent


def write(target, files):
    folder = HERE / "corpus" / target
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())


def templates():
    nested = "{% set n = namespace(s=['x']) %}{% for i in range(60) %}{% set n.s = [n.s, n.s] %}{% endfor %}"
    return {
        "plain": "Hello",
        "chatml": "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}\0typed <|im_end|>",
        "trimmed": "{%- for m in messages -%}\n  {{- m.content | trim -}}\n{%- endfor %}",
        "tools": "{{ tools | tojson(indent=2) }}{% for t in tools %}{{ t.function.name | upper }}{% endfor %}",
        "tool_calls": "{% for m in messages if m.tool_calls %}{{ m.tool_calls[0].function.arguments | items | list }}{% endfor %}",
        "string_methods": "{% for m in messages %}{{ m.content | string | replace('a', 'b') }}{{ (m.content ~ '').split(' ', 1)[-1].strip()[1:-1].title() }}{% endfor %}\0a a  b",
        "partition": "{% set t = messages[1].content %}{{ t.partition('|') }}{{ t.rsplit(none, 1) }}{{ t.splitlines(true) }}{{ t.center(20, '*') }}",
        "format": "{{ '%s %5.2f %-4d|' % ('a', 2.5, 3) }}{{ '{} {x!r}'.format(messages[0].role, x=1) }}",
        "namespace": "{% set ns = namespace(a=1) %}{% for m in messages %}{% set ns.a = ns.a + loop.index %}{% endfor %}{{ ns.a }}",
        "self_reference": "{% set a = namespace() %}{% set a.b = [a] %}{% set a.c = {'k': a} %}{{ a.b }}{{ a == a.b[0] }}",
        "macro": "{% macro f(x, y=2) %}[{{ x }}{{ y }}{{ varargs }}{{ kwargs }}]{% endmacro %}{{ f(1, z=3) }}{{ f(1, 2, 3) }}",
        "caller": "{% macro f() %}<{{ caller(1) }}>{% endmacro %}{% call(x) f() %}{{ x }}{{ messages[0].content }}{% endcall %}",
        "recursion": "{% macro f(n) %}{{ n }}{% if n %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(30) }}",
        "endless_recursion": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "loop_variables": "{% for x in 'abc' %}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.cycle(1, 2) }}{{ loop.changed(x) }}{{ loop.last }}{% else %}none{% endfor %}",
        "loop_controls": "{% for i in range(9) %}{% if i is odd %}{% continue %}{% elif i > 5 %}{% break %}{% endif %}{{ i }}{% endfor %}",
        "set_block": "{% set x | upper %}a{{ messages[0].content }}{% endset %}{{ x }}{% filter indent(2) %}a\nb{% endfilter %}",
        "with": "{% with a = 1, b = messages %}{{ a }}{{ b | length }}{% endwith %}",
        "generation": "{% generation %}{% set x = 1 %}{{ x }}{% endgeneration %}{{ x is defined }}",
        "raw": "{% raw %}{{ x }}{% endraw %}{#- note -#}  x {%+ if true %}y{% endif +%}\nz",
        "filters": "{{ [3, 1, 2] | sort(reverse=true) | map('string') | join(',') }}{{ {'b': 1, 'A': 2} | dictsort }}{{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | list }}",
        "unique": "{{ [1, 1.0, true, 'a', 'A'] | unique | list }}{{ [1, 2] | sum }}{{ ['b', 'a'] | min }}{{ 2.5 | round }}{{ '0x1f' | int(base=16) }}",
        "tests": "{{ 1 is number and 'a' is string and {} is mapping and x is not defined and none is none and 4 is divisibleby 2 }}",
        "arithmetic": "{{ 1 + 2 * 3 // 2 % 5 ** 2 - -7 / 2 ~ 'x' }}{{ 1 < 2 <= 2 != 3 }}{{ 9223372036854775807 + 1 }}",
        "slices": "{{ messages[1:][::-1][0].content[::2] }}{{ 'abc'[-9:9] }}{{ [1, 2, 3][5:1:-1] }}",
        "dates": "{{ strftime_now('%d %B %Y %j %-d %q %') }}",
        "refusal": "{{ raise_exception('no ' ~ messages[0].role) }}",
        "undefined": "{{ a }}{{ a.b }}",
        "dunder": "{{ ''.__class__.__mro__ }}{{ messages.__init__ }}{{ namespace.__globals__ }}",
        "long_loop": "{% for i in range(100000) %}{% for j in range(100000) %}x{% endfor %}{% endfor %}",
        "doubling": "{% set n = namespace(s='xxxxxxxx') %}{% for i in range(99) %}{% set n.s = n.s ~ n.s %}{% endfor %}",
        "shared_list_text": nested + "{{ n.s }}",
        "shared_list_json": nested + "{{ n.s | tojson }}",
        "shared_list_equal": nested + "{{ n.s == [n.s[0], n.s[1]] }}",
        "chain_of_objects": "{% set n = namespace(p=0) %}{% for i in range(999) %}{% set n.p = namespace(p=n.p) %}{% endfor %}",
        "brackets": "{{ " + "(" * 500 + "1" + ")" * 500 + " }}",
        "ifs": "{% if 1 %}" * 500 + "{% endif %}" * 500,
        "elifs": "{% if 0 %}" + "{% elif 0 %}x" * 300 + "{% endif %}",
        "filters_chain": "{{ 'x'" + "|upper" * 500 + " }}",
        "include": "{% include 'x' %}",
        "invalid_utf8": b"{{ '\xff\xc3' }}{{ '\xff' | upper | length }}{% for c in '\xe4\xb8' %}{{ c }}{% endfor %}",
        "escapes": "{{ '\\x41\\u00e9\\U0001F600\\101\\N' }}",
        "markup": "{{ '<b>' | safe + messages[0].content }}{{ '<' | e | e }}",
        "unclosed_string": "{{ 'abc }}",
        "unclosed_comment": "{# abc",
        "spread": "{% macro f(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ f(*[1], **{'b': 2}) }}{{ dict(messages[0], x=1) }}",
    }


def texts():
    samples = {
        "words": "Hello, world! It's 12345 o'clock.",
        "spaces": "  a  b\t\n\n c   ",
        "languages": "Grüße 世界 🙂 ทดสอบ مرحبا",
        "merges": "ababbab aab  bb 12 1212\n\n",
        "controls": "a\0<|start|>\0<|end|>\0<|start|>b\0<tool>~~~~",
        "cut_control": "<|st\0art|>\0<s>\0</s>\0<unk>",
        "repeat": "a" * 600,
        "bytes": bytes(range(256)),
        "invalid": b"\x80\xc0\x80\xed\xa0\x80\xf5\x80\x80\x80\xe4\xb8",
        "wordpiece": "Abab, ab1 [CLS] [SEP] [MASK] é ##a",
        "byte_tokens": "<0x41><0x0A>\u2581\u2581a",
        "combining": "e\u0301" * 50 + "\u200d" * 20,
    }
    files = {}
    for number, (name, text) in enumerate(samples.items()):
        raw = text if isinstance(text, bytes) else text.encode()
        for choice in (number % 13, 11, 12, 128 + number % 13):
            files[f"{name}_{choice}"] = bytes([choice]) + raw
    return files


def tokenizer_specs():
    def head(model, pre, flags, ids):
        return bytes([model, pre, flags, *ids]) + b"\n"

    letters = b"".join(b"t1%c\n" % c for c in b"abcdefgh") + b"t3<e>\nt4<u>\n"
    return {
        "gpt2": head(0, 0, 0, [0, 9, 0, 0, 0, 0]) + letters + b"t1ab\nma b\nabcab<e><u>\n",
        "gpt2_unknown_merge": head(0, 0, 0, []) + letters + b"mx y\n",
        "gpt2_merge_without_space": head(0, 0, 0, []) + letters + b"mab\n",
        "gpt2_duplicate": head(0, 0, 0, []) + letters + b"t1a\n",
        "unknown_pre": head(0, 4, 0, []) + letters,
        "unknown_model": head(4, 0, 0, []) + letters,
        "empty": b"",
        "llama": head(1, 4, 15, [1, 2, 3, 0, 0, 0]) + b"t2<unk>\ns0\nt3<s>\ns0\nt3</s>\ns0\n"
        + b"".join(b"t6<0x%02X>\ns0\n" % c for c in range(256) if c != 10) + b"t1a\ns5\nt1aa\ns6\naaa b <s>\n",
        "llama_without_scores": head(1, 4, 0, []) + letters + b"abc\n",
        "bert": head(2, 4, 64, [0, 0, 2, 4, 3, 0]) + b"t3[PAD]\nt3[UNK]\nt3[CLS]\nt3[SEP]\nt1a\nt1##a\nt1b\naab ba?\n",
        "id_out_of_range": head(0, 0, 3, [200, 200, 200]) + letters,
        "negative_id": head(0, 0, 3, [255, 255]) + letters,
        "unknown_type": head(0, 0, 0, []) + b"t9a\nt0b\nt/c\n",
        "empty_token": head(0, 0, 0, []) + b"t1\nt1a\n",
        "invalid_utf8_token": head(0, 0, 0, []) + b"t1\xff\xc3\nt3\x80\n\x80\xff\n",
    }


def huggingface():
    """tokenizer.json files, each with a configuration and a text."""
    letters = "abcdehlorw"
    symbol = lambda b: chr(b) if 33 <= b <= 126 or 161 <= b <= 172 or 174 <= b else chr(256 + sum(1 for c in range(b) if not (33 <= c <= 126 or 161 <= c <= 172 or 174 <= c)))
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}

    def added(*tokens):
        return [dict(plain, id=i, content=text, **flags) for i, (text, flags) in enumerate(tokens)]

    def file(model, tokens, **blocks):
        return {"version": "1.0", "added_tokens": tokens, "normalizer": None, "pre_tokenizer": None, "post_processor": None, "decoder": None, "model": model, **blocks}

    special = added(("<unk>", {}), ("<s>", {}), ("</s>", {"rstrip": True}), ("<mask>", {"lstrip": True}), ("word", {"single_word": True, "special": False}),
                    ("\u00e9", {"normalized": True, "special": False}))
    vocab = lambda pieces: {p: i for i, p in enumerate([t["content"] for t in special] + [p for p in pieces if p != "\u00e9"])}
    bytes_model = {"type": "BPE", "vocab": vocab([symbol(b) for b in range(256)] + ["he", "hel"]), "merges": [["h", "e"], "he l"]}
    characters = {"type": "BPE", "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True, "merges": ["h e", ["\u2581", "h"]],
                  "vocab": vocab([*letters, "\u2581", "he", "\u2581h", *(f"<0x{b:02X}>" for b in range(256))])}
    words = {"type": "WordPiece", "unk_token": "<unk>", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": vocab([*letters, *("##" + c for c in letters), "hello"])}
    unigram = {"type": "Unigram", "unk_id": 0, "byte_fallback": False, "vocab": [[t, -float(i)] for i, t in enumerate(vocab(["\u2581", *letters, "\u2581hello"]))]}
    split = {"type": "Split", "pattern": {"Regex": "\\p{N}{1,3}| ?[^\\s\\p{L}]+|\\s+(?!\\S)|\\s+"}, "behavior": "MergedWithNext", "invert": False}
    level = {"type": "ByteLevel", "add_prefix_space": True, "use_regex": True}
    frame = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
             "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}], "special_tokens": {"<s>": {"id": "<s>", "ids": [1, 2], "tokens": ["<s>", "</s>"]}}}
    bert = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True}
    steps = [{"type": t} for t in ("NFC", "NFKD", "Lowercase", "StripAccents", "Nmt")] + [
        {"type": "Strip", "strip_left": True, "strip_right": True}, {"type": "Prepend", "prepend": "\u2581"},
        {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}, {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]
    files = {
        "bytes": file(bytes_model, special, pre_tokenizer=level, post_processor=frame, normalizer={"type": "NFC"}),
        "bytes_split": file(bytes_model, special, pre_tokenizer={"type": "Sequence", "pretokenizers": [split, dict(level, use_regex=False), {"type": "Digits", "individual_digits": True}]}),
        "characters": file(characters, special, normalizer={"type": "Sequence", "normalizers": steps}, post_processor=frame),
        "metaspace": file(characters, special, pre_tokenizer={"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": True}),
        "words": file(words, special, normalizer=bert, pre_tokenizer={"type": "BertPreTokenizer"}, post_processor=frame),
        "words_steps": file(words, special, normalizer=dict(bert, clean_text=False), pre_tokenizer={"type": "Punctuation", "behavior": "Contiguous"}),
        "unigram": file(unigram, special, pre_tokenizer={"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always"}]}),
        "scripts": file(bytes_model, special, pre_tokenizer={"type": "Sequence", "pretokenizers": [{"type": "UnicodeScripts"}, {"type": "FixedLength", "length": 3}, dict(level, use_regex=False)]}),
        "no_type": file({k: v for k, v in bytes_model.items() if k != "type"}, special, pre_tokenizer=level),
        "holes": file(bytes_model, special + [dict(plain, id=400, content="<late>")], pre_tokenizer=level),
        "hostile_regex": file(bytes_model, special, pre_tokenizer={"type": "Sequence", "pretokenizers": [dict(split, pattern={"Regex": "(a+)+$|(?=(b))\\1"}), level]}),
        "deep": file(bytes_model, special, normalizer=json.loads('{"type":"Sequence","normalizers":[' * 30 + '{"type":"NFC"}' + "]}" * 30)),
        "no_model": {"added_tokens": []},
    }
    config = json.dumps({"bos_token": "<s>", "eos_token": {"content": "</s>"}, "pad_token": "[PAD]", "add_bos_token": True, "chat_template": "{{ messages[0].content }}</s>"}).encode()
    text = "hello  w\u00e9rld caf\u0065\u0301 <mask> sword word 1234\n\u4e00\u1112\u1161".encode()
    return {name: b"\xff".join((json.dumps(value).encode(), config, text)) for name, value in files.items()}


def regexes():
    """The published expressions with a text each, and one of each construct."""
    with gzip.open(HERE.parent / "data/tokenizer/split_expressions.json.gz") as z:
        published = json.loads(z.read())["published"]
    files = {}
    for e in published:
        # ICU is asked for texts of assigned characters only.
        text = "".join(c for case in e["cases"][-6:] for c in case[0] if unicodedata.category(c) != "Cn")
        files[re.sub(r"[^a-z0-9.]+", "_", e["name"])] = e["pattern"] + "\0" + text[:200]
    constructs = {
        "counts": r"a?b*c+d{2}e{1,3}f{2,}g{,2}?h*?i++", "groups": r"(a)(?:b)(?<n>c)(?i:d)(?-i:e)(?m:.)(?x: f )(?#g)(?>h)",
        "looks": r"(?=a.)(?!b|$)\w(?<=\w)(?<![^a])\b\B?", "anchors": r"^a$|\A.|\z|\Z|\R|\N\O",
        "brackets": r"[]a-c-][^a&&b][[:alpha:]\d[e-g&&[^f]]][\x41\x{e9}\u00e8\t]", "properties": r"\p{Lu}\P{Han}\p{^Greek}\p{In_Thai}\p{Alpha}",
        "empty_loops": r"(|a)*(b?|(?=c))*?c|(?:a*)*", "far_ahead": r"a*b|(a+)+$|(?=.*z)a|a", "case": r"(?i:k[^s-u]\x53|(?-i:k))",
        "refused": r"(a)\1|\G|\K|(?<=ab)|(?:ab)++|(?(1)a)|\p{X}", "open": "([a(", "bytes": b"[^\\p{L}]+|.\0a\xff\xc3\xe4\xb8b",
        "large_counts": r"(?:\s{512}|a{1000}b){2}", "states": r"[ab]*a[ab]{14}(?=[ab]*a[ab]{9}$)",
    }
    texts = "aabbcc\n kKS 12\r\n\u00e9\u4e2d"
    for name, pattern in constructs.items():
        files["construct_" + name] = pattern if isinstance(pattern, bytes) else pattern + "\0" + texts
    return files


def json_schemas():
    """One byte (seed), then a schema: each keyword, references, and forms that are refused."""
    person = '{"type":"object","properties":{"name":{"type":"string","maxLength":9},"age":{"type":"integer","minimum":0,"maximum":120}},' \
        '"required":["name"],"additionalProperties":false}'
    node = '{"$ref":"#/$defs/n","$defs":{"n":{"type":"object","properties":{"l":{"$ref":"#/$defs/n"},"v":{"type":"number"}}}}}'
    files = {
        "person": person, "node": node, "any": "true", "none": "false", "empty": "{}",
        "tools": '{"anyOf":[{"properties":{"name":{"const":"a"},"x":{"type":"null"}},"required":["name"]},'
                 '{"properties":{"name":{"const":"b"},"y":{"enum":[1,"\\u00e9\\n",[2,{"k":null}]]}},"required":["name"]}]}',
        "oneOf": '{"oneOf":[{"type":"integer","multipleOf":3},{"type":"string","pattern":"^a+$"}]}',
        "strings": '{"type":"string","minLength":2,"maxLength":5,"pattern":"[a-c\\\\p{Lu}]\\\\d"}',
        "formats": '{"anyOf":[{"format":"date"},{"format":"ipv4"},{"format":"uuid"},{"format":"no-such"}],"type":"string"}',
        "numbers": '{"type":"number","exclusiveMinimum":-1.5,"maximum":20,"multipleOf":0.25}',
        "arrays": '{"type":"array","prefixItems":[{"type":"boolean"},{"type":"null"}],"items":{"type":"integer"},"minItems":1,"maxItems":4}',
        "objects": '{"patternProperties":{"^x":{"type":"integer"},"y$":{"type":"string"}},"propertyNames":{"maxLength":3},"maxProperties":3}',
        "dependent": '{"properties":{"a":true,"b":{"type":"integer"}},"dependentRequired":{"a":["b","c"]},"minProperties":1}',
        "allOf": '{"allOf":[{"properties":{"a":{"type":["integer","null"]}}},{"required":["a"]},{"$ref":"#/$defs/o"}],"$defs":{"o":{"type":"object"}}}',
        "ids": '{"$id":"http://a/b/","$ref":"c#x","$defs":{"c":{"$id":"c","$defs":{"d":{"$anchor":"x","type":"null"}}}}}',
        "draft4": '{"$schema":"http://json-schema.org/draft-04/schema#","minimum":1,"exclusiveMinimum":true,"items":[{"$ref":"#"}],"additionalItems":false}',
        "refused": '{"properties":{"a":{"not":{"type":"null"}},"b":{"contains":{}},"c":{"uniqueItems":true}}}',
        "ring": '{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"anyOf":[{"$ref":"#/$defs/a"},{"type":"null"}]}}}',
        "contradiction": '{"type":"string","allOf":[{"minLength":5},{"maxLength":2}]}', "not_json": '{"type":', "not_a_schema": '[1]',
        "bytes": b'{"enum":["\xff\xc3\xa9","\xed\xa0\x80"]}', "nested": '{"items":' * 40 + "{}" + "}" * 40,
        "counts": '{"minItems":100,"items":{"minLength":50,"maxLength":1e3,"type":"string"}}', "big": '{"const":1e400,"enum":[12345678901234567890,-0.0,1E-9]}',
        "nullable": '{"type":"string","nullable":true,"title":"t","default":1}',
    }
    return {name: b"\x05" + (text if isinstance(text, bytes) else text.encode()) for name, text in files.items()}


def constraint_regexes():
    """One byte (seed), then an expression."""
    files = {
        "plain": "yes|no", "counts": "a?b*c+d{2}e{1,3}f{2,}g{,2}h*?", "classes": r"[a-c\d][^\s\w][\u00e9-\u{1F600}\x41][]^-]", "properties": r"\p{Lu}\P{L}+[\p{Han}\p{Nd}]{2,4}",
        "groups": "(a(?:b|c)(?<n>d))*(?P<m>e)", "anchors": "^(^a|b$)$|c^", "escapes": r"\t\n\r\v\f\0\cA\x0a\u000a\ud83d\ude00\/\.", "dot": ".+\n.", "any": "[^]*|[]",
        "look": "(?=a)b", "back": r"(a)\1", "open": "(((", "brackets": "[a-", "brace": "a{,b}{x", "order": "[z-a]", "two": "a**", "empty": "", "empty_ways": "(||a|)*",
        "exponential": "(a|b)*a(a|b){9}", "counted_counts": "((a{1,9}){1,9}){1,9}", "quotes": '"[\\"\\x00-\\x1f]*"', "bytes": b"[\xff-\xc3\xa9]\xed\xa0\x80", "date": r"\d{4}-(0[1-9]|1[0-2])-[0-3]\d",
    }
    return {name: b"\x03" + (text if isinstance(text, bytes) else text.encode()) for name, text in files.items()}


def tool_calls():
    """One text of each format in the order of kSyntaxes (src/chat_template/tool_syntax.cc), each whole and broken."""
    find, now = '{"query": "a\\"b"}', "{}"
    json_call = '{"name": "find", "arguments": %s}' % find
    texts = [
        ("generic", "Hm.\n<tool_call>\n%s\n</tool_call>" % json_call),
        ("hermes", "<tool_call>\n%s\n</tool_call>\n<tool_call>\n%s\n</tool_call>" % (json_call, json_call)),
        ("qwen3_coder", "<tool_call>\n<function=find>\n<parameter=query>\na\n</parameter>\n</function>\n</tool_call>"),
        ("llama3_json", '{"name": "find", "parameters": %s}' % find),
        ("llama_pythonic", "[find(query='a'), now()]"),
        ("mistral", '[TOOL_CALLS] [%s, {"name": "now", "arguments": {}, "id": "123456789"}]' % json_call),
        ("mistral_args", "[TOOL_CALLS]find[ARGS]%s[TOOL_CALLS]now[ARGS]%s" % (find, now)),
        ("granite", "<|tool_call|>[%s]" % json_call),
        ("phi4", "<|tool_call|>[%s]<|/tool_call|>" % json_call),
        ("deepseek_v3", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>find\n```json\n%s\n```<｜tool▁call▁end｜>"
                        "<｜tool▁calls▁end｜>" % find),
        ("deepseek_v3_1", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"),
        ("kimi", "<|tool_calls_section_begin|><|tool_call_begin|>functions.find:0<|tool_call_argument_begin|>%s<|tool_call_end|>"
                 "<|tool_calls_section_end|>" % find),
        ("lfm2", '<|tool_call_start|>[find(query="a", n=[1, None, {"k": True}])]<|tool_call_end|>'),
        ("functionary", "<function=find>%s</function>" % find),
        ("glm", "<tool_call>find\n<arg_key>query</arg_key>\n<arg_value>a</arg_value>\n</tool_call>"),
        ("harmony", "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary to=functions.find "
                    "<|constrain|>json<|message|>%s<|call|>" % find),
        ("minimax", '<minimax:tool_call>\n<invoke name="find">\n<parameter name="query">a</parameter>\n</invoke>\n'
                    "</minimax:tool_call>"),
        ("command", '<|START_ACTION|>[\n    {"tool_call_id": "0", "tool_name": "find", "parameters": %s},\n    {"tool_call_id": "1", '
                    '"tool_name": "now", "parameters": {}}\n]<|END_ACTION|>' % find),
        ("gemma", '<|tool_call>call:find{n:[1,{a:true}],query:<|"|>a"b<|"|>}<tool_call|><|tool_call>call:now{}<tool_call|>'),
        ("functiongemma", "<start_function_call>call:find{query:<escape>a{b<escape>}<end_function_call>"),
    ]
    files = {}
    for number, (name, text) in enumerate(texts):
        data = text.encode()
        files[name] = bytes([number, 7]) + data
        files[name + "_cut"] = bytes([number, 9]) + data[: len(data) * 2 // 3]
    return files


def gbnfs():
    """One byte (seed), then a grammar."""
    files = {
        "sums": 'root ::= sum\nsum ::= term ([+*] term)*  # a comment\nterm ::= [0-9]+ | "(" sum ")"\n',
        "lines": 'root ::=\n  "a" |\n  "b"\n  | other\nother ::= [^\\n\\]\\x41-\\u00e9]{2,3} .?\n', "counts": 'root ::= "a"{2} "b"{1,} ("c" | "d"){0,3} [e]*?\n',
        "escapes": 'root ::= "\\x41\\u00e9\\U0001F600\\n\\t\\"\\\\" \'x\'\n', "palindromes": 'root ::= "a" root "a" | "b" root "b" | ""\n', "left": 'root ::= root "a" | "b"\n',
        "left_behind_empty": 'root ::= e root | "x"\ne ::= "a"?\n', "no_end": 'root ::= "a" root\n', "undefined": "root ::= other\n", "twice": 'root ::= "a"\nroot ::= "b"\n',
        "no_root": 'a ::= "b"\n', "json": 'root ::= v\nv ::= "{" (s ":" v ("," s ":" v)*)? "}" | "[" (v ("," v)*)? "]" | s | [0-9]+\ns ::= "\\"" [^"\\\\\\x00-\\x1F]* "\\""\n',
        "ambiguous": "root ::= (a | b)*\na ::= [a-z]+\nb ::= [a-z]+ b?\n", "open": 'root ::= ("a" [b', "other_marks": 'root = "a" ; x := "b"\n', "bytes": b'root ::= "\xff" [\xc3\xa9]\n', "counted_counts": 'root ::= (("a"{3}){3}){0,3}\n',
        "empty": "", "nullable": 'root ::= a a a "x"\na ::= b?\nb ::= c*\nc ::= "y"?\n',
    }
    return {name: b"\x07" + (text if isinstance(text, bytes) else text.encode()) for name, text in files.items()}


def gguf_string(text):
    return struct.pack("<Q", len(text)) + text


def gguf_key(key, kind, payload):
    return gguf_string(key) + struct.pack("<I", kind) + payload


def gguf_file(keys, tensors, version=3, counts=None, data=b"", align=32):
    key_count, tensor_count = counts or (len(keys), len(tensors))
    head = b"GGUF" + struct.pack("<IQQ", version, tensor_count, key_count)
    body = b"".join(keys)
    for name, dims, kind, offset in tensors:
        body += gguf_string(name) + struct.pack("<I", len(dims)) + b"".join(struct.pack("<q", d) for d in dims)
        body += struct.pack("<IQ", kind, offset)
    whole = head + body
    return whole + b"\0" * (-len(whole) % align) + data


def ggufs():
    arch = gguf_key(b"general.architecture", 8, gguf_string(b"llama"))
    floats = (b"x", [8], 0, 0)
    data = struct.pack("<8f", *range(8))
    u64 = lambda value: struct.pack("<Q", value)
    return {
        "small": gguf_file([arch], [floats], data=data),
        "version_2": gguf_file([arch], [floats], version=2, data=data),
        "version_1": gguf_file([arch], [floats], version=1, data=data),
        "empty_file": b"",
        "magic_only": b"GGUF",
        "wrong_magic": b"GGML" + b"\0" * 60,
        "big_endian": b"GGUF" + struct.pack(">IQQ", 3, 0, 0),
        "huge_counts": gguf_file([], [], counts=(2**64 - 1, 2**64 - 1)),
        "counts_at_2_61": gguf_file([], [], counts=(2**61, 2**61)),
        "huge_key": b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + u64(2**64 - 1),
        "huge_string": gguf_file([gguf_string(b"k") + struct.pack("<I", 8) + u64(2**63)], []),
        "huge_array": gguf_file([gguf_key(b"k", 9, struct.pack("<IQ", 8, 2**60))], []),
        "nested_array": gguf_file([gguf_key(b"k", 9, struct.pack("<IQ", 9, 1) * 20)], []),
        "unknown_type": gguf_file([gguf_key(b"k", 13, b"\0" * 8)], []),
        "bool_2": gguf_file([gguf_key(b"k", 7, b"\2")], []),
        "empty_key": gguf_file([gguf_key(b"", 0, b"\0")], []),
        "key_with_nul": gguf_file([gguf_key(b"a\0b", 0, b"\0")], []),
        "key_invalid_utf8": gguf_file([gguf_key(b"\xff", 0, b"\0")], []),
        "equal_keys": gguf_file([arch, arch], []),
        "alignment_3": gguf_file([gguf_key(b"general.alignment", 4, struct.pack("<I", 3))], [floats], data=data),
        "alignment_0": gguf_file([gguf_key(b"general.alignment", 4, struct.pack("<I", 0))], [floats], data=data),
        "all_types": gguf_file([gguf_key(b"k%d" % t, t, b"\1" * n) for t, n in
                                ((0, 1), (1, 1), (2, 2), (3, 2), (4, 4), (5, 4), (6, 4), (7, 1), (10, 8), (11, 8), (12, 8))]
                               + [gguf_key(b"list", 9, struct.pack("<IQ", 8, 2) + gguf_string(b"a") + gguf_string(b""))], []),
        "five_dims": gguf_file([], [(b"x", [1] * 5, 0, 0)], data=data),
        "no_dims": gguf_file([], [(b"x", [], 0, 0)], data=data),
        "zero_dim": gguf_file([], [(b"x", [0, 4], 0, 0)], data=data),
        "negative_dim": gguf_file([], [(b"x", [-1, 4], 0, 0)], data=data),
        "product_overflow": gguf_file([], [(b"x", [2**62, 2**62, 4], 0, 0)], data=data),
        "beyond_the_end": gguf_file([], [(b"x", [1024], 0, 0)], data=data),
        "unaligned_offset": gguf_file([], [(b"x", [2], 0, 7)], data=data),
        "overlap": gguf_file([], [(b"x", [8], 0, 0), (b"y", [8], 0, 0)], data=data),
        "hole": gguf_file([], [(b"x", [8], 0, 0), (b"y", [8], 0, 96)], data=data * 4),
        "equal_names": gguf_file([], [(b"x", [8], 0, 0), (b"x", [8], 0, 32)], data=data * 2),
        "offset_wraps": gguf_file([], [(b"x", [8], 0, 2**64 - 32)], data=data),
        "q4_0": gguf_file([], [(b"x", [32, 2], 2, 0)], data=b"\0" * 64),
        "q4_0_ragged": gguf_file([], [(b"x", [33], 2, 0)], data=b"\0" * 64),
        "q4_0_infinite_scale": gguf_file([], [(b"x", [32], 2, 0)], data=b"\0\x7c" + b"\0" * 62),
        "nan": gguf_file([], [floats], data=struct.pack("<8f", *([float("nan")] * 8))),
        "unknown_tensor_type": gguf_file([], [(b"x", [8], 99, 0)], data=data),
        "split": gguf_file([gguf_key(b"split.count", 2, struct.pack("<H", 2))], [floats], data=data),
    }


def gguf_tokenizers():
    """Files with a tokenizer's keys alone, and a text behind them."""
    def strings(name, values):
        return gguf_key(b"tokenizer.ggml." + name, 9, struct.pack("<IQ", 8, len(values)) + b"".join(gguf_string(v.encode()) for v in values))

    def numbers(name, kind, form, values):
        return gguf_key(b"tokenizer.ggml." + name, 9, struct.pack("<IQ", kind, len(values)) + struct.pack(f"<{len(values)}{form}", *values))

    text = lambda name, value: gguf_key(name, 8, gguf_string(value.encode()))
    ids = lambda **named: [gguf_key(f"tokenizer.ggml.{n}_token_id".encode(), kind, struct.pack(form, value)) for n, (kind, form, value) in named.items()]
    symbol = lambda b: chr(b) if 33 <= b <= 126 or 161 <= b <= 172 or 174 <= b else chr(256 + sum(1 for c in range(b) if not (33 <= c <= 126 or 161 <= c <= 172 or 174 <= c)))
    byte_tokens = [symbol(b) for b in range(256)] + ["he", "hel", "<|im_start|>", "<|im_end|>", ""]
    byte_types = [1] * 258 + [3, 4, 5]
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256)), "\u2581", "h", "e", "\u2581h", "he"]
    piece_types = [2, 3, 3] + [6] * 256 + [1] * 5
    scores = [0.0] * 259 + [-1.0, -2.0, -3.0, -0.5, -0.7]
    chat = text(b"tokenizer.chat_template", "{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}")
    level = '{"model":{"type":"BPE"},"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":true},"normalizer":{"type":"NFKC"},"added_tokens":[{"id":258,"rstrip":true}]}'
    named = lambda kind, *keys: [text(b"tokenizer.ggml.model", kind), *keys]
    bytes_keys = [strings(b"tokens", byte_tokens), numbers(b"token_type", 5, "i", byte_types), strings(b"merges", ["h e", "he l"]), chat]
    piece_keys = [strings(b"tokens", pieces), numbers(b"token_type", 5, "i", piece_types), numbers(b"scores", 6, "f", scores)]
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "\u2581hello", "o", "w", "\u2581w"]
    files = {
        **{"pre_" + pre.replace("-", "_"): named("gpt2", text(b"tokenizer.ggml.pre", pre), *bytes_keys)
           for pre in ("gpt-2", "qwen2", "llama-bpe", "tekken", "deepseek-v3", "gpt-4o", "kimi-k2", "default")},
        "pieces": named("llama", *piece_keys, *ids(bos=(4, "<I", 1), eos=(5, "<i", -1), eot=(10, "<Q", 1 << 40))),
        "unigram": named("t5", *piece_keys, numbers(b"precompiled_charsmap", 0, "B", [4, 0, 0, 0, 0, 0, 0, 0])),
        "words": named("bert", strings(b"tokens", words), *ids(cls=(4, "<I", 2), seperator=(4, "<I", 3), unknown=(4, "<I", 1))),
        "pipeline": named("gpt2", text(b"tokenizer.ggml.tutti.pipeline", level), numbers(b"tutti.ends", 5, "i", [1, 2, -5]), *bytes_keys),
        "pipeline_bad": named("gpt2", text(b"tokenizer.ggml.tutti.pipeline", level[:40]), *bytes_keys),
        "phi3": [text(b"general.name", "Phi-3 mini"), *named("llama", *piece_keys)],
        "short_lists": named("llama", strings(b"tokens", pieces), numbers(b"scores", 6, "f", scores[:4])),
    }
    words_behind = b"TEXT\xff" + "hello  w\u00f6rld <|im_start|>\n</s> 123".encode()
    return {name: gguf_file(keys, []) + words_behind for name, keys in files.items()}


def packed_file(description, whole, weights=b"\1" * 64, version=1, arithmetic=0, changed=None):
    """A packed checkpoint (src/packed/file.h) of one piece without sums: the target makes them right."""
    front = bytes(128 + 8)
    front += bytes(-len(front) % 64) + description
    front += bytes(-len(front) % 4096)
    numbers = {"file": len(front) + len(weights), "description": len(description), "whole": whole, "weights": len(weights), "piece": 1 << 20}
    numbers.update(changed or {})
    preamble = b"\x89TUTTIP\n" + struct.pack("<IIII", version, 1, arithmetic, 0) + struct.pack("<5Q", *numbers.values())
    return preamble + bytes(128 - len(preamble)) + front[128:] + weights


def packed():
    arch = gguf_key(b"general.architecture", 8, gguf_string(b"llama"))
    floats = (b"x", [8], 0, 0)
    front = gguf_file([arch], [floats])
    whole = len(front) + 32
    sound = packed_file(front, whole)
    most = 2**64 - 1
    return {
        "small": sound, "cut": sound[:-1], "longer": sound + b"x", "preamble_alone": sound[:128], "magic_alone": sound[:8], "empty": b"",
        "with_a_tensor": packed_file(front + struct.pack("<8f", *range(8)), whole),
        "version_2": packed_file(front, whole, version=2), "arithmetic_9": packed_file(front, whole, arithmetic=9),
        "whole_too_small": packed_file(front, len(front)), "no_gguf": packed_file(b"GGML" + bytes(60), 64), "no_description": packed_file(b"", 0),
        "huge_counts": packed_file(gguf_file([], [], counts=(2**61, 2**61)), 2**62),
        "huge_array": packed_file(gguf_file([gguf_key(b"k", 9, struct.pack("<IQ", 8, 2**25))], []), 2**62),
        **{f"{name}_{amount}": packed_file(front, whole, changed={name: value}) for name in ("file", "description", "whole", "weights", "piece")
           for amount, value in (("none", 0), ("most", most), ("wraps", most - 4095), ("one", 1))},
    }


def tensor_entry(name, dtype, shape, begin, end):
    return f'"{name}":{{"dtype":"{dtype}","shape":{json.dumps(shape, separators=(",", ":"))},"data_offsets":[{begin},{end}]}}'


def tensors_file(header, data=b"", length=None):
    text = header if isinstance(header, bytes) else header.encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def quantized():
    weights = {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "channel"}

    def compressed(form, more=None, **changed):
        return {"quant_method": "compressed-tensors", "format": form, **(more or {}),
                "config_groups": {"g": {"targets": ["Linear"], "weights": {**weights, **changed}}}}

    configs = {
        "int8": compressed("int-quantized", {"ignore": ["re:.*int8.1.*", "lm_head"]}),
        "int8_static": compressed("int-quantized", {"ignore": ["int8.1"]}, strategy="tensor"),
        "int4": compressed("pack-quantized", num_bits=4, strategy="group", group_size=32),
        "int4_ordered": compressed("pack-quantized", num_bits=4, strategy="group", group_size=32, actorder="group"),
        "float8": compressed("float-quantized", type="float"),
        "float8_block": compressed("float-quantized", type="float", strategy="block", block_structure=[128, 128]),
        "sparse": compressed("int-quantized", {"sparsity_config": {"format": "sparse-24-bitmask"}}),
        "cache": compressed("int-quantized", {"kv_cache_scheme": {"num_bits": 8}}),
        "group_of_zero": compressed("pack-quantized", num_bits=4, strategy="group", group_size=0),
        "groups_list": {"quant_method": "compressed-tensors", "format": "int-quantized", "config_groups": []},
        "gptq": {"quant_method": "gptq", "bits": 4, "group_size": 32, "sym": False},
        "gptq_symmetric": {"quant_method": "gptq", "bits": 4, "group_size": 32, "checkpoint_format": "gptq_v2"},
        "gptq_row": {"quant_method": "gptq", "bits": 8, "group_size": -1, "sym": False},
        "awq": {"quant_method": "awq", "bits": 4, "group_size": 32, "modules_to_not_convert": None},
        "bitnet": {"quant_method": "bitnet", "linear_class": "autobitlinear", "quantization_mode": "offline"},
        "bitnet_master": {"quant_method": "bitnet", "linear_class": "autobitlinear", "quantization_mode": "online"},
        "fp8": {"quant_method": "fp8", "weight_block_size": [128, 128], "modules_to_not_convert": ["lm_head"]},
        "fp8_huge_block": {"quant_method": "fp8", "weight_block_size": [1 << 62, 1]},
        "mxfp4": {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"]},
        "unknown": {"quant_method": "bitsandbytes", "load_in_4bit": True},
    }
    return {name: json.dumps(config) for name, config in configs.items()} | {
        "pattern_runs": ".*" * 200 + "$", "pattern_escape": "^model\\.layers\\.0\\..*proj$"}


def safetensors():
    one = tensor_entry("w", "F32", [2, 1], 0, 8)
    two = tensor_entry("b", "F16", [3], 8, 14)
    data = struct.pack("<2f3e", 1, -2, 0.5, 1, 2)

    def entry(fields, size=8):
        return tensors_file('{"w":{' + fields + "}}", b"\0" * size)

    def offsets(text, size=8):
        return entry(f'"dtype":"F32","shape":[2],"data_offsets":{text}', size)

    def shape(text, dtype="F32", size=8):
        return entry(f'"dtype":"{dtype}","shape":{text},"data_offsets":[0,{size}]', size)

    def index(weight_map, rest=""):
        return "{" + rest + '"weight_map":' + weight_map + "}"

    types = ["BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "I16", "U16", "F16", "BF16",
             "I32", "U32", "F32", "C64", "F64", "I64", "U64", "F4", "F6_E2M3", "F6_E3M2"]
    bits = {"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "BOOL": 8, "BF16": 16, "F16": 16}
    bits |= {t: int("".join(c for c in t.split("_")[0] if c.isdigit())) for t in types if t not in bits}
    entries, at = [], 0
    for name in types:
        size = 4 * bits[name] // 8
        entries.append(tensor_entry("t " + name, name, [4], at, at + size))
        at += size
    return {
        "small": tensors_file("{" + one + "," + two + "}", data),
        "padded": tensors_file("{" + one + "," + two + "}    ", data),
        "out_of_order": tensors_file("{" + two + "," + one + "}", data),
        "metadata": tensors_file('{"__metadata__":{"format":"pt","x\\u00e9":"\\ud83d\\ude00"},' + one + "}", data[:8]),
        "all_types": tensors_file("{" + ",".join(entries) + "}", bytes(at)),
        "scalar_and_none": tensors_file("{" + tensor_entry("s", "F32", [], 0, 4) + "," + tensor_entry("n", "F32", [0, 3], 4, 4) + "}", data[:4]),
        "nan": tensors_file("{" + one + "}", struct.pack("<2f", float("nan"), float("inf"))),
        "no_tensors": tensors_file("{}"), "empty_file": b"", "seven_bytes": b"\0" * 7,
        "length_0": tensors_file("{}", length=0), "length_1": tensors_file("{}", length=1), "length_2_63": tensors_file("{}", length=2**63),
        "length_beyond_file": tensors_file("{}", length=3), "length_beyond_cap": tensors_file("{}", length=2**25 + 1),
        "not_json": tensors_file("hello"), "array": tensors_file("[]"), "leading_blank": tensors_file(" {}"),
        "invalid_utf8": tensors_file(b'{"\x80":{}}'), "surrogate": tensors_file('{"\\ud800":{}}'), "deep": tensors_file("[" * 5000),
        "deep_in_shape": tensors_file('{"w":{"shape":' + "[" * 5000), "trailing_junk": tensors_file("{} x"), "two_values": tensors_file("{}{}"),
        "offsets_reversed": offsets("[8,0]"), "offsets_overlap": tensors_file("{" + one + "," + tensor_entry("v", "F32", [2], 4, 12) + "}", bytes(12)),
        "offsets_hole": tensors_file("{" + one + "," + tensor_entry("v", "F32", [2], 9, 17) + "}", bytes(17)),
        "offsets_short_file": offsets("[0,8]", 7), "offsets_long_file": offsets("[0,8]", 9), "offsets_2_53": offsets("[0,9007199254740993]"),
        "offsets_2_64": offsets("[0,18446744073709551616]"), "offsets_exponent": offsets("[0,8e0]"), "offsets_text": offsets('["0","8"]'),
        "offsets_one": offsets("[8]"), "offsets_three": offsets("[0,4,8]"), "offsets_negative": offsets("[-8,0]"), "offsets_minus_zero": offsets("[-0,8]"),
        "shape_too_small": shape("[1]"), "shape_overflow": shape("[4294967296,4294967296]"), "shape_overflow_and_zero": shape("[0,9007199254740992,9007199254740992]", size=0),
        "shape_negative": shape("[-1,-2]"), "shape_nine": shape("[1,1,1,1,1,1,1,1,2]"), "shape_fraction": shape("[2.0]"), "shape_no_list": shape("2"),
        "type_unknown": shape("[1]", "F128", 16), "type_f4_odd": shape("[3]", "F4", 2), "type_no_text": entry('"dtype":1,"shape":[2],"data_offsets":[0,8]'),
        "no_dtype": entry('"shape":[2],"data_offsets":[0,8]'), "no_offsets": entry('"dtype":"F32","shape":[2]'), "unknown_field": entry('"dtype":"F32","x":0'),
        "equal_names": tensors_file("{" + one + "," + tensor_entry("w", "F16", [3], 8, 14) + "}", data),
        "equal_names_escaped": tensors_file("{" + one + "," + tensor_entry("\\u0077", "F16", [3], 8, 14) + "}", data),
        "equal_fields": entry('"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]'),
        "metadata_number": tensors_file('{"__metadata__":{"a":1}}'), "metadata_list": tensors_file('{"__metadata__":[]}'),
        "metadata_twice": tensors_file('{"__metadata__":{},"__metadata__":{}}'), "metadata_equal_keys": tensors_file('{"__metadata__":{"a":"1","a":"2"}}'),
        "zip": b"PK\x03\x04\x14\0\x08\x08" + b"\0" * 40, "pickle": b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.", "git_lfs": "version https://git-lfs.github.com/spec/v1\n",
        "web_page": "<!DOCTYPE html><html></html>", "gguf_file": b"GGUF" + b"\0" * 60,
        "index": index('{"a":"one.safetensors","b":"deep/two.safetensors"}', '"metadata":{"total_size":14,"x":[{"y":null}]},'),
        "index_parent": index('{"a":"../one.safetensors"}'), "index_absolute": index('{"a":"/one.safetensors"}'), "index_dot": index('{"a":"./one"}'),
        "index_empty_part": index('{"a":"deep//one"}'), "index_nul": index('{"a":"one\\u0000"}'), "index_number": index('{"a":1}'),
        "index_nested": index('{"a":{"b":"c"}}'), "index_list": index("[]"), "index_none": "{}", "index_empty": index("{}"),
        "index_twice": index('{"a":"one"},"weight_map":{"b":"one"}'), "index_equal_names": index('{"a":"one","a":"two"}'),
    }


def jsons():
    return {
        "empty": "", "null": "null", "array": "[]", "string": '"x"', "open": "{", "deep": "[" * 65 + "]" * 65,
        "depth_64": "[" * 64 + "]" * 64, "unclosed_deep": "[" * 5000, "duplicate": '{"a":1,"a":2}',
        "escaped_duplicate": '{"a":1,"\\u0061":2}', "trailing_comma": "[1,]", "comment": "/**/1", "nan": "[NaN]",
        "infinity": "[1e999]", "minus_zero": "[-0, -0.0]", "long_number": "[" + "1" * 70 + "]", "plus": "[+1]",
        "leading_zero": "[01]", "hex": "[0x1]", "exponent": "[1e5, 1E-5, 1.5e+3]", "single_quotes": "{'a':1}",
        "surrogate": '["\\ud800"]', "pair": '["\\ud83d\\ude00"]', "nul": '["a\\u0000b"]', "raw_nul": b'["a\0b"]',
        "tab_in_string": '["\t"]', "invalid_utf8": b'["\x80"]', "overlong": b'["\xc0\x80"]', "bom": b"\xef\xbb\xbf{}",
        "large_int": "[18446744073709551615, 18446744073709551616, -9223372036854775809]", "two": "1 2",
        "mixed": json.dumps({"a": [1, 2.5, None, True, {"b": "\u00e9\u4e16"}], "": {}}, ensure_ascii=False),
        "many_members": "{" + ",".join(f'"k{i}":{i}' for i in range(60)) + "}",
    }


def anthropic():
    ask = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
    tool = {"name": "f", "description": "d", "input_schema": {"type": "object", "properties": {"a": {"type": "number"}}}}

    def said(*blocks, role="user"):
        return {**ask, "messages": [ask["messages"][0], {"role": role, "content": list(blocks)}]}

    text, use = {"type": "text", "text": "a"}, {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1.5}}
    variants = {
        "ask": ask, "stream": {**ask, "stream": True, "system": "s", "metadata": {"user_id": "u"}},
        "blocks": said(text, text), "prefill": said(text, role="assistant"), "system": {**ask, "system": [text, text]},
        "tools": {**ask, "tools": [tool], "tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": True}},
        "history": {**ask, "tools": [tool], "messages": [
            ask["messages"][0], {"role": "assistant", "content": [{"type": "thinking", "thinking": "h", "signature": ""}, text, use]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [text], "is_error": True}, text]}]},
        "open_call": said(use, role="assistant"), "wrong_role": said(use), "image": said({"type": "image", "source": {"data": "x"}}),
        "redacted": said({"type": "redacted_thinking", "data": "x"}, role="assistant"), "empty": said(), "no_type": said({"text": "a"}),
        "server_tool": {**ask, "tools": [{"type": "web_search_20250305", "name": "web_search"}]},
        "sampling": {**ask, "temperature": 0.5, "top_p": 0.9, "top_k": 40, "stop_sequences": ["a"], "seed": 1, "service_tier": "auto"},
        "thinking": {**ask, "thinking": {"type": "enabled", "budget_tokens": 1024}, "output_config": {"effort": "low"}},
        "format": {**ask, "output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}},
        "two_formats": {**ask, "output_format": {"type": "json_schema", "schema": True}, "json_schema": {"type": "string"}},
        "out_of_range": {**ask, "temperature": 1.5}, "wrong_types": {**ask, "system": 1, "tools": [1], "messages": [1]},
        "nulls": {**ask, "system": None, "tools": None, "thinking": None}, "unknown": {**ask, "x": 1, "__proto__": {}},
    }
    return {f"{name}_{route}": bytes([route + (128 if number % 2 else 0)]) + json.dumps(body).encode()
            for number, (name, body) in enumerate(variants.items()) for route in range(2)}


def requests():
    chat = {"model": "m", "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "Hi"}]}
    variants = {
        "chat": chat, "stream": {**chat, "stream": True, "stream_options": {"include_usage": True}},
        "parts": {"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]},
        "image": {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x"}}]}]},
        "sampling": {**chat, "temperature": 0.5, "top_p": 0.9, "top_k": 40, "min_p": 0.1, "n": 2, "seed": -1, "stop": ["a", "b"],
                     "frequency_penalty": 1, "presence_penalty": -1, "logit_bias": {"5": 100}, "logprobs": True, "top_logprobs": 5},
        "out_of_range": {**chat, "temperature": 3, "n": -1, "max_tokens": 0},
        "wrong_types": {**chat, "temperature": "1", "stream": "yes", "n": 1.5},
        "nulls": {**chat, "temperature": None, "stop": None, "stream": None},
        "tools": {**chat, "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}]},
        "template": {**chat, "chat_template": "{{ 1 }}", "chat_template_kwargs": {"tokenize": True}},
        "assistant_last": {"messages": [{"role": "assistant", "content": "x"}], "continue_final_message": True},
        "bad_role": {"messages": [{"role": "god", "content": "x"}]},
        "no_messages": {"model": "m"}, "empty_messages": {"messages": []}, "unknown": {**chat, "n_discard": -1, "__proto__": {}},
        "prompt": {"prompt": "Hi", "max_tokens": 5, "echo": True, "logprobs": 2},
        "prompts": {"prompt": ["a", "b"]}, "ids": {"prompt": [1, 2, 3]}, "id_lists": {"prompt": [[1], [2, 3]]},
        "bad_ids": {"prompt": [-1, 2**40, 1.5]}, "mixed_prompt": {"prompt": ["a", 1]}, "empty_prompt": {"prompt": ""},
        "generate": {"text": "Hi", "prompt": "x", "sampling_params": {"max_new_tokens": 5}},
        "tokenize": {"content": "x", "prompt": "x", "inputs": ["a"], "add_special": True, "parse_special": False},
        "detokenize": {"tokens": [1, 2], "ids": [3]},
    }
    files = {}
    for number, (name, body) in enumerate(variants.items()):
        for route in range(6):
            strict = 128 if (number + route) % 2 else 0
            # 128 is 2 modulo 6: the byte is chosen so that the route comes out right.
            byte = next(b for b in range(strict, strict + 12) if b % 6 == route)
            files[f"{name}_{route}"] = bytes([byte]) + json.dumps(body).encode()
    hole = {"input_prefix": "a", "input_suffix": "b"}
    infills = {
        "infill": {**hole, "n_predict": 9, "stream": True, "prompt": "c"}, "infill_nothing": {"input_prefix": "", "input_suffix": ""},
        "infill_files": {**hole, "input_extra": [{"filename": "x.py", "text": "one", "time": 1}, {"text": ""}]},
        "infill_bad_files": {**hole, "input_extra": [{"text": 1}, 2, {"filename": "x"}]},
        "infill_lengths": {**hole, "n_predict": 0, "max_tokens": 5, "min_tokens": 1}, "infill_half": {"input_prefix": "a"},
    }
    for number, (name, body) in enumerate(infills.items()):
        files[name] = bytes([64 + 128 * (number % 2)]) + json.dumps(body).encode()
    return files


def encodings():
    rank = {"query": "q", "documents": ["a", {"text": "b"}], "top_n": 1}
    variants = {
        "text": {"model": "m", "input": "a", "inputs": "a"}, "texts": {"model": "m", "input": ["a", "b"], "inputs": ["a", "b"]},
        "ids": {"model": "m", "input": [1, 2], "inputs": [1, 2], "ids": [1, 2]},
        "id_lists": {"model": "m", "input": [[1], [2, 3]], "inputs": [[1], [2]], "ids": [[1], []]},
        "mixed": {"model": "m", "input": ["a", [1]], "inputs": ["a", [1]], "ids": [[1], 2]},
        "empty": {"model": "m", "input": ["a", ""], "inputs": [], "ids": [], "query": "q", "documents": ["a", ""], "texts": []},
        "bad_ids": {"model": "m", "input": [-1, 2**40, 1.5], "inputs": [2**31], "ids": [-1]},
        "options": {"model": "m", "input": "a", "inputs": "a", "encoding_format": "base64", "dimensions": 3, "normalize": False,
                    "prompt_name": "p", "truncate_prompt_tokens": -1, "truncation_side": "left", "truncate": True,
                    "truncation_direction": "Left"},
        "out_of_range": {"model": "m", "input": "a", "inputs": "a", "dimensions": 0, "encoding_format": "hex", "truncate_prompt_tokens": 0},
        "nulls": {"model": "m", "input": "a", "inputs": "a", "dimensions": None, "user": None, "prompt_name": None},
        "rank": rank, "no_texts": {**rank, "return_documents": False, "raw_scores": True, "use_activation": False},
        "contradiction": {**rank, "raw_scores": True, "use_activation": True},
        "score": {"text_1": "q", "text_2": ["a", "b"]}, "score_pairs": {"queries": ["p", "q"], "items": ["a", "b"]},
        "score_odd": {"data_1": ["p", "q"], "data_2": ["a"]}, "score_half": {"text_1": "q"},
        "pair": {"inputs": ["a", "b"]}, "pairs": {"inputs": [["a"], ["b", "c"]], "raw_scores": True}, "triple": {"inputs": [["a", "b", "c"]]},
        "tei_rank": {"query": "q", "texts": ["a", "b"], "return_text": True},
        "similar": {"inputs": {"source_sentence": "q", "sentences": ["a"]}, "parameters": {"truncate": True, "x": 1}},
        "no_similar": {"inputs": {"source_sentence": "", "sentences": []}, "parameters": []},
        "many": {"model": "m", "input": ["a"] * 2049, "inputs": ["a"] * 2049, "query": "q" * 20000, "documents": ["a"] * 2048},
        "foreign": {"model": "m", "input": "a", "input_type": "query", "task": "x", "messages": []},
    }
    files = {}
    for number, (name, body) in enumerate(variants.items()):
        for route in range(10):
            strict = 128 if (number + route) % 2 else 0
            files[f"{name}_{route}"] = bytes([strict + route, 17 * number % 256]) + json.dumps(body).encode()
    return files


def decoder_configs():
    """config.json with a line for each tensor, and keys of GGUFs, of the small models of the parity test; see decoder_config_fuzz.cc.

    Of the families that have a model of each kind of layer all tensors are listed, of the others the embedding alone."""
    goldens = json.loads((HERE.parent / "golden/decoder_families.json").read_text())
    whole = ("apertus", "deepseek_v3", "falcon h1", "gemma3n with two streams", "gemma4 with shared keys", "gemma4 with experts",
             "gpt_oss", "lfm2moe", "llama4 with layers without experts", "nemotron_h", "nemotron_h with experts and without",
             "granite hybrid with experts", "qwen35 with experts")
    unused = ("_token_id", "architectures", "attention_dropout", "dtype", "initializer_range", "transformers_version", "use_cache")
    files, seen = {}, set()
    for entry in goldens:
        kind = entry["config"]["model_type"]
        if kind in seen and entry["family"] not in whole:
            continue
        seen.add(kind)
        config = {key: value for key, value in entry["config"].items() if not key.endswith(unused)}
        listed = [(name, shape) for name, shape in entry["tensors"].items() if entry["family"] in whole or "embed" in name]
        lines = "\n".join(" ".join([name, *map(str, shape)]) for name, shape in listed)
        files[entry["family"].replace(" ", "_")] = json.dumps(config, separators=(",", ":")) + "\0" + lines
        if entry["family"] in whole:
            files[entry["family"].replace(" ", "_") + "_gguf"] = decoder_gguf(entry["gguf"], entry["keys"])
    predicting = next(entry for entry in goldens if entry["family"] == "qwen35")
    files["predicting_gguf"] = decoder_gguf("qwen35", {**predicting["keys"], "block_count": 6, "nextn_predict_layers": 1})
    return files


def decoder_gguf(architecture, keys):
    """A GGUF of these keys, with an embedding of one token, and with the lists of xIELU that Apertus has."""
    def payload(value):
        if isinstance(value, list):
            kinds = {payload(item)[0] for item in value}
            return 9, struct.pack("<IQ", kinds.pop(), len(value)) + b"".join(payload(item)[1] for item in value)
        if isinstance(value, str):
            return 8, gguf_string(value.encode())
        if value is None:
            return 6, struct.pack("<f", -math.inf)
        if isinstance(value, bool):
            return 7, struct.pack("<B", value)
        return (6, struct.pack("<f", value)) if isinstance(value, float) else (4, struct.pack("<I", value))

    keys = {f"{architecture}.{key}": value for key, value in keys.items() if key != "vocab_size"}
    if architecture == "apertus":
        layers = keys["apertus.block_count"]
        keys |= {f"xielu.{name}": [value] * layers for name, value in (("alpha_p", 0.5), ("alpha_n", 0.25), ("beta", 0.5), ("eps", -1e-6))}
    pairs = [gguf_key(key.encode(), *payload(value)) for key, value in {"general.architecture": architecture, **keys}.items()]
    tensors = [(b"token_embd.weight", [64, 1], 0, 0)]
    if architecture == "gemma3n":  # has the rank
        tensors.append((b"blk.0.laurel_l.weight", [1, 32], 0, 256))
    return gguf_file(pairs, tensors, data=b"\0" * 128 * (1 + len(tensors)))


def encoder_configs():
    """config.json, modules.json and the config.json of its modules, with 0 bytes between; see encoder_config_fuzz.cc."""
    bert = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4, "vocab_size": 100,
            "max_position_embeddings": 128}
    types = {
        "bert": bert, "roberta": {**bert, "pad_token_id": 1}, "mpnet": bert,
        "modernbert": {**bert, "local_attention": 16, "global_attn_every_n_layers": 2, "classifier_pooling": "mean",
                       "layer_types": ["full_attention", "sliding_attention", "full_attention"],
                       "rope_parameters": {"full_attention": {"rope_theta": 1e4, "rope_type": "default"}}},
        "distilbert": {"dim": 64, "hidden_dim": 96, "n_layers": 3, "n_heads": 4, "vocab_size": 100, "max_position_embeddings": 128},
        "new": {**bert, "rope_theta": 2e4, "rope_scaling": {"type": "ntk", "factor": 8.0}, "pack_qkv": True},
        "gte": {**bert, "rope_parameters": {"rope_theta": 1.6e5, "rope_type": "default"}}, "jina_embeddings_v3": bert,
        "nomic_bert": {**bert, "hidden_act": "silu", "rotary_emb_base": 1000},
        "deberta-v2": {**bert, "relative_attention": True, "position_buckets": 32, "pos_att_type": "p2c|c2p",
                       "norm_rel_ebd": "layer_norm", "share_att_key": True, "position_biased_input": False},
    }
    files = {name: json.dumps({"model_type": name, **config}) for name, config in types.items()}
    files["jina_v2"] = json.dumps({"model_type": "bert", "position_embedding_type": "alibi", "emb_pooler": "mean", **bert})
    files["no_buckets"] = files["deberta-v2"].replace("32", "0").replace('"p2c|c2p"', '["c2p", 1]')
    files["no_window"] = json.dumps({"model_type": "modernbert", **bert, "local_attention": 0})
    files["no_positions"] = json.dumps({"model_type": "roberta", **bert, "max_position_embeddings": 1})
    files["many_positions"] = json.dumps({"model_type": "mpnet", **bert, "max_position_embeddings": 1 << 20})
    files["classifier"] = json.dumps({"model_type": "bert", "architectures": ["BertForSequenceClassification"], "num_labels": 3, **bert})

    def with_modules(kinds, module):
        listed = [{"type": f"a.{kind}", "path": f"{i}_{kind}" if i else ""} for i, kind in enumerate(kinds)]
        return "\0".join([json.dumps({"model_type": "bert", **bert}), json.dumps(listed), json.dumps(module)])

    dense = {"in_features": 64, "out_features": 64, "bias": False, "activation_function": "torch.nn.modules.activation.Tanh",
             "pooling_mode": "mean"}
    files["dense"] = with_modules(["Transformer", "Pooling", "Dense", "Dense", "Normalize"], dense)
    files["dense_odd"] = with_modules(["Transformer", "Dense", "Dense"], {**dense, "out_features": 31})
    files["colbert"] = with_modules(["Transformer", "Dense"], dense)
    files["splade"] = with_modules(["MLMTransformer", "SpladePooling"], {"pooling_strategy": "sum", "activation_function": "log1p_relu"})
    files["logit_score"] = with_modules(["Transformer", "LogitScore"], {"true_token_id": 9, "false_token_id": 17})
    files["order"] = with_modules(["Normalize", "Dense", "Pooling", "SpladePooling"], dense)
    files["path"] = with_modules(["Transformer", "Pooling"], dense).replace("1_Pooling", "../x")
    return files


def dialogs():
    """One byte for the route (bit 7: strict), then the body; see dialog_request_fuzz.cc."""
    routes = {"responses": 0, "create": 1, "update": 2, "items": 3, "fork": 4}
    user = {"role": "user", "content": "Hi"}
    parts = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]}
    said = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": "c", "annotations": [], "logprobs": []}]}
    base = {"model": "m", "input": "Hi"}
    bodies = {
        "responses": {
            "text": base, "items": {"model": "m", "input": [user, said, parts]}, "last_assistant": {"model": "m", "input": [said]},
            "dialog": {**base, "conversation": {"id": "conv_1"}, "policy": "rollback", "expected_last_item_id": "msg_1", "id": "u"},
            "previous": {**base, "previous_response_id": "resp_1", "truncation": "auto"},
            "both": {**base, "previous_response_id": "resp_1", "conversation": "conv_1"},
            "stream": {**base, "stream": True, "stream_options": {"include_obfuscation": True}},
            "background": {**base, "background": True, "store": False}, "metadata": {**base, "metadata": {"k" * 65: "v"}},
            "tools": {**base, "tools": [{"type": "function", "name": "f", "parameters": {}, "strict": True}]},
            "settings": {**base, "text": {"format": {"type": "json_object"}}, "reasoning": {"effort": "high"}},
            "include": {**base, "include": ["reasoning.encrypted_content", "message.output_text.logprobs"]},
            "sampling": {**base, "instructions": "Be.", "temperature": 0, "max_output_tokens": 16, "stop": ["a"], "seed": 1},
            "call": {"model": "m", "input": [{"type": "function_call_output", "call_id": "c", "output": "o"}]},
            "image": {"model": "m", "input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]},
            "wrong": {"model": 1, "input": {}, "store": "yes", "metadata": []}, "empty": {"model": "m", "input": []},
        },
        "create": {"none": {}, "both": {"metadata": {"a": "b"}, "items": [user, said]}, "many": {"items": [user] * 21}},
        "update": {"pair": {"metadata": {"a": "b"}}, "none": {}, "number": {"metadata": {"a": 1}}, "pairs": {"metadata": {str(i): "" for i in range(17)}}},
        "items": {"one": {"items": [parts]}, "none": {"items": []}, "reference": {"items": [{"type": "item_reference", "id": "msg_1"}]}},
        "fork": {"none": {}, "version": {"version": 3, "metadata": {}}, "huge": {"version": 9223372036854775807}},
    }
    files = {}
    for route, samples in bodies.items():
        for name, body in samples.items():
            for strict in (0, 128):
                files[f"{route}_{name}_{'strict' if strict else 'lax'}"] = bytes([strict + routes[route]]) + json.dumps(body).encode()
    queries = {"all": '"v17"\nlimit=5&order=asc&after=msg_1', "star": "*\nlimit=0", "weak": 'W/"v1"\norder=up', "twice": '"v0"\nlimit=1&limit=2',
               "unknown": '"v9223372036854775808"\nx=y', "include": "\ninclude%5B%5D=message.output_text.logprobs", "escape": "\nafter=%4",
               "resume": '"v1"\nstream=true&starting_after=41', "not_utf8": "\nafter=%FF", "many": "\n" + "a&" * 40}
    for name, text in queries.items():
        files[f"query_{name}"] = bytes([5]) + text.encode()
    return files


def mqtt():
    """One byte for the kind, then what mqtt_payload_fuzz.cc reads."""
    message = {"sessionId": "s1", "message": "Hi", "temperature": 0, "topP": 0.5, "maxTokens": 7, "systemPrompt": "Be.", "clientId": "c", "requestId": "r"}
    below = "p/assistant_response/s1"
    native = {"id": "8f2c", "type": "message", "model": "m", "input": "Hi", "policy": "enqueue", "deadline_ms": 30000, "project": "driving"}
    project = {
        "full": message, "bare": {"message": "Hi"}, "reply_topic": {**message, "replyTopic": below + "/mine"},
        "foreign_topic": {**message, "replyTopic": "p/assistant_response/s2"}, "wildcard": {**message, "replyTopic": below + "/#"},
        "wrong_types": {"message": 5, "sessionId": [], "temperature": "hot"}, "empty": {"message": " "}, "slash": {**message, "sessionId": "a/b"},
        "nulls": {**message, "sessionId": None, "replyTopic": None}, "long_id": {**message, "clientId": "c" * 129}, "list": ["Hi"],
    }
    files = {f"project_{name}": bytes([3]) + json.dumps(body).encode() for name, body in project.items()}
    texts = {"plain": b"Hello", "number": b"42", "brace": b"{not json", "blank": b" \n", "none": b"", "latin": b"gr\xfc\xdf", "repeated": b'{"message":"a","message":"b"}',
             "deep": b"[" * 70 + b"]" * 70, "surrogate": b'{"message":"\\ud800"}', "digits": b'{"temperature":' + b"1" * 70 + b"}"}
    files.update({f"project_{name}": bytes([3]) + text for name, text in texts.items()})
    verbs = {"template": (0, "s1\n", {"template": "Be."}), "reset": (0, "\n", {"reset": True}), "clear_all": (1, "\n", {"target": "all"}),
             "clear_other": (1, "s1\n", {"session_id": "s2"}), "delete": (2, "\n", {"sessionId": "s1", "clientId": "c", "requestId": "r"}),
             "delete_template": (2, "\n", {"template": "x"}), "delete_level": (2, "a/b\n", {}), "delete_id": (2, "\n", {"session_id": "+"})}
    files.update({f"verb_{name}": bytes([op]) + head.encode() + json.dumps(body).encode() for name, (op, head, body) in verbs.items()})
    messages = {"message": native, "lengths": {**native, "max_tokens": 5, "max_output_tokens": 6}, "no_id": {"input": "x"}, "conversation": {**native, "conversation": "c"},
                "level": {**native, "project": "a/b"}, "items": {**native, "input": [{"role": "user", "content": "x"}]}, "id_number": {**native, "id": 7}}
    files.update({f"native_{name}": bytes([5]) + json.dumps(body).encode() for name, body in messages.items()})
    controls = {"cancel": {"type": "cancel"}, "resume": {"type": "resume", "response_id": "resp_1", "starting_after": 41}, "resume_what": {"type": "resume"},
                "history": {"type": "history", "limit": 5}, "fork": {"type": "fork", "into": "s2", "version": 3}, "fork_level": {"type": "fork", "into": "#"},
                "ping": {"type": "ping", "id": "p"}, "stop": {"type": "stop"}, "foreign_field": {"type": "ping", "limit": 1}}
    files.update({f"control_{name}": bytes([4]) + json.dumps(body).encode() for name, body in controls.items()})
    topics = {"in": "llm/v1/anna/s1/in", "own": "llm/v1/u/s1/out", "own_in": "llm/v1/u/s1/in", "own_ctl": "llm/v1/u/s1/ctl", "server": "llm/v1/server/n/status",
              "plus": "llm/v1/u/+/out", "empty_level": "llm/v1/u//out", "levels": "/".join("abcdefghijklmnopq"), "bytes": "llm/v1/u/" + "a" * 600}
    files.update({f"topic_{name}": bytes([8]) + topic.encode() for name, topic in topics.items()})
    thoughts = {"closed": "<think>a</think>\n\nb", "open": "a<think>b", "split": "a<thi<think>b</thin</think> c<", "none": "a < b </think>"}
    files.update({f"reasoning_{name}_{piece}": bytes([12, piece]) + text.encode() for name, text in thoughts.items() for piece in (0, 2)})
    return files


def kserve():
    """Models: 0 simple, 1 simple_int8, 2 simple_string, 3 simple_identity, 4 simple_sequence, 7 repeat_int32."""
    def numbers(name, data, kind="INT32", shape=(1, 16), **more):
        return {"name": name, "shape": list(shape), "datatype": kind, "data": data, **more}

    def blob(name, size, kind="INT32", shape=(1, 16)):
        return {"name": name, "shape": list(shape), "datatype": kind, "parameters": {"binary_data_size": size}}

    line = list(range(16))
    both = [numbers("INPUT0", line), numbers("INPUT1", [line])]
    odd = [1, -1, 2**31, -2**31 - 1, 2**64, 1.5, 3.0, "1", True, None, [1], {}, 1e300, -0.0, 2**53, 0]
    json_bodies = {
        "simple": (0, {"id": "1", "inputs": both, "outputs": [{"name": "OUTPUT1", "parameters": {"binary_data": True}}]}),
        "int8": (1, {"inputs": [numbers("INPUT0", line, "INT8"), numbers("INPUT1", [-128] * 16, "INT8")]}),
        "strings": (2, {"inputs": [numbers("INPUT0", ["1"] * 16, "BYTES"), numbers("INPUT1", ["-2"] * 16, "BYTES")]}),
        "texts": (3, {"inputs": [numbers("INPUT0", [["a", "\u00fc\u0000"], ["", "\U0001f600"]], "BYTES", (2, 2))]}),
        "no_texts": (3, {"inputs": [numbers("INPUT0", [], "BYTES", (1, 0))]}),
        "sequence": (4, {"inputs": [numbers("INPUT", [5], shape=(1, 1))], "parameters": {
            "sequence_id": 7, "sequence_start": True, "sequence_end": False, "priority": 2, "timeout": 1000}}),
        "parameters": (0, {"inputs": both, "parameters": {
            "binary_data_output": True, "a": 1.5, "b": "x", "c": None, "d": [], "triton_x": 1, "timeout": 2**63 - 1}}),
        "wrong_values": (0, {"inputs": [numbers("INPUT0", odd), numbers("INPUT1", line)]}),
        "ragged": (0, {"inputs": [numbers("INPUT0", [[1, 2], [3]], shape=(2, 2)), numbers("INPUT1", [[[[]]]])]}),
        "shapes": (0, {"inputs": [numbers("INPUT0", line, shape=(2**62, 4)), numbers("INPUT1", line, shape=(-1, 16))]}),
        "types": (0, {"inputs": [numbers("INPUT0", line, "FP16"), numbers("INPUT1", line, "X")]}),
        "twice": (0, {"inputs": [both[0], both[0]]}), "missing": (0, {"inputs": both[:1]}), "none": (0, {"inputs": []}),
        "unknown": (0, {"inputs": both, "odd": 1, "outputs": [{"name": "OUTPUT0", "more": 2}]}),
        "refused": (0, {"inputs": [numbers("INPUT0", line, parameters={"shared_memory_region": "r"}), both[1]]}),
        "classes": (0, {"inputs": both, "outputs": [{"name": "OUTPUT0", "parameters": {"classification": 2}}]}),
    }
    flat = {
        "repeat": (7, {"IN": [4, 5], "DELAY": [0, 0], "WAIT": 0, "id": "7", "parameters": {"x": 1}}),
        "identity": (3, {"INPUT0": "text"}), "list": (3, {"INPUT0": ["a", "b"]}), "nested": (7, {"IN": [[1], 2]}),
        "twice": (3, {"INPUT0": "a", "parameters": {"INPUT0": "b"}}), "odd": (3, {"INPUT0": {"a": 1}, "id": 1}),
    }
    files = {}
    for name, (model, body) in json_bodies.items():
        text = json.dumps(body).encode()
        files[f"json_{name}"] = bytes([0, model]) + b"\n" + text
        files[f"json_{name}_strict"] = bytes([128, model]) + b"\n" + text
    for name, (model, body) in flat.items():
        for form in (3, 4):
            files[f"flat_{name}_{form}"] = bytes([form, model]) + b"\n" + json.dumps(body).encode()
    asked = json.dumps({"inputs": [blob("INPUT0", 64), blob("INPUT1", 64)]}).encode()
    for name, length, size in (("whole", len(asked), 128), ("short", len(asked), 127), ("long", len(asked), 129),
                               ("length_cut", len(asked) - 1, 128), ("length_beyond", 10**6, 128), ("length_negative", -1, 128)):
        files[f"binary_{name}"] = bytes([1, 0]) + str(length).encode() + b"\n" + asked + bytes(size)
    for size in (-1, 2**63, 1.5, "64", None):
        lying = json.dumps({"inputs": [blob("INPUT0", size), blob("INPUT1", 64)]}).encode()
        files[f"binary_size_{size}"] = bytes([1, 0]) + str(len(lying)).encode() + b"\n" + lying + bytes(128)
    texts_asked = json.dumps({"inputs": [blob("INPUT0", 11, "BYTES", (1, 2))]}).encode()
    for name, data in (("texts", b"\3\0\0\0abc\0\0\0\0"), ("texts_lying", b"\xff\xff\xff\xffabc\0\0\0\0")):
        files[f"binary_{name}"] = bytes([1, 3]) + str(len(texts_asked)).encode() + b"\n" + texts_asked + data
    for model in (0, 3, 4, 7):
        files[f"raw_{model}"] = bytes([2, model]) + b"0\n\xff\0\0\0"
    return files


def http():
    start = "POST /v1/completions HTTP/1.1\r\nHost: a\r\n"
    samples = {
        "get": "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "length": start + "Content-Length: 5\r\n\r\nhello",
        "chunked": start + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        "two_requests": "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /b HTTP/1.1\r\nHost: a\r\n\r\n",
        "both": start + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "negative": start + "Content-Length: -5\r\n\r\nhello", "list": start + "Content-Length: 5, 5\r\n\r\nhello",
        "two_lengths": start + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        "huge_length": start + "Content-Length: 18446744073709551616\r\n\r\n", "folded": start + "A: b\r\n c\r\n\r\n",
        "bare_lf": "GET / HTTP/1.1\nHost: a\n\n", "blank_before_colon": start + "A : b\r\n\r\n", "nul": start + "A: \0\r\n\r\n",
        "trailer": start + "Transfer-Encoding: chunked\r\n\r\n0\r\nA: b\r\n\r\n", "chunk_extension": start + "Transfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\n\r\n",
        "chunk_size_huge": start + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff1\r\n", "http_1_0": "GET / HTTP/1.0\r\n\r\n",
        "http_2": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "http_0_9": "GET /\r\n", "no_host": "GET / HTTP/1.1\r\n\r\n",
        "two_hosts": "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "absolute": "GET http://a/b HTTP/1.1\r\nHost: a\r\n\r\n",
        "expect": start + "Expect: 100-continue\r\nContent-Length: 0\r\n\r\n", "many_fields": start + "A: b\r\n" * 40 + "\r\n",
        "long_target": "GET /" + "a" * 600 + " HTTP/1.1\r\n\r\n", "long_field": start + "A: " + "b" * 2000 + "\r\n\r\n",
        "upgrade": start + "Upgrade: websocket\r\nConnection: upgrade\r\n\r\n", "close": start + "Connection: close\r\nContent-Length: 0\r\n\r\n",
        "tls": b"\x16\x03\x01\x02\x00\x01\x00", "garbage": bytes(range(256)), "empty_lines": "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "large_body": start + "Content-Length: 3000\r\n\r\n" + "x" * 3000, "options": "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
    }
    return {name: bytes([len(name)]) + (text if isinstance(text, bytes) else text.encode()) for name, text in samples.items()}


def mqtts():
    def text(value):
        value = value if isinstance(value, bytes) else value.encode()
        return struct.pack(">H", len(value)) + value

    def packet(first, body=b""):
        size, length = len(body), b""
        while True:
            length += bytes([size % 128 | (128 if size > 127 else 0)])
            size //= 128
            if size == 0:
                return bytes([first]) + length + body

    def connect(level, flags=2, properties=b"", rest=b""):
        return packet(0x10, text("MQTT") + bytes([level, flags, 0, 60]) + (bytes([len(properties)]) + properties if level == 5 else b"")
                      + text("client") + rest)

    hello, old = connect(5), connect(4)
    answer = b"\x01\x01\x02\0\0\0\x1e\x08" + text("r/1") + b"\x09" + text(b"\0\xff") + b"\x26" + text("k") + text("v")
    streams = {
        "connect": hello, "connect_will": connect(5, 0x2E, b"\x11\0\0\0\x0a\x21\0\x14", b"\x05\x18\0\0\0\1" + text("w") + text("x")),
        "connect_all": connect(5, 0xC6, b"\x15" + text("m") + b"\x16" + text("d") + b"\x27\0\1\0\0", b"\0" + text("w") + text("") + text("u") + text("p")),
        "connack": hello + packet(0x20, b"\1\0\x0b\x12" + text("id") + b"\x24\1\x2a\0\x13\0\5"),
        "publish": hello + packet(0x30, text("a/b") + b"\0hello") + packet(0x3B, text("a") + b"\0\1\0x"),
        "publish_request": hello + packet(0x32, text("a") + b"\0\1" + bytes([len(answer)]) + answer + b"{}"),
        "publish_alias": hello + packet(0x30, text("a") + b"\3\x23\0\1x") + packet(0x30, text("") + b"\3\x23\0\1y"),
        "acks": hello + b"".join(packet(first, b"\0\1\0\5\x1f" + text("ab")) for first in (0x40, 0x50, 0x62, 0x70)),
        "subscribe": hello + packet(0x82, b"\0\1\2\x0b\1" + text("a/+/#") + b"\x2d" + text("$share/g/#") + b"\1"),
        "suback": hello + packet(0x90, b"\0\1\0\1\x87") + packet(0xB0, b"\0\1\0\0\x11"),
        "unsubscribe": hello + packet(0xA2, b"\0\1\0" + text("a") + text("b/#")),
        "pings": hello + packet(0xC0) * 5 + packet(0xD0), "auth": hello + packet(0xF0, b"\x18\5\x15" + text("mm")) + packet(0xF0),
        "disconnect": hello + packet(0xE0, b"\4\5\x11\0\0\0\1") + packet(0xE0),
        "old": old + packet(0x32, text("a") + b"\0\1hello") + packet(0x82, b"\0\1" + text("#") + b"\1") + packet(0x90, b"\0\1\x80")
               + packet(0xB0, b"\0\1") + packet(0xE0),
        "old_long_length": b"\x10\x92\x80\0" + old[2:], "five_bytes_of_length": b"\x10\x80\x80\x80\x80\1",
        "too_large": hello + b"\x30\xff\xff\x7f", "type_0": hello + b"\0\0", "flags": b"\x11\0",
        "properties_beyond": packet(0x10, text("MQTT") + b"\5\2\0\x3c\x7f"), "twice": hello + packet(0x30, text("a") + b"\4\1\1\1\1"),
        "filters": hello + b"".join(packet(0x82, b"\0\1\0" + text(f) + b"\0") for f in ("a#", "+a", "$share//x", "#/a", "")),
        "surrogate": hello + packet(0x30, text(b"\xed\xa0\x80") + b"\0"), "nul": hello + packet(0x30, text(b"a\0") + b"\0"),
    }
    return {name: bytes([(128 if name.startswith("old") else 0) + len(name)]) + stream for name, stream in streams.items()}


def mqtt_sessions():
    def event(kind, who=0, *more):
        return bytes([kind * 2 + who, *more])

    def login(who=0, bits=3, *more):
        return event(1, who, bits, *more)

    start = login(0) + login(1) + event(6, 0, 1 + 8) + event(6, 1, 7 + 8)
    samples = {
        "turns": start + (event(4, 0, 1, 0) + event(10, 0, 1) + event(8, 0, 2 + 8) + event(7, 0, 1)) * 5,
        "forged": start + event(4, 0, 1, 1) + event(4, 1, 0, 0),
        "jail": login(0) + b"".join(event(6, 0, n + 8) for n in range(8)) + b"".join(event(8, 0, n + 24) for n in range(8)),
        "take_over": login(0, 0xC2) + event(6, 0, 9) + event(8, 0, 10) * 9 + login(0, 0xC2) + login(0, 3),
        "will": login(0, 0xEA, 4) + event(6, 1, 7) + event(1, 0, 3) + event(9, 0, 255) * 3 + event(12, 0, 1),
        "reader_stops": start + event(8, 0, 0xC2) * 4 + event(8, 0, 10) * 30 + event(11),
        "receipts": start + event(4, 0, 1, 0) + event(4, 0, 2, 0) + event(4, 0, 37, 0) + event(10, 0, 0) + event(9, 0, 255) * 5,
        "aliases": login(0) + event(4, 0, 128, 0) + event(4, 0, 128, 255) + event(4, 0, 145, 0),
        "flood": login(0) + event(0, 0, 11, 0) * 80, "silence": login(0, 3 + 8, 4) + event(9, 0, 255) * 60,
        "shutdown": start + event(13, 0) + event(13, 1), "second_connect": login(0) + event(2, 0, 3),
        "garbage": bytes(range(256)) * 4, "frames": login(0) + b"".join(event(0, 0, n, 4, 0, 1, 0, 0) for n in range(240)),
    }
    return samples


def websockets():
    """One byte (how to cut), then frames of a client, masked with zeros, which change nothing."""
    def frame(first, payload=b"", length=None):
        size = len(payload) if length is None else length
        head = bytes([first, 0x80 | size]) if size <= 125 else bytes([first, 0xFE]) + size.to_bytes(2, "big") if size <= 0xFFFF else \
            bytes([first, 0xFF]) + size.to_bytes(8, "big")
        return head + bytes(4) + payload
    create = b'{"type":"response.create","stream_id":"a.1","model":"m","input":"hi","store":false}'
    ping = b'{"type":"ping","id":"\xe2\x82\xac"}'
    samples = {
        "create": frame(0x81, create), "ping_message": frame(0x81, ping), "auth": frame(0x81, b'{"type":"auth","token":"t"}'),
        "subscribe": frame(0x81, b'{"type":"subscribe","response_id":"r","starting_after":3}') + frame(0x81, b'{"type":"response.cancel","response_id":"r"}'),
        "chat": frame(0x81, b'{"type":"message","session":"s","id":"1","input":"hi","stream_id":"k"}') + frame(
            0x81, b'{"type":"message","conversation":"c","id":"2","input":"hi","policy":"reject"}'),
        "chat_verbs": b"".join(frame(0x81, text) for text in (
            b'{"type":"cancel","session":"s"}', b'{"type":"resume","response_id":"r","starting_after":3}', b'{"type":"subscribe","job_id":"j"}',
            b'{"type":"fork","session":"s","into":"t","version":2}', b'{"type":"history","session":"s","conversation":"c","id":"\\""}')),
        "fragments": frame(0x01, ping[:22]) + frame(0x89, b"p") + frame(0x00) + frame(0x80, ping[22:]), "control": frame(0x89, b"p" * 125) + frame(0x8A),
        "close": frame(0x88, b"\x03\xe8bye"), "close_codes": frame(0x88, b"\x03\xed"), "half_code": frame(0x88, b"x"), "binary": frame(0x82, b"x"),
        "unmasked": b"\x81\x02{}", "reserved": frame(0xC1, b"{}"), "opcode": frame(0x83), "long": frame(0x81, length=1 << 63),
        "needless_length": b"\x81\xfe\x00\x05" + bytes(4) + b"hello", "empty": frame(0x01) + frame(0x00) * 6, "utf8": frame(0x81, b"\xed\xa0\x80"),
        "too_large": frame(0x01, b"x" * 200) + frame(0x00, b"x" * 200) + frame(0x80, b"x" * 200), "bad_json": frame(0x81, b"{") * 3,
    }
    return {name: b"\x07" + data for name, data in samples.items()}


def main():
    write("template", templates())
    write("tokenizer", texts())
    write("tokenizer_spec", tokenizer_specs())
    write("huggingface", huggingface())
    write("regex", regexes())
    write("json_schema", json_schemas())
    write("regex_constraint", constraint_regexes())
    write("tool_calls", tool_calls())
    write("gbnf", gbnfs())
    write("gguf", ggufs())
    write("gguf_tokenizer", gguf_tokenizers())
    write("decoder_config", decoder_configs())
    write("encoder_config", encoder_configs())
    write("packed", packed())
    write("quantized", quantized())
    write("safetensors", safetensors())
    write("json", jsons())
    write("openai_request", requests())
    write("anthropic_request", anthropic())
    write("encoding_request", encodings())
    write("dialog_request", dialogs())
    write("mqtt_payload", mqtt())
    write("http_framing", http())
    write("websocket", websockets())
    write("kserve_request", kserve())
    write("mqtt", mqtts())
    write("mqtt_session", mqtt_sessions())


if __name__ == "__main__":
    main()
