"""Keys and the page (N46, N61): signing in and out, what ordinary keys see, keys that are made and revoked, a path prefix."""
import json
import os
import re
import subprocess
import tempfile
import unittest

from playwright.sync_api import expect

from browser import BrowserCase
from harness import Server, eventually, make_key, stand_in
from web_page import ANSWERED, OPTIONS, answers, chat, check_rules, check_rules_everywhere, conversation_of, limit, long_answers, send, sign_in


class Access(BrowserCase):
    def test_a_key_is_asked_for_and_kept_as_chosen(self):
        self.expected_faults = ("401", "403")
        with tempfile.TemporaryDirectory() as store:
            secret, old, short = make_key(store, "alice"), make_key(store, "old"), make_key(store, "short", "--expires", "1s")
            server = Server("--store", store, *OPTIONS, model="main=" + stand_in())
            self.addCleanup(server.stop)
            page = self.open(server.url)
            expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
            subprocess.run([os.environ["E2E_BINARY"], "keys", "revoke", "old", "--store", store], check=True, capture_output=True)
            eventually(lambda: "expired" in server.get("/v1/me", headers={"Authorization": f"Bearer {short}"})[2])
            for key, says in (("wrong", "This key is not valid here."), (old, "This key was revoked"), (short, "This key has expired.")):
                sign_in(page, key)
                expect(page.get_by_role("alert")).to_contain_text(says)
                expect(page.get_by_label("Key", exact=True)).to_be_focused()
                expect(page.get_by_text("Bearer")).to_have_count(0)
            sign_in(page, secret)
            limit(page, 16)
            chat(page, "Hello")
            self.assertEqual(page.evaluate("document.cookie + JSON.stringify(sessionStorage) + JSON.stringify(localStorage)").count(secret), 0)
            page.reload()
            expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
            page.get_by_label("Key", exact=True).fill(secret)
            page.get_by_label("Keep the key until this tab is closed").check()
            page.get_by_role("button", name="Sign in").click()
            expect(page.locator(".entry.user .bubble")).to_have_text("Hello")
            page.reload()
            expect(page.locator(".entry.user .bubble")).to_have_text("Hello")
            page.get_by_role("button", name="Sign out").click()
            expect(page.get_by_role("heading", name="Sign in")).to_be_visible()

    def test_a_key_that_ends_in_mid_answer_is_asked_for_again(self):
        self.expected_faults = ("401", "403")
        with tempfile.TemporaryDirectory() as store:
            secrets = [make_key(store, name) for name in ("first", "second", "third")]
            server = Server("--store", store, *OPTIONS, model="main=" + stand_in())
            self.addCleanup(server.stop)

            def revoke(name):
                subprocess.run([os.environ["E2E_BINARY"], "keys", "revoke", name, "--store", store], check=True, capture_output=True)

            def sign_in_again(secret):
                dialog = page.get_by_role("dialog", name="Sign in again")
                expect(dialog).to_be_visible()
                check_rules_everywhere(self, page, "sign in again")
                sign_in(page, "wrong", dialog)
                expect(dialog.get_by_role("alert")).to_be_visible()
                sign_in(page, secret, dialog)
                expect(dialog).to_have_count(0)
            page = self.open(server.url)
            sign_in(page, secrets[0])
            long_answers(page, 7000)
            send(page, "Say much.")
            growing = page.locator(".entry.answer .markdown")
            expect(growing).not_to_be_empty()
            eventually(lambda: len(growing.text_content()) > 40)
            so_far = growing.text_content().split()[:4]
            revoke("first")
            sign_in_again(secrets[1])
            self.assertEqual(answers(page).last.locator(".markdown").text_content().split()[:4], so_far)
            expect(answers(page).last).to_contain_text("The answer broke off here.")
            # The next message goes on from the text so far.
            limit(page, 16)
            chat(page, "And now?", answered=2)
            texts = [item["content"][0]["text"] for item in json.loads(server.get(
                f"/v1/conversations/{conversation_of(page)}/items?order=asc", headers={"Authorization": f"Bearer {secrets[1]}"})[2])["data"]]
            self.assertEqual([texts[0], texts[1].split()[:4], texts[2]], ["Say much.", so_far, "And now?"])
            # A key that ends while nothing runs: the message waits for another one.
            revoke("second")
            send(page, "Still there?")
            sign_in_again(secrets[2])
            expect(answers(page)).to_have_count(3)
            expect(answers(page).last).to_contain_text(ANSWERED)
            # One that expires.
            rotated = subprocess.run([os.environ["E2E_BINARY"], "keys", "rotate", "third", "--store", store, "--grace", "1s", "--json"],
                                     check=True, capture_output=True, text=True)
            eventually(lambda: server.get("/v1/me", headers={"Authorization": f"Bearer {secrets[2]}"})[0] == 401)
            send(page, "Are you still there?")
            sign_in_again(json.loads(rotated.stdout)["secret"])
            expect(answers(page)).to_have_count(4)
            expect(answers(page).last).to_contain_text(ANSWERED)

    def test_nothing_is_sent_with_the_key_of_another_owner(self):
        self.expected_faults = ("401", "403")
        with tempfile.TemporaryDirectory() as store:
            secrets = {name: make_key(store, name, "--tenant", name) for name in ("ann", "bob", "cid")}
            server = Server("--store", store, *OPTIONS, model="main=" + stand_in())
            self.addCleanup(server.stop)

            def end(name):
                subprocess.run([os.environ["E2E_BINARY"], "keys", "revoke", name, "--store", store], check=True, capture_output=True)
                send(page, f"Of {name} alone")
                expect(page.get_by_role("dialog", name="Sign in again")).to_be_visible()

            def check_nothing_of(others, name):
                expect(page.get_by_label("Message", exact=True)).to_have_value("")
                page.get_by_role("link", name="Models").click()
                expect(page.get_by_role("rowheader", name="main")).to_be_visible()
                listed = server.get("/v1/conversations", headers={"Authorization": f"Bearer {secrets[name]}"})[2]
                self.assertEqual(json.loads(listed)["data"], [], others)
                page.get_by_role("link", name="Chat").click()
            page = self.open(server.url)
            sign_in(page, secrets["ann"])
            page.get_by_role("button", name="Settings").click()
            page.get_by_label("System prompt").fill("A secret of ann")
            page.evaluate("localStorage.setItem('tutti.benchmarks', '{\"version\": 2, \"runs\": [], \"name\": \"secret\"}')")
            end("ann")
            # Out by closing the dialog, and another one signs in.
            page.keyboard.press("Escape")
            expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
            self.assertNotIn("secret", page.evaluate("JSON.stringify(localStorage)"))
            self.assertNotIn("of ann", page.evaluate("JSON.stringify(sessionStorage).toLowerCase()"))
            sign_in(page, secrets["bob"])
            check_nothing_of("ann", "bob")
            page.get_by_role("button", name="Settings").click()
            expect(page.get_by_label("System prompt")).to_have_value("")
            # Another owner's key in place of one that ended.
            end("bob")
            sign_in(page, secrets["cid"])
            expect(page.locator(".toast.bad", has_text="belongs to another user")).to_be_visible()
            check_nothing_of("bob", "cid")

    def test_the_page_works_below_a_path(self):
        # Below these the routes themselves would be cut.
        for base in ("/v1", "/web/", "/admin", "no-path", "/a//b"):
            refused = subprocess.run([os.environ["E2E_BINARY"], "serve", "--web-base", base, "--port", "0", "--grpc-port", "0", "--store", "memory"],
                                     capture_output=True, text=True)
            self.assertEqual(refused.returncode, 78, base)
            self.assertIn("web-base", refused.stderr)
        server = Server("--store", "memory", "--web-base", "/ai/tutti", *OPTIONS, model="main=" + stand_in())
        self.addCleanup(server.stop)
        page = self.open(server.url + "/ai/tutti")
        limit(page, 16)
        chat(page, "Hello")
        self.assertTrue(page.url.startswith(server.url + "/ai/tutti/#/chat/conv_"), page.url)
        self.assertTrue(all("/ai/tutti" in url for url in self.requests), self.requests)


class Keys(BrowserCase):
    def test_a_key_is_made_shown_once_and_revoked(self):
        self.expected_faults = ("400", "401", "403")
        with tempfile.TemporaryDirectory() as store:
            secret = make_key(store, "boss", "--routes", "generate,models,admin")
            server = Server("--store", store, *OPTIONS, model="main=" + stand_in())
            self.addCleanup(server.stop)
            page = self.open(server.url)
            sign_in(page, secret)
            page.get_by_role("link", name="Keys").click()
            opener, dialog = page.get_by_role("button", name="New key"), page.get_by_role("dialog")
            opener.click()
            dialog.get_by_role("button", name="Cancel").click()
            expect(dialog).to_have_count(0)
            expect(opener).to_be_focused()
            opener.click()
            check_rules(self, page, "new key")
            # The padding is no place outside, and neither is the end of a selection.
            box = dialog.bounding_box()
            page.mouse.click(box["x"] + 6, box["y"] + 6)
            page.get_by_label("Name", exact=True).fill("boss")
            field = page.get_by_label("Name", exact=True).bounding_box()
            page.mouse.move(field["x"] + 20, field["y"] + 10)
            page.mouse.down()
            page.mouse.move(5, 5)
            page.mouse.up()
            expect(page.get_by_label("Name", exact=True)).to_have_value("boss")
            # A notice lies above the dialog and can be used.
            page.get_by_label("Ends after (days)").fill("100000000")
            page.get_by_role("button", name="Create").click()
            toast = dialog.locator(".toast.bad")
            expect(toast).to_be_visible()
            check_rules(self, page, "an error in a dialog")
            toast.get_by_role("button", name="Dismiss").click()
            expect(toast).to_have_count(0)
            page.get_by_label("Ends after (days)").fill("")
            page.get_by_label("Name", exact=True).fill("app")
            page.get_by_label("Tenant").fill("acme")
            page.get_by_role("button", name="Create").click()
            # Nothing closes the only sight of the secret but the word that it is stored.
            expect(dialog.locator("pre")).to_be_visible()
            page.mouse.click(5, 5)
            for _ in range(3):
                page.keyboard.press("Escape")
            expect(dialog.get_by_role("alert")).to_contain_text("Is it stored?")
            check_rules(self, page, "a secret")
            made = dialog.locator("pre").inner_text()
            headers = {"Authorization": f"Bearer {made}"}
            self.assertEqual(server.get("/v1/models", headers=headers)[0], 200)
            page.get_by_role("button", name="I have stored it").click()
            expect(opener).to_be_focused()
            row = page.locator("tr").filter(has=page.get_by_role("rowheader", name=re.compile("^app")))
            expect(row).to_contain_text("acme")
            self.assertEqual(page.content().count(made), 0, "it is shown once")
            check_rules_everywhere(self, page, "keys")

            # Changed: what it may do, its models and limits. What is left empty is the default again.
            row.get_by_role("button", name="Change app").click()
            dialog.get_by_label("count tokens").uncheck()
            dialog.get_by_label("Models", exact=True).fill("main, none")
            dialog.get_by_text("Limits", exact=True).click()
            dialog.get_by_label("Requests a minute").fill("60")
            dialog.get_by_label("Tokens a day").fill("5000")
            check_rules(self, page, "a change")
            dialog.get_by_role("button", name="Save").click()
            expect(row).to_contain_text("60 requests a minute, 5,000 tokens a day")
            expect(row).to_contain_text("only with main, none")
            row.get_by_role("button", name="Change app").click()
            dialog.get_by_label("Tokens a day").fill("")
            dialog.get_by_role("button", name="Save").click()
            expect(row).not_to_contain_text("tokens a day")
            caller = json.loads(server.get("/v1/me", headers=headers)[2])
            self.assertEqual(caller["scopes"], {"routes": ["generate", "embed", "models"], "models": ["main", "none"]})
            self.assertEqual([(limit["limit"], limit["max"]) for limit in caller["limits"]], [("requests_per_minute", 60)])

            row.get_by_role("button", name="Rotate app").click()
            dialog.get_by_role("button", name="Make a new key").click()
            expect(dialog.locator("pre")).to_contain_text("tutti-")
            dialog.get_by_role("button", name="I have stored it").click()
            expect(row).to_have_count(2)
            old = row.filter(has_text=made[6:18])
            old.get_by_role("button", name="Revoke app").click()

            def as_on_a_full_disk(route):
                answer = route.fetch()
                route.fulfill(response=answer, json={**answer.json(), "written": False})
            page.route(re.compile("/admin/keys/[^/]+$"), as_on_a_full_disk, times=1)
            page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
            expect(page.locator(".toast.bad")).to_contain_text("is revoked, but this is not written yet")
            expect(old).to_contain_text("revoked")
            # The button that had the focus is gone.
            expect(old.get_by_role("rowheader")).to_be_focused()
            eventually(lambda: server.get("/v1/models", headers=headers)[0] == 401)
            mine = page.locator("tr").filter(has_text="your key")
            mine.get_by_role("button", name="Revoke boss").click()
            expect(dialog).to_contain_text("the key that you are signed in with")

    def test_users_see_nothing_of_admins(self):
        self.expected_faults = ("401",)
        with tempfile.TemporaryDirectory() as store:
            secret, boss = make_key(store, "alice"), make_key(store, "boss", "--routes", "models,admin")
            server = Server("--store", store, *OPTIONS, model="main=" + stand_in())
            self.addCleanup(server.stop)
            page = self.open(server.url + "/#/live")
            sign_in(page, secret)
            expect(page.get_by_label("Message", exact=True)).to_be_visible()
            self.assertEqual(page.get_by_role("navigation").get_by_role("link").all_inner_texts(), ["Chat", "Playground", "Models", "Jobs", "Benchmarks"])
            self.assertFalse([url for url in self.requests if "/admin/" in url])
            # Nor what only admins may do.
            page.get_by_role("link", name="Models").click()
            expect(page.get_by_role("rowheader", name="main")).to_be_visible()
            expect(page.get_by_text("need a key for administrators")).to_be_visible()
            expect(page.locator("main").get_by_role("button")).to_have_count(0)
            page.get_by_role("button", name="Sign out").click()
            sign_in(page, boss)
            expect(page.get_by_role("button", name="Unload main")).to_be_visible()
            expect(page.get_by_text("This server fetches no models")).to_be_visible()
            expect(page.get_by_role("button", name="Pull")).to_have_count(0)
            check_rules_everywhere(self, page, "models without pulls")

    def test_a_page_for_admins_alone_refuses_users(self):
        with tempfile.TemporaryDirectory() as store:
            secret = make_key(store, "alice")
            server = Server("--store", store, "--web", "admin-only", *OPTIONS, model="main=" + stand_in())
            self.addCleanup(server.stop)
            page = self.open(server.url)
            sign_in(page, secret)
            expect(page.get_by_text("This page is for administrators")).to_be_visible()
            expect(page.get_by_role("navigation").get_by_role("link")).to_have_count(0)


if __name__ == "__main__":
    unittest.main()
