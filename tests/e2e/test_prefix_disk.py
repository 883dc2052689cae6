"""Row R25 through the server: prefixes on the disk survive a restart with the same answers, within a cap, apart for tenants, and no
damaged or foreign file is used."""
import contextlib
import http.client
import json
import os
import pathlib
import random
import shutil
import signal
import tempfile
import time
import unittest

import random_models
from harness import MODEL, STAND_IN, Server, amount, default_model, eventually, figure, judged, make_key, stopped_at_call
from test_memory_kinds import KINDS, WORDS

PROMPT_WORDS = amount(300, 700, 6000)  # of the long prompt, some 6,000 tokens in full


def text(seed, words):
    rng = random.Random(seed)
    return " ".join(rng.choices(WORDS, k=words))


class PrefixDisk(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tutti-prefix-disk-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.running = []
        self.addCleanup(lambda: [server.stop() for server in self.running])

    def serve(self, *options, model=None, disk="256MiB"):
        server = Server("--store", str(self.folder / "store"), "--prefix-disk-bytes", disk, *options, model=model)
        self.running.append(server)
        return server

    def stop(self, server):
        self.running.remove(server)
        self.assertEqual(server.stop(), 0)

    def ask(self, server, prompt, tokens=16, headers=None, **fields):
        """(text, cached tokens, prompt tokens, seconds to the first token)"""
        body = {"model": MODEL, "messages": [{"role": "user", "content": prompt}], "max_tokens": tokens, "temperature": 0,
                "ignore_eos": True, **fields}
        begin = time.monotonic()
        status, _, answer = server.post("/v1/chat/completions", json.dumps(body), headers=headers)
        took = time.monotonic() - begin
        self.assertEqual(status, 200, answer)
        answer = json.loads(answer)
        usage = answer["usage"]
        return (answer["choices"][0]["message"]["content"], usage["prompt_tokens_details"]["cached_tokens"], usage["prompt_tokens"],
                took)

    def files(self):
        return sorted((self.folder / "store" / "prefixes").glob("*.prefix"))

    def bytes_on_disk(self):
        total = 0
        for path in self.files():
            with contextlib.suppress(FileNotFoundError):  # the server may evict it meanwhile
                total += path.stat().st_size
        return total

    def stored(self, server, least=1):
        """Waits until all that was computed is on the disk."""
        eventually(lambda: server.metric("tutti_prefix_disk_blocks_total", operation="write") >= least,
                   lambda: "blocks are written")
        before = -1
        while before != (before := server.metric("tutti_prefix_disk_blocks_total", operation="write")):
            time.sleep(0.3)

    def test_a_long_prompt_is_read_after_a_restart(self):
        prompt = text(1, PROMPT_WORDS)
        server = self.serve("--context", "8192")
        computed = self.ask(server, prompt, tokens=1)
        self.assertEqual(computed[1], 0)
        said = self.ask(server, prompt)
        self.stop(server)
        self.assertTrue(self.files(), "what waits is written before the end")
        server = self.serve("--context", "8192")
        read = self.ask(server, prompt, tokens=1)
        self.assertEqual(read[0], computed[0])
        self.assertGreater(read[1], read[2] - 64, "all but the last block and the last token")
        self.assertEqual(self.ask(server, prompt)[0], said[0])
        self.assertGreater(server.metric("tutti_prefix_disk_blocks_total", operation="read"), 0)
        self.assertEqual(server.metric("tutti_prefix_disk_failures_total"), 0)
        figure(f"{computed[2]} tokens: computed in {computed[3]:.3f} s, after a restart in {read[3]:.3f} s, "
               f"ratio {read[3] / computed[3]:.3f}")

    def test_a_kill_loses_no_finished_file(self):
        prompt = text(2, 200)
        server = self.serve()
        said = self.ask(server, prompt)
        self.stored(server)
        server.process.send_signal(signal.SIGKILL)
        self.running.remove(server)
        server.stop()
        server = self.serve()
        again = self.ask(server, prompt)
        self.assertEqual(again[0], said[0])
        self.assertGreater(again[1], 64)

    @unittest.skipUnless(judged("a session that ends at a system call", "a sanitizer must be loaded before other libraries"), "sanitized")
    def test_any_call_may_be_the_last(self):
        """A program that ends while it writes a session's prefixes or a pin leaves the old state or the new one, never a half."""
        prompt = text(7, 150)
        pin = json.dumps({"model": MODEL, "messages": [{"role": "system", "content": prompt}], "ttl_s": 600})

        def session(call, kind):
            """(pinned tokens, if the pin was acknowledged; the answer), of a program that may end at that call."""
            server = Server("--store", str(self.folder / "store"), "--prefix-disk-bytes", "256MiB", "--log-level", "off",
                            environment=stopped_at_call(self.folder, call, kind), wait=False)
            pinned, said = None, None
            try:
                server.wait_ready()
                pinned = server.post_json("/v1/prefixes", pin)["pinned_tokens"]
                said = self.ask(server, prompt)[0]
            except (OSError, http.client.HTTPException, RuntimeError, AssertionError):
                self.assertNotEqual(call, 0)
            server.stop()
            return pinned, said

        pinned_tokens, said = session(0, "kill")
        self.assertGreater(pinned_tokens, 0)
        calls = int((self.folder / "count").read_text())
        figure(f"calls that change a file: {calls}")
        acknowledged = 0
        for kind, count in (("kill", amount(2, 3, calls)), ("full", amount(2, 2, calls))):
            for call in sorted({round(1 + i * (calls - 1) / (count - 1)) for i in range(count)}):
                with self.subTest(kind=kind, call=call, of=calls):
                    shutil.rmtree(self.folder / "store")
                    acknowledged += session(call, kind)[0] is not None
                    server = self.serve()
                    self.assertEqual(self.ask(server, prompt)[0], said)
                    pins = json.loads(server.get("/v1/prefixes")[2])["data"]
                    self.assertIn([pin["pinned_tokens"] for pin in pins], ([], [pinned_tokens]))
                    self.assertEqual(server.metric("tutti_prefix_disk_removed_files_total", reason="rejected"), 0, "a half file had its name")
                    self.stop(server)
        self.assertGreater(acknowledged, 0)

    def test_the_cap_holds(self):
        cap = 1 << 20 if STAND_IN else 16 << 20
        server = self.serve(disk=str(cap))
        evicted = 0
        for seed in range(1000):
            self.ask(server, text(100 + seed, 300), tokens=1)
            self.assertLessEqual(self.bytes_on_disk(), cap)
            evicted = server.metric("tutti_prefix_disk_removed_files_total", reason="evicted")
            if evicted >= amount(3, 3, 50):
                break
        self.assertGreater(evicted, 0)
        self.assertLessEqual(server.metric("tutti_prefix_disk_bytes"), cap)

    def test_damaged_and_foreign_files_are_computed_anew(self):
        prompts = [text(seed, 200) for seed in (3, 4, 5)]
        server = self.serve()
        said = [self.ask(server, prompt)[0] for prompt in prompts]
        self.stop(server)
        files = self.files()
        for i, path in enumerate(files):
            data = bytearray(path.read_bytes())
            if i % 3 == 0:
                data[-100] ^= 1
            elif i % 3 == 1:
                data = data[:len(data) // 2]
            else:
                data[:8] = b"FOREIGN!"
            path.write_bytes(data)
        server = self.serve()
        for prompt, expected in zip(prompts, said):
            answer = self.ask(server, prompt)
            self.assertEqual(answer[0], expected)
        # What follows a damaged file of the same prompt is not read.
        self.assertGreaterEqual(server.metric("tutti_prefix_disk_removed_files_total", reason="rejected"), 2)
        server.expect_log("prefix.file_removed")

    def test_tenants_and_salts_are_apart(self):
        keys = [make_key(str(self.folder / "store"), name, "--tenant", name) for name in ("alpha", "beta")]
        prompt = text(6, 200)

        def cached(server, key, salt):
            return self.ask(server, prompt, headers={"Authorization": f"Bearer {key}"}, cache_salt=salt)[1]

        server = self.serve()
        self.assertEqual(cached(server, keys[0], "s"), 0)
        self.stop(server)
        server = self.serve()
        self.assertEqual(cached(server, keys[1], "s"), 0)
        self.assertEqual(cached(server, keys[0], "t"), 0)
        self.assertGreater(cached(server, keys[0], "s"), 64)

    def check_kind(self, kind):
        path = self.folder / f"{kind}.gguf"
        cache = os.environ.get("TUTTI_CACHE") or os.path.expanduser("~/.cache/tutti")
        random_models.write(path, KINDS[kind], os.path.join(cache, "models", "SmolLM2-135M-Instruct.Q4_1.gguf"))
        options = ("--context", "1024", "--kv-cache-bytes", "64MiB")
        prompt = text(7, 120)
        fields = {"temperature": 1, "seed": 5}
        server = self.serve(*options, model=f"{MODEL}={path}")
        first = self.ask(server, prompt, tokens=70, **fields)
        dialog = {"messages": [{"role": "user", "content": prompt}, {"role": "assistant", "content": first[0]},
                               {"role": "user", "content": "More?"}]}
        second = self.ask(server, "", **{**fields, **dialog})
        self.stop(server)
        server = self.serve(*options, model=f"{MODEL}={path}")
        again = self.ask(server, "", **{**fields, **dialog})
        self.assertEqual(again[0], second[0])
        self.assertGreater(again[1], second[1] // 2, "the memory of the first turn was read")
        self.assertEqual(self.ask(server, prompt, tokens=70, **fields)[0], first[0])
        figure(f"{kind}: {again[1]} of {again[2]} tokens read after a restart")

    def test_short_convolutions(self):
        self.check_kind("lfm2")

    def test_mamba_2(self):
        self.check_kind("granitehybrid")

    def test_delta_net(self):
        self.check_kind("qwen35")

    def test_windows(self):
        self.check_kind("gemma3")

    def test_latent_attention(self):
        self.check_kind("deepseek2")

    def test_another_model_finds_nothing(self):
        prompt = text(8, 200)
        server = self.serve()
        self.ask(server, prompt)
        self.stop(server)
        server = self.serve("--kv-dtype", "fp16")
        self.assertEqual(self.ask(server, prompt)[1], 0, "keys of another type")
        self.assertTrue(self.files(), "they stay until the cap removes them")

    def test_options_that_contradict_are_refused(self):
        for options, what in (
                (("--store", "memory", "--prefix-disk-bytes", "1MiB"), "set --prefix-folder"),
                (("--store", "memory", "--prefix-folder", str(self.folder / "p")), "--prefix-disk-bytes"),
                (("--store", "memory", "--prefix-folder", str(self.folder / "p"), "--prefix-disk-bytes", "1MiB", "--prefix-cache",
                  "off"), "--prefix-cache")):
            server = Server(*options, wait=False)
            self.addCleanup(server.stop)
            self.assertNotEqual(server.process.wait(30), 0)
            self.assertIn(what, server.log())

    def test_two_processes_do_not_share_a_folder(self):
        self.serve()
        second = Server("--store", "memory", "--prefix-folder", str(self.folder / "store" / "prefixes"), "--prefix-disk-bytes",
                        "1MiB", wait=False)
        self.addCleanup(second.stop)
        self.assertNotEqual(second.process.wait(30), 0)
        self.assertIn("used by another process", second.log())


if __name__ == "__main__":
    unittest.main()
