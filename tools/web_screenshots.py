#!/usr/bin/env python3
"""Takes the pictures of the page that docs/web.md shows: every view, in two themes and two widths.

    build/e2e-venv/bin/python tools/web_screenshots.py --tutti build/release/tutti [--only chat] [--out docs/web]

It needs Debian's chromium-headless-shell, the environment of `make e2e`, and the models smollm2-135m-instruct and all-minilm-l6-v2 in the cache. It
starts its own server on a free port of 127.0.0.1, with a store of its own, and fills it with conversations, jobs and keys. The pictures
are WebP, as Chromium writes them.
"""
import argparse
import base64
import json
import os
import pathlib
import sys
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

MODEL = "smollm2-135m-instruct"
WIDTHS = {"wide": {"width": 1280, "height": 800}, "narrow": {"width": 360, "height": 740}}
THEMES = ("light", "dark")
QUALITY = 72
LARGEST_SET = 1_500_000  # bytes of all pictures

TITLES = ["Minutes of the Tuesday meeting", "Rename a branch in Git", "Gifts for a ten-year-old who likes space and volcanoes",
          "\u05de\u05ea\u05db\u05d5\u05df \u05dc\u05dc\u05d7\u05dd", "SQL: the newest row of each group", "Why is the sky blue?"]
QUESTION = "How do I read a large CSV file in Python without loading all of it?"
ANSWER = """Read it in **chunks**, so that only a part of the file is in memory at a time:

```python
import pandas as pd

total = 0
for chunk in pd.read_csv("orders.csv", chunksize=100_000):
    total += chunk["amount"].sum()
print(total)
```

| way | memory | good for |
|---|---|---|
| `csv.reader` | one row | simple filters |
| `read_csv(chunksize=...)` | one chunk | sums and counts |
| `polars.scan_csv` | what the query needs | joins, groups |

If you only need a few columns, pass `usecols` as well: less is parsed and kept.
"""
TEXTS = "\n".join(["A cat sleeps in the sun.", "The kitten naps on the windowsill.", "Shares fell sharply on Monday.",
                   "The stock market lost three percent.", "A recipe for bread with walnuts."])


def fill(server, headers):
    """Conversations, the last one to be shown, and jobs."""
    def post(path, body, more=None):
        status, _, text = server.post(path, body, headers={**headers, **(more or {})})
        assert status in (200, 202), (path, status, text)
        return json.loads(text)
    for title in TITLES:
        post("/v1/conversations", {"metadata": {"title": title}, "items": [
            {"type": "message", "role": "user", "content": title}, {"type": "message", "role": "assistant", "content": "..."}]})
    shown = post("/v1/conversations", {"metadata": {"title": "Large CSV files in Python"}, "items": [
        {"type": "message", "role": "user", "content": QUESTION}, {"type": "message", "role": "assistant", "content": ANSWER}]})
    ids = []
    for i, text in enumerate(("Summarise the report of March.", "Translate the manual.", "Classify 200 letters.", "Name ten rivers.")):
        ids.append(post("/v1/chat/completions", {
            "model": MODEL, "messages": [{"role": "user", "content": text}], "max_tokens": 24 + 1500 * (i == 2), "ignore_eos": True},
            {"Prefer": "respond-async"})["id"])
    server.post(f"/v1/jobs/{ids[3]}/cancel", {}, headers=headers)
    return shown["id"]


def picture(page, path):
    """The page as it is, as WebP."""
    page.wait_for_timeout(350)  # fonts, transitions
    client = page.context.new_cdp_session(page)
    data = client.send("Page.captureScreenshot", {"format": "webp", "quality": QUALITY})["data"]
    client.detach()
    path.write_bytes(base64.b64decode(data))


class Views:
    """One function for each view: it brings the page to the state that is shown."""

    def __init__(self, page, url, conversation):
        self.page, self.url, self.conversation = page, url, conversation

    def go(self, address):
        self.page.goto(f"{self.url}/#/{address}")
        self.page.reload()  # nothing of the view before

    def chat(self):
        self.go(f"chat/{self.conversation}")
        self.page.get_by_text("If you only need a few columns").wait_for()

    def settings(self):
        self.chat()
        self.page.get_by_role("button", name="Settings").click()

    def tokens(self):
        page = self.page
        self.go("chat")
        page.get_by_role("button", name="Settings").click()
        page.get_by_label("Token probabilities").select_option("5")
        page.get_by_label("Temperature").fill("0")
        page.get_by_label("Longest answer (tokens)").fill("60")
        page.get_by_label("Settings of the chat").get_by_role("button", name="Close").click()
        page.get_by_label("Message", exact=True).fill("Why do leaves turn red in autumn?")
        page.keyboard.press("Enter")
        page.get_by_role("button", name="Tokens").click()
        page.locator(".tokens .token").nth(9).hover()
        page.get_by_role("tooltip").wait_for()

    def playground(self):
        self.go("playground")
        self.page.get_by_label("Texts, one per line").fill(TEXTS)
        self.page.get_by_role("button", name="Compare").click()
        self.page.get_by_role("region", name="Similarity matrix").wait_for()

    def models(self):
        self.go("models")
        self.page.get_by_role("rowheader", name=MODEL).wait_for()

    def jobs(self):
        self.go("jobs")
        self.page.locator("tbody tr").first.wait_for()

    def live(self):
        self.go("live")
        self.page.get_by_text("writes", exact=True).first.wait_for()
        self.page.wait_for_timeout(3000)

    def benchmarks(self):
        self.go("benchmarks")
        page = self.page
        page.get_by_role("heading", name="Benchmarks").wait_for()
        page.get_by_label("Rounds").fill("1")
        page.get_by_label("Tokens of each answer").fill("32")
        page.get_by_label("I may load this server").check()
        page.get_by_role("button", name="Run", exact=True).click()
        shown = page.get_by_role("region", name="Figures of the runs")
        shown.wait_for(timeout=120_000)
        page.get_by_role("region", name="Running", exact=True).wait_for(state="detached", timeout=120_000)
        shown.locator("xpath=ancestor::section").evaluate("section => section.scrollIntoView({block: 'start'})")

    def keys(self):
        self.go("keys")
        self.page.get_by_role("rowheader").first.wait_for()


NAMES = ("chat", "settings", "tokens", "playground", "models", "jobs", "live", "benchmarks", "keys")


def load(server, headers, ends):
    """Clients, so that the live state has something to show."""
    def ask(text):
        while not ends.is_set():
            server.post("/v1/chat/completions", {"model": MODEL, "messages": [{"role": "user", "content": text}], "max_tokens": 300,
                                                 "ignore_eos": True}, headers=headers)
    threads = [threading.Thread(target=ask, args=(f"Tell me about {text}.",))
               for text in ("the sea", "trains", "the moon", "bread", "old maps", "bees")]
    for thread in threads:
        thread.start()
    return threads


def take(arguments, server, secret):
    from playwright.sync_api import sync_playwright
    import browser
    headers = {"Authorization": f"Bearer {secret}"}
    conversation = fill(server, headers)
    arguments.out.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser.EXECUTABLE, args=browser.ARGUMENTS)
        for width, viewport in WIDTHS.items():
            for theme in THEMES:
                context = chromium.new_context(viewport=viewport, color_scheme=theme, locale="en-GB", reduced_motion="reduce")
                context.add_init_script(f"sessionStorage.setItem('tutti.key', {secret!r})")
                page = context.new_page()
                page.goto(server.url)
                views = Views(page, server.url, conversation)
                page.get_by_label("Message", exact=True).wait_for()
                there = {link.lower() for link in page.get_by_role("navigation").get_by_role("link").all_inner_texts()}
                for name in NAMES:
                    if (arguments.only and name not in arguments.only) or (name == "benchmarks" and name not in there):
                        continue
                    ends = threading.Event()
                    threads = load(server, headers, ends) if name == "live" else []
                    try:
                        getattr(views, name)()
                        picture(page, arguments.out / f"{name}-{theme}-{width}.webp")
                    finally:
                        ends.set()
                        for thread in threads:
                            thread.join()
                    print(f"{name}, {theme}, {width}", flush=True)
                context.close()
        chromium.close()
    total = sum(path.stat().st_size for path in arguments.out.glob("*.webp"))
    print(f"{total:,} bytes in {arguments.out}")
    return 0 if total <= LARGEST_SET else f"the pictures have more than {LARGEST_SET:,} bytes"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tutti", type=pathlib.Path, required=True, help="the program")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs" / "web", help="folder of the pictures")
    parser.add_argument("--only", nargs="*", choices=NAMES, help="these views")
    arguments = parser.parse_args()
    os.environ["E2E_BINARY"] = str(arguments.tutti.resolve())
    os.environ.setdefault("E2E_REPORTS", tempfile.gettempdir())
    import harness
    with tempfile.TemporaryDirectory() as store:
        secret = harness.make_key(store, "operator", "--routes", "generate,embed,tokenize,models,metrics,admin")
        for name, tenant in (("web-shop", "acme"), ("nightly-reports", "acme"), ("research-notebooks", "lab")):
            harness.make_key(store, name, "--tenant", tenant)
        server = harness.Server("--store", store, "--max-num-seqs", "4", "--grpc-port", "0", "all-minilm-l6-v2", model=MODEL)
        try:
            harness.eventually(lambda: len(json.loads(server.get("/v1/models", headers={"Authorization": f"Bearer {secret}"})[2])["data"]) == 2)
            return take(arguments, server, secret)
        finally:
            server.stop()


if __name__ == "__main__":
    sys.exit(main())
