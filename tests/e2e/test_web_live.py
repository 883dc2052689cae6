"""The page's views of a running server (R31): live state, traces, jobs and batches."""
import contextlib
import http.client
import json
import threading
import unittest

from playwright.sync_api import Error, expect

from harness import STEP_S, eventually
from web_page import WebCase, check_rules, check_rules_everywhere


class Live(WebCase):
    """R31: the state of the engines, and where the time of a request went."""
    OPTIONS = ("--max-num-seqs", "2", "--cache-exact", "on")

    def test_sequences_waits_and_figures_are_those_of_the_server(self):
        page = self.open(self.server.url + "/#/live")
        expect(page.get_by_role("heading", name="main")).to_be_visible()
        ends = threading.Event()

        def ask():
            while not ends.is_set():
                self.server.post("/v1/chat/completions", {"model": "main", "messages": [{"role": "user", "content": "Say much."}],
                                                          "max_tokens": 400, "ignore_eos": True})
        threads = [threading.Thread(target=ask) for _ in range(6)]
        for thread in threads:
            thread.start()
        try:
            table = page.get_by_role("region", name="Sequences of main")
            expect(table.get_by_text("decode").first).to_be_visible()
            expect(table.get_by_text("a free slot: the maximum number of sequences is running").first).to_be_visible()
            expect(page.locator(".badge.warn", has_text="a free slot")).to_be_visible()
            table.locator("button.mono").first.click()
            expect(page.get_by_text("in all, of which")).to_be_visible()
        finally:
            ends.set()
            for thread in threads:
                thread.join()
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
        wanted = {
            "Prefix cache": f"{found / queried * 100:.0f} % of {queried:,.0f} prompt tokens found",
            "Response cache": f"{hits:,.0f} of {lookups:,.0f} lookups found ({hits / lookups * 100:.0f} %)",
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
        expect(page.get_by_role("alert")).to_have_text("fast is unknown")
        eventually(lambda: len(held) == 1)
        with contextlib.suppress(Error):  # it was cancelled
            held[0].fulfill(status=404, json={"error": {"message": "slow is unknown"}})
        page.wait_for_timeout(200)
        expect(page.get_by_role("alert")).to_have_text("fast is unknown")

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
    def test_jobs_are_shown_and_cancelled(self):
        page = self.open(self.server.url + "/#/jobs")
        expect(page.get_by_text("No jobs.")).to_be_visible()
        self.server.post_json("/v1/jobs/pause", {})
        for text in ("first", "second"):
            status, _, body = self.server.post("/v1/chat/completions", {
                "model": "main", "messages": [{"role": "user", "content": text}], "max_tokens": 8}, headers={"Prefer": "respond-async"})
            self.assertEqual(status, 202, body)
        second = json.loads(body)["id"]
        rows = page.get_by_role("region", name="Table: Durable jobs").locator("tbody tr")
        expect(rows).to_have_count(2)
        check_rules_everywhere(self, page, "jobs with rows")
        page.get_by_role("button", name=f"Cancel {second}").click()
        expect(rows.filter(has_text=second)).to_contain_text("cancelled")
        self.server.post_json("/v1/jobs/resume", {})
        expect(rows.filter(has_not_text=second).locator(".badge.good")).to_be_visible()
        self.assertEqual(json.loads(self.server.get(f"/v1/jobs/{second}")[2])["status"], "cancelled")

    def test_batches_are_shown_and_cancelled(self):
        lines = "".join(json.dumps({"custom_id": f"line-{i}", "method": "POST", "url": "/v1/chat/completions", "body": {
            "model": "main", "messages": [{"role": "user", "content": f"Line {i}"}], "max_tokens": 4000, "ignore_eos": True}}) + "\n"
                        for i in range(30))
        form = "".join(f'--b\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n{value}\r\n' for name, more, value in (
            ("purpose", "", "batch"), ("file", '; filename="lines.jsonl"', lines))) + "--b--\r\n"
        status, _, text = self.server.post("/v1/files", form.encode(), headers={"Content-Type": "multipart/form-data; boundary=b"})
        self.assertEqual(status, 200, text)
        batch = self.server.post_json("/v1/batches", {"input_file_id": json.loads(text)["id"], "endpoint": "/v1/chat/completions",
                                                      "completion_window": "24h"})["id"]
        page = self.open(self.server.url + "/#/jobs")
        row = page.get_by_role("region", name="Table: Batches").locator("tbody tr").filter(has_text=batch)
        expect(row).to_contain_text("0 of 30")
        check_rules_everywhere(self, page, "batches with rows")
        page.get_by_role("button", name=f"Cancel {batch}").click()
        expect(row.locator(".badge")).to_have_text("cancelled")
        expect(row.get_by_role("button")).to_have_count(0)
        self.assertEqual(json.loads(self.server.get(f"/v1/batches/{batch}")[2])["status"], "cancelled")


if __name__ == "__main__":
    unittest.main()
