"""Start corpora of what reads texts: templates, tokenizers, expressions, schemas, grammars and tool calls."""
import gzip
import json
import pathlib
import re
import unicodedata

HERE = pathlib.Path(__file__).resolve().parent


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
