"""Reports of `tutti bench` (N58): JSON with a published schema, pages, and comparison with a stored report."""
import copy
import html.parser
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest
import xml.dom.minidom

import jsonschema

from encoder_models import EMBEDDER
from harness import STEP_S, Server, default_model

SCHEMA = json.loads((pathlib.Path(__file__).resolve().parents[2] / "docs" / "bench-report.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def bench(*arguments):
    return subprocess.run([os.environ["E2E_BINARY"], "bench", *arguments], capture_output=True, stdin=subprocess.DEVNULL, timeout=5 * STEP_S,
                          text=True)


class Page(html.parser.HTMLParser):
    """Collects the tags of a page, and every reference to something outside of it."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.references = [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.references += [value for name, value in attributes
                            if name in ("src", "href", "xlink:href", "srcset", "action", "data", "poster") or "url(" in (value or "")]


class Reports(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def path(self, name):
        return str(self.folder / name)

    def store(self, name, report):
        (self.folder / name).write_text(json.dumps(report))
        return self.path(name)

    def measured(self, *arguments):
        """The validated report of a bench."""
        done = bench(*arguments, "--json", self.path("measured.json"))
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads((self.folder / "measured.json").read_text())
        VALIDATOR.validate(report)
        return report

    @staticmethod
    def engine(*more):
        return ("engine", default_model(), "--prompt", "8", "--gen", "4", "--batch", "1,2", "--repeat", "1", *more)

    @staticmethod
    def kernels(*more):
        return ("kernels", "--quick", "--formats", "Q8_0", *more)

    def test_reports_satisfy_the_published_schema(self):
        jsonschema.Draft202012Validator.check_schema(SCHEMA)
        self.assertEqual(len(self.measured(*self.engine())["figures"]), 4)
        kernels = self.measured("kernels", "--quick")
        self.assertEqual(len(kernels["figures"]), len(kernels["gemm"]) + len(kernels["attention"]))
        self.assertEqual(len(self.measured("encode", EMBEDDER, "--requests", "5", "--warmup", "0", "--concurrency", "1,2")["figures"]), 4)
        (self.folder / "grid.toml").write_text(f"model = '{EMBEDDER}'\nbatch = [1]\nconcurrency = [1, 2]\nrequests = 5\nwarmup = 0\n")
        self.assertEqual(len(self.measured("grid", self.path("grid.toml"), "--out", self.path("grid"))["figures"]), 4)
        server = Server("--grpc-port", "0")
        self.addCleanup(server.stop)
        for load in (("--concurrency", "1,2"), ("--rate", "50")):
            report = self.measured("serve", "--url", server.url, "--requests", "6", "--prompt-tokens", "4", "--max-tokens", "3", *load)
            self.assertEqual({len(figure["samples"]) for figure in report["figures"]}, {5})

    def test_the_schema_refuses_reports_that_lack_what_it_names(self):
        report = self.measured(*self.kernels())
        for path in (("figures",), ("version",), ("machine", "cpu"), ("gemm", 0, "gops"), ("figures", 0, "samples"), ("norm", 0, "us")):
            for change in ("missing", "of another type"):
                broken = copy.deepcopy(report)
                place = broken
                for key in path[:-1]:
                    place = place[key]
                if change == "missing":
                    del place[path[-1]]
                else:
                    place[path[-1]] = {}
                self.assertFalse(VALIDATOR.is_valid(broken), (path, change))

    def test_pages_show_every_sample_and_refer_to_nothing(self):
        done = bench(*self.engine("--html", self.path("a.html"), "--svg", self.path("a.svg"), "--markdown", self.path("a.md"), "--json",
                                  self.path("a.json")))
        self.assertEqual(done.returncode, 0, done.stderr)
        figures = json.loads((self.folder / "a.json").read_text())["figures"]
        samples = sum(len(figure["samples"]) for figure in figures)
        page = (self.folder / "a.html").read_text()
        seen = Page(page)
        self.assertEqual(seen.references, [])
        self.assertNotIn("script", seen.tags)
        self.assertNotIn("@import", page)
        self.assertEqual(re.findall(r"https?://[^\"<&]*", page.split("<details>")[0]), ["http://www.w3.org/2000/svg"] * seen.tags.count("svg"))
        for text in (page, (self.folder / "a.svg").read_text()):
            self.assertEqual(text.count('class="point"'), len(figures))
            self.assertEqual(text.count('class="sample"'), samples)
            self.assertEqual(text.count('class="spread"'), len(figures))
        self.assertEqual(seen.tags.count("svg"), len({figure["metric"] for figure in figures}))
        xml.dom.minidom.parse(self.path("a.svg"))
        markdown = (self.folder / "a.md").read_text()
        for figure in figures:
            self.assertIn(f"{figure['metric']}, {figure['series']}, {figure['axis']} {figure['at']:g} |", markdown)

    def test_a_stored_report_is_rendered_with_its_baseline(self):
        report = self.measured("kernels", "--quick")
        stored = self.store("now.json", report)
        done = bench("render", stored, "--baseline", stored, "--html", self.path("k.html"), "--markdown", "-")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.startswith("# tutti bench kernels\n"))
        page = (self.folder / "k.html").read_text()
        self.assertIn("matrix product: attained rate and the machine's limits", page)
        # Each figure is in the roofline, in the plot of its metric, and there a second time for the baseline.
        self.assertEqual(page.count('class="point"'), 3 * len(report["figures"]))
        self.assertIn("baseline: ", page)
        done = bench("render", self.path("grid.toml"))
        self.assertEqual(done.returncode, 78)
        self.assertIn("grid.toml", done.stderr)

    def test_a_tenth_slower_fails_and_no_change_passes(self):
        before = self.measured(*self.kernels())
        before["machine"]["others_cpu"] = 0.0
        for figure in before["figures"]:
            figure["samples"] = [100 + sample for sample in range(5)]
        after = copy.deepcopy(before)
        first, second = self.store("before.json", before), self.path("after.json")
        for factor, status in ((1, 0), (0.98, 0), (1.2, 0), (0.9, 1)):
            for figure in after["figures"]:
                figure["samples"] = [factor * (100 + sample) for sample in range(5)]
            self.store("after.json", after)
            done = bench("compare", first, second, "--json", self.path("c.json"))
            self.assertEqual(done.returncode, status, (factor, done.stdout, done.stderr))
            self.assertEqual(done.stderr.count("FAILED: slower: "), len(before["figures"]) * status)
            comparison = json.loads((self.folder / "c.json").read_text())
            VALIDATOR.validate(comparison)
            self.assertEqual(comparison["slower"], len(before["figures"]) * status)
        after["machine"]["cpu"] = "another"
        done = bench("compare", first, self.store("after.json", after))
        self.assertEqual(done.returncode, 78)
        self.assertIn("--any-machine", done.stderr)

    def test_a_slower_figure_is_measured_again_before_it_fails(self):
        before = self.measured(*self.kernels())
        for factor, times, status in ((1000, 3, 1), (0.001, 1, 0)):  # more than other tests on the same cores can do
            baseline = copy.deepcopy(before)
            for figure in baseline["figures"]:
                figure["samples"] = [factor * sample for sample in figure["samples"]]
            done = bench(*self.kernels("--compare", self.store("baseline.json", baseline), "--allow-busy", "--json", self.path("now.json")))
            self.assertEqual(done.returncode, status, (done.stdout, done.stderr))
            self.assertEqual(done.stdout.count("measured again"), times - 1)
            report = json.loads((self.folder / "now.json").read_text())
            VALIDATOR.validate(report)
            self.assertEqual(report["comparison"]["measurements"], times)
            self.assertEqual(report["passed"], status == 0)
            self.assertEqual(len(report["failures"]), len(before["figures"]) * status)

    def test_files_that_cannot_be_compared_are_named(self):
        missing = bench(*self.kernels("--compare", self.path("none.json")))
        self.assertEqual(missing.returncode, 78)
        self.assertIn("none.json", missing.stderr)
        self.assertEqual(missing.stdout, "")  # before anything is measured
        taken = bench(*self.kernels("--compare", self.store("b.json", {"schema": "tutti.bench.kernels.v1"}), "--html", self.path("b.json")))
        self.assertIn("--html: the report would take the place of", taken.stderr)
        self.assertEqual(taken.returncode, 78)
