"""Start corpora of what reads clients: JSON, requests of each API, MQTT, HTTP, WebSocket, KServe."""
import json
import struct


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


def ollamas():
    """One byte for the route (bit 7: strict), then the body; see ollama_request_fuzz.cc."""
    user, image = {"role": "user", "content": "Hi"}, {"role": "user", "content": "Hi", "images": ["aGk="]}
    tool = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {"a": {"type": "number"}}}}}
    call = {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1.5}}}]}
    base = {"model": "m:latest", "messages": [user], "prompt": "Hi"}
    options = {"temperature": 0.5, "top_k": 40, "top_p": 0.9, "min_p": 0.05, "num_predict": 9, "num_ctx": 2048, "seed": 1, "stop": ["a"],
               "repeat_penalty": 1.1, "repeat_last_n": 64, "presence_penalty": 0.1, "frequency_penalty": 0.1, "mirostat": 0}
    variants = {
        "ask": base, "lines": {**base, "stream": True, "keep_alive": "5m"}, "options": {**base, "options": options, "stream": False},
        "wrong_options": {**base, "options": {"temperature": "hot", "stop": 1, "num_predict": -3, "num_gpu": []}}, "mirostat": {**base, "options": {"mirostat": 2}},
        "format": {**base, "format": "json"}, "schema": {**base, "format": {"type": "object", "properties": {}}}, "bad_format": {**base, "format": "xml"},
        "think": {**base, "think": True}, "level": {**base, "think": "high"}, "image": {**base, "messages": [image], "images": ["aGk="]},
        "tools": {**base, "messages": [user, call, {"role": "tool", "tool_name": "f", "content": "1"}], "tools": [tool]},
        "raw": {**base, "raw": True, "template": ""}, "raw_system": {**base, "raw": True, "system": "s"}, "suffix": {**base, "suffix": "end"},
        "system": {**base, "system": "s", "context": [1, 2]}, "load": {"model": "m"}, "unload": {"model": "m", "prompt": "", "messages": [], "keep_alive": 0},
        "durations": {**base, "keep_alive": "1h-2m"}, "negative": {**base, "keep_alive": -1}, "huge": {**base, "keep_alive": 1e300},
        "logprobs": {**base, "logprobs": True, "top_logprobs": 3}, "verbose": {"model": "m", "name": "m", "verbose": True},
        "pull": {"name": "hf.co/o/m:Q8_0", "model": "o/m:latest", "insecure": True, "stream": False, "username": "u"},
        "copy": {"source": "a:latest", "destination": "b"}, "wrong": {"model": 1, "messages": {}, "prompt": [], "options": []}, "empty": {}, "nulls": {**base, "options": None, "format": None, "think": None},
    }
    return {f"{name}_{route}": bytes([route + (128 if number % 2 else 0)]) + json.dumps(body).encode()
            for number, (name, body) in enumerate(variants.items()) for route in range(6)}


def model_calls():
    """One byte for the route (bit 7: strict), then the body; see model_call_fuzz.cc."""
    load = {"lora_name": "sql", "lora_path": "sql-v2"}
    variants = {
        "model": {"model": "m"}, "long_model": {"model": "m" * 300}, "empty_model": {"model": ""}, "wrong_model": {"model": ["m"]},
        "unknown": {"model": "m", "x": 1}, "load": load, "all": {**load, "base_model_name": "m", "load_inplace": True, "scale": 0.5, "lora_int_id": 3},
        "nulls": {**load, "base_model_name": None, "load_inplace": None, "scale": None}, "wrong": {"lora_name": 1, "lora_path": {}, "scale": "x"},
        "no_path": {"lora_name": "sql"}, "empty_path": {**load, "lora_path": ""}, "outside": {**load, "lora_path": "../../etc/passwd"},
        "nul": {**load, "lora_path": "a\u0000b", "lora_name": "\u0000"}, "huge_scale": {**load, "scale": 1e300}, "empty": {}, "array": [], "null": None,
    }
    return {f"{name}_{route}": bytes([route + (128 if number % 2 else 0)]) + json.dumps(body).encode()
            for number, (name, body) in enumerate(variants.items()) for route in range(3)}


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
    asked = {
        "decisions": {"model": "m", "input": [{"role": "user", "content": [{"type": "input_text", "text": "a"}]}], "questions": [
            {"type": "predicate", "name": "p", "instructions": "x"},
            {"type": "choice", "instructions": "x", "choices": [{"value": "a", "description": "b"}, {"value": True}]},
            {"type": "score", "instructions": "x", "levels": [{"label": "a"}, {"label": "b"}]}]},
        "systemone": {"model": "m", "state": {"a": 1}, "questions": {
            "p": {"type": "noul", "instructions": "x", "criteria": {"true": "a"}},
            "c": {"type": "choice", "instructions": ["x"], "criteria": {"a": "b", "c": None}},
            "s": {"type": "score", "instructions": "x", "criteria": ["a", "b"]}}},
    }
    for number, (name, body) in enumerate(asked.items()):
        files[name] = bytes([32 + number]) + json.dumps(body).encode()
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
        "ollama": {"model": "m:latest", "input": ["a", "b"], "prompt": "a", "truncate": False, "keep_alive": "5m", "options": {"num_ctx": 512}},
    }
    files = {}
    for number, (name, body) in enumerate(variants.items()):
        for route in range(12):
            strict = 128 if (number + route) % 2 else 0
            files[f"{name}_{route}"] = bytes([strict + route, 17 * number % 256]) + json.dumps(body).encode()
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
