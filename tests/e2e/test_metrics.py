"""Metrics: their values, the names that dashboards and autoscalers read, and that no text in them comes from a client."""
import json
import pathlib
import re
import unittest

from harness import MODEL, ServerCase

BOARD = pathlib.Path(__file__).resolve().parents[2] / "docs" / "grafana" / "tutti.json"

# The names that vLLM's published Grafana board, KEDA's examples and the gateway-inference scorers use.
VLLM_NAMES = [
    "vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc", "vllm:prompt_tokens_total",
    "vllm:generation_tokens_total", "vllm:request_success_total", "vllm:num_preemptions_total", "vllm:cache_config_info",
    "vllm:lora_requests_info", "vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total",
    "vllm:time_to_first_token_seconds_bucket", "vllm:time_to_first_token_seconds_sum", "vllm:time_to_first_token_seconds_count",
    "vllm:inter_token_latency_seconds_bucket", "vllm:request_time_per_output_token_seconds_bucket",
    "vllm:e2e_request_latency_seconds_bucket", "vllm:e2e_request_latency_seconds_sum", "vllm:e2e_request_latency_seconds_count",
    "vllm:request_queue_time_seconds_sum", "vllm:request_prefill_time_seconds_sum", "vllm:request_decode_time_seconds_sum",
    "vllm:request_inference_time_seconds_bucket", "vllm:request_prompt_tokens_bucket", "vllm:request_generation_tokens_bucket",
    "vllm:request_max_num_generation_tokens_sum", "vllm:request_params_n_count", "vllm:iteration_tokens_total_bucket",
]


class Metrics(ServerCase):
    OPTIONS = ("--metrics-vllm", "on")
    REQUESTS = 12

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for i in range(cls.REQUESTS):
            cls.server.post_json("/v1/chat/completions", {
                "model": MODEL, "messages": [{"role": "user", "content": f"Say {i}"}], "max_tokens": 5, "ignore_eos": True})
        for _ in range(3):
            cls.server.post("/v1/chat/completions", "{")
        cls.text = cls.server.get("/metrics")[2]
        cls.names = {re.match(r"[a-zA-Z_:][\w:]*", line).group(0) for line in cls.text.splitlines() if line and line[0] != "#"}

    def value(self, name, **labels):
        return self.server.metric(name, **labels)

    def test_histograms_count_every_request_once(self):
        for name in ("tutti_time_to_first_token_seconds", "tutti_prefill_seconds", "tutti_decode_seconds", "tutti_request_output_tokens",
                     "tutti_queue_wait_seconds", "vllm:time_to_first_token_seconds", "vllm:e2e_request_latency_seconds",
                     "vllm:request_queue_time_seconds"):
            self.assertEqual(self.value(name + "_count"), self.REQUESTS, name)
        self.assertEqual(self.value("tutti_inter_token_latency_seconds_count"), 4 * self.REQUESTS)
        self.assertEqual(self.value("tutti_output_tokens_total"), 5 * self.REQUESTS)
        self.assertEqual(self.value("tutti_requests_total", code="200", op="chat"), self.REQUESTS)
        self.assertEqual(self.value("tutti_requests_total", code="400", op="chat"), 3)
        self.assertEqual(self.value("tutti_requests_rejected_total", code="invalid_json"), 3)
        self.assertEqual(self.value("tutti_requests_finished_total", finish_reason="length"), self.REQUESTS)

    def test_names_promised_to_outside_tools_are_there(self):
        for name in ("tutti_output_tokens_total", "tutti_running_sequences", "tutti_waiting_sequences", *VLLM_NAMES):
            self.assertIn(name, self.names)

    def test_every_metric_of_the_shipped_board_exists(self):
        board = json.loads(BOARD.read_text())
        asked = {name for panel in board["panels"] for target in panel["targets"] for name in re.findall(r"tutti_\w+", target["expr"])}
        self.assertGreater(len(asked), 15)
        self.assertEqual(asked - self.names, set())

    def test_the_exposition_is_valid_and_buckets_are_cumulative(self):
        series = {}
        for line in self.text.splitlines():
            if line.startswith("#") or not line:
                continue
            self.assertRegex(line, r'^[a-zA-Z_:][\w:]*(\{([a-zA-Z_]\w*="([^"\\\n]|\\.)*",?)*\})? [-+0-9.eEInfNa]+$')
            name, value = line.rsplit(" ", 1)
            if "_bucket" in name:
                series.setdefault(re.sub(r',?le="[^"]*"', "", name), []).append(float(value))
        self.assertGreater(len(series), 10)
        for name, values in series.items():
            self.assertEqual(values, sorted(values), name)

    def test_a_hostile_model_name_makes_no_label(self):
        self.server.post("/v1/chat/completions", {"model": 'x"} 1\nforged 1', "messages": [{"role": "user", "content": "x"}]})
        self.assertNotIn("forged", self.server.get("/metrics")[2])


if __name__ == "__main__":
    unittest.main()
