#!/usr/bin/env python3
"""Checks the site of the pages: builds it strictly, serves it on 127.0.0.1, compares it with its pages, and searches in it with a browser.

    site.py [--pictures FOLDER]      pictures of two pages, in two widths

- The build has no warning: links, anchors and the navigation are whole. A page with a broken link, and one without a place in the
  navigation, fail it.
- Each page has as many tables, blocks of code and items of lists as its source, so that Markdown was read as it is meant.
- The index of the search has every page. In Chromium a search finds a page, its link opens it, and no request goes to another host.

It needs Debian's chromium-headless-shell and, the first time, PyPI. It takes about 40 seconds on two cores.
"""
import argparse
import functools
import http.server
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "tools")]
from virtual_environment import make_venv  # noqa: E402
import make_site  # noqa: E402

SITE = ROOT / "build/site"
# A search, and the page that must be among its first results.
SEARCHES = {"json schema": "structured-output.html", "OLLAMA_NUM_PARALLEL": "coming-from.html", "traceparent": "traces.html",
            "five-minute": "start.html"}
OTHER_HOST = re.compile(r'<(?:script|img|source|iframe|video)[^>]+(?:src|srcset)="(?:https?:)?//[^"]+"'
                        r'|<link[^>]+rel="(?:stylesheet|preload|icon|preconnect)"[^>]+href="(?:https?:)?//[^"]+"')
WIDTHS = {"wide": 1280, "narrow": 400}


def say(*words):
    print(time.strftime("%H:%M:%S"), *words, flush=True)


def expect(good, *words):
    if not good:
        raise AssertionError(" ".join(map(str, words)))


def build():
    return subprocess.run([sys.executable, ROOT / "tools/make_site.py"], capture_output=True, text=True, check=False)


def check_strictness():
    """A broken link, a broken anchor and a page outside of the navigation each fail the build."""
    page = ROOT / "docs/zz-site-check.md"
    for text, why in (("# Z\n[x](no-such-page.md)\n", "no-such-page.md"), ("# Z\n[x](http.md#no-such-part)\n", "#no-such-part"),
                      ("# Z\nNothing.\n", "zz-site-check.md")):
        page.write_text(text)
        try:
            done = build()
        finally:
            page.unlink()
        expect(done.returncode != 0 and why in done.stdout + done.stderr, "the build accepts", text, done.stdout, done.stderr)


def counts_of_source(text):
    """(blocks, tables, items) of Markdown."""
    blocks = len(re.findall(r"^ *```", text, re.M)) // 2
    text = re.sub(r"^ *```.*?^ *```[ \t]*$", "", text, flags=re.S | re.M)
    return blocks, len(re.findall(r"^ *\|(?: *:?-+:? *\|)+[ \t]*$", text, re.M)), len(re.findall(r"^ *(?:[-*]|\d+\.) +\S", text, re.M))


def counts_of_page(html):
    article = html[html.index("<article"):html.index("</article>")]
    return article.count("<pre"), article.count("<table"), article.count("<li")


def check_pages():
    pages = 0
    for name, target in make_site.files().items():
        if not target.endswith(".md"):
            continue
        html = (SITE / target).with_suffix(".html").read_text()
        wanted, found = counts_of_source((ROOT / name).read_text()), counts_of_page(html)
        expect(wanted == found, f"{name} has {wanted} blocks of code, tables and items, its page {found}")
        expect(not OTHER_HOST.search(html), f"{target} needs another host: {OTHER_HOST.search(html)}")
        pages += 1
    for path in SITE.rglob("*.css"):
        expect(not re.search(r"url\(['\"]?(?:https?:)?//|@import", path.read_text()), f"{path} needs another host")
    index = json.loads((SITE / "search/search_index.json").read_text())["docs"]
    indexed = {entry["location"].partition("#")[0] for entry in index}
    missing = {target.removesuffix(".md") + ".html" for target in make_site.files().values() if target.endswith(".md")} - indexed
    expect(not missing, "not in the search:", missing)
    say(f"{pages} pages have the blocks, tables and items of their sources; {len(index)} parts are in the search, and none needs another host")


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def check_in_browser(address, pictures):
    from playwright.sync_api import sync_playwright

    import browser
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser.EXECUTABLE, args=browser.ARGUMENTS)
        page = chromium.new_page(viewport={"width": WIDTHS["wide"], "height": 900})
        asked, faults = [], []
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: faults.append(str(error)))
        for words, wanted in SEARCHES.items():
            page.goto(address + "index.html")
            page.locator(".md-search__input").click()
            page.locator(".md-search__input").press_sequentially(words)
            result = page.locator(".md-search-result__meta", has_text=re.compile("matching"))
            result.wait_for(timeout=20_000)
            links = page.locator(".md-search-result__link").evaluate_all("links => links.map(link => link.href)")
            found = next((link for link in links if urllib.parse.urlsplit(link).path == "/" + wanted), None)
            expect(found, f"a search for {words} finds", links)
            page.goto(found)
            expect(words.split()[0].lower() in page.locator("article").inner_text().lower(), found, "does not have", words)
        say(f"{len(SEARCHES)} searches find their pages")
        for name in ("start.html", "features.html") if pictures else ():
            for kind, width in WIDTHS.items():
                page.set_viewport_size({"width": width, "height": 900})
                page.goto(address + name)
                page.screenshot(path=pictures / f"{pathlib.Path(name).stem}-{kind}.png")
        page.set_viewport_size({"width": WIDTHS["narrow"], "height": 900})
        for name in ("start.html", "features.html", "configuration.html"):
            page.goto(address + name)
            wider = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            expect(wider <= 0, f"{name} is {wider} pixels wider than a narrow screen")
        chromium.close()
    hosts = {urllib.parse.urlsplit(url).hostname for url in asked if url.startswith(("http", "ws"))}
    expect(hosts == {"127.0.0.1"}, "requests to", hosts)
    expect(not faults, faults)
    say(f"{len(asked)} requests of the browser, none to another host; nothing is wider than a narrow screen")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--venv", type=pathlib.Path, default=ROOT / "build/e2e-venv", help="environment of make e2e, for its browser")
    arguments = parser.parse_args()
    python = make_venv(arguments.venv.resolve(), ROOT / "tests/e2e/requirements.txt")
    if pathlib.Path(sys.executable) != python:
        os.execv(python, [str(python), *sys.argv])
    check_strictness()
    done = build()
    expect(done.returncode == 0 and "WARNING" not in done.stdout + done.stderr, done.stdout, done.stderr)
    say(done.stdout.strip().splitlines()[-1])
    check_pages()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(SITE)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/"
    for name in ("index.html", "start.html", "checks/http.html", "decisions/0001-ranks-of-bench-library-and-cli.html", "web/chat-light-wide.webp"):
        with urllib.request.urlopen(address + name, timeout=20) as answer:
            expect(answer.status == 200 and len(answer.read()) > 2000, name)
    if arguments.pictures:
        arguments.pictures.mkdir(parents=True, exist_ok=True)
    check_in_browser(address, arguments.pictures)
    server.shutdown()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except AssertionError as error:
        sys.exit(f"site: {error}")
