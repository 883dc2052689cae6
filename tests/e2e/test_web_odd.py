"""The page with data that others wrote or that is odd: metadata, texts, schemas, ids, addresses and the browser's storage (R30)."""
import json
import re
import unittest

from playwright.sync_api import expect

from harness import figure
from web_page import (ANSWERED, CONVERSATIONS, ITEMS, RESPONSES, Held, WebCase, answers, check_rules_everywhere, conversation_of, limit, send)

LIST = re.compile(r"/v1/conversations\?limit=50")


class OddCase(WebCase):
    def make(self, *texts, **metadata):
        items = [text if isinstance(text, dict) else {"type": "message", "role": ("user", "assistant")[i % 2], "content": text}
                 for i, text in enumerate(texts)]
        return self.server.post_json("/v1/conversations", {"metadata": metadata, "items": items})["id"]

    def listed(self):
        return {each["id"]: each for each in json.loads(self.server.get("/v1/conversations?limit=100")[2])["data"]}


class Branches(OddCase):
    # Every client may write metadata: chats of another program were shown as one, and deleted together.
    def test_metadata_alone_makes_no_branch(self):
        mine = self.make("Hello", "Yes", title="Mine")
        item = self.items(mine)[0]["id"]
        others = [self.make("Note", title=f"Note {i}", root="home") for i in range(3)]
        spam = self.make("Buy", title="Spam", root=mine, parent=mine, before=item, after="")
        copy = self.server.post_json(f"/v1/conversations/{mine}/fork", {})["id"]  # a fork of another program
        self.server.post_json(f"/v1/conversations/{mine}", {"metadata": {"title": "Mine", "parent": mine, "root": mine, "after": item}})
        page = self.open(f"{self.server.url}/#/chat/{mine}")
        expect(page.locator(".bubble")).to_have_text("Hello")
        titles = page.locator(".side li a")
        for title, count in (("Mine", 2), ("Spam", 1), ("Note", 3)):
            expect(titles.filter(has_text=title)).to_have_count(count)
        expect(page.locator(".branch")).to_have_count(0)
        for title in ("Spam", "Note 1"):
            page.get_by_role("button", name=f"Delete {title}").click()
            expect(page.get_by_role("dialog").locator("p")).to_have_text(f"“{title}” is removed from the server.")
            page.get_by_role("dialog").get_by_role("button", name="Delete").click()
            expect(titles.filter(has_text=title)).to_have_count(0)
        left = self.listed()
        self.assertEqual({each for each in (mine, copy, spam, *others) if each in left}, {mine, copy, others[0], others[2]})

    # `created_at` counts seconds: the newest of them came first.
    def test_branches_of_one_second_keep_their_order(self):
        page = self.open(self.server.url)
        shown = page.evaluate("""async () => {
            const {newBranch, variantsOf} = await import('/web/lib/branches.js');
            const listed = [{id: 'root', metadata: {}, created_at: 1}];
            for (const id of ['b', 'a', 'c']) {
                listed.unshift({id, metadata: newBranch('root', {}, 'item'), parent: {id: 'root'}, created_at: 2});
                await new Promise((resolve) => setTimeout(resolve, 5));
            }
            const orders = [];
            for (const last of ['b', 'a', 'c']) {  // used last
                listed.sort((left, right) => (right.id === last) - (left.id === last));
                orders.push(variantsOf(last, 'item', listed));
            }
            return orders;
        }""")
        self.assertEqual(shown, [{"ids": ["root", "b", "a", "c"], "current": at} for at in (1, 2, 3)])

    # The list showed the new branch alone, and no arrows led to the first one.
    def test_the_first_branch_is_reached_without_an_answer(self):
        self.expected_faults = ("429",)
        for way in ("reload", "refuse"):
            first = self.make("First question", "First answer", title=way)
            page = self.open(f"{self.server.url}/#/chat/{first}")
            limit(page, 24)
            held = Held(page, "POST", RESPONSES)
            page.locator(".entry.user").get_by_role("button", name="Edit").click()
            page.get_by_label("Changed message").fill("Second question")
            page.get_by_role("button", name="Send as a branch").click()
            held.wait()
            if way == "reload":
                held.route.fetch()  # the server answers
                page.unroute(held.pattern, held.take)
                page.reload()
                expect(page.locator(".bubble")).to_have_text("Second question")
                self.server.wait_idle()
            else:
                held.refuse(429)
                expect(page.get_by_role("alert")).to_contain_text("he test refuses this")
                page = self.open(self.server.url)  # in another profile
                expect(page.locator(".side li a").filter(has_text=way)).to_have_count(1)
                page.locator(".side li a").filter(has_text=way).click()
                expect(page.get_by_text("This branch has no message yet.")).to_be_visible()
                check_rules_everywhere(self, page, "a branch without a message")
            expect(page.locator(".branch")).to_contain_text("2 / 2")
            page.get_by_role("button", name="Previous branch").click()
            expect(page.locator(".bubble")).to_have_text("First question")
            self.assertEqual(conversation_of(page), first)
            expect(page.locator(".branch")).to_contain_text("1 / 2")
            page.get_by_role("button", name=f"Delete {way}").click()
            expect(page.get_by_role("dialog").locator("p")).to_contain_text("and its branch are removed")
            page.get_by_role("dialog").get_by_role("button", name="Delete").click()
            expect(page.locator(".side li a").filter(has_text=way)).to_have_count(0)
            self.assertNotIn(way, [each["metadata"].get("title") for each in self.listed().values()])

    def test_older_conversations_are_shown_on_request(self):
        """Of 1,060 conversations, as a server would list them; names that go from the right stay within themselves."""
        names = [f"Chat {i}" for i in range(1060)]
        names[0] = "\u202eevil"
        listed = [{"id": f"conv_{i}", "object": "conversation", "created_at": 1, "version": 1, "last_used_at": 1, "item_count": 1,
                   "metadata": {"title": name}} for i, name in enumerate(names)]

        def page_of(route):
            after = re.search(r"after=conv_(\d+)", route.request.url)
            begin = int(after[1]) + 1 if after else 0
            route.fulfill(json={"object": "list", "data": listed[begin:begin + 50], "has_more": begin + 50 < len(listed)})
        page = self.new_profile().new_page()
        page.route(LIST, page_of)
        page.goto(self.server.url)
        older = page.get_by_role("button", name="Show older ones")
        for shown in range(100, 1060, 100):
            expect(page.locator(".side li a")).to_have_count(shown)
            older.click()
        expect(page.locator(".side li a")).to_have_count(1050)
        older.click()
        expect(page.locator(".side li a")).to_have_count(1060)
        expect(older).to_have_count(0)
        self.assertEqual(page.locator(".side li a").first.evaluate("(link) => link.querySelector('bdi')?.textContent"), names[0])
        page.get_by_role("button", name="Delete").first.click()
        self.assertEqual(page.get_by_role("dialog").locator("p bdi").text_content(), names[0])

    def test_other_tabs_see_what_has_begun(self):
        profile = self.new_profile()
        one, two = self.open(self.server.url, profile), self.open(self.server.url, profile)
        limit(one, 16)
        held = Held(one, "POST", RESPONSES)
        send(one, "Seen before its answer")
        held.wait()
        expect(two.get_by_role("link", name="Seen before its answer")).to_be_visible()
        held.release()
        expect(answers(one).last).to_contain_text(ANSWERED)
        # The tab may be closed while it imports.
        held = Held(one, "POST", ITEMS)
        items = [{"type": "message", "role": "user", "content": f"Text {i}"} for i in range(30)]
        one.locator(".side input[type=file]").set_input_files({"name": "x.json", "mimeType": "application/json", "buffer": json.dumps(
            {"format": "tutti.conversation", "version": 2, "title": "Imported", "items": items}).encode()})
        held.wait()
        titles = [each["metadata"].get("title") for each in self.listed().values()]
        self.assertIn("Imported (import not finished)", titles)
        held.release()
        expect(one.get_by_role("link", name="Imported", exact=True)).to_be_visible()
        expect(one.locator("h1")).to_have_text("Imported")


class Texts(OddCase):
    """Texts that failed, or for which the page stood still for many seconds."""
    MAX_PAUSE_S = 6  # of one message, on a machine that compiles; 2 s to 25 s before, or a failure

    def show(self, page, text, entries=2):
        """Opens a chat with this answer in a page that is open. Returns its last entry and how long the page stood still."""
        text = text if isinstance(text, list) else ["Q", text]
        conversation = self.make(*text)
        page.evaluate("""() => {
            let last = performance.now();
            window.pause = 0;
            window.clearInterval(window.beat);
            window.beat = setInterval(() => { window.pause = Math.max(window.pause, performance.now() - last); last = performance.now(); }, 20);
        }""")
        page.evaluate(f"location.hash = '#/chat/{conversation}'")
        expect(page.locator("h1").first).to_have_text("Chat")  # an answer may have others
        expect(page.locator(".thread .entry")).to_have_count(entries)
        page.wait_for_timeout(100)
        expect(page.get_by_text("cannot be shown")).to_have_count(0)
        return page.locator(".thread .entry").last, page.evaluate("window.pause") / 1000

    def test_no_text_breaks_or_stops_the_page(self):
        page = self.open(self.server.url)
        slow = {}
        for name, text in {
                "quotes": ">" * 4000, "list in list": "1. " * 2500, "list in quote": ">- " * 1670, "deep JSON": "[" * 20000 + "]" * 20000,
                "wide JSON": "[" + ",".join(["[" * 90 + "]" * 90] * 200) + "]", "emphasis": ("*a " * 3000 + "\n\n") * 20,
                "quotes in quotes": (">" * 400 + "a\n\n") * 400, "code": "```js\nx\n```\n\n" * 13000, "list": "- x *y* z\n\n" * 16000,
                "lines": "a\n" * 4900 + "=", "addresses": ("a." * 4900 + "@\n\n") * 10}.items():
            entry, slow[name] = self.show(page, text)
            self.assertGreater(len(entry.locator(".markdown").text_content()), 3000, name)
        _, slow["files"] = self.show(page, ["File `a`:\n```\n\n```\n\n" * 9000 + "hi"], entries=1)
        expect(page.locator(".fold.file")).to_have_count(100)
        figure("longest pause of the page: " + ", ".join(f"{name} {pause:.1f} s" for name, pause in slow.items()))
        self.assertEqual({name: pause for name, pause in slow.items() if pause > self.MAX_PAUSE_S}, {})
        # Results of calls and their arguments.
        call = {"type": "function_call", "call_id": "__proto__", "name": "f", "arguments": "{}"}
        deep = [{**call, "call_id": "c"}, {"type": "function_call_output", "call_id": "c", "output": "[" * 4000 + "]" * 4000}]
        self.show(page, ["Q", *deep, call], entries=3)
        expect(page.get_by_label("Result of f")).to_have_value("")
        page.get_by_label("Result of f").fill("21")
        expect(page.get_by_label("Result of f")).to_have_value("21")

    def test_the_rest_of_a_long_text_is_formatted_on_request(self):
        page = self.open(self.server.url)
        paragraph = "This is **bold** text with `code`, a [link](https://example.org) and *some* words. " * 6
        entry, _ = self.show(page, f"{paragraph}\n\n" * 380 + "The end.")
        button = entry.get_by_role("button", name="Format the rest")
        expect(button).to_have_count(1)
        self.assertGreater(entry.locator(".markdown > p:not(.plain)").count(), 30)
        self.assertIn("**bold**", entry.locator(".plain").text_content())
        check_rules_everywhere(self, page, "a text whose rest is not formatted")
        button.click()
        expect(button).to_have_count(0)
        expect(entry.locator(".markdown > p")).to_have_count(381)
        expect(entry.locator(".plain")).to_have_count(0)
        # A long block of code is no reason to format nothing.
        entry, _ = self.show(page, "Some **code**:\n\n```c\n" + "int x = 1;\n" * 3000 + "```\n\n- *end*")
        expect(entry.locator("strong, em")).to_have_text(["code", "end"])
        expect(entry.locator("pre")).to_have_count(1)
        # A text that grows.
        states = page.evaluate("""async (paragraph) => {
            const {MarkdownView} = await import('/web/lib/markdown.js');
            const element = document.createElement('div'), view = new MarkdownView(element), states = [];
            for (const text of ['*a*', '*a* b', '*a* b\\n\\n' + '>'.repeat(4500), '*a* b\\n\\nc', '*a* b\\n\\nc\\n\\n1. x\\n2. y']) {
              view.show(text);
              states.push(element.innerHTML.replaceAll(' dir="auto"', ''));
            }
            return states;
        }""", paragraph)
        self.assertEqual(states[:2] + states[3:], ["<p><em>a</em></p>\n", "<p><em>a</em> b</p>\n", "<p><em>a</em> b</p>\n<p>c</p>\n",
                                                   "<p><em>a</em> b</p>\n<p>c</p>\n<ol>\n<li>x</li>\n<li>y</li>\n</ol>\n"])
        self.assertIn(">>>>", states[2].replace("&gt;", ">"))

    # The page stood still on an answer to a schema that refers to itself twice.
    def test_a_check_against_a_schema_ends(self):
        page = self.open(self.server.url)
        results = page.evaluate("""async () => {
            const {check} = await import('/web/lib/json_schema.js');
            const nested = (depth) => (depth === 0 ? {} : {n: nested(depth - 1)});
            const inner = {type: 'object', properties: {n: {$ref: '#'}}};
            return [[1, {allOf: [{$ref: '#'}, {$ref: '#'}]}], [nested(24), {oneOf: [inner, {...inner, required: ['z']}]}], [1, {enum: 5}],
                    ['a'.repeat(40) + '!', {pattern: '^(a+)+$'}], ['a'.repeat(9), {pattern: '^(a+)+$'}], ['b', {pattern: '^a*$'}], [1, {$ref: '#/__proto__/x'}],
                    [{a: 1}, {properties: {a: {type: 'integer'}}}]].map(([value, schema]) => check(value, schema));
        }""")
        self.assertEqual([result["isComplete"] for result in results], [False, False, False, True, True, True, True, True])
        self.assertEqual([len(result["slow"]) for result in results], [0, 0, 0, 1, 0, 0, 0, 0])
        self.assertEqual([len(result["faults"]) > 0 for result in results], [False] * 5 + [True, True, False])


class Storage(OddCase):
    def test_odd_addresses_and_stored_values(self):
        self.expected_faults = ("404",)
        page = self.open(self.server.url)
        for name in ("constructor", "__proto__", "toString"):
            page.goto(f"{self.server.url}/#/chat/{name}")
            expect(page.get_by_role("alert")).to_contain_text("no such")
            page.get_by_label("Message", exact=True).fill(f"Draft of {name}")
            page.get_by_role("button", name="New chat").click()
            expect(page.get_by_label("Message", exact=True)).to_have_value("")
            page.go_back()
            expect(page.get_by_label("Message", exact=True)).to_have_value(f"Draft of {name}")
        drafts = page.evaluate("JSON.parse(sessionStorage['tutti.drafts'] ?? '{}')")
        for preferences, kept, runs in (
                ('{"schema": 5, "ownTools": {}, "system": null, "stop": [1], "temperature": 0.5}', "5", "[null, 1, {}]"),
                ("[1]", '[["", null], 5, [5, {}]]', '[{"id": 1, "name": "x", "points": [], "settings": {}}]'),
                ('{"theme": {"a": 1}, "model": 5, "demoTools": "x", "__proto__": {"x": 1}}',
                 '[["", {"text": 5, "files": [null, {"name": "x"}], "unsent": [{}, null, {"key": "k", "input": [], "said": []}]}]]',
                 '[{"id": "1", "name": "x", "unit": "u", "ended": "x", "serverVersion": "0", "at": 1, "points": [{}], "settings": {}}]'),
                ("null", "null", "5")):
            page.evaluate("""([preferences, kept, runs, owner]) => {
                localStorage.setItem('tutti.preferences', preferences);
                localStorage.setItem('tutti.running', '[[1, 2], ["a"], 5]');
                localStorage.setItem('tutti.answers', '{"owner": "", "answers": [null, {}, {"ids": 5, "answer": {"id": "x"}}]}');
                localStorage.setItem('tutti.benchmarks', `{"version": 2, "runs": ${runs}}`);
                // At the end of the page its drafts are saved.
                addEventListener('pagehide', () => sessionStorage.setItem('tutti.drafts', `{"owner": "${owner}", "drafts": ${kept}}`));
            }""", [preferences, kept, runs, drafts.get("owner", "")])
            page.goto(f"{self.server.url}/#/benchmarks")
            page.reload()
            expect(page.get_by_text("None. A run is kept in this browser")).to_be_visible()
            page.goto(f"{self.server.url}/#/chat")
            expect(page.get_by_label("Message", exact=True)).to_have_value("")
            page.get_by_role("button", name="Settings").click()
            expect(page.get_by_label("Temperature")).to_have_value("")


if __name__ == "__main__":
    unittest.main()
