"""The chat of the page in Chromium (R30, R32): answers, branches, tools, files, hostile and long conversations. What the page must
never do (ask another host, break its content security policy, fail) is checked after each test (browser.py)."""
import http.client
import json
import os
import pathlib
import re
import tempfile
import time
import unittest

from playwright.sync_api import expect
from playwright.sync_api import TimeoutError as BrowserTimeout

import thinking_model
from browser import BrowserCase, CuttableProxy
from harness import STEP_S, Server, amount, eventually, figure
from web_page import (ANSWERED, ITEMS, RESPONSES, WebCase, answers, chat, check_rules, check_rules_everywhere, conversation_of, limit,
                      long_answers, rendered, send, shows)


class Chat(WebCase):
    def test_an_answer_streams_and_is_found_again(self):
        page = self.open(self.server.url)
        limit(page, 48)
        text = chat(page, "Name three rivers.")
        self.assertGreater(len(text), 10)
        items = self.items(conversation_of(page))
        self.assertEqual([item["role"] for item in items], ["user", "assistant"])
        self.assertEqual(items[0]["content"][0]["text"], "Name three rivers.")
        chat(page, "And three lakes.", answered=2)
        page.reload()
        expect(page.locator(".entry")).to_have_count(4)
        expect(page.locator(".entry.user .bubble").first).to_have_text("Name three rivers.")
        shows(answers(page).first, text)
        page.get_by_role("button", name="New chat").click()
        expect(page.locator(".entry")).to_have_count(0)
        page.get_by_role("link", name="Name three rivers.").click()
        expect(page.locator(".entry")).to_have_count(4)

    def test_stop_ends_the_answer(self):
        page = self.open(self.server.url)
        long_answers(page, 8000)
        send(page, "Say much.")
        expect(page.locator(".entry.answer .markdown")).not_to_be_empty()
        page.get_by_role("button", name="Stop").click()
        expect(answers(page).last).to_contain_text("Stopped.")
        self.server.wait_idle()
        stopped = answers(page).last.locator(".markdown").text_content()
        limit(page, 16)
        chat(page, "And now?", answered=2)
        figures = answers(page).last.locator("summary").inner_text()
        self.assertRegex(figures, r"16 output tokens.* tokens/s .*first after")
        # What the page knows of an answer is shown after a reload too.
        page.reload()
        expect(page.locator(".entry")).to_have_count(4)
        shows(answers(page).first, stopped)
        expect(answers(page).first).to_contain_text("Stopped.")
        self.assertEqual(answers(page).last.locator("summary").inner_text(), figures)
        answers(page).last.locator("summary").click()
        response, request = answers(page).last.locator(".about code").all_inner_texts()
        self.assertEqual(json.loads(self.server.get(f"/v1/responses/{response}")[2])["usage"]["output_tokens"], 16)
        check_rules_everywhere(self, page, "the ids of an answer")
        page.get_by_role("link", name="Where its time went").click()
        expect(page.get_by_role("heading", name="Why is my request slow?")).to_be_focused()
        expect(page.get_by_label("Request id")).to_have_value(request)
        expect(page.locator(".stages")).to_be_visible()
        page.go_back()
        expect(page.locator(".entry")).to_have_count(4)
        # What was cut goes on.
        expect(answers(page).first.get_by_role("button", name="Continue")).to_have_count(0)
        answers(page).last.get_by_role("button", name="Continue").click()
        expect(answers(page)).to_have_count(3)
        expect(answers(page).last).to_contain_text(ANSWERED)
        expect(page.locator(".bubble").last).to_have_text("Continue where you stopped.")

    # After a reload and in other tabs neither the question nor the answer was shown, and nothing could stop it.
    def test_a_running_answer_is_shown_again_and_stopped(self):
        page = self.open(self.server.url)
        long_answers(page, 8000)

        def away_and_back():
            page.get_by_role("button", name="New chat").click()
            page.locator(".side li a").first.click()

        for again in (page.reload, away_and_back):
            # On a fast machine the answer may end before the page is back.
            for attempt in range(6):
                page.get_by_role("button", name="New chat").click()
                expect(page.locator(".entry")).to_have_count(0)  # a text typed before the new chat is there stays with the old one
                question = f"Say much, {again.__name__} {attempt}."
                send(page, question)
                expect(page.locator(".entry.answer[aria-busy] .markdown")).not_to_be_empty()
                again()
                expect(page.locator(".entry.user .bubble")).to_have_text([question])
                try:
                    page.get_by_role("button", name="Stop").click(timeout=1500)
                    break
                except BrowserTimeout:
                    self.server.wait_idle()
            else:
                self.fail("no answer was running when the page was back")
            expect(answers(page).last).to_contain_text("Stopped.")
            self.server.wait_idle()
            items = self.items(conversation_of(page))
            self.assertEqual([item["role"] for item in items], ["user", "assistant"])
            self.assertNotEqual(items[1]["content"][0]["text"], "")

    # Everything that had arrived was read and drawn in one task: for 23 s nothing could be pressed, and no text was seen.
    def test_a_slow_page_stays_usable_while_an_answer_streams(self):
        page = self.open(self.server.url)
        long_answers(page, 6000)
        page.context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": 8})
        page.evaluate("""() => {
            const begin = performance.now();
            let last = begin;
            window.longest = 0;
            setInterval(() => {
                const now = performance.now();
                window.longest = Math.max(window.longest, now - last);
                last = now;
                if (document.querySelector('.entry.answer summary') !== null) window.whole ??= now - begin;
            }, 20);
        }""")
        send(page, "Say much.")
        expect(answers(page).last).to_contain_text(ANSWERED)
        page.wait_for_function("window.whole !== undefined")
        longest, whole = page.evaluate("[window.longest, window.whole]")
        self.assertLess(longest, whole / 2, f"of {whole:.0f} ms one task took {longest:.0f}")

    def test_another_text_makes_a_branch(self):
        page = self.open(self.server.url)
        limit(page, 24)
        first = chat(page, "Name a river.")
        chat(page, "Name a lake.", answered=2)
        begun = conversation_of(page)
        page.locator(".entry.user").first.get_by_role("button", name="Edit").click()
        page.get_by_label("Changed message").fill("Name a mountain.")
        page.get_by_role("button", name="Send as a branch").click()
        expect(page.locator(".entry.user .bubble")).to_have_text(["Name a mountain."])
        expect(page.locator(".branch")).to_contain_text("2 / 2")
        self.assertNotEqual(conversation_of(page), begun)
        page.get_by_role("button", name="Previous branch").click()
        expect(page.locator(".entry.user .bubble")).to_have_text(["Name a river.", "Name a lake."])
        shows(answers(page).first, first)
        expect(page.locator(".branch")).to_contain_text("1 / 2")
        # The same message again, at its end.
        answers(page).last.get_by_role("button", name="Regenerate").click()
        expect(page.locator(".entry.user .bubble")).to_have_text(["Name a river.", "Name a lake."])
        expect(page.locator(".branch").nth(1)).to_contain_text("2 / 2")
        # Another text of the answer.
        expect(answers(page).last).to_contain_text(ANSWERED)
        answers(page).last.get_by_role("button", name="Edit").click()
        page.get_by_label("Changed answer").fill("Lake *Como*.")
        page.get_by_role("button", name="Save as a branch").click()
        expect(page.locator(".branch").nth(1)).to_contain_text("3 / 3")
        shows(answers(page).last, "Lake Como.")
        shows(answers(page).first, first)
        chat(page, "Where is it?", answered=3)
        texts = [item["content"][0]["text"] for item in self.items(conversation_of(page))]
        self.assertEqual(texts[2:5], ["Name a lake.", "Lake *Como*.", "Where is it?"])
        listed = page.locator(".side li a", has_text="Name a river.")
        expect(listed).to_have_count(1)
        page.get_by_role("button", name="Rename Name a river.").click()
        page.get_by_role("dialog").get_by_label("Title", exact=True).fill("Waterways")
        page.keyboard.press("Enter")
        listed = page.locator(".side li a", has_text="Waterways")
        expect(listed).to_have_count(1)
        page.get_by_role("button", name="Delete Waterways").click()
        page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        expect(listed).to_have_count(0)
        self.assertEqual(self.server.get(f"/v1/conversations/{begun}")[0], 404)

    def test_an_answer_is_resumed_after_a_lost_connection(self):
        proxy = CuttableProxy(self.server.port)
        self.addCleanup(proxy.close)
        self.expected_faults = ("ERR_CONNECTION", "ERR_INCOMPLETE_CHUNKED", "ERR_EMPTY_RESPONSE")
        page = self.open(f"http://127.0.0.1:{proxy.port}")
        long_answers(page, 6000)
        send(page, "Say much.")
        expect(page.locator(".entry.answer .markdown")).not_to_be_empty()
        proxy.cut()
        expect(page.get_by_text("The connection was lost.")).to_be_visible()
        proxy.mend()
        expect(answers(page).last).to_contain_text(ANSWERED)
        conversation = conversation_of(page)
        stored = self.items(conversation)[-1]["content"][0]["text"]
        page.reload()
        expect(page.locator(".entry")).to_have_count(2)
        shows(answers(page).last, rendered(page, stored))

    def test_a_schema_and_a_wrong_setting(self):
        page = self.open(self.server.url)
        page.get_by_role("button", name="Settings").click()
        page.get_by_label("Temperature").fill("9")
        expect(page.get_by_text("Temperature: 0 to 2")).to_be_visible()
        page.get_by_label("Message", exact=True).fill("x")
        expect(page.get_by_role("button", name="Send")).to_be_disabled()
        page.get_by_label("Temperature").fill("0.5")
        page.get_by_label("JSON schema of the answer").fill(json.dumps(
            {"type": "object", "properties": {"city": {"enum": ["Oslo", "Rome"]}}, "required": ["city"], "additionalProperties": False}))
        send(page, "A city?")
        expect(page.get_by_text("fits the schema")).to_be_visible()
        self.assertIn(json.loads(page.locator("pre.json").inner_text())["city"], ("Oslo", "Rome"))
        page.reload()
        expect(page.get_by_text("fits the schema")).to_be_visible()
        faults = page.evaluate("""async () => {
            const {check} = await import('/web/lib/json_schema.js');
            const schema = {type: 'object', required: ['a'], properties: {a: {type: 'integer', minimum: 1}, b: {$ref: '#/$defs/s'}},
                            additionalProperties: false, $defs: {s: {type: 'array', items: {enum: ['x', null]}, maxItems: 2}}};
            return [{a: 1}, {a: 1, b: ['x', null]}, {}, {a: 0}, {a: 1.5}, {a: 1, c: 2}, {a: 1, b: ['y']}, {a: 1, b: ['x', 'x', 'x']}, [],
                    null].map((value) => check(value, schema).faults.length);
        }""")
        self.assertEqual([count > 0 for count in faults], [False, False] + 8 * [True])
        self.assertEqual(page.evaluate("""async () => (await import('/web/lib/json_schema.js')).check({a: 'x', b: ['a', 'y']},
            {properties: {a: {pattern: '(?P<n>a)'}, b: {prefixItems: [{pattern: '^a$'}, {pattern: '(?P<n>a)'}]}}}).unread"""), ["(?P<n>a)"])

    def test_sampling_fields_and_the_choice_of_a_tool(self):
        page = self.open(self.server.url)
        page.get_by_role("button", name="Settings").click()
        page.get_by_text("More sampling").click()
        wanted = {"Top k": (40, "top_k"), "Min p": (0.05, "min_p"), "Presence penalty": (-0.5, "presence_penalty"),
                  "Frequency penalty": (0.25, "frequency_penalty"), "Repetition penalty": (1.1, "repetition_penalty")}
        for title, wrong, range_ in (("Top k", "1.5", "-1 to"), ("Min p", "2", "0 to 1"), ("Presence penalty", "3", "-2 to 2"),
                                     ("Repetition penalty", "0", "above 0, up to 10")):
            page.get_by_label(title).fill(wrong)
            expect(page.locator(".settings .error-text")).to_contain_text(range_)
            page.get_by_label(title).fill("")
        for title, (value, _) in wanted.items():
            page.get_by_label(title).fill(str(value))
        page.get_by_label("Stop texts").fill("x" * 257)
        expect(page.locator(".settings .error-text")).to_contain_text("257 bytes, limit 256")
        page.get_by_label("Stop texts").fill("END\n\\n\\n")
        page.get_by_label("Longest answer (tokens)").fill("16")
        page.get_by_label("Demo tools").check()
        page.get_by_label("Tool choice").select_option("name:roll_dice")
        page.get_by_label("Demo tools").uncheck()
        page.get_by_label("Own tools (JSON)").fill('[{"type": "function", "name": "look", "parameters": {"type": "object"}}]')
        expect(page.locator(".settings .error-text")).to_contain_text("no tool roll_dice")
        check_rules_everywhere(self, page, "settings with the choice of a tool")
        page.get_by_label("Tool choice").select_option("none")
        with page.expect_request(re.compile(RESPONSES)) as sent:
            chat(page, "Hello")
        body = sent.value.post_data_json
        for value, field in wanted.values():
            self.assertEqual(body[field], value, field)
        self.assertEqual((body["stop"], body["tool_choice"]), (["END", "\n\n"], "none"))
        # A call that is required is made once; its result is asked for.
        page.get_by_label("Longest answer (tokens)").fill("200")
        page.get_by_label("Tool choice").select_option("name:look")
        page.get_by_label("Settings of the chat").get_by_role("button", name="Close").click()
        send(page, "Look")
        expect(page.get_by_text("Call of look")).to_be_visible()
        expect(page.get_by_label("Result of look")).to_be_visible()

    def test_a_broken_entry_leaves_the_others(self):
        self.expected_faults = ("is not a function",)
        conversation = self.server.post_json("/v1/conversations", {"items": [
            {"type": "message", "role": ("user", "assistant")[i % 2], "content": f"Text {i}"} for i in range(4)]})["id"]
        profile = self.new_profile()
        page = profile.new_page()

        def breaks(route):
            page_of_items = route.fetch().json()
            page_of_items["data"][0]["content"][0]["logprobs"] = [{"token": 5, "logprob": -1}]
            route.fulfill(json=page_of_items)
        page.route(re.compile(ITEMS), breaks)
        page.goto(f"{self.server.url}/#/chat/{conversation}")
        page.get_by_role("button", name="Tokens").click()
        expect(page.get_by_role("alert")).to_contain_text("This entry cannot be shown")
        expect(page.locator(".bubble")).to_have_text(["Text 0", "Text 2"])
        expect(answers(page)).to_have_count(1)
        page.get_by_role("button", name="Try again").click()
        expect(answers(page)).to_have_count(2)

    def test_tabs_learn_of_changes_from_each_other(self):
        profile = self.new_profile()
        one, two = self.open(self.server.url, profile), self.open(self.server.url, profile)
        limit(one, 16)
        chat(one, "Seen in both")
        expect(two.locator(".side li a", has_text="Seen in both")).to_be_visible()
        two.goto(one.url)
        two.get_by_role("button", name="Rename Seen in both").click()
        two.get_by_role("dialog").get_by_label("Title", exact=True).fill("Renamed by two")
        two.keyboard.press("Enter")
        expect(one.locator("h1")).to_have_text("Renamed by two")
        expect(two.locator(".entry.user .bubble")).to_have_text("Seen in both")
        chat(one, "And this too", answered=2)
        expect(two.locator(".entry.user .bubble")).to_have_text(["Seen in both", "And this too"])
        shows(answers(two).last, answers(one).last.locator(".markdown").text_content())
        # Both send at once: one after the other, in an order that both show.
        for page in (one, two):
            page.get_by_label("Message", exact=True).fill(f"From {'one' if page is one else 'two'}")
        for page in (one, two):
            page.keyboard.press("Enter")
        for page in (one, two):
            expect(page.locator(".entry.user")).to_have_count(4)
            expect(page.locator(".entry[aria-busy]")).to_have_count(0)
        eventually(lambda: one.locator(".bubble").all_inner_texts() == two.locator(".bubble").all_inner_texts())

    def test_text_goes_its_own_way(self):
        hebrew, arabic = "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd", "\u0645\u0631\u062d\u0628\u0627 \u0628\u0643"
        status, _, body = self.server.post("/v1/conversations", {"items": [
            {"type": "message", "role": "user", "content": hebrew},
            {"type": "message", "role": "assistant", "content": f"{arabic}\n\nLeft to right.\n\n- {hebrew}\n\n```\ncode {hebrew}\n```"}]})
        self.assertEqual(status, 200, body)
        page = self.open(f"{self.server.url}/#/chat/{json.loads(body)['id']}")
        expect(page.locator(".entry")).to_have_count(2)
        places = page.evaluate("""() => [...document.querySelectorAll('.bubble, .markdown > p, .markdown li')].map((element) => {
            const range = document.createRange();
            range.selectNodeContents(element);
            const [text] = range.getClientRects(), box = element.getBoundingClientRect();
            return {direction: getComputedStyle(element).direction, left: text.left - box.left, right: box.right - text.right};
        })""")
        self.assertEqual([place["direction"] for place in places], ["rtl", "rtl", "ltr", "rtl"])
        for place in places[1:]:
            near, far = (place["right"], place["left"]) if place["direction"] == "rtl" else (place["left"], place["right"])
            self.assertLess(near, 2)
            self.assertGreater(far, 100)
        self.assertEqual(page.evaluate("getComputedStyle(document.querySelector('.markdown pre')).direction"), "ltr")
        page.get_by_label("Message", exact=True).fill(arabic)
        self.assertEqual(page.evaluate("getComputedStyle(document.querySelector('#message')).direction"), "rtl")

    def test_tokens_show_their_probabilities(self):
        page = self.open(self.server.url)
        page.get_by_role("button", name="Settings").click()
        page.get_by_label("Token probabilities").select_option("3")
        page.get_by_label("Longest answer (tokens)").fill("24")
        page.get_by_label("Settings of the chat").get_by_role("button", name="Close").click()
        with page.expect_response(re.compile(RESPONSES)) as stream:
            text = chat(page, "Name three rivers.")
        button = answers(page).last.get_by_role("button", name="Tokens")
        button.click()
        expect(button).to_have_attribute("aria-pressed", "true")
        tokens = page.locator(".tokens .token")
        self.assertEqual(page.evaluate("[...document.querySelectorAll('.tokens .token')].map((e) => e.textContent).join('')").split(), text.split())
        tokens.nth(4).hover()
        tip = page.get_by_role("tooltip")
        # The three most probable ones, and the chosen one if it is another.
        events = [json.loads(line[5:]) for line in stream.value.text().splitlines() if line.startswith("data:")]
        sent = [token for event in events if event["type"] == "response.output_text.delta" for token in event["logprobs"]][4]
        listed = [other["token"] for other in sent["top_logprobs"]]
        self.assertEqual(len(listed), 3)
        expect(tip.locator("tr")).to_have_count(3 if sent["token"] in listed else 4)
        shares = [float(cell.removeprefix("below ").removesuffix(" %")) for cell in tip.locator("td.number").all_inner_texts()]
        self.assertEqual(shares[:3], sorted(shares[:3], reverse=True))
        self.assertTrue(0 < sum(shares) <= 100.1, shares)
        expect(tip.locator("tr.chosen")).to_have_count(1)
        # By the keyboard: one stop of the tabulator, arrows between tokens.
        tokens.nth(4).focus()
        page.keyboard.press("ArrowRight")
        expect(tokens.nth(5)).to_be_focused()
        expect(tokens.nth(5)).to_have_attribute("aria-describedby", tip.get_attribute("id"))
        self.assertEqual(page.locator(".tokens [tabindex='0']").count(), 1)
        for theme in ("light", "dark"):
            page.emulate_media(color_scheme=theme)
            check_rules(self, page, f"tokens, {theme}")
        page.keyboard.press("Escape")
        expect(tip).to_have_count(0)
        page.get_by_text("Table of tokens").click()
        expect(page.get_by_role("group", name="Table of tokens").locator("tbody tr")).to_have_count(tokens.count())
        button.click()
        shows(answers(page).last, text)
        # The items of a conversation come without them: they are those of the response.
        page.reload()
        expect(tokens).to_have_count(0)
        button.click()
        expect(tokens.first).to_be_visible()
        self.assertEqual(page.evaluate("[...document.querySelectorAll('.tokens .token')].map((e) => e.textContent).join('')").split(), text.split())
        tokens.nth(4).hover()
        expect(tip.locator("tr.chosen")).to_have_count(1)

    def test_an_export_is_imported_as_it_was(self):
        items = [{"type": "message", "role": "system", "content": [{"type": "input_text", "text": "Be brief."}]},
                 {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "How warm?\n<b>\u05e9</b>"}]},
                 {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "Let me look."}]},
                 {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{\"city\":\"Oslo\"}"},
                 {"type": "function_call_output", "call_id": "call_1", "output": "21"}]
        items += [{"type": "message", "role": ("assistant", "user")[i % 2], "content": [
            {"type": ("output_text", "input_text")[i % 2], "text": f"Text {i}"}]} for i in range(41)]
        source = {"format": "tutti.conversation", "version": 2, "title": "Weather", "items": items}
        page = self.open(self.server.url)

        def load(name, data):
            page.locator(".side input[type=file]").set_input_files({"name": name, "mimeType": "application/json", "buffer": data})

        def export():
            with page.expect_download() as saved:
                page.get_by_role("button", name="Export").click()
            self.assertEqual(saved.value.suggested_filename, "Weather.json")
            return pathlib.Path(saved.value.path()).read_bytes()
        load("weather.json", json.dumps(source).encode())
        expect(page.locator(".bubble").first).to_have_text("How warm?\n<b>\u05e9</b>")
        first, begun = export(), conversation_of(page)
        self.assertEqual(json.loads(first), source)
        load("again.json", first)
        eventually(lambda: conversation_of(page) != begun)
        expect(answers(page).last).to_contain_text("Text 40")
        self.assertEqual(export(), first)
        # What is no export is refused with the reason, and leaves nothing.
        known = page.locator(".side li a").count()
        for data, reason in ((b"{", "not valid JSON"), (b"{}", "not an exported conversation"), (b"x" * (9 << 20), "larger than 8 MiB"),
                             (json.dumps({**source, "version": 9}).encode(), "version 9"),
                             (json.dumps({**source, "items": []}).encode(), "no items"),
                             (json.dumps({**source, "items": [items[0], {"type": "image"}]}).encode(), "Item 2 is of the unknown type"),
                             (json.dumps({**source, "items": [{"type": "message", "role": "user", "content": 5}]}).encode(), "without text")):
            load("bad.json", data)
            toast = page.locator(".toast.bad", has_text=reason)
            expect(toast).to_be_visible()
            toast.get_by_role("button", name="Dismiss").click()
        self.assertEqual(page.locator(".side li a").count(), known)

    def test_files_are_asked_about(self):
        page = self.open(self.server.url)
        limit(page, 16)
        picker = page.locator(".composer input[type=file]")
        text = "one\n```\ntwo\n```\n\nthree\n"
        picker.set_input_files({"name": "notes.md", "mimeType": "text/markdown", "buffer": text.encode()})
        chip = page.get_by_role("list", name="Files of the message").locator("li")
        expect(chip).to_have_text(re.compile(r"notes\.md\s*\d+ tokens"))
        for name, data, reason in (("photo.png", b"\x89PNG\r\n\xff\xfe", "not UTF-8 text"), ("data.bin", b"a\0b", "binary"),
                                   ("none.txt", b"", "is empty"), ("notes.md", b"x", "already attached"),
                                   ("large.txt", b"x" * (3 << 20), "limit 1 MiB"), ("long.txt", b"word " * 20000, "reads at most")):
            picker.set_input_files({"name": name, "mimeType": "application/octet-stream", "buffer": data})
            toast = page.locator(".toast.bad", has_text=reason)
            expect(toast).to_be_visible()
            toast.get_by_role("button", name="Dismiss").click()
        expect(chip).to_have_count(1)
        check_rules(self, page, "a file")
        # A second one, dropped.
        page.evaluate("""() => {
            const data = new DataTransfer();
            data.items.add(new File(['a,b\\n1,2'], 'table.csv', {type: 'text/csv'}));
            for (const type of ['dragover', 'drop']) {
              document.querySelector('.thread').dispatchEvent(new DragEvent(type, {dataTransfer: data, bubbles: true, cancelable: true}));
            }
        }""")
        expect(chip).to_have_count(2)
        page.get_by_role("button", name="Remove table.csv").click()
        expect(chip).to_have_count(1)
        chat(page, "What is in it?")
        expect(chip).to_have_count(0)
        stored = self.items(conversation_of(page))[0]["content"][0]["text"]
        self.assertTrue(stored.startswith("File `notes.md`:\n````\n" + text), stored)
        self.assertTrue(stored.endswith("\n\nWhat is in it?"), stored)
        page.reload()
        expect(page.locator(".bubble")).to_have_text("What is in it?")
        fold = page.locator(".entry.user .fold.file")
        expect(fold.locator("pre")).not_to_be_visible()
        fold.locator("summary").click()
        self.assertEqual(fold.locator("pre").inner_text().rstrip("\n"), text.rstrip("\n"))
        # Another question about the same file.
        page.locator(".entry.user").get_by_role("button", name="Edit").click()
        expect(page.get_by_label("Changed message")).to_have_value("What is in it?")
        page.get_by_label("Changed message").fill("And now?")
        page.get_by_role("button", name="Send as a branch").click()
        expect(page.locator(".bubble")).to_have_text("And now?")
        expect(answers(page).last).to_contain_text(ANSWERED)
        self.assertIn("````\n" + text, self.items(conversation_of(page))[0]["content"][0]["text"])
        faults = page.evaluate("""async () => {
            const {joinFiles, splitFiles} = await import('/web/lib/text_files.js');
            const texts = ['a', 'a\\n', '\\na', '```\\n\\n', '`````\\n\\n```', '\\n```\\n\\nFile `x`:\\n```\\ny\\n```\\n\\n', '```'];
            const faults = [];
            for (const one of texts) for (const two of texts) for (const rest of ['q', '', '\\n```\\n\\n', 'File `x`: y']) {
              const files = [{name: 'one.txt', text: one}, {name: 'two', text: two}];
              const back = splitFiles(joinFiles(files, rest));
              if (JSON.stringify(back) !== JSON.stringify({files, text: rest})) faults.push([one, two, rest, back]);
            }
            return faults;
        }""")
        self.assertEqual(faults, [])

    def test_the_whole_context_is_used(self):
        """A chat was cut to 3,000 tokens although the page promised the context of the model."""
        items = [{"type": "message", "role": ("user", "assistant")[i % 2], "content": f"{i}: " + "river " * 500} for i in range(10)]
        conversation = self.server.post_json("/v1/conversations", {"items": items})["id"]
        page = self.open(f"{self.server.url}/#/chat/{conversation}")
        expect(page.locator(".entry")).to_have_count(10)
        limit(page, 16)
        chat(page, "And now?", answered=6)
        prompt = int(re.search(r"([\d,]+) prompt", answers(page).last.inner_text())[1].replace(",", ""))
        self.assertGreater(prompt, 4000)
        self.assertEqual(page.get_by_text("left out").count(), 0)

    def test_a_conversation_that_is_gone_says_so(self):
        self.expected_faults = ("404",)
        page = self.open(self.server.url + "/#/chat/conv_00000000000000000000000000000000")
        expect(page.get_by_role("alert")).to_contain_text("There is no such")


class Hostile(WebCase):
    """Text of models and users is shown and never run."""
    TEXTS = (
        "<script>window.ran = 1</script>",
        "<img src=x onerror='window.ran = 1'>",
        "[click](javascript:window.ran=1) [data](data:text/html,<script>window.ran=1</script>) <a href='javascript:window.ran=1'>x</a>",
        "![image](https://192.0.2.1/x.png) ![x](x\" onerror=\"window.ran=1)",
        "<svg><animate onbegin=window.ran=1 attributeName=x></svg><math><mtext><style><img src=x onerror=window.ran=1>",
        "<iframe srcdoc='<script>parent.ran=1</script>'></iframe><form action=https://192.0.2.1><input name=q></form>",
        "<style>body { display: none }</style><div style='position:fixed;inset:0;background:red'>x</div><base href=//192.0.2.1/>",
        "```html\n<script>window.ran = 1</script>\n```\n`<b onmouseover=window.ran=1>`",
        "| a | b |\n|---|---|\n| <img src=x onerror=window.ran=1> | **x** |",
        "[a]: javascript:window.ran=1\n\n[a] [b][a] <javascript:window.ran=1>",
        "# <u>heading</u>\n\n- [ ] task\n- [x] done\n\n1. one\n2. two\n\n> quote\n\n***\n\n~~gone~~ $x$ &lt;b&gt; &#60;script&#62;",
        "```\nnever closed", "**never closed [nor this](", "\u202eright to left\u202c \u0000 \ufffd \ud83d\ude00",
    )

    def make(self, *texts):
        status, _, body = self.server.post("/v1/conversations", {"items": [
            {"type": "message", "role": "assistant" if i % 2 else "user", "content": text} for i, text in enumerate(texts)]})
        self.assertEqual(status, 200, body)
        return json.loads(body)["id"]

    def show(self, *texts):
        page = self.open(f"{self.server.url}/#/chat/{self.make(*texts)}")
        expect(page.locator(".entry")).to_have_count(len(texts))
        return page

    def test_nothing_in_a_text_runs_or_loads(self):
        for first in range(0, len(self.TEXTS), 7):
            page = self.show(*(text for each in self.TEXTS[first:first + 7] for text in (each, each)))
            for link in page.locator(".markdown a").all():
                self.assertRegex(link.get_attribute("href") or "", r"^(https?:|mailto:|$)")
                self.assertEqual(link.get_attribute("target"), "_blank")
            page.wait_for_timeout(200)
            self.assertIsNone(page.evaluate("window.ran ?? null"))
            self.assertEqual(page.locator(".thread :is(script, img, iframe, style, form[action], svg, object, embed, base, math)").count(), 0)
            self.assertEqual(page.locator(".thread :is(.markdown, .bubble) [style]").count(), 0)
            self.assertTrue(page.locator(".thread").is_visible())

    def test_long_and_odd_texts_do_not_hang(self):
        texts = ["x" * 250_000, "*" * 60_000, "[" * 60_000, "`" * 50_001 + " x", "> " * 30_000, "| a " * 20_000, "(" * 50_000 + "[a](" * 10_000,
                 "word " * 40_000, "\n".join("- " * (i % 30) + "x" for i in range(4000)), "*a_ " * 2400]
        for text in texts:
            begin = time.monotonic()
            page = self.show("What is this?", text)
            page.evaluate("1")
            self.assertLess(time.monotonic() - begin, 20, text[:20])
            page.close()


class Long(WebCase):
    """A conversation of 10,000 messages: few elements, every place can be reached, and the place is kept."""
    MESSAGES = 10_000

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        texts = [cls.text(number) for number in range(cls.MESSAGES)]
        items = [{"type": "message", "role": ("user", "assistant")[number % 2], "content": text} for number, text in enumerate(texts)]
        cls.conversation = cls.server.post_json("/v1/conversations", {"metadata": {"title": "Long"}})["id"]
        connection = http.client.HTTPConnection("127.0.0.1", cls.server.port, timeout=STEP_S)
        for first in range(0, len(items), 20):
            connection.request("POST", f"/v1/conversations/{cls.conversation}/items", json.dumps({"items": items[first:first + 20]}),
                               {"Content-Type": "application/json"})
            response = connection.getresponse()
            body = response.read()
            assert response.status == 200, body
        connection.close()

    @staticmethod
    def text(number):
        extra = "\n\n- a\n- b\n\n```python\nprint(1)\n```" if number % 7 == 3 else ""
        return f"Message {number} with **bold** text. " + "More words follow. " * (number % 13) + extra

    def scroll(self, page, pixels):
        """Scrolls so far, and returns the numbers of the messages that are elements when that is drawn."""
        page.evaluate("""async (pixels) => {
            document.querySelector('.thread').scrollTop += pixels;
            for (let i = 0; i < 3; ++i) await new Promise(requestAnimationFrame);
        }""", pixels)
        return self.numbers(page)

    def numbers(self, page):
        """The numbers of the messages that are elements now, in their order."""
        return page.evaluate("""() => [...document.querySelectorAll('.list-row')]
            .map((row) => Number(/Message (\\d+) with/.exec(row.textContent)?.[1] ?? -1)).filter((number) => number >= 0)""")

    def top(self, page):
        """The first message in view and its place, in pixels."""
        return page.evaluate("""() => {
            const thread = document.querySelector('.thread').getBoundingClientRect();
            const row = [...document.querySelectorAll('.list-row')].find((each) => each.getBoundingClientRect().bottom > thread.top + 20);
            return [Number(/Message (\\d+) with/.exec(row.textContent)?.[1] ?? -1), row.getBoundingClientRect().top - thread.top];
        }""")

    def check_elements(self, page):
        self.assertLessEqual(page.locator(".list-row").count(), 80)
        self.assertLess(page.evaluate("document.querySelectorAll('*').length"), 4000)

    def test_newest_and_oldest_are_reached_at_once(self):
        page = self.open(f"{self.server.url}/#/chat/{self.conversation}")
        expect(page.get_by_text("Message 9999 with")).to_be_in_viewport()
        requests = len(self.requests)
        page.get_by_role("log").focus()
        page.keyboard.press("Home")
        expect(page.get_by_text("Message 0 with")).to_be_in_viewport()
        self.assertLess(len(self.requests) - requests, 6, "the messages between them are not fetched")
        self.check_elements(page)
        self.assertEqual(page.locator(".list-row").first.get_attribute("aria-setsize"), "-1", "unknown while some are not here")
        page.keyboard.press("End")
        expect(page.get_by_text("Message 9999 with")).to_be_in_viewport()
        page.mouse.move(700, 400)
        page.mouse.wheel(0, -3000)
        page.get_by_role("button", name="First message").click()
        expect(page.get_by_text("Message 0 with")).to_be_in_viewport()
        expect(page.get_by_role("log")).to_be_focused()
        page.get_by_role("button", name="Newest message").click()
        expect(page.get_by_text("Message 9999 with")).to_be_in_viewport()
        check_rules_everywhere(self, page, "a long conversation")

    def test_scrolling_passes_every_message_in_order(self):
        page = self.open(f"{self.server.url}/#/chat/{self.conversation}")
        expect(page.get_by_text("Message 9999 with")).to_be_in_viewport()
        begin, seen = time.monotonic(), set()
        # Up through a few pages, which come while the reader scrolls.
        while min(seen, default=9999) > amount(9900, 9850, 9000):
            numbers = self.scroll(page, -1200)
            self.assertEqual(numbers, list(range(numbers[0], numbers[0] + len(numbers))), "in order, without holes")
            seen |= set(numbers)
            self.assertLess(time.monotonic() - begin, STEP_S, min(seen))
        self.assertEqual(seen, set(range(min(seen), 10_000)), "none is skipped")
        self.check_elements(page)
        # From the beginning down.
        page.get_by_role("log").focus()
        page.keyboard.press("Home")
        expect(page.get_by_text("Message 0 with")).to_be_in_viewport()
        down = set()
        while max(down, default=0) < amount(60, 120, 1000):
            down |= set(number for number in self.scroll(page, 1200) if number < 5000)
            self.assertLess(time.monotonic() - begin, 2 * STEP_S, max(down))
        self.assertEqual(down, set(range(max(down) + 1)))
        # The place of every message is near the end: all of them are fetched for an export, and then any place is a scroll away.
        with page.expect_download() as saved:
            page.get_by_role("button", name="Export").click()
        items = json.loads(pathlib.Path(saved.value.path()).read_text())["items"]
        self.assertEqual([item["content"][0]["text"] for item in items], [self.text(number) for number in range(self.MESSAGES)])
        expect(page.locator(".list-row").first).to_have_attribute("aria-setsize", str(self.MESSAGES))
        longest = page.evaluate("""async () => {
            const thread = document.querySelector('.thread');
            let longest = 0, last = performance.now();
            for (let i = 0; i < 60; ++i) {
              thread.scrollTop = thread.scrollHeight * ((i * 7) % 20) / 20;
              await new Promise(requestAnimationFrame);
              const now = performance.now();
              longest = Math.max(longest, now - last);
              last = now;
            }
            return longest;
        }""")
        figure(f"longest of 60 jumps in 10,000 messages: {longest:.0f} ms")
        self.assertLess(longest, 2000)
        self.check_elements(page)
        page.evaluate("document.querySelector('.thread').scrollTop = document.querySelector('.thread').scrollHeight / 2")
        eventually(lambda: 2000 < self.top(page)[0] < 8000, lambda: str(self.top(page)))
        first = page.locator(".list-row").first
        eventually(lambda: int(first.get_attribute("aria-posinset")) == self.numbers(page)[0] + 1)

    def test_the_keyboard_goes_from_message_to_message(self):
        page = self.open(f"{self.server.url}/#/chat/{self.conversation}")
        expect(page.get_by_text("Message 9999 with")).to_be_in_viewport()
        page.get_by_role("log").focus()
        page.keyboard.press("Alt+ArrowUp")
        numbers = []
        for _ in range(30):
            page.keyboard.press("Alt+ArrowUp")
            moved = page.wait_for_function("""(last) => {
                const number = Number(/Message (\\d+)/.exec(document.activeElement.textContent)?.[1]);
                return number !== last && {number};
            }""", arg=numbers[-1] if numbers else None)
            numbers.append(moved.json_value()["number"])
        self.assertEqual(numbers, list(range(numbers[0], numbers[0] - 30, -1)))
        expect(page.locator(".list-row:focus")).to_be_in_viewport()

    def test_the_place_is_kept_while_an_answer_streams(self):
        page = self.open(f"{self.server.url}/#/chat/{self.conversation}")
        expect(page.get_by_text("Message 9999 with")).to_be_in_viewport()
        long_answers(page, 7000)
        send(page, "Say much.")
        growing = page.locator(".entry.answer[aria-busy] .markdown")
        expect(growing).not_to_be_empty()
        page.mouse.move(700, 400)
        # In small steps, as a finger does.
        for _ in range(12):
            page.mouse.wheel(0, -50)
        expect(page.get_by_role("button", name="Newest message")).to_be_visible()
        shown = page.evaluate("document.querySelector('.entry.answer[aria-busy] .markdown')?.textContent ?? null")
        before = self.top(page)
        expect(page.locator(".entry.answer[aria-busy]")).to_have_count(0)
        after = self.top(page)
        self.assertEqual(after[0], before[0])
        self.assertAlmostEqual(after[1], before[1], delta=3)
        if shown is not None:  # else the answer was quicker than the wheel
            self.assertGreater(len(answers(page).last.locator(".markdown").text_content()), len(shown))
        page.get_by_role("button", name="Newest message").click()
        expect(answers(page).last).to_contain_text(ANSWERED)
        # Of the 10,000 most were left out.
        expect(answers(page).last).to_contain_text("earlier messages were left out")
        page.reload()
        expect(answers(page).last).to_contain_text("earlier messages were left out")


class Tools(WebCase):
    def test_calls_are_shown_and_answered_by_hand(self):
        page = self.open(self.server.url)
        page.get_by_role("button", name="Settings").click()
        page.get_by_label("Longest answer (tokens)").fill("16")
        page.get_by_label("Own tools (JSON)").fill(json.dumps([{
            "type": "function", "name": "get_weather", "parameters": {
                "type": "object", "properties": {"city": {"enum": ["Oslo", "Rome"]}}, "required": ["city"], "additionalProperties": False}}]))
        status, _, body = self.server.post("/v1/conversations", {"items": [
            {"type": "message", "role": "user", "content": "How warm is it?"},
            {"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": "{\"city\":\"Oslo\"}"}]})
        self.assertEqual(status, 200, body)
        page.goto(f"{self.server.url}/#/chat/{json.loads(body)['id']}")
        expect(page.get_by_text("Call of get_weather")).to_be_visible()
        page.get_by_label("Result of get_weather").fill("{\"celsius\": 21}")
        page.locator("form").filter(has_text="The model waits").get_by_role("button", name="Send").click()
        expect(page.locator(".entry.answer").last).to_contain_text(ANSWERED)
        kinds = [item["type"] for item in self.items(conversation_of(page))]
        self.assertEqual(kinds[:3], ["message", "function_call", "function_call_output"])
        self.assertEqual(len(kinds), 4)

    def test_the_calculator_computes_and_runs_no_code(self):
        page = self.open(self.server.url)
        value = page.evaluate("""async () => {
            const {calculate, runTool} = await import('/web/lib/tools.js');
            const fails = (text) => { try { calculate(text); return false; } catch { return true; } };
            return [calculate('(2+3)*4'), calculate('-2^2'), calculate('2^3^2'), calculate('7/2 - 1e2'),
                    fails('alert(1)'), fails('2+'), fails(''), fails('(1'), runTool({name: 'none', text: '{}'}),
                    JSON.parse(runTool({name: 'calculate', callId: 'c', text: '{"expression":"6*7"}'}).output).value];
        }""")
        self.assertEqual(value, [20, -4, 512, -96.5, True, True, True, True, None, 42])


class Streams(WebCase):
    def test_events_and_answers_do_not_depend_on_how_they_arrive(self):
        page = self.open(self.server.url)
        faults = page.evaluate("""async () => {
            const {EventParser} = await import('/web/lib/sse.js');
            const {applyEvent, newAnswer} = await import('/web/lib/answer.js');
            const faults = [];
            const text = ': comment\\nevent: state\\nid: 7\\ndata: {"a":\\ndata: 1}\\n\\ndata:x\\n\\nevent: none\\n\\ndata\\n\\n';
            const wanted = JSON.stringify([{event: 'state', id: '7', data: '{"a":\\n1}'}, {event: 'message', id: '7', data: 'x'},
                                           {event: 'message', id: '7', data: ''}]);
            for (const stream of [text, text.replaceAll('\\n', '\\r\\n')]) {
              for (let size = 1; size <= stream.length; ++size) {
                const parser = new EventParser(), events = [];
                for (let at = 0; at < stream.length; at += size) events.push(...parser.push(stream.slice(at, at + size)));
                if (JSON.stringify(events) !== wanted) faults.push([size, events]);
              }
            }
            const item = {type: 'message', id: 'm'};
            const events = [
              {type: 'response.created', sequence_number: 0, response: {id: 'r'}},
              {type: 'response.output_item.added', sequence_number: 1, output_index: 0, item},
              {type: 'response.output_text.delta', sequence_number: 2, output_index: 0, delta: 'ab'},
              {type: 'response.output_text.delta', sequence_number: 3, output_index: 0, delta: 'c'},
            ];
            // A resumed stream may begin with events that came already.
            let answer = newAnswer();
            for (const event of [...events, ...events.slice(1), events[3]]) answer = applyEvent(answer, event);
            if (answer.items[0].text !== 'abc' || answer.number !== 3 || answer.id !== 'r') faults.push(answer);
            return faults;
        }""")
        self.assertEqual(faults, [])


class Reasoning(BrowserCase):
    def test_reasoning_is_shown_and_kept(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "thinking")
            thinking_model.write(path)
            server = Server("--store", "memory", "--grpc-port", "0", model=path)
            self.addCleanup(server.stop)
            page = self.open(server.url)
            page.get_by_role("button", name="Settings").click()
            page.get_by_label("Longest reasoning (tokens)").fill("12")
            page.get_by_label("Token probabilities").select_option("1")
            limit_field = page.get_by_label("Longest answer (tokens)")
            limit_field.fill("40")
            page.get_by_label("Settings of the chat").get_by_role("button", name="Close").click()
            send(page, "How many are there?")
            expect(answers(page).last).to_contain_text(ANSWERED)
            items = json.loads(server.get(f"/v1/conversations/{conversation_of(page)}/items?order=asc")[2])["data"]
            self.assertEqual([item["type"] for item in items], ["message", "reasoning", "message"])
            thought = items[1]["content"][0]["text"]
            for _ in range(2):
                fold = answers(page).last.locator(".fold", has=page.get_by_text("Reasoning", exact=True))
                expect(fold).to_have_count(1)
                expect(fold.locator(".reasoning")).not_to_be_visible()
                fold.locator("summary").click()
                self.assertEqual(fold.locator(".reasoning").inner_text().split(), thought.split())
                check_rules(self, page, "reasoning")
                page.reload()


if __name__ == "__main__":
    unittest.main()
