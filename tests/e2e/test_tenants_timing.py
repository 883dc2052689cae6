"""Row N43 over time: what another tenant has asked does not show in how long an answer takes. One tenant asks a prompt, then the other
asks the same and a fresh one, in random order; a two-sample Kolmogorov-Smirnov test compares the times (p-value
by Stephens' approximation, as in Numerical Recipes, section 14.3.3). That the times could show it is shown by the tenant's own prompts."""
import http.client
import json
import math
import random
import tempfile
import time
import unittest

from harness import MODEL, STEP_S, ServerCase, amount, figure, make_key

PAIRS = amount(20, 30, 1000)
# The row's limit where the row's number runs; a hundred pairs on a machine that does other things are not to fail one run in a hundred.
LEAST_P = amount(1e-6, 1e-4, 0.01)
WORDS = "amber birch copper delta ember fjord granite harbour indigo juniper kelp lantern marble nickel ochre pebble".split()


def kolmogorov_smirnov(a, b):
    """(largest distance of the two distributions, p-value)."""
    a, b = sorted(a), sorted(b)
    i = j = 0
    distance = 0.0
    while i < len(a) and j < len(b):
        value = min(a[i], b[j])
        while i < len(a) and a[i] == value:
            i += 1
        while j < len(b) and b[j] == value:
            j += 1
        distance = max(distance, abs(i / len(a) - j / len(b)))
    root = math.sqrt(len(a) * len(b) / (len(a) + len(b)))
    argument = (root + 0.12 + 0.11 / root) * distance
    if argument < 0.2:
        return distance, 1.0
    p = 2 * sum((-1) ** (k - 1) * math.exp(-2 * (k * argument) ** 2) for k in range(1, 101))
    return distance, min(max(p, 0.0), 1.0)


class TenantsTiming(ServerCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="tutti-timing-")
        cls.keys = {tenant: make_key(cls.folder.name, tenant, "--tenant", tenant) for tenant in ("red", "blue")}
        cls.OPTIONS = ("--cache-exact", "on", "--store", cls.folder.name, "--http-access-log", "off")
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.folder.cleanup()

    def setUp(self):
        self.random = random.Random(43)
        self.connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=STEP_S)
        self.addCleanup(self.connection.close)

    def prompt(self):
        """Some 120 tokens, from the first on unlike any other: two blocks and more that a prefix cache could have."""
        return " ".join(str(self.random.randrange(10**6)) + " " + self.random.choice(WORDS) for _ in range(16))

    def ask(self, tenant, prompt):
        """(seconds to the one token, x-cache, prompt tokens found in the prefix cache)."""
        body = json.dumps({"model": MODEL, "prompt": prompt, "max_tokens": 1, "temperature": 0})
        begin = time.perf_counter()
        self.connection.request("POST", "/v1/completions", body,
                                {"Content-Type": "application/json", "Authorization": f"Bearer {self.keys[tenant]}"})
        response = self.connection.getresponse()
        answer = json.loads(response.read())
        took = time.perf_counter() - begin
        self.assertEqual(response.status, 200, answer)
        return took, response.headers["x-cache"], answer["usage"]["prompt_tokens_details"]["cached_tokens"]

    def test_what_another_tenant_asked_does_not_show_in_the_times(self):
        times = {"asked by the other": [], "fresh": []}
        for _ in range(PAIRS):
            shared = self.prompt()
            self.ask("red", shared)
            for kind in self.random.sample(sorted(times), 2):
                took, outcome, cached = self.ask("blue", shared if kind != "fresh" else self.prompt())
                self.assertEqual(outcome, "miss", kind)
                self.assertLess(cached, 8, f"{kind}: a few digits that begin an earlier prompt of its own, no more")
                times[kind].append(took)
        distance, p = kolmogorov_smirnov(*times.values())
        figure(f"{PAIRS} pairs: distance {distance:.3f}, p {p:.3f}")
        self.assertGreater(p, LEAST_P, f"distance {distance}")

    def test_a_tenants_own_prompts_do_show(self):
        # Enough pairs that distributions which overlap by half still count as different: other work on the machine blurs single times.
        fresh, again = [], []
        for _ in range(80):
            prompt = self.prompt()
            took, outcome, _ = self.ask("red", prompt)
            self.assertEqual(outcome, "miss")
            fresh.append(took)
            took, outcome, _ = self.ask("red", prompt)
            self.assertEqual(outcome, "hit")
            again.append(took)
        distance, p = kolmogorov_smirnov(fresh, again)
        self.assertLess(p, 1e-6, f"the comparison sees what there is, with a distance of {distance:.2f}")

    def test_the_comparison_counts_as_by_hand(self):
        self.assertAlmostEqual(kolmogorov_smirnov([1, 2, 3, 4], [5, 6, 7, 8])[0], 1.0)
        self.assertAlmostEqual(kolmogorov_smirnov([1, 2, 3, 4], [1, 2, 3, 4])[0], 0.0)
        self.assertAlmostEqual(kolmogorov_smirnov([1, 3, 5, 7], [2, 4, 6, 8])[0], 0.25)


if __name__ == "__main__":
    unittest.main()
