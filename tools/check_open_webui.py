#!/usr/bin/env python3
"""Checks a running Open WebUI whose Ollama backend is Tutti: docs/ollama.md has the commands that start both.

    tools/check_open_webui.py --webui http://127.0.0.1:3000 --tutti http://127.0.0.1:11434 [--pull ORG/NAME:QUANT]

Signs its first user up through its HTTP API, lists the models, chats whole and streamed, embeds a document and searches it, copies
and deletes a model, and pulls one. Answers must equal those of Tutti's own OpenAI API.
"""
import argparse
import json
import sys
import time
import urllib.error
import urllib.request

MODEL, EMBEDDER = "smollm2-135m-instruct", "all-minilm-l6-v2"
MESSAGES = [{"role": "user", "content": "Name three colours."}]
DOCUMENT = "The captain of the ship Aurora is called Ingrid. The ship sails to Bergen."
USER = {"name": "Ann", "email": "ann@example.org", "password": "a long password", "profile_image_url": ""}


class Api:
    def __init__(self, url):
        self.url, self.token = url, None

    def ask(self, method, path, body=None, kind="application/json"):
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Content-Type": kind, **({"Authorization": "Bearer " + self.token} if self.token else {})}
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=300) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def json(self, *asked, **more):
        status, text = self.ask(*asked, **more)
        assert status == 200, f"{asked[:2]}: {status} {text[:300]}"
        return json.loads(text)


def names(webui):
    return {model["model"] for model in webui.json("GET", "/ollama/api/tags")["models"]}


def check(webui, tutti, pull):
    status, text = webui.ask("POST", "/api/v1/auths/signup", USER)
    if status != 200:  # a second run
        text = json.dumps(webui.json("POST", "/api/v1/auths/signin", {name: USER[name] for name in ("email", "password")}))
    webui.token = json.loads(text)["token"]
    yield "signed in", json.loads(text)["role"] == "admin"
    yield "version", webui.json("GET", "/ollama/api/version") == {"version": tutti.json("GET", "/api/version")["version"]}
    listed = {model["id"] for model in webui.json("GET", "/api/models")["data"]}
    yield "models", {MODEL + ":latest", EMBEDDER + ":latest"} <= listed
    yield "capabilities", "completion" in webui.json("POST", "/ollama/api/show", {"model": MODEL + ":latest"})["capabilities"]

    wanted = tutti.json("POST", "/v1/chat/completions", {"model": MODEL, "messages": MESSAGES, "temperature": 0, "max_tokens": 24})
    wanted = wanted["choices"][0]["message"]["content"]
    asked = {"model": MODEL + ":latest", "messages": MESSAGES, "params": {"temperature": 0, "max_tokens": 24}}
    whole = webui.json("POST", "/api/chat/completions", {**asked, "stream": False})
    yield "chat", whole["choices"][0]["message"]["content"] == wanted
    _, text = webui.ask("POST", "/api/chat/completions", {**asked, "stream": True})
    events = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
    pieces = [event["choices"][0]["delta"].get("content") for event in events if event.get("choices")]
    pieces = [piece for piece in pieces if piece]
    yield "streamed chat", len(pieces) > 2 and "".join(pieces) == wanted
    yield "usage", events[-1]["usage"]["completion_tokens"] == 24

    form = (f'--b\r\nContent-Disposition: form-data; name="file"; filename="ship.txt"\r\nContent-Type: text/plain\r\n\r\n{DOCUMENT} '
            f"{time.time()}\r\n--b--\r\n").encode()
    file = webui.json("POST", "/api/v1/files/", form, kind="multipart/form-data; boundary=b")["id"]
    state = "pending"
    while state in ("pending", "processing"):
        time.sleep(0.5)
        state = webui.json("GET", f"/api/v1/files/{file}/process/status")["status"]
    found = webui.json("POST", "/api/v1/retrieval/query/collection", {"collection_names": [f"file-{file}"], "query": "captain", "k": 1})
    yield "document", state == "completed" and found["documents"][0][0].startswith(DOCUMENT)

    yield "copy", webui.ask("POST", "/ollama/api/copy", {"source": MODEL + ":latest", "destination": "copied"})[0] == 200
    yield "copy is listed", "copied:latest" in {model["model"] for model in tutti.json("GET", "/api/tags")["models"]}
    names(webui)  # it looks the model up in this list
    yield "delete", webui.ask("DELETE", "/ollama/api/delete/0", {"model": "copied:latest"})[0] == 200
    yield "copy is gone", "copied:latest" not in {model["model"] for model in tutti.json("GET", "/api/tags")["models"]}
    if pull:
        _, text = webui.ask("POST", "/ollama/api/pull/0", {"model": pull})
        yield "pull", json.loads(text.splitlines()[-1]) == {"status": "success"}
        yield "pulled model is listed", pull in {model["model"] for model in tutti.json("GET", "/api/tags")["models"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--webui", required=True)
    parser.add_argument("--tutti", required=True)
    parser.add_argument("--pull", metavar="MODEL", help="a model of the hub that Tutti asks")
    args = parser.parse_args()
    failed = 0
    for name, passed in check(Api(args.webui), Api(args.tutti), args.pull):
        print(f"{name}: {'ok' if passed else 'FAILED'}", flush=True)
        failed += not passed
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
