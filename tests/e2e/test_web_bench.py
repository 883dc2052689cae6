"""The page's benchmarks, and the lists of its live view, in Chromium (R31, N61)."""
import csv
import io
import json
import re
import tempfile
import threading
import unittest

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from playwright.sync_api import expect

from browser import BrowserCase
from harness import Server, eventually, free_port, make_key, stand_in
from web_page import OPTIONS, ViewsCase, check_rules, check_rules_everywhere, sign_in, tab_to
from test_workers import World


def settle(page, **values):
    """Fills the form's fields: title -> number."""
    for title, value in values.items():
        page.get_by_label(title.replace("_", " "), exact=True).fill(str(value))


def choose_levels(page, wanted):
    for box in page.locator("fieldset.levels input").all():
        box.set_checked(int(box.locator("xpath=..").inner_text()) in wanted)


def figures(page):
    """Rows of the table of figures: {head: text}; heads of percentiles carry the ones before."""
    table = page.get_by_role("region", name="Figures of the runs")
    heads = table.locator("thead th").all_inner_texts()
    return [dict(zip(heads, row.locator("th, td").all_inner_texts())) for row in table.locator("tbody tr").all()]


def run_study(page, levels, **values):
    choose_levels(page, levels)
    settle(page, **values)
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_role("region", name="Figures of the runs")).to_be_visible()


class Benchmarks(ViewsCase):
    """One server for all; each test has a browser's storage of its own."""

    def benchmarks(self, **options):
        page = self.open(self.server.url + "/#/benchmarks", **options)
        expect(page.get_by_role("button", name="Run", exact=True)).to_be_enabled()
        return page

    def output_tokens(self):
        return self.server.metric("tutti_output_tokens_total")

    def test_answers_of_one_and_eight_clients_are_measured(self):
        page = self.benchmarks()
        before = self.output_tokens()
        run_study(page, [1, 8], Requests_of_each_client=2, Rounds=2, Words_of_a_prompt=20, Tokens_of_each_answer=32)
        rows = figures(page)
        self.assertEqual([row["Clients"].split()[0] for row in rows], ["1", "8"])
        self.assertEqual([(row["answers"], row["failed"]) for row in rows], [("4", "0"), ("32", "0")])
        # Each answer has exactly as many tokens as were asked for, also those of the warm-up.
        self.assertEqual(self.output_tokens() - before, (1 + 8) * (2 * 2 + 1) * 32)
        # More requests at the same time than a browser opens connections. Eight clients end their last requests one after the other.
        self.assertGreater(float(rows[1]["in flight"]), 6)
        self.assertAlmostEqual(float(rows[0]["in flight"]), 1, delta=0.15)
        self.assertTrue(all(float(row["tokens/s"].replace(",", "")) > 0 for row in rows))
        self.assertIn("Knee at", page.get_by_text("Knee at").inner_text())
        self.assertEqual(page.locator(".plot svg .knee").count(), 1)
        label = page.locator(".plot svg").first.get_attribute("aria-label")
        self.assertIn("Throughput of main", label)
        self.assertIn("table below", label)

    def test_batches_of_an_encoder_are_measured(self):
        page = self.benchmarks()
        page.get_by_label("Model", exact=True).select_option(label="minilm – embeddings")
        before = self.server.metric("tutti_encode_items_total")
        run_study(page, [1, 16, 64], Requests_of_each_client=2, Rounds=1, Words_of_an_input=6)
        rows = figures(page)
        self.assertEqual([row["Batch"].split()[0] for row in rows], ["1", "16", "64"])
        self.assertEqual([row["answers"] for row in rows], ["2", "2", "2"])
        self.assertEqual(self.server.metric("tutti_encode_items_total") - before, (1 + 16 + 64) * 3)
        rate = [float(row["inputs/s"].replace(",", "")) for row in rows]
        self.assertGreater(rate[2], rate[0], rate)
        # Clients of an encoder use connections of their own.
        page.get_by_label("Over", exact=True).select_option(label="clients")
        self.assertEqual(page.locator("fieldset.levels label").all_inner_texts(), ["1", "2", "4"])
        expect(page.get_by_text("6 connections")).to_be_visible()

    def test_runs_are_kept_compared_exported_and_deleted(self):
        page = self.benchmarks()
        for tokens in (16, 32):
            run_study(page, [1, 2], Requests_of_each_client=1, Rounds=1, Words_of_a_prompt=5, Tokens_of_each_answer=tokens)
            expect(page.get_by_role("region", name="Table: Kept runs").locator("tbody tr")).to_have_count(tokens // 16)
        page.reload()
        rows = page.get_by_role("region", name="Table: Kept runs").locator("tbody tr")
        expect(rows).to_have_count(2)
        rows.first.get_by_role("button", name="Rename").click()
        page.get_by_label("Name", exact=True).fill("=after, \"quoted\"")
        page.get_by_role("dialog").get_by_role("button", name="Rename").click()
        expect(rows.first).to_contain_text("=after, \"quoted\"")
        for box in rows.get_by_role("checkbox").all():
            box.check()
        expect(page.get_by_role("heading", name="Comparison of 2 runs")).to_be_visible()
        compared = figures(page)
        self.assertEqual([row["Run"] for row in compared], ["A", "B"] * 2)
        for first, second in (compared[:2], compared[2:]):
            found = float(second["ratio"].split()[0])
            wanted = float(second["tokens/s"].replace(",", "")) / float(first["tokens/s"].replace(",", ""))
            self.assertAlmostEqual(found / wanted, 1, delta=0.05)
        with page.expect_download() as exported:
            page.get_by_role("button", name="Export JSON").click()
        with open(exported.value.path()) as file:
            document = json.load(file)
        self.assertEqual([run["settings"]["outputTokens"] for run in document["runs"]], [32, 16])
        self.assertNotIn("client-0", json.dumps(document))
        with page.expect_download() as exported:
            page.get_by_role("button", name="Export CSV").click()
        with open(exported.value.path(), newline="") as file:
            lines = list(csv.DictReader(io.StringIO(file.read())))
        self.assertEqual([(line["level"], line["output_tokens"], line["failed"]) for line in lines],
                         [("1", "32", "0"), ("2", "32", "0"), ("1", "16", "0"), ("2", "16", "0")])
        self.assertEqual(lines[0]["run"], "'=after, \"quoted\"", "no formula")
        for line, run in zip(lines[::2], document["runs"]):
            self.assertAlmostEqual(float(line["throughput_median"]), run["points"][0]["throughput"]["median"])
        rows.first.get_by_role("button", name="Delete").click()
        page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        expect(rows).to_have_count(1)
        page.reload()
        expect(page.get_by_role("region", name="Table: Kept runs").locator("tbody tr")).to_have_count(1)

    def test_stop_cancels_what_runs(self):
        page = self.benchmarks()
        choose_levels(page, [8])
        settle(page, Requests_of_each_client=8, Rounds=3, Tokens_of_each_answer=1000)
        page.get_by_role("button", name="Run", exact=True).click()
        expect(page.get_by_role("region", name="Running")).to_be_visible()
        eventually(lambda: self.server.load()["running"] > 0)
        cancelled = self.server.metric("tutti_requests_cancelled_total")
        page.get_by_role("button", name="Stop").click()
        expect(page.get_by_text("The run ended before its first round")).to_be_visible()
        self.server.wait_idle()
        self.assertGreater(self.server.metric("tutti_requests_cancelled_total"), cancelled)
        # Leaving the view does too.
        page.get_by_role("button", name="Run", exact=True).click()
        eventually(lambda: self.server.load()["running"] > 0)
        page.get_by_role("link", name="Models").click()
        expect(page.get_by_role("heading", name="Models")).to_be_visible()
        self.server.wait_idle()
        page.get_by_role("link", name="Benchmarks").click()
        expect(page.get_by_text("None. A run is kept")).to_be_visible()

    def test_requests_of_others_are_warned_of(self):
        page = self.benchmarks()
        ends = threading.Event()

        def ask():
            while not ends.is_set():
                self.server.post("/v1/completions", {"model": "main", "prompt": "x", "max_tokens": 1000, "ignore_eos": True})
        other = threading.Thread(target=ask)
        other.start()
        try:
            expect(page.get_by_text("running or waiting now")).to_be_visible()
            expect(page.get_by_role("button", name="Run", exact=True)).to_be_disabled()
            check_rules(self, page, "a warning")
            page.get_by_label("I may load this server").check()
            run_study(page, [1], Requests_of_each_client=1, Rounds=1, Tokens_of_each_answer=16)
            expect(page.get_by_text(re.compile("requests? of others ran or waited during it"))).to_be_visible()
        finally:
            ends.set()
            other.join()

    def test_settings_have_bounds(self):
        page = self.benchmarks()
        for title, value, says in (("Rounds", 10, "Rounds: 1 to 9."), ("Tokens of each answer", 8, "16 to 1024"),
                                   ("Requests of each client", 200, "at most 2000"), ("Time limit (s)", 4000, "5 to 900")):
            field = page.get_by_label(title, exact=True)
            kept = field.input_value()
            field.fill(str(value))
            expect(page.get_by_role("alert")).to_contain_text(says)
            expect(page.get_by_role("button", name="Run", exact=True)).to_be_disabled()
            field.fill(kept)
        choose_levels(page, [])
        expect(page.get_by_role("alert")).to_contain_text("Choose a number of clients")

    def test_a_study_by_the_keyboard_alone(self):
        page = self.benchmarks()
        for level in ("2", "4", "8"):
            tab_to(self, page, "input", level)
            page.keyboard.press("Space")
        tab_to(self, page, "input", "Rounds")
        page.keyboard.type("1")
        tab_to(self, page, "input", "Tokens of each answer")
        page.keyboard.type("16")
        tab_to(self, page, "button", "Run")
        page.keyboard.press("Enter")
        expect(page.get_by_role("region", name="Figures of the runs")).to_be_visible()
        tab_to(self, page, "button", "Export CSV")
        name = page.get_by_role("region", name="Table: Kept runs").get_by_role("button").first.get_attribute("aria-label")
        tab_to(self, page, "button", name)
        page.keyboard.press("Enter")
        expect(page.get_by_label("Name", exact=True)).to_be_focused()
        page.keyboard.type("by keyboard")
        page.keyboard.press("Enter")
        # The old name was selected, so that the new one replaces it.
        expect(page.get_by_role("heading", name="by keyboard", exact=True)).to_be_visible()
        expect(page.get_by_role("rowheader", name="by keyboard")).to_be_visible()

    def test_figures_follow_their_rules(self):
        page = self.benchmarks()
        faults = page.evaluate("""async () => {
            const {defaultsFor, kneeOf, percentile, runStudy} = await import('/web/lib/bench.js');
            const faults = [];
            const same = (name, found, wanted) => {
              if (JSON.stringify(found) !== JSON.stringify(wanted)) faults.push([name, found, wanted]);
            };
            const point = (level, rate, failed = 0) => ({level, failed, throughput: rate === null ? null : {median: rate}});
            same('knee', kneeOf([point(1, 60), point(2, 97), point(4, 100), point(8, 99)])?.level, 2);
            same('knee above the rule', kneeOf([point(1, 60), point(2, 96.9), point(4, 100)])?.level, 4);
            same('no knee with failures', kneeOf([point(1, 60), point(2, 100, 1), point(4, null, 3)]), null);
            same('percentile', [percentile([4, 1, 3, 2], 0.5), percentile([], 0.5), percentile([1, 2], 0.95)], [2.5, null, 1.95]);
            // A fast failure is no fast answer.
            let asked = 0;
            const load = {
              open: async () => {}, close() {},
              ask: async () => {
                const beginMs = performance.now();
                if (++asked % 3 === 0) throw {code: 'queue_full'};
                await new Promise((resolve) => setTimeout(resolve, 40));
                return {beginMs, endMs: performance.now(), units: 4};
              },
            };
            const settings = {...defaultsFor('embed'), axis: 'clients', levels: [1], fixed: 4, perClient: 3, rounds: 2};
            const run = await runStudy(settings, load, {signal: new AbortController().signal});
            const [only] = run.points;
            same('failures', [only.failed, only.failures, only.requests, run.ended], [2, {queue_full: 2}, 4, 'complete']);
            if (only.total.p50 < 39 || only.throughput.median > 100) faults.push(only);
            const broken = {...load, ask: async () => { throw {code: 'gone'}; }};
            const lost = await runStudy({...settings, perClient: 50}, broken, {signal: new AbortController().signal});
            same('too many failures', [lost.ended, lost.points[0].throughput, lost.points[0].failed], ['failures', null, 10]);
            // A request for the load of others that waits, for a key perhaps, does not outlive the time limit.
            const waiting = (signal) => new Promise((resolve, reject) => signal?.addEventListener('abort', () => reject(signal.reason)));
            const late = await Promise.race([
              runStudy({...settings, limitS: 0.2}, load, {signal: new AbortController().signal, othersRunning: waiting}),
              new Promise((resolve) => setTimeout(() => resolve({ended: 'never'}), 5000))]);
            same('time limit', late.ended, 'time');
            return faults;
        }""")
        self.assertEqual(faults, [])

    def test_no_rule_is_broken_by_results(self):
        runs = []
        for i, name in enumerate(("first", "second " + 6 * "with a long name ")):
            points = [{"level": level, "clients": level, "batch": 1, "rounds": [], "throughput": {"median": 90 * level + i, "min": 80, "max": 800},
                       "ttft": {"p50": 20, "p95": 30}, "itl": {"p50": 5, "p95": 9}, "total": {"p50": 700, "p95": 900}, "requests": 8,
                       "failed": i, "failures": {"queue_full": 1} if i else {}, "inFlight": level, "promptTokens": 60} for level in (1, 2, 4, 8)]
            runs.append({"id": str(i), "name": name, "at": 1795900000000, "serverVersion": "0", "unit": "tokens/s", "ended": "time", "hidden": True,
                         "others": 2, "points": points, "settings": {"kind": "generate", "axis": "clients", "levels": [1, 2, 4, 8], "model": "main",
                                                                     "outputTokens": 64, "rounds": 3}})
        stored = json.dumps(json.dumps({"version": 2, "runs": runs}))
        profile = self.new_profile()
        profile.add_init_script(f"if (location.protocol === 'http:') localStorage.setItem('tutti.benchmarks', {stored})")
        page = self.open(self.server.url + "/#/benchmarks", profile)
        boxes = page.get_by_role("region", name="Table: Kept runs").get_by_role("checkbox")
        boxes.first.check()
        boxes.last.check()
        expect(page.get_by_role("heading", name="Comparison of 2 runs")).to_be_visible()
        check_rules_everywhere(self, page, "comparison")

    def test_runs_of_the_first_version_are_read(self):
        points = [{"level": 1, "clients": 1, "batch": 1, "rounds": [], "throughput": {"median": 90, "least": 80, "most": 95}, "total": {"p50": 7, "p95": 9},
                   "requests": 8, "failed": 0, "failures": {}, "inFlight": 1, "promptTokens": 6}]
        run = {"id": "1", "name": "old", "at": 1795900000000, "serverVersion": "0", "unit": "inputs/s", "ended": "complete", "points": points,
               "settings": {"kind": "embed", "axis": "clients", "levels": [1], "model": "main", "rounds": 3}}
        profile = self.new_profile()
        stored = json.dumps(json.dumps({"version": 1, "runs": [run]}))
        profile.add_init_script(f"if (location.protocol === 'http:') localStorage.setItem('tutti.benchmarks', {stored})")
        page = self.open(self.server.url + "/#/benchmarks", profile)
        page.get_by_label("Show old").check()
        self.assertEqual(figures(page)[0]["min – max"], "80.0 – 95.0")


class LimitedBenchmarks(BrowserCase):
    def test_refused_requests_are_failures_and_limits_are_shown(self):
        self.expected_faults = ("401", "403")
        with tempfile.TemporaryDirectory() as store:
            boss = make_key(store, "boss", "--routes", "generate,models,metrics,admin")
            secret = make_key(store, "limited", "--requests-per-minute", "6")
            server = Server("--store", store, *OPTIONS, model="main=" + stand_in())
            self.addCleanup(server.stop)
            page = self.open(server.url + "/#/benchmarks")
            sign_in(page, secret)
            expect(page.get_by_text("This server has keys")).to_be_visible()
            expect(page.get_by_role("button", name="Run", exact=True)).to_be_disabled()
            page.get_by_label("I may load this server").check()
            run_study(page, [1, 2], Requests_of_each_client=2, Rounds=1, Tokens_of_each_answer=16)
            # Three requests warm up; of the others three pass.
            expect(page.get_by_text("3 × rate_limit_exceeded")).to_be_visible()
            rows = figures(page)
            self.assertEqual(sum(int(row["answers"]) for row in rows), 3)
            self.assertEqual(sum(int(row["failed"]) for row in rows), 3)
            page.get_by_role("button", name="Sign out").click()
            sign_in(page, boss)
            page.get_by_role("link", name="Live").click()
            limits = page.get_by_role("region", name="Table: Limits in use")
            expect(limits).to_contain_text("requests a minute")
            expect(limits).to_contain_text("6 of 6")
            check_rules(self, page, "limits")


class Lists(BrowserCase):
    """Clients, sessions and workers in the live view: their numbers are those of /metrics."""

    def test_clients_and_sessions_are_listed(self):
        port = free_port()
        server = Server("--store", "memory", "--mqtt-port", str(port), "--max-num-seqs", "1", *OPTIONS, model="main=" + stand_in())
        self.addCleanup(server.stop)
        page = self.open(server.url + "/#/live")
        expect(page.get_by_text("No client is connected over MQTT")).to_be_visible()
        expect(page.get_by_text("No session has a turn")).to_be_visible()
        clients = []
        for name, protocol in (("kitchen", paho.MQTTv5), ("hall", paho.MQTTv311)):
            client = paho.Client(CallbackAPIVersion.VERSION2, client_id=name, protocol=protocol)
            client.username_pw_set("ann")
            client.on_connect = lambda each, *_: each.subscribe("llm/v1/ann/#", 1)
            client.connect("127.0.0.1", port)
            client.loop_start()
            self.addCleanup(client.loop_stop)
            clients.append(client)
        table = page.get_by_role("region", name="Table: Connected clients").locator("tbody tr")
        expect(table).to_have_count(2)
        self.assertEqual(server.metric("tutti_mqtt_clients"), 2)
        expect(table.filter(has_text="kitchen")).to_contain_text("MQTT 5")
        expect(table.filter(has_text="hall")).to_contain_text("MQTT 3.1.1")
        secret = "the text of a message"
        for number in range(12):
            clients[0].publish("llm/v1/ann/lamp/in", json.dumps(
                {"type": "message", "id": f"m{number}", "input": secret, "max_output_tokens": 7000, "ignore_eos": True}), 1)
        session = page.get_by_role("region", name="Table: Sessions being answered").locator("tbody tr")
        expect(session).to_have_count(1)
        expect(session).to_contain_text("lamp")
        expect(session).to_contain_text("running")
        expect(table.filter(has_text="kitchen").locator("td").last).to_have_text("1")
        state = server.get("/admin/state")[2]
        self.assertNotIn(secret, state)
        self.assertLessEqual({"session": "lamp", "user": "ann", "state": "running", "running": 1}.items(),
                             json.loads(state)["sessions"][0].items())
        session.locator("button").click()
        expect(page.get_by_text("in all, of which")).to_be_visible()
        check_rules(self, page, "clients and sessions")
        # A turn of a session can be ended from here.
        for _ in range(6):
            page.get_by_role("region", name="Sequences of main").get_by_role("button", name="Cancel resp_").first.click()
            dialog = page.get_by_role("dialog", name="Cancel the request?")
            turn = dialog.locator("p").inner_text().split()[0]
            dialog.get_by_role("button", name="End the request").click()
            toast = page.locator(".toast", has_text=turn)
            expect(toast).to_be_visible()
            cancelled = json.loads(server.get(f"/v1/responses/{turn}")[2])["status"] == "cancelled"
            expect(toast).to_contain_text("is cancelled" if cancelled else "had ended before")
            if cancelled:
                break
        self.assertTrue(cancelled)
        clients[0].publish("llm/v1/ann/lamp/ctl", json.dumps({"type": "clear", "id": "c"}), 1)
        expect(page.get_by_text("No session has a turn")).to_be_visible()
        for client in clients:
            client.disconnect()
        expect(page.get_by_text("No client is connected over MQTT")).to_be_visible()
        eventually(lambda: server.metric("tutti_mqtt_clients") == 0)

    def test_workers_of_a_frontend_are_listed(self):
        world = self.enterContext(World(workers=2, frontend=("--grpc-port", "0"), worker=("--max-num-seqs", "3", "--context", "2048"),
                                        model="main=" + stand_in()))
        page = self.open(world.frontend.url + "/#/live")
        table = page.get_by_role("region", name="Table: Workers").locator("tbody tr")
        expect(table).to_have_count(2)
        self.assertEqual(world.frontend.metric("tutti_workers"), 2)
        for row in table.all():
            expect(row).to_contain_text("main")
            expect(row).to_contain_text("0 of 3")
            expect(row).to_contain_text("serving")
        check_rules(self, page, "workers")
        world.workers[0].stop()
        expect(table).to_have_count(1)
        self.assertEqual(world.frontend.metric("tutti_workers"), 1)


if __name__ == "__main__":
    unittest.main()
