"""What the tests of the page share: a server with a page on it, what a reader does, and the rules that every state keeps."""
import json
import os
import re
import shutil
import tempfile
import time
import unittest

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import expect

import encoder_models
from browser import BrowserCase
from harness import STEP_S, Server, amount, eventually, stand_in

# Rules whose outcome depends on where things lie.
PLACES = ["color-contrast", "scrollable-region-focusable", "aria-hidden-focus", "link-in-text-block"]
OPTIONS = ("--context", "8192", "--grpc-port", "0")
ANSWERED = re.compile(r"\d+ output tokens")
CONVERSATIONS, ITEMS, RESPONSES = r"/v1/conversations$", r"/v1/conversations/[^/]+/items", r"/v1/responses$"


def send(page, text):
    page.get_by_label("Message", exact=True).fill(text)
    button = page.locator(".composer .primary")
    if button.count() > 0:  # otherwise an answer is running
        expect(button).to_be_enabled()  # once the page knows the models
    page.keyboard.press("Enter")


def answers(page):
    return page.locator(".entry.answer")


def chat(page, text, answered=1):
    """Sends a message and waits for the end of the answer, the `answered`-th of the thread. Returns its text."""
    send(page, text)
    expect(answers(page)).to_have_count(answered)
    expect(answers(page).last).to_contain_text(ANSWERED)
    return answers(page).last.locator(".markdown").text_content()


def limit(page, tokens):
    page.get_by_role("button", name="Settings").click()
    page.get_by_label("Longest answer (tokens)").fill(str(tokens))
    page.get_by_label("Settings of the chat").get_by_role("button", name="Close").click()


def long_answers(page, tokens):
    """Answers of exactly so many tokens from now on, so that one that is to be stopped or left lasts on any machine.
    The page has no setting for this: `ignore_eos` is added to what it sends."""
    def send_with_it(route):
        body = route.request.post_data_json
        route.continue_(post_data=json.dumps({**body, "ignore_eos": True})) if body else route.continue_()

    page.route(re.compile(RESPONSES), send_with_it)
    limit(page, tokens)


def shows(entry, text):
    """Waits until the entry shows the text, which its browser may lay out in another way."""
    words = text.split()
    eventually(lambda: entry.locator(".markdown").text_content().split() == words,
               lambda: f"{entry.locator('.markdown').text_content()!r}, not {text!r}")


def rendered(page, text):
    """What the page makes of a text in Markdown."""
    return page.evaluate("""async (text) => {
        const {MarkdownView} = await import('/web/lib/markdown.js');
        const element = document.createElement('div');
        new MarkdownView(element).show(text);
        return element.textContent;
    }""", text)


def check_rules(case, page, state, only=None):
    """axe-core finds nothing, once colours have changed. `only`: the names of rules, otherwise all of them."""
    page.evaluate("Promise.allSettled(document.getAnimations().filter((each) => each instanceof CSSTransition).map((each) => each.finished))")
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE_SCRIPT)
    options = {"resultTypes": ["violations"], **({"runOnly": {"type": "rule", "values": only}} if only else {})}
    violations = page.evaluate("async (options) => (await axe.run(options)).violations", options)
    faults = [f"{fault['id']} ({fault['impact']}): {node['target']} {node['failureSummary']}" for fault in violations for node in fault["nodes"]]
    case.assertEqual(faults, [], state)


def check_rules_everywhere(case, page, state):
    """All rules at one width, those of places and sizes at another one, and those of colours in the other theme: a theme changes
    nothing else. Among the full amounts, all rules at both widths."""
    before = page.viewport_size
    page.emulate_media(color_scheme="light")
    places = amount(PLACES, PLACES, None)
    for width, height, rules in ((360, 740, None), (1280, 800, places)):
        page.set_viewport_size({"width": width, "height": height})
        check_rules(case, page, f"{state}, light, {width}", only=rules)
        check_size(case, page, f"{state}, {width}")
    page.emulate_media(color_scheme="dark")
    check_rules(case, page, f"{state}, dark", only=["color-contrast", "link-in-text-block"])
    page.emulate_media(color_scheme="light")
    page.set_viewport_size(before)


def check_size(case, page, state):
    """The page does not scroll, only what is in it, and nothing lies outside the screen."""
    size = page.viewport_size
    wide, high = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.scrollHeight]")
    case.assertLessEqual(wide, size["width"], f"{state}: no sideways scrolling")
    case.assertLessEqual(high, size["height"], f"{state}: the frame stays")


def tab_to(case, page, kind, name, back=False):
    """Goes by the keyboard to an element of this role or tag, whose label or text begins with `name`. Its focus is visible."""
    for _ in range(60):
        if page.evaluate("""([kind, name]) => {
                const at = document.activeElement;
                const label = at.labels?.[0]?.textContent ?? at.getAttribute('aria-label') ?? at.textContent;
                return (at.getAttribute('role') ?? at.tagName.toLowerCase()) === kind && label.trim().startsWith(name);
            }""", [kind, name]):
            case.assertNotEqual(page.evaluate("getComputedStyle(document.activeElement).outlineStyle"), "none")
            return
        page.keyboard.press("Shift+Tab" if back else "Tab")
    case.fail(f"no way to {kind} {name}")


def conversation_of(page):
    return page.evaluate("location.hash").rsplit("/", 1)[1]


class Held:
    """Holds back the first request of this method whose address matches, until the test lets it go, refuses or drops it."""

    def __init__(self, page, method, pattern):
        self.page = page
        self.method = method
        self.pattern = re.compile(pattern)
        self.route = None
        page.route(self.pattern, self.take)

    def take(self, route):
        if self.route is None and route.request.method == self.method:
            self.route = route
        else:
            route.fallback()

    def wait(self):
        deadline = time.monotonic() + STEP_S
        while self.route is None:
            assert time.monotonic() < deadline, f"no {self.method} {self.pattern.pattern}"
            self.page.wait_for_timeout(20)
        return self

    def end(self, action, **options):
        getattr(self.wait().route, action)(**options)
        self.page.unroute(self.pattern, self.take)

    def release(self):
        self.end("continue_")

    def refuse(self, status=500):
        self.end("fulfill", status=status, json={"error": {"code": "broken", "message": "the test refuses this"}})


def sign_in(page, secret, within=None):
    """With a key, in the form of the page or of a dialog."""
    form = within or page
    form.get_by_label("Key", exact=True).fill(secret)
    form.get_by_role("button", name="Sign in").click()


class WebCase(BrowserCase):
    """One server for the tests of a file that have the same options."""
    OPTIONS = ()
    servers = {}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if not WebCase.servers:
            unittest.addModuleCleanup(WebCase.stop_servers)
        if cls.OPTIONS not in WebCase.servers:
            WebCase.servers[cls.OPTIONS] = Server("--store", "memory", *OPTIONS, *cls.OPTIONS, model="main=" + stand_in())
        cls.server = WebCase.servers[cls.OPTIONS]

    @staticmethod
    def stop_servers():
        for server in WebCase.servers.values():
            server.stop()
        WebCase.servers.clear()

    def items(self, conversation):
        return json.loads(self.server.get(f"/v1/conversations/{conversation}/items?order=asc&limit=100")[2])["data"]


class ViewsCase(BrowserCase):
    """A server with a model of each kind."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        held = tempfile.TemporaryDirectory()
        cls.addClassCleanup(held.cleanup)
        os.symlink(stand_in(), os.path.join(held.name, "other.gguf"))
        shutil.copytree(encoder_models.embedder_folder(), os.path.join(held.name, "minilm"))
        cls.server = Server("--models", held.name, "--kv-cache-bytes", "16MiB", "--store", "memory", "--pull", "on-demand", *OPTIONS, model="main=" + stand_in())
        cls.addClassCleanup(lambda: cls.server.stop())
