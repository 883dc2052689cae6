"""The page's live view left open under load (R31, N61): the memory of the page, and what the engine loses by it.

`make test` has a sample of some seconds; `make soak` has 60 minutes, or E2E_PAGE_S seconds, on the real model. The engine has one core and
the browser the other ones, as a browser runs on another machine than its server.
"""
import os
import pathlib
import statistics
import sys
import time
import unittest

from playwright.sync_api import expect

from browser import BrowserCase
from harness import AMOUNT, Server, amount, default_model, figure, stand_in

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import live_bench  # noqa: E402  (the load, and the rate of the engine)

FULL = AMOUNT == "full"
OPEN_S = float(os.environ.get("E2E_PAGE_S", amount(4, 5, 3600)))
INTERVAL_S = 10
MAX_GROWTH_MB = 50
MAX_MORE_NODES = amount(1500, 1500, 400)  # the charts fill while the page is open for a short time
MIN_RATIO = 0.99


def threads_of(pid):
    return [int(task.name) for task in pathlib.Path(f"/proc/{pid}/task").iterdir()]


def pin(pid, cores):
    for task in threads_of(pid):
        os.sched_setaffinity(task, cores)


def renderers():
    """Resident bytes of the processes of this browser that show pages, in all."""
    parents, kinds = {}, {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
            kinds[int(folder.name)] = "--type=renderer" in (folder / "cmdline").read_text()
        except OSError:
            continue  # it has ended
    total = 0
    for pid, renders in kinds.items():
        above = pid
        while above in parents and above != os.getpid():
            above = parents[above]
        if renders and above == os.getpid():
            try:
                total += int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            except OSError:
                continue
    return total


class LeftOpen(BrowserCase):
    @classmethod
    def setUpClass(cls):
        cls.cores = sorted(os.sched_getaffinity(0))
        cls.apart = FULL and len(cls.cores) > 1
        if cls.apart:  # the browser inherits this
            os.sched_setaffinity(0, cls.cores[1:])
            cls.addClassCleanup(os.sched_setaffinity, 0, cls.cores)
        super().setUpClass()
        # More streams than places, so that the engine always has work.
        cls.server = Server("--store", "memory", "--grpc-port", "0", "--max-num-seqs", "4", "--threads", "1", "--context", "2048",
                            model="main=" + (default_model() if FULL else stand_in()))
        cls.addClassCleanup(lambda: cls.server.stop())
        if cls.apart:
            pin(cls.server.process.pid, cls.cores[:1])

    def heap(self, page):
        """Bytes that scripts of the page still use after a collection, and its nodes, also those that are in no document."""
        session = page.context.new_cdp_session(page)
        session.send("HeapProfiler.collectGarbage")
        used = session.send("Runtime.getHeapUsage")["usedSize"]
        nodes = session.send("Memory.getDOMCounters")["nodes"]
        session.detach()
        return used, nodes

    def rates(self, page, pairs):
        """Ratios of tokens/s with the page watching to those without, of neighbouring intervals."""
        ratios = []
        for i in range(pairs):
            rate = {}
            # Each order equally often: the machine may become slower or faster all the time.
            for watching in ((False, True) if i % 2 == 0 else (True, False)):
                self.set_watching(page, watching)
                time.sleep(1)
                rate[watching] = live_bench.rate(self.server.port, INTERVAL_S)
            ratios.append(rate[True] / rate[False])
            figure(f"{rate[False]:.1f} tokens/s without, {rate[True]:.1f} with the page, ratio {ratios[-1]:.4f}")
        self.set_watching(page, True)
        return ratios

    def set_watching(self, page, watching):
        button = page.get_by_role("button", name="Continue" if watching else "Pause", exact=True)
        if button.count() > 0:
            button.click()
        expect(page.get_by_role("button", name="Pause" if watching else "Continue", exact=True)).to_be_visible()

    def test_rows_that_have_ended_are_freed(self):
        """htm kept the first use of each static template, and with it every row that came later: 130 MB in an hour."""
        page = self.open(self.server.url + "/#/models")
        expect(page.get_by_role("heading", name="Models")).to_be_visible()
        page.evaluate("""async () => {
            const {html, render} = await import('/web/lib/preact.js');
            const {Table} = await import('/web/components/table.js');
            const Cell = ({i}) => html`<span class="badge">${i}<b>static</b></span>`;
            const root = document.createElement('div');
            for (let first = 0; first < 300; ++first) {
              const rows = Array.from({length: 8}, (_, k) => ({key: `${first + k}`, cells: [`${first + k}`, html`<${Cell} i=${first + k} />`],
                                                               actions: html`<button type="button">Cancel</button>`}));
              render(html`<${Table} label="x" columns=${[{title: 'a'}, {title: 'b'}]} rows=${rows} />`, root);
            }
            document.querySelector('main, #app').append(root);
        }""")
        self.assertLess(self.heap(page)[1], 1000)

    def test_its_memory_and_the_engine_stay(self):
        texts = {}
        load = live_bench.Load(self.server.port, 8, texts)
        try:
            page = self.open(self.server.url + "/#/live")
            expect(page.get_by_role("region", name="Sequences of main").get_by_text("writes").first).to_be_visible()
            # Charts hold 240 points and 256 steps, which have come after two minutes.
            time.sleep(min(OPEN_S / 3, 150))
            heaps, resident, nodes = [], [renderers()], []

            def look():
                used, kept = self.heap(page)
                heaps.append(used)
                nodes.append(kept)
            look()
            begun = time.monotonic()
            while (left := OPEN_S - (time.monotonic() - begun)) > 0:
                page.wait_for_timeout(min(60, OPEN_S / 3, left) * 1000)
                look()
                resident.append(renderers())
            expect(page.get_by_role("button", name="Pause", exact=True)).to_be_visible()
            self.assertEqual(page.get_by_text("connection lost").count(), 0)
            growth = (max(heaps[1:]) - heaps[0]) / 1e6
            grown = (statistics.median(resident[-3:]) - resident[0]) / 1e6
            figure(f"open for {OPEN_S:.0f} s: heap {heaps[0] / 1e6:.1f} MB, at most {growth:+.1f} MB later; processes {resident[0] / 1e6:.0f} MB, "
                   f"{grown:+.1f} MB at the end")
            figure(f"nodes: {nodes[0]}, at most {max(nodes[1:])} later")
            self.assertLess(max(nodes[1:]) - nodes[0], MAX_MORE_NODES)
            self.assertLess(growth, MAX_GROWTH_MB)
            self.assertLess(grown, MAX_GROWTH_MB)
            if FULL:
                ratios = self.rates(page, max(3, min(20, int(OPEN_S / (6 * INTERVAL_S)))))
                ratio = statistics.median(ratios)
                figure(f"engine with the page open: {ratio:.4f} x of without, median of {len(ratios)} pairs, {min(ratios):.4f} to {max(ratios):.4f}")
                if self.apart:
                    self.assertGreaterEqual(ratio, MIN_RATIO)
        finally:
            load.stop()
        self.assertEqual(load.failures, [])
        self.assertEqual([prompt for prompt, found in texts.items() if len(found) > 1], [], "the page changes no text")


if __name__ == "__main__":
    unittest.main()
