"""The page with data that others wrote or that is odd: metadata, texts, schemas, ids, addresses and the browser's storage (R30)."""
import json
import re
import unittest

from playwright.sync_api import expect

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


if __name__ == "__main__":
    unittest.main()
