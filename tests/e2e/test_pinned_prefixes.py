"""Rows N03 and R27 through the server: pinned prefixes survive pressure and a restart and belong to their tenant, and the cache explains
why a prompt was found or not."""
import json
import pathlib
import random
import tempfile
import unittest

from harness import MODEL, STAND_IN, Server, eventually, make_key
from test_memory_kinds import WORDS


# Some 5,000 tokens, of which the tests fill all.
SMALL_CACHE = "4MiB" if STAND_IN else "64MiB"


def text(seed, words):
    rng = random.Random(seed)
    return " ".join(rng.choices(WORDS, k=words))


class Prefixes(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tutti-pins-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.running = []
        self.addCleanup(lambda: [server.stop() for server in self.running])

    def serve(self, *options):
        server = Server("--store", str(self.folder / "store"), "--context", "1024", *options)
        self.running.append(server)
        return server

    def stop(self, server):
        self.running.remove(server)
        self.assertEqual(server.stop(), 0)

    @staticmethod
    def call(server, method, path, body=None, key=None, headers=None):
        head = {**({"Authorization": f"Bearer {key}"} if key else {}), **(headers or {})}
        status, _, answer = server.request(method, path, body, headers=head)
        return status, json.loads(answer)

    def pin(self, server, system, ttl_s=600, key=None, **fields):
        status, answer = self.call(server, "POST", "/v1/prefixes", {
            "model": MODEL, "messages": [{"role": "system", "content": system}], "ttl_s": ttl_s, **fields}, key)
        self.assertEqual(status, 200, answer)
        return answer

    def ask(self, server, system, question, key=None, headers=None, path="/v1/chat/completions", **fields):
        status, answer = self.call(server, "POST", path, {
            "model": MODEL, "messages": [{"role": "system", "content": system}, {"role": "user", "content": question}],
            "max_tokens": 4, "temperature": 0, **fields}, key, headers)
        self.assertEqual(status, 200, answer)
        return answer

    def cached(self, *args, **kwargs):
        return self.ask(*args, **kwargs)["usage"]["prompt_tokens_details"]["cached_tokens"]

    def press(self, server):
        """Prompts of other beginnings, until all that could be evicted was."""
        before = server.metric("tutti_kv_evicted_blocks_total")
        for seed in range(1000):
            self.ask(server, text(1000 + seed, 300), "Why?")
            if server.metric("tutti_kv_evicted_blocks_total") - before > 2 * server.metric("tutti_kv_blocks"):
                return
        self.fail("nothing is evicted")

    def test_a_pin_survives_pressure_and_a_restart(self):
        options = ("--prefix-disk-bytes", "64MiB", "--kv-cache-bytes", SMALL_CACHE)
        server = self.serve(*options)
        system = text(1, 150)
        pin = self.pin(server, system)
        self.assertTrue(pin["id"].startswith("prefix_"), pin)
        self.assertEqual(pin["object"], "prefix")
        self.assertGreater(pin["pinned_tokens"], 64)
        self.assertEqual(pin["pinned_tokens"] % 32, 0)
        self.assertEqual(pin["expires_at"], pin["created"] + 600)
        self.assertEqual(pin["usage"]["completion_tokens"], 0)
        eventually(lambda: server.metric("tutti_kv_pinned_blocks") == pin["pinned_tokens"] / 32)
        self.press(server)
        self.assertGreaterEqual(self.cached(server, system, "What now?"), pin["pinned_tokens"])
        listed = self.call(server, "GET", "/v1/prefixes")[1]["data"]
        self.assertEqual([(each["id"], each["pinned_tokens"]) for each in listed], [(pin["id"], pin["pinned_tokens"])])
        self.stop(server)
        server = self.serve(*options)
        eventually(lambda: self.call(server, "GET", "/v1/prefixes")[1]["data"] == listed, lambda: "it is pinned again")
        self.press(server)
        self.assertGreaterEqual(self.cached(server, system, "And then?"), pin["pinned_tokens"])
        self.assertEqual(self.call(server, "DELETE", f"/v1/prefixes/{pin['id']}"),
                         (200, {"id": pin["id"], "object": "prefix", "deleted": True}))
        self.assertEqual(self.call(server, "DELETE", f"/v1/prefixes/{pin['id']}")[0], 404)
        server.wait_idle()
        self.assertEqual(server.metric("tutti_kv_pinned_blocks"), 0)
        self.stop(server)
        server = self.serve(*options)
        self.assertEqual(self.call(server, "GET", "/v1/prefixes")[1]["data"], [])

    def test_a_pin_ends_with_its_time(self):
        server = self.serve()
        self.pin(server, text(2, 150), ttl_s=1)
        eventually(lambda: self.call(server, "GET", "/v1/prefixes")[1]["data"] == [], lambda: "it has ended")
        server.wait_idle()

    def test_pins_belong_to_their_tenant(self):
        keys = [make_key(str(self.folder / "store"), name, "--tenant", name) for name in ("alpha", "beta")]
        server = self.serve()
        pin = self.pin(server, text(3, 150), key=keys[0])
        self.assertEqual(self.call(server, "GET", "/v1/prefixes", key=keys[1])[1]["data"], [])
        self.assertEqual(self.call(server, "DELETE", f"/v1/prefixes/{pin['id']}", key=keys[1])[0], 404)
        self.assertEqual(self.call(server, "GET", "/v1/prefixes")[0], 401)
        self.assertEqual(self.call(server, "DELETE", f"/v1/prefixes/{pin['id']}", key=keys[0])[0], 200)

    def test_pins_have_a_share_of_the_cache(self):
        server = self.serve("--kv-cache-bytes", SMALL_CACHE)
        for seed in range(100):
            status, answer = self.call(server, "POST", "/v1/prefixes", {"model": MODEL, "prompt": text(seed, 400)})
            if status != 200:
                break
        self.assertEqual((status, answer["error"]["code"]), (429, "pin_limit"), answer)
        self.press(server)

    def test_what_is_no_prefix_is_refused(self):
        server = self.serve()
        for body, param in (({"prompt": text(1, 100), "ttl_s": 0}, "ttl_s"), ({"prompt": text(1, 100), "ttl_s": "1h"}, "ttl_s"),
                            ({"prompt": text(1, 100), "ttl_s": 1e9}, "ttl_s"), ({"prompt": "short"}, "prompt"),
                            ({"prompt": text(1, 100), "stream": True}, "stream"), ({"prompt": text(1, 100), "n": 2}, "n"),
                            ({"prompt": [text(1, 100), text(2, 100)]}, "prompt"), ({}, "prompt")):
            with self.subTest(body=str(body)[:60]):
                status, answer = self.call(server, "POST", "/v1/prefixes", {"model": MODEL, **body})
                self.assertEqual((status, answer["error"]["param"]), (400, param), answer)

    # --- the cache explains itself ---

    def explained(self, *args, **kwargs):
        details = self.ask(*args, explain_cache=True, **kwargs)["usage"]["prompt_tokens_details"]
        report = details["cache"]
        self.assertEqual(report["memory_tokens"] + report["disk_tokens"], details["cached_tokens"])
        return report

    def test_each_cause_of_a_miss_is_named(self):
        options = ("--prefix-disk-bytes", "64MiB", "--kv-cache-bytes", SMALL_CACHE)
        server = self.serve(*options)
        system = text(5, 150)
        first = self.explained(server, system, "What?")
        self.assertEqual((first["reason"], first["first_difference"]), ("never_seen", None))
        again = self.explained(server, system, "What?")
        self.assertEqual((again["reason"], again["first_difference"], again["disk_tokens"]), (None, None, 0))
        self.assertEqual(self.explained(server, system, "What?", cache_salt="other")["reason"], "different_salt")
        self.assertEqual(self.explained(server, system, "What?", cache="bypass")["reason"], "off")
        other = self.explained(server, system, "Unlike it, who?")
        self.assertEqual(other["reason"], "never_seen")
        self.assertGreater(other["first_difference"]["token"], 100)
        self.assertTrue(other["first_difference"]["text"].lstrip().startswith("Unlike"), other)
        self.stop(server)
        server = self.serve(*options)
        read = self.explained(server, system, "What?")
        self.assertGreater(read["disk_tokens"], 64)
        self.stop(server)
        for path in (self.folder / "store" / "prefixes").glob("*.prefix"):
            data = bytearray(path.read_bytes())
            data[-1] ^= 1
            path.write_bytes(data)
        server = self.serve(*options)
        self.assertEqual(self.explained(server, system, "What?")["reason"], "on_disk_failed")

    def test_evicted_is_named(self):
        server = self.serve("--kv-cache-bytes", SMALL_CACHE)
        system = text(6, 150)
        self.ask(server, system, "What?")
        self.press(server)
        self.assertEqual(self.explained(server, system, "What?")["reason"], "evicted")

    def test_another_tenants_prompt_is_never_seen(self):
        keys = [make_key(str(self.folder / "store"), name, "--tenant", name) for name in ("alpha", "beta")]
        server = self.serve()
        system = text(7, 150)
        self.ask(server, system, "What?", key=keys[0])
        report = self.explained(server, system, "What?", key=keys[1])
        self.assertEqual((report["reason"], report["first_difference"]), ("never_seen", None))

    def test_every_dialect_and_the_header_ask_for_it(self):
        server = self.serve()
        system = text(8, 100)
        self.assertNotIn("cache", self.ask(server, system, "What?")["usage"]["prompt_tokens_details"])
        header = {"x-tutti-explain-cache": "1"}
        details = self.ask(server, system, "What?", headers=header)["usage"]["prompt_tokens_details"]
        self.assertIsNone(details["cache"]["reason"])
        message = self.call(server, "POST", "/v1/messages", {
            "model": MODEL, "max_tokens": 4, "system": system, "messages": [{"role": "user", "content": "What?"}],
            "explain_cache": True})[1]
        self.assertIn("reason", message["usage"]["cache"])
        response = self.call(server, "POST", "/v1/responses", {
            "model": MODEL, "max_output_tokens": 16, "instructions": system, "input": "What?", "explain_cache": True})[1]
        self.assertIn("reason", response["usage"]["input_tokens_details"]["cache"])
        _, _, stream = server.post("/v1/chat/completions", {
            "model": MODEL, "messages": [{"role": "user", "content": system}], "max_tokens": 4, "stream": True,
            "stream_options": {"include_usage": True}, "explain_cache": True})
        self.assertIn('"cache":{"memory_tokens":', stream)

    def test_a_volatile_header_shows_itself(self):
        """Claude Code begins its system prompt with a line that changes with each request."""
        server = self.serve()
        rest = text(9, 200)
        self.ask(server, f"x-anthropic-billing-header: cc_version=2.1.100; cc_entrypoint=cli; cch=eb6c6;\n{rest}", "What?")
        report = self.explained(server, f"x-anthropic-billing-header: cc_version=2.1.100; cc_entrypoint=cli; cch=0aaa9;\n{rest}", "What?")
        self.assertLess(report["first_difference"]["token"], 64)
        self.assertIn("0aaa9"[:1], report["first_difference"]["text"])


if __name__ == "__main__":
    unittest.main()
