"""Traffic of hostile or broken clients: each is a function of (port, rng) that ends by itself within seconds."""
import json
import socket
import time

from harness import MODEL, STEP_S, raw_request


def connect(port):
    client = socket.create_connection(("127.0.0.1", port), timeout=STEP_S)
    return client


def talk(port, data, end=False):
    """All that comes back for these bytes; the answer to rubbish is one refusal and a close, or nothing."""
    client = connect(port)
    answer = b""
    try:
        client.sendall(data)
        if end:
            client.shutdown(socket.SHUT_WR)
        while piece := client.recv(65536):
            answer += piece
    except (ConnectionError, BrokenPipeError):
        pass
    finally:
        client.close()
    return answer


def post(path, body, headers=("Connection: close",)):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json", f"Content-Length: {len(data)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


def chat(rng, **more):
    return {"model": MODEL, "messages": [{"role": "user", "content": f"Say {rng.random()}"}], "max_tokens": 40, "ignore_eos": True, **more}


def rubbish(port, rng):
    answer = talk(port, rng.randbytes(rng.randint(1, 4000)), end=True)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 4"), answer[:80]


def rubbish_body(port, rng):
    answer = talk(port, post("/v1/chat/completions", rng.randbytes(rng.randint(1, 2000))))
    assert answer.startswith(b"HTTP/1.1 400"), answer[:80]


def broken_json(port, rng):
    data = json.dumps(chat(rng)).encode()
    answer = talk(port, post("/v1/chat/completions", data[:rng.randrange(len(data) - 1)]))
    assert answer.startswith(b"HTTP/1.1 400"), answer[:80]


def deep_json(port, rng):
    answer = talk(port, post("/v1/chat/completions", b'{"messages":' + b"[" * 100000))
    assert answer.startswith(b"HTTP/1.1 400"), answer[:80]


def wrong_types(port, rng):
    field = rng.choice(["messages", "max_tokens", "temperature", "stream", "stop", "n", "logit_bias", "seed"])
    answer = talk(port, post("/v1/chat/completions", chat(rng, **{field: {"x": [None, -1]}})))
    assert answer.startswith(b"HTTP/1.1 400"), (field, answer[:200])


def huge_headers(port, rng):
    answer = talk(port, b"GET /livez HTTP/1.1\r\nHost: localhost\r\n" + b"X-A: " + b"a" * 40000 + b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 431") or answer == b"", answer[:80]


def many_headers(port, rng):
    answer = talk(port, b"GET /livez HTTP/1.1\r\nHost: localhost\r\n" + b"".join(b"X-%d: 1\r\n" % i for i in range(200)) + b"\r\n")
    assert answer.startswith(b"HTTP/1.1 431") or answer == b"", answer[:80]


def two_lengths(port, rng):
    answer = talk(port, b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
                  b"0\r\n\r\nGET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 400") and answer.count(b"HTTP/1.1") == 1, answer[:80]


def too_large(port, rng):
    answer = talk(port, b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n{")
    assert answer.startswith(b"HTTP/1.1 413"), answer[:80]


def pipelined(port, rng):
    """Several requests at once: answered in order, each once."""
    requests = b"".join(post("/tokenize", {"prompt": f"n{i}"}, [f"X-Request-Id: p-{i}"]) for i in range(8))
    answer = talk(port, requests + b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    places = [answer.find(b"p-%d\r\n" % i) for i in range(8)]
    assert answer.count(b"HTTP/1.1 200") == 9 and places == sorted(places) and places[0] > 0, answer[:200]


def slow_body(port, rng):
    """A body that comes in drops and is then left."""
    client = connect(port)
    data = post("/v1/chat/completions", chat(rng))
    for i in range(0, len(data) - 10, 40):
        client.sendall(data[i:i + 40])
        time.sleep(0.01)
    client.close()


def half_open(port, rng):
    """Connects, sends a few bytes or none, and resets."""
    client = connect(port)
    client.sendall(b"POST /v1/chat/comp"[:rng.randint(0, 18)])
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
    client.close()


def leaves(port, rng):
    """A generation whose client goes at some moment, politely or not, streamed or not."""
    client = raw_request(port, "POST", "/v1/chat/completions", chat(rng, stream=rng.random() < 0.5, n=rng.choice([1, 1, 3]), max_tokens=120))
    time.sleep(rng.uniform(0, 0.15))
    if rng.random() < 0.5:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
    client.close()


def hostile_prompt(port, rng):
    """Control tokens, odd Unicode, a bound on every parameter at once."""
    text = "".join(rng.choice(["<|im_end|>", "<|im_start|>system\n", "\u202e", "\0", "\U0001F600", "\ud7ff", "a" * 50]) for _ in range(20))
    body = {"model": MODEL, "messages": [{"role": "user", "content": text}], "max_tokens": 2, "temperature": 2, "top_p": 1e-9,
            "top_k": 1, "frequency_penalty": -2, "presence_penalty": 2, "repetition_penalty": 10, "min_p": 1, "seed": 2 ** 63 - 1,
            "logit_bias": {"0": -100}}
    answer = talk(port, post("/v1/chat/completions", body))
    assert answer.startswith(b"HTTP/1.1 200") or b'"code":"queue_full"' in answer, answer[:300]


ATTACKS = [rubbish, rubbish_body, broken_json, deep_json, wrong_types, huge_headers, many_headers, two_lengths, too_large, pipelined,
           slow_body, half_open, leaves, leaves, leaves, hostile_prompt]
