"""The chat of the page while requests end late or fail, and over restarts of the server (R30)."""
import json
import pathlib
import re
import tempfile
import unittest

from playwright.sync_api import expect

from browser import BrowserCase, CuttableProxy
from harness import Server, eventually, stand_in
from web_page import (ANSWERED, CONVERSATIONS, ITEMS, OPTIONS, RESPONSES, Held, WebCase, answers, chat, check_rules_everywhere,
                      conversation_of, limit, long_answers, rendered, send, shows)


class Races(WebCase):
    """Requests of a chat that end late or fail, while the reader goes on."""

    def make(self, *texts, **metadata):
        items = [{"type": "message", "role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(texts)]
        made = self.server.post_json("/v1/conversations", {"metadata": metadata, "items": items[:20]})["id"]
        for at in range(20, len(items), 20):
            self.server.post_json(f"/v1/conversations/{made}/items", {"items": items[at:at + 20]})
        return made

    def show(self, conversation, entries):
        page = self.open(f"{self.server.url}/#/chat/{conversation}")
        expect(page.locator(".entry")).to_have_count(entries)
        return page

    def listed(self):
        return {each["id"] for each in json.loads(self.server.get("/v1/conversations?limit=100")[2])["data"]}

    def texts(self, conversation):
        return [item["content"][0]["text"] for item in self.items(conversation)]

    def test_a_message_stays_until_the_server_has_it(self):
        self.expected_faults = ("500",)
        page, before = self.open(self.server.url), self.listed()
        limit(page, 16)
        tokens = [Held(page, "POST", "/tokenize$") for _ in range(2)]
        for name in ("one.txt", "two.txt"):
            page.locator(".composer input[type=file]").set_input_files({"name": name, "mimeType": "text/plain", "buffer": b"text"})
        message, chips = page.get_by_label("Message", exact=True), page.locator(".chip")
        message.fill("Kept")
        expect(page.get_by_role("button", name="Send", exact=True)).to_be_disabled()
        for each in reversed(tokens):
            each.release()
        expect(chips).to_have_count(2)
        held = Held(page, "POST", CONVERSATIONS)
        message.press("Enter")
        held.wait()
        message.press("Enter")
        page.wait_for_timeout(100)
        self.assertEqual(self.listed(), before, "one message makes one conversation")
        held.refuse()
        expect(page.locator(".toast.bad")).to_be_visible()
        expect(message).to_have_value("Kept")
        expect(chips).to_have_count(2)
        message.press("Enter")
        expect(answers(page).last).to_contain_text(ANSWERED)
        expect(message).to_have_value("")
        expect(chips).to_have_count(0)
        self.assertEqual(len(self.listed() - before), 1)

    def test_a_late_new_conversation_moves_no_reader(self):
        other = self.make("Elsewhere", "Yes", title="Elsewhere")
        page, before = self.open(self.server.url), self.listed()
        held = Held(page, "POST", CONVERSATIONS)
        send(page, "Never sent")
        held.wait()
        page.get_by_role("link", name="Elsewhere").click()
        expect(page.locator(".bubble")).to_have_text("Elsewhere")
        with page.expect_response(lambda response: response.request.method == "DELETE"):
            held.release()
        page.wait_for_timeout(100)
        self.assertEqual(conversation_of(page), other)
        expect(page.locator(".bubble")).to_have_text("Elsewhere")
        self.assertEqual(self.texts(other), ["Elsewhere", "Yes"])
        self.assertEqual(self.listed(), before)

    def test_a_late_branch_sends_nothing_elsewhere(self):
        other = self.make("Other place", "Yes", title="Other place")
        page = self.show(self.make("Again?", "No"), 2)
        before, held = self.listed(), Held(page, "GET", ITEMS)
        answers(page).last.get_by_role("button", name="Regenerate").click()
        held.wait()
        page.get_by_role("link", name="Other place").click()
        expect(page.locator(".bubble")).to_have_text("Other place")
        held.release()
        eventually(lambda: page.wait_for_timeout(50) or self.listed() == before, lambda: "the branch is left")
        self.assertEqual(self.texts(other), ["Other place", "Yes"])
        expect(page.locator(".entry")).to_have_count(2)

    def test_an_export_has_every_message_or_fails(self):
        self.expected_faults = ("500",)
        texts = [f"Text {number}" for number in range(250)]
        page = self.open(f"{self.server.url}/#/chat/{self.make(*texts)}")
        expect(page.get_by_text("Text 249")).to_be_in_viewport()
        held = Held(page, "GET", ITEMS)
        page.get_by_role("button", name="Export").click()
        held.refuse()
        expect(page.locator(".toast.bad")).to_contain_text("Nothing was exported")
        # While the oldest messages are being fetched.
        held = Held(page, "GET", ITEMS + ".*order=asc")
        page.get_by_role("log").focus()
        page.keyboard.press("Home")
        held.wait()
        with page.expect_download() as saved:
            page.get_by_role("button", name="Export").click()
            held.release()
        items = json.loads(pathlib.Path(saved.value.path()).read_text())["items"]
        self.assertEqual([item["content"][0]["text"] for item in items], texts)

    def test_a_late_reading_keeps_the_next_message(self):
        page = self.open(self.server.url)
        limit(page, 16)
        chat(page, "First")
        expect(page.locator(".entry.user").get_by_role("button", name="Edit")).to_be_enabled()
        held = Held(page, "GET", ITEMS)
        send(page, "Second")
        held.wait()
        long_answers(page, 8000)
        send(page, "Third")
        expect(page.locator(".entry.answer[aria-busy] .markdown")).not_to_be_empty()
        with page.expect_response(lambda response: re.search(ITEMS, response.url)):
            held.release()
        page.wait_for_timeout(100)
        expect(page.locator(".bubble")).to_have_text(["First", "Second", "Third"])
        page.get_by_role("button", name="Stop").click()
        expect(answers(page).last).to_contain_text("Stopped.")

    def test_stop_works_without_the_server(self):
        self.expected_faults = ("500", "ERR_FAILED")
        page = self.open(self.server.url)
        limit(page, 16)
        held = Held(page, "POST", RESPONSES)
        send(page, "Hello")
        held.wait()
        page.get_by_role("button", name="Stop").click()
        expect(page.get_by_role("alert")).to_contain_text("did not confirm")
        held.end("abort")
        page.get_by_role("button", name="Try again").click()
        expect(answers(page).last).to_contain_text(ANSWERED)
        expect(page.get_by_role("alert")).to_have_count(0)
        self.assertEqual(self.texts(conversation_of(page))[::2], ["Hello"])

    def test_a_message_with_a_lost_reply_is_answered_once(self):
        self.expected_faults = ("ERR_FAILED", "400")
        page = self.open(self.server.url)
        limit(page, 16)
        held = Held(page, "POST", RESPONSES)
        send(page, "Hello")
        held.wait().route.fetch()  # the server answers
        held.end("abort")
        page.get_by_role("button", name="Try again").click()
        expect(answers(page).last).to_contain_text(ANSWERED)
        conversation = conversation_of(page)
        self.assertEqual(self.texts(conversation)[::2], ["Hello"])
        # A reader who leaves before the reply finds the answer, or the message.
        for name, end in (("Released", Held.release), ("Refused", lambda held: held.refuse(400))):
            held = Held(page, "POST", RESPONSES)
            send(page, name)
            held.wait()
            page.get_by_role("link", name="Models").click()
            expect(page.get_by_role("heading", name="Models", exact=True)).to_be_visible()
            end(held)
            self.server.wait_idle()
            page.get_by_role("link", name="Chat", exact=True).click()
            page.get_by_role("link", name="Hello").click()
            expect(page.locator(".bubble").last).to_have_text(name)
        expect(page.locator(".unsent")).to_contain_text("Refused")
        self.assertEqual(self.texts(conversation)[::2], ["Hello", "Released"])

    # The stopped text was stored behind the turns that had waited for it, and a stop in the queue left a question alone.
    def test_stop_keeps_the_order_of_waiting_turns(self):
        page = self.open(self.server.url)
        long_answers(page, 8000)
        send(page, "Say much.")
        expect(page.locator(".entry.answer[aria-busy] .markdown")).not_to_be_empty()
        conversation = conversation_of(page)

        def elsewhere(text, tokens):
            return self.server.post_json("/v1/responses", {"model": "main", "conversation": conversation, "input": text, "background": True,
                                                           "max_output_tokens": tokens, "ignore_eos": True, "truncation": "auto"})["id"]
        elsewhere("From elsewhere", 16)
        page.get_by_role("button", name="Stop").click()
        expect(answers(page).first).to_contain_text("Stopped.")
        self.server.wait_idle()
        texts = self.texts(conversation)
        self.assertEqual(texts[::2], ["Say much.", "From elsewhere"])
        self.assertNotEqual(texts[1], "")
        page.reload()
        expect(page.locator(".bubble")).to_have_text(["Say much.", "From elsewhere"])
        expect(answers(page).first).to_contain_text("Stopped.")
        running = elsewhere("Long", 5000)
        send(page, "It waits")
        expect(page.get_by_text("In the queue…")).to_be_visible()
        page.get_by_role("button", name="Stop").click()
        expect(page.get_by_role("alert")).to_contain_text("Stopped before the answer began")
        self.server.post(f"/v1/responses/{running}/cancel", {})
        self.server.wait_idle()
        self.assertNotIn("It waits", self.texts(conversation))
        limit(page, 16)
        page.get_by_role("button", name="Try again").click()
        expect(answers(page).last).to_contain_text(ANSWERED)
        self.assertEqual(self.texts(conversation)[-2], "It waits")

    # It was lost at the next message and at a reload.
    def test_a_refused_message_stays_the_readers(self):
        self.expected_faults = ("400",)
        page = self.open(self.server.url)
        limit(page, 16)
        message, unsent = page.get_by_label("Message", exact=True), page.locator(".unsent")
        page.locator(".composer input[type=file]").set_input_files({"name": "kept.txt", "mimeType": "text/plain", "buffer": b"text"})
        expect(page.locator(".chip")).to_be_visible()
        long = "Too long " * 6000
        send(page, long)
        expect(unsent).to_contain_text("not sent")
        expect(page.get_by_role("alert")).to_contain_text("tokens")
        expect(message).to_have_value("")
        chat(page, "Short")
        expect(unsent).to_have_count(1)
        conversation = conversation_of(page)
        self.assertEqual(self.texts(conversation)[0], "Short")
        page.reload()
        expect(answers(page).last).to_contain_text(ANSWERED)
        expect(unsent.locator(".fold.file")).to_contain_text("kept.txt")
        page.get_by_role("button", name="New chat").click()
        expect(unsent).to_have_count(0)
        page.go_back()
        message.fill("In the field")
        unsent.get_by_role("button", name="Edit").click()
        expect(message).to_be_focused()
        expect(message).to_have_value(long + "\n\nIn the field")
        expect(page.locator(".chip")).to_contain_text("kept.txt")
        expect(unsent).to_have_count(0)
        message.fill("Shorter")
        message.press("Enter")
        expect(answers(page)).to_have_count(2)
        expect(answers(page).last).to_contain_text(ANSWERED)
        self.assertIn("kept.txt", self.texts(conversation)[2])
        held = Held(page, "POST", RESPONSES)
        send(page, "Refused once more")
        held.refuse(400)
        expect(unsent).to_have_count(1)
        check_rules_everywhere(self, page, "a message that was not sent")
        unsent.get_by_role("button", name="Discard").click()
        expect(unsent).to_have_count(0)
        expect(page.get_by_role("log")).to_be_focused()
        page.reload()
        expect(answers(page)).to_have_count(2)
        expect(unsent).to_have_count(0)

    def test_each_chat_keeps_its_own_draft(self):
        page = self.show(self.make("Other chat", "Yes", title="Other chat"), 2)
        message = page.get_by_label("Message", exact=True)
        message.fill("For the other one")
        page.get_by_role("button", name="New chat").click()
        expect(message).to_have_value("")
        message.fill("For a new one")
        page.locator(".composer input[type=file]").set_input_files({"name": "mine.txt", "mimeType": "text/plain", "buffer": b"text"})
        expect(page.locator(".chip")).to_be_visible()
        page.get_by_role("link", name="Models").click()
        expect(page.get_by_role("heading", name="Models", exact=True)).to_be_visible()
        page.get_by_role("link", name="Chat", exact=True).click()
        for _ in range(2):
            expect(message).to_have_value("For a new one")
            expect(page.locator(".chip")).to_contain_text("mine.txt")
            page.get_by_role("link", name="Other chat").click()
            expect(message).to_have_value("For the other one")
            expect(page.locator(".chip")).to_have_count(0)
            page.get_by_role("button", name="New chat").click()
            expect(page.locator(".chip")).to_be_visible()
            page.reload()
        self.assertNotIn("new one", page.evaluate("JSON.stringify(localStorage)"))

    # Edit and Regenerate stayed off, and nothing could be sent, until the page was loaded again.
    def test_failed_readings_are_made_again(self):
        self.expected_faults = ("ERR_FAILED",)
        page = self.open(self.server.url)
        limit(page, 16)
        held = Held(page, "GET", ITEMS)
        send(page, "Hello")
        held.end("abort")
        expect(page.locator(".toast.bad")).to_be_visible()
        expect(page.locator(".entry.user").get_by_role("button", name="Edit")).to_be_enabled()
        expect(answers(page).get_by_role("button", name="Regenerate")).to_be_enabled()
        held = Held(page, "GET", "/v1/models$")
        page.reload()
        held.end("abort")
        expect(page.locator(".toast.bad")).to_be_visible()
        page.get_by_label("Message", exact=True).fill("Again")
        expect(page.get_by_role("button", name="Send", exact=True)).to_be_enabled()
        chat(page, "Again", answered=2)

    def test_a_failed_chat_is_opened_again(self):
        self.expected_faults = ("500",)
        conversation = self.make("Here again", "Yes")
        page = self.open(self.server.url)
        held = Held(page, "GET", ITEMS)
        page.goto(f"{self.server.url}/#/chat/{conversation}")
        held.refuse()
        alert = page.get_by_role("alert")
        expect(alert).to_contain_text("The test refuses this.")
        check_rules_everywhere(self, page, "a conversation that cannot be read")
        send(page, "Not lost")
        expect(page.locator(".toast.bad")).to_be_visible()
        expect(page.get_by_label("Message", exact=True)).to_have_value("Not lost")
        alert.get_by_role("button", name="Try again").click()
        expect(page.locator(".bubble")).to_have_text("Here again")

    def test_a_rename_outlives_the_answer_of_a_branch(self):
        page = self.show(self.make("Old title", "Yes", title="Old title"), 2)
        limit(page, 16)
        held = Held(page, "POST", RESPONSES)
        answers(page).last.get_by_role("button", name="Regenerate").click()
        held.wait()
        page.get_by_role("button", name="Rename Old title").click()
        page.get_by_role("dialog").get_by_label("Title", exact=True).fill("New title")
        page.keyboard.press("Enter")
        expect(page.get_by_role("link", name="New title")).to_be_visible()
        held.release()
        expect(answers(page).last).to_contain_text(ANSWERED)
        expect(page.locator(".branch")).to_contain_text("2 / 2")

        self.assertEqual(json.loads(self.server.get(f"/v1/conversations/{conversation_of(page)}")[2])["metadata"]["title"], "New title")

    def test_branches_are_found_however_old(self):
        root = self.make("Root", "Yes", title="Family")
        item = self.items(root)[0]["id"]
        fork = self.server.post_json(f"/v1/conversations/{root}/fork", {"before_item": item, "metadata": {
            "title": "Family", "parent": root, "after": ""}})["id"]
        for number in range(60):
            self.make(f"Filler {number}", title=f"Filler {number}")
        self.server.post_json(f"/v1/conversations/{fork}/items", {"items": [{"type": "message", "role": "user", "content": "Other"}]})
        page = self.show(root, 2)
        expect(page.locator(".branch")).to_contain_text("1 / 2")
        page.get_by_label("Search titles").fill("Filler 0")
        expect(page.locator(".side li a")).to_have_text("Filler 0")
        page.get_by_label("Search titles").fill("")
        page.get_by_role("button", name="Delete Family").click()
        page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        eventually(lambda: [self.server.get(f"/v1/conversations/{each}")[0] for each in (root, fork)] == [404, 404])
        expect(page.get_by_role("link", name="Family")).to_have_count(0)

    def test_the_focus_returns_and_keys_stay_where_they_are_typed(self):
        page = self.show(self.make("Draft", "Yes"), 2)
        settings = page.get_by_role("button", name="Settings")
        settings.click()
        page.get_by_label("Settings of the chat").get_by_role("button", name="Close").click()
        expect(settings).to_be_focused()
        edit = page.locator(".entry.user").get_by_role("button", name="Edit")
        for leave in (lambda: page.keyboard.press("Escape"), lambda: page.get_by_role("button", name="Cancel").click()):
            edit.click()
            expect(page.get_by_label("Changed message")).to_be_focused()
            page.keyboard.press("Alt+ArrowUp")
            expect(page.get_by_label("Changed message")).to_be_focused()
            leave()
            expect(edit).to_be_focused()
        page.get_by_role("button", name="New chat").click()
        page.get_by_role("log").focus()
        page.keyboard.press("Alt+ArrowUp")  # of an empty thread; an error of the page fails the test
        expect(page.get_by_role("log")).to_be_focused()


class Restart(WebCase):
    def test_conversations_outlive_the_server(self):
        self.expected_faults = ("ERR_CONNECTION_REFUSED",)
        with tempfile.TemporaryDirectory() as store:
            first = Server("--store", store, *OPTIONS, model="main=" + stand_in())
            page = self.open(first.url)
            limit(page, 32)
            text = chat(page, "Remember this.")
            address = page.url
            self.assertEqual(first.stop(), 0)
            again = Server("--store", store, *OPTIONS, model="main=" + stand_in())
            self.addCleanup(again.stop)
            page.goto(address.replace(first.url, again.url))
            expect(page.locator(".entry.user .bubble")).to_have_text("Remember this.")
            shows(answers(page).first, text)


class RestartInMidAnswer(BrowserCase):
    """The page reaches the servers through a proxy, as if they had one address."""

    def serve(self, *options):
        server = Server(*options, "--drain-s", "0", *OPTIONS, model="main=" + stand_in())
        self.addCleanup(lambda: server.errors.closed or server.stop())
        return server

    def begin(self, server):
        self.expected_faults = ("ERR_CONNECTION", "ERR_SOCKET", "ERR_INCOMPLETE_CHUNKED", "ERR_EMPTY_RESPONSE", "404", "503")
        proxy = CuttableProxy(server.port)
        self.addCleanup(proxy.close)
        page = self.open(f"http://127.0.0.1:{proxy.port}")
        long_answers(page, 6000)
        send(page, "Say much.")
        growing = page.locator(".entry.answer .markdown")
        expect(growing).not_to_be_empty()
        eventually(lambda: len(growing.text_content()) > 40)
        return page, proxy

    def test_the_next_server_goes_on(self):
        with tempfile.TemporaryDirectory() as store:
            first = self.serve("--store", store)
            page, proxy = self.begin(first)
            so_far = page.locator(".entry.answer .markdown").text_content()
            first.stop()
            expect(page.get_by_text("The server is restarted.").or_(page.get_by_text("The connection was lost."))).to_be_visible()
            self.assertIn(so_far.split()[0], page.locator(".entry.answer .markdown").text_content(), "the text stays")
            again = self.serve("--store", store)
            proxy.target = again.port
            expect(answers(page).last).to_contain_text(ANSWERED)
            expect(page.locator(".notice.bad")).to_have_count(0)
            items = json.loads(again.get(f"/v1/conversations/{conversation_of(page)}/items?order=asc")[2])["data"]
            self.assertEqual([item["role"] for item in items], ["user", "assistant"])
            shows(answers(page).first, rendered(page, items[1]["content"][0]["text"]))
            self.assertIn(items[1]["content"][0]["text"].split()[0], so_far)
            expect(page.locator(".entry.user").get_by_role("button", name="Edit")).to_be_enabled()
            limit(page, 16)
            answers(page).last.get_by_role("button", name="Regenerate").click()
            expect(page.locator(".branch")).to_contain_text("2 / 2")

    def test_a_server_that_forgot_is_asked_again(self):
        first = self.serve("--store", "memory")
        page, proxy = self.begin(first)
        so_far = page.locator(".entry.answer .markdown").text_content().split()
        lost = conversation_of(page)
        first.process.kill()
        again = self.serve("--store", "memory")
        proxy.target = again.port
        expect(page.get_by_role("alert")).to_contain_text("no longer has this answer")
        expect(answers(page).last).to_contain_text("The answer broke off here.")
        self.assertEqual(answers(page).last.locator(".markdown").text_content().split()[:4], so_far[:4])
        expect(page.locator(".bubble")).to_have_text("Say much.")
        check_rules_everywhere(self, page, "a failed answer")
        limit(page, 16)
        page.get_by_role("button", name="Try again").click()
        expect(answers(page).last).to_contain_text(ANSWERED)
        expect(page.locator(".entry")).to_have_count(2)
        self.assertNotEqual(conversation_of(page), lost)
        expect(page.locator(".entry.user").get_by_role("button", name="Edit")).to_be_enabled()
        expect(answers(page).last.get_by_role("button", name="Regenerate")).to_be_enabled()


if __name__ == "__main__":
    unittest.main()
