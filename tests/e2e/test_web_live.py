"""The page's views of a running server (R31): live state, traces, jobs and batches."""
import contextlib
import http.client
import json
import re
import threading
import unittest

from playwright.sync_api import Error, expect

from harness import STEP_S, eventually
from web_page import WebCase, check_rules, check_rules_everywhere


class Live(WebCase):
    """R31: the state of the engines, and where the time of a request went."""
    OPTIONS = ("--max-num-seqs", "2", "--cache-exact", "on")

    @contextlib.contextmanager
    def busy(self):
        """Six clients at two places."""
        ends = threading.Event()

        def ask():
            while not ends.is_set():
                self.server.post("/v1/chat/completions", {"model": "main", "messages": [{"role": "user", "content": "Say much."}],
                                                          "max_tokens": 400, "ignore_eos": True})
        threads = [threading.Thread(target=ask) for _ in range(6)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            ends.set()
            for thread in threads:
                thread.join()

    def test_sequences_waits_and_figures_are_those_of_the_server(self):
        page = self.open(self.server.url + "/#/live")
        expect(page.get_by_role("heading", name="main")).to_be_visible()
        table = page.get_by_role("region", name="Sequences of main")
        with self.busy():
            expect(table.get_by_text("writes").first).to_be_visible()
            expect(table.get_by_text("a free place: as many run as may (--max-num-seqs)").first).to_be_visible()
            expect(page.locator(".badge.warn", has_text="wait for a free place")).to_be_visible()
            table.locator("button.mono").first.click()
            expect(page.get_by_text("in all, of which")).to_be_visible()
            # What was asked for is in view, and the frame of the page is where it was.
            heading = page.get_by_role("heading", name="Why is my request slow?")
            expect(heading).to_be_focused()
            expect(heading).to_be_in_viewport()
            expect(page.get_by_role("navigation")).to_be_in_viewport()
            # A trace follows its request.
            expect(page.get_by_text("It ended normally.")).to_be_visible()
        self.server.wait_idle()
        expect(page.get_by_text("Nothing runs and nothing waits.")).to_be_visible()
        self.assertEqual(self.watchers(), 1)
        page.get_by_role("button", name="Pause").click()
        eventually(lambda: self.watchers() == 0)
        page.get_by_role("button", name="Continue").click()
        eventually(lambda: self.watchers() == 1)

    def watchers(self):
        return json.loads(self.server.get("/admin/state")[2])["watchers"]

    def test_facts_are_those_of_metrics(self):
        """R31: equal to /metrics within one refresh."""
        body = {"model": "main", "messages": [{"role": "user", "content": "Name three lakes."}], "max_tokens": 8, "temperature": 0}
        for _ in range(3):
            self.server.post_json("/v1/chat/completions", body)
        self.server.wait_idle()
        metric = self.server.metric
        hits = metric("tutti_cache_lookups_total", cache="exact", outcome="hit")
        lookups = metric("tutti_cache_lookups_total", cache="exact")
        self.assertGreaterEqual(hits, 2)
        self.assertGreater(lookups, hits)
        page = self.open(self.server.url + "/#/live")
        queried, found = metric("tutti_prefix_queried_tokens_total"), metric("tutti_prefix_hit_tokens_total")

        def percent(part, whole):  # JavaScript rounds a half up
            return f"{int(part / whole * 100 + 0.5)} %"
        wanted = {
            "Prefix cache": f"{percent(found, queried)} of {queried:,.0f} prompt tokens found",
            "Response cache": f"{hits:,.0f} of {lookups:,.0f} lookups found ({percent(hits, lookups)})",
            "Preemptions": f"{metric('tutti_preemptions_total'):,.0f}",
            "Jobs": f"{metric('tutti_jobs', state='running'):.0f} run, {metric('tutti_jobs', state='queued'):.0f} wait",
            "Batches": f"{metric('tutti_batches_open'):.0f} open",
        }
        for name, value in wanted.items():
            expect(page.locator(".facts > div").filter(has=page.get_by_text(name, exact=True)).locator("dd")).to_have_text(value)

    def test_a_full_server_is_polled(self):
        self.expected_faults = ("503",)
        eventually(lambda: self.watchers() == 0)
        with contextlib.ExitStack() as streams:
            for _ in range(16):
                connection = streams.enter_context(contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=STEP_S)))
                connection.request("GET", "/admin/events")
                self.assertEqual(connection.getresponse().status, 200)
            page = self.open(self.server.url + "/#/live")
            notice = page.locator(".notice", has_text="16 watchers are connected")
            expect(notice).to_be_visible()
            expect(page.get_by_role("heading", name="main")).to_be_visible()
            check_rules(self, page, "polled")
            expect(page.get_by_text("connection lost")).to_have_count(0)
        # The stream is tried again.
        expect(notice).to_have_count(0)

    def test_a_fault_of_the_page_is_no_lost_connection(self):
        page = self.open(self.server.url + "/#/models")
        self.assertEqual(page.evaluate("""async () => {
            const {stream} = await import('/web/lib/api.js');
            return stream('admin/events', {}, () => { throw new Error('mine'); }).catch((error) => error.message);
        }"""), "mine")
        # The stream is closed.
        eventually(lambda: self.watchers() == 0)

    def test_a_late_trace_does_not_replace_the_next(self):
        held = []
        page = self.open(self.server.url + "/#/live")
        page.route("**/admin/requests/slow", lambda route: held.append(route))
        page.route("**/admin/requests/fast", lambda route: route.fulfill(status=404, json={"error": {"message": "fast is unknown"}}))
        self.expected_faults = ("404",)
        for name in ("slow", "fast"):
            page.get_by_label("Request id").fill(name)
            page.get_by_role("button", name="Look").click()
        expect(page.get_by_role("alert")).to_have_text("Fast is unknown.")
        expect(page.get_by_role("button", name="Look")).to_be_focused()
        eventually(lambda: len(held) == 1)
        with contextlib.suppress(Error):  # it was cancelled
            held[0].fulfill(status=404, json={"error": {"message": "slow is unknown"}})
        page.wait_for_timeout(200)
        expect(page.get_by_role("alert")).to_have_text("Fast is unknown.")

    def test_each_outcome_is_told_in_words(self):
        trace = {"model": "main", "state": "ended", "end": "ok", "status": 200, "in_engine": True, "stages": {"queue_ms": 3, "total_ms": 5}, "waits": [],
                 "events": []}
        page = self.open(self.server.url + "/#/live")
        for changes, says in (({}, "It ended normally."), ({"end": "cancelled"}, "It was cancelled: its client left or ended it."),
                              ({"end": "key_revoked"}, "It ended with an error: key_revoked."),
                              ({"end": "failed", "status": 429}, "It was refused, or failed before an engine had it. It was answered with status 429."),
                              ({"end": None}, "How it ended is not known. It was answered with status 200."),
                              ({"end": None, "in_engine": False, "status": 429}, "It was not computed here: its answer was stored, it was refused, or a worker "
                               "has it. It was answered with status 429.")):
            found = json.dumps({"traces": [{**trace, **changes}]})
            page.route("**/admin/requests/one", lambda route: route.fulfill(body=found, content_type="application/json"))
            page.get_by_label("Request id").fill("one")
            page.get_by_role("button", name="Look").click()
            expect(page.get_by_text(says)).to_be_visible()
            page.unroute("**/admin/requests/one")

    def test_requests_and_jobs_are_cancelled(self):
        page = self.open(self.server.url + "/#/live")
        expect(page.get_by_role("heading", name="main")).to_be_visible()
        body = {"model": "main", "messages": [{"role": "user", "content": "Say much."}], "max_tokens": 7000, "ignore_eos": True}

        def sequences():
            return json.loads(self.server.get("/admin/state")[2])["engines"][0]["sequences"]
        with self.busy():
            job = json.loads(self.server.post("/v1/chat/completions", body, headers={"Prefer": "respond-async"})[2])["id"]
            self.cancel(page, job)
            eventually(lambda: json.loads(self.server.get(f"/v1/jobs/{job}")[2])["status"] == "cancelled")
            client = threading.Thread(target=self.server.post, args=("/v1/chat/completions", body))
            client.start()
            eventually(lambda: any(each["max_tokens"] == 7000 for each in sequences()))
            request = next(each["request"] for each in sequences() if each["max_tokens"] == 7000)
            self.cancel(page, request)
            client.join()
            page.get_by_label("Request id").fill(request)
            page.get_by_role("button", name="Look").click()
            expect(page.get_by_text("It was cancelled")).to_be_visible()

    def cancel(self, page, request):
        page.get_by_role("region", name="Sequences of main").get_by_role("button", name=f"Cancel {request}").click()
        dialog = page.get_by_role("dialog", name="Cancel the request?")
        expect(dialog).to_contain_text(request)
        dialog.get_by_role("button", name="End the request").click()
        expect(page.locator(".toast", has_text=f"{request} is cancelled")).to_be_visible()

    def test_a_canvas_shows_the_blocks_in_colours(self):
        page = self.open(self.server.url + "/#/live")
        expect(page.locator("canvas.blocks")).to_be_visible()
        colours = page.evaluate("""() => {
            const canvas = document.querySelector('canvas.blocks');
            const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
            const seen = new Set();
            for (let i = 0; i < data.length; i += 4) if (data[i + 3] === 255) seen.add(`${data[i]},${data[i + 1]},${data[i + 2]}`);
            return [...seen];
        }""")
        self.assertNotIn("0,0,0", colours)
        self.assertGreaterEqual(len(colours), 1)

    def test_an_unknown_request_says_so(self):
        self.expected_faults = ("404",)
        page = self.open(self.server.url + "/#/live")
        page.get_by_label("Request id").fill("req-none")
        page.get_by_role("button", name="Look").click()
        expect(page.get_by_role("alert")).to_be_visible()


class Jobs(WebCase):
    def rows(self, page, table="Durable jobs"):
        return page.get_by_role("region", name=f"Table: {table}").locator("tbody tr")

    def make(self, route="/v1/chat/completions", **body):
        asked = {"model": "main", "max_tokens": 8, **(body or {"messages": [{"role": "user", "content": "Hello"}]})}
        status, _, text = self.server.post(route, asked, headers={"Prefer": "respond-async"})
        self.assertEqual(status, 202, text)
        return json.loads(text)["id"]

    def status(self, job):
        return json.loads(self.server.get(f"/v1/jobs/{job}")[2])["status"]

    def test_jobs_are_shown_cancelled_and_replayed(self):
        page = self.open(self.server.url + "/#/jobs")
        expect(page.get_by_text("No jobs.")).to_be_visible()
        # Its prompt is longer than the context.
        failed = self.make("/v1/completions", prompt="x " * 9000)
        eventually(lambda: self.status(failed) == "failed")
        self.server.post_json("/v1/jobs/pause", {})
        first, second = self.make(), self.make()
        rows = self.rows(page)
        expect(rows).to_have_count(3)
        row = {job: rows.filter(has_text=job) for job in (failed, first, second)}
        expect(row[first]).to_contain_text("Chat answer")
        expect(row[first]).to_contain_text("default")
        expect(row[first].locator("time")).to_have_text(re.compile("now|ago"))
        expect(row[failed]).to_contain_text("Completion")
        expect(row[failed].locator(".error-text")).to_contain_text("the context holds 8192")
        check_rules_everywhere(self, page, "jobs with rows")
        # On a narrow screen each row is a card: no action lies outside.
        page.set_viewport_size({"width": 360, "height": 740})
        for button in rows.get_by_role("button").all():
            box = button.bounding_box()
            self.assertGreaterEqual(box["x"], 0)
            self.assertLessEqual(box["x"] + box["width"], 360)
        self.assertEqual(row[first].locator("td").nth(1).evaluate("(cell) => getComputedStyle(cell, '::before').content"), '"State"')
        page.set_viewport_size({"width": 1280, "height": 800})

        state = page.get_by_label("State", exact=True)
        state.select_option("failed")
        expect(rows).to_have_count(1)
        expect(rows).to_contain_text(failed)
        state.select_option("completed")
        expect(page.get_by_text("No job is completed.")).to_be_visible()
        state.select_option("")
        expect(rows).to_have_count(3)

        page.get_by_role("button", name=f"Cancel {second}").click()
        expect(row[second].locator(".badge")).to_have_text("cancelled")
        expect(row[second].get_by_role("rowheader")).to_be_focused()
        self.assertEqual(self.status(second), "cancelled")
        page.get_by_role("button", name=f"Replay {failed}").click()
        expect(row[failed].locator(".badge")).to_have_text("queued")
        self.server.post_json("/v1/jobs/resume", {})
        expect(row[first].locator(".badge.good")).to_be_visible()
        expect(row[first]).to_contain_text("8 tokens")
        # It fails again: its prompt is what it was.
        expect(row[failed].locator(".badge")).to_have_text("failed")

    def test_batches_are_shown_and_cancelled(self):
        lines = "".join(json.dumps({"custom_id": f"line-{i}", "method": "POST", "url": "/v1/chat/completions", "body": {
            "model": "main", "messages": [{"role": "user", "content": f"Line {i}"}], "max_tokens": 4000, "ignore_eos": True}}) + "\n"
                        for i in range(300))
        form = "".join(f'--b\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n{value}\r\n' for name, more, value in (
            ("purpose", "", "batch"), ("file", '; filename="lines.jsonl"', lines))) + "--b--\r\n"
        status, _, text = self.server.post("/v1/files", form.encode(), headers={"Content-Type": "multipart/form-data; boundary=b"})
        self.assertEqual(status, 200, text)
        batch = self.server.post_json("/v1/batches", {"input_file_id": json.loads(text)["id"], "endpoint": "/v1/chat/completions",
                                                      "completion_window": "24h"})["id"]
        page = self.open(self.server.url + "/#/jobs")
        row = self.rows(page, "Batches").filter(has_text=batch)
        expect(row).to_contain_text("of 300")
        check_rules_everywhere(self, page, "batches with rows")
        page.get_by_role("button", name=f"Cancel {batch}").click()
        expect(row.locator(".badge")).to_have_text("cancelled")
        expect(row.get_by_role("button")).to_have_count(0)
        self.assertEqual(json.loads(self.server.get(f"/v1/batches/{batch}")[2])["status"], "cancelled")


if __name__ == "__main__":
    unittest.main()
