"""Rows R13 and R14 through the server: models whose layers keep a recurrent state or a window of keys give the answers of a
quiet server while others run, after preemption, and in a second turn that finds the first one's memory."""
import concurrent.futures
import os
import pathlib
import random
import tempfile
import unittest

import random_models
from harness import MODEL, Server, amount, figure
from random_models import Shape

# More clients would need more states, or more waiting prompts, than so little memory allows. FEW: where four sequences run.
CLIENTS, FEW = 12, 8
TURNS = amount(1, 1, 24)
MOST_TURNS = 20  # until a sequence is preempted, which depends on how the requests come
WORDS = "river stone cloud lemon seven north glass winter copper garden letter window".split()
KINDS = {
    "lfm2": Shape(4, 128, 4, 2, 32, 256, "lfm2", attention=(1, 3), taps=3),
    "granitehybrid": Shape(4, 64, 2, 1, 32, 128, "granitehybrid", attention=(1, 3), taps=4, state_heads=4, state_size=32,
                           state_head_size=32, state_groups=1),
    "qwen35": Shape(4, 128, 2, 1, 64, 256, "qwen35", attention=(3,), taps=4, state_heads=4, state_size=32, state_head_size=32,
                    state_groups=2),
    "gemma3": Shape(12, 128, 4, 4, 32, 256, "gemma3", window=64),
    # Heads of two sizes, the last layers share keys and values, and layers have inputs of their own.
    "gemma4": Shape(8, 128, 4, 2, 32, 256, "gemma4", window=64, full=(2, 5, 7), full_head_size=64, shared_kv=2, layer_inputs=32),
    "gemma3n": Shape(8, 128, 4, 4, 32, 256, "gemma3n", window=64, full=(1, 3, 5, 7), shared_kv=2, layer_inputs=32, streams=4),
    # Windows lie one behind another; layers without experts and with them.
    "llama4": Shape(8, 128, 4, 4, 32, 64, "llama4", window=64, experts=4, experts_used=1, dense_layers=2, shared_expert=True),
    # Nemotron 3: layers of one part each.
    "nemotron_h_moe": Shape(6, 128, 4, 2, 32, 64, "nemotron_h_moe", attention=(2,), networks=(1, 3, 5), experts=8, experts_used=2,
                            shared_expert=True, taps=4, state_heads=4, state_size=32, state_head_size=32, state_groups=1),
    "deepseek2": Shape(3, 128, 4, 4, 32, 64, "deepseek2", latent_rank=32, rotating=16, experts=8, experts_used=2,
                       dense_layers=1, shared_expert=True),
}


class MemoryKinds(unittest.TestCase):
    def serve(self, kind, memory, *options):
        """A server with so little memory that running sequences must give up theirs."""
        folder = tempfile.TemporaryDirectory(prefix="tutti-memory-kinds-")
        self.addCleanup(folder.cleanup)
        path = pathlib.Path(folder.name, f"{kind}.gguf")
        cache = os.environ.get("TUTTI_CACHE") or os.path.expanduser("~/.cache/tutti")
        random_models.write(path, KINDS[kind], os.path.join(cache, "models", "SmolLM2-135M-Instruct.Q4_1.gguf"))
        # No request is refused for its wait on a slow machine.
        server = Server("--context", "512", "--kv-cache-bytes", memory, "--sched-queue-age-s", "0", *options,
                        model=f"{MODEL}={path}")
        self.addCleanup(server.stop)
        return server

    def say(self, server, messages, salt):
        body = {"model": MODEL, "messages": messages, "max_tokens": 96, "temperature": 1, "seed": 5, "ignore_eos": True,
                "cache_salt": salt}
        answer = server.post_json("/v1/chat/completions", body)
        return answer["choices"][0]["message"]["content"], answer["usage"]["prompt_tokens_details"]["cached_tokens"]

    def talk(self, server, number, salt):
        """A dialog of two questions: (both answers, tokens of the second prompt that were found)."""
        rng = random.Random(number)
        messages, said, cached = [], [], 0
        for _ in range(2):
            messages.append({"role": "user", "content": " ".join(rng.choices(WORDS, k=rng.randint(5, 120)))})
            text, cached = self.say(server, messages, salt)
            said.append(text)
            messages.append({"role": "assistant", "content": text})
        return said, cached

    @staticmethod
    def preemptions(server):
        return server.metric("tutti_preemptions_total")

    def check(self, kind, memory, *options, clients=FEW):
        server = self.serve(kind, memory, *options)
        quiet = [self.talk(server, number, "quiet")[0] for number in range(clients)]
        self.assertEqual(len({first for first, _ in quiet}), clients, "the answers tell the dialogs apart")
        turn = 0
        while turn < TURNS or (self.preemptions(server) == 0 and turn < MOST_TURNS):
            with concurrent.futures.ThreadPoolExecutor(clients) as pool:
                talks = list(pool.map(lambda number: self.talk(server, number, f"turn {turn}"), range(clients)))
            self.assertEqual([said for said, _ in talks], quiet)
            turn += 1
        alone = self.talk(server, 0, "alone")
        self.assertEqual(alone[0], quiet[0])
        server.wait_idle()
        figure(f"{kind}: {turn * clients} dialogs of two questions, {self.preemptions(server):.0f} preemptions, {alone[1]} tokens found")
        self.assertGreater(self.preemptions(server), 0)
        self.assertGreater(alone[1], 0, "the second question finds the first one's memory")
        return server

    def check_states(self, kind):
        server = self.check(kind, "1MiB", "--max-num-seqs", str(CLIENTS), clients=CLIENTS)
        self.assertGreater(server.metric("tutti_state_slots", state="cached"), 0)
        self.assertEqual(server.metric("tutti_state_slots", state="active"), 0)

    def test_short_convolutions(self):
        self.check_states("lfm2")

    def test_mamba_2(self):
        self.check_states("granitehybrid")

    def test_delta_net(self):
        self.check_states("qwen35")

    def test_layers_of_one_part(self):
        self.check_states("nemotron_h_moe")

    def check_few(self, kind, memory):
        return self.check(kind, memory, "--max-num-seqs", "4", "--prefill-chunk", "64")

    def check_windows(self, kind, memory):
        # The windows of those that run have all the memory that they need: the other layers are short of it.
        server = self.check_few(kind, memory)
        self.assertGreater(server.metric("tutti_kv_window_blocks"), 0)
        self.assertEqual(server.metric("tutti_kv_window_blocks", state="active"), 0)

    def test_windows(self):
        self.check_windows("gemma3", "2700KiB")

    def test_heads_of_two_sizes_and_shared_keys(self):
        self.check_windows("gemma4", "1150KiB")

    def test_residual_streams(self):
        self.check_windows("gemma3n", "1500KiB")

    def test_aligned_windows(self):
        self.check_windows("llama4", "1900KiB")

    def test_latent_attention(self):
        self.check_few("deepseek2", "1500KiB")


if __name__ == "__main__":
    unittest.main()
