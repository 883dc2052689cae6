"""`tutti bench` drives servers of other processes over KServe and MQTT, as it would drive any (N57)."""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

from encoder_models import EMBEDDER
from harness import STEP_S, Server, default_model, eventually, free_port, grpc_streams


def bench(*arguments):
    return subprocess.run([os.environ["E2E_BINARY"], "bench", *arguments], capture_output=True, stdin=subprocess.DEVNULL, timeout=5 * STEP_S,
                          text=True)


class Servers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def report(self, *arguments):
        done = bench(*arguments, "--json", str(self.folder / "r.json"))
        self.assertEqual(done.returncode, 0, (done.stdout, done.stderr))
        return json.loads((self.folder / "r.json").read_text())

    @grpc_streams()
    def test_kserve_over_http_and_grpc(self):
        port = free_port()
        server = Server("--grpc-port", str(port), f"decoder={default_model()}", model=EMBEDDER)
        self.addCleanup(server.stop)
        load = (EMBEDDER, "--kserve", "--requests", "12", "--warmup", "2", "--concurrency", "1,3", "--texts", "2")
        http = self.report("encode", "--url", server.url, *load)
        grpc = self.report("grpc", "--url", f"grpc://127.0.0.1:{port}", *load)
        self.assertEqual(grpc["method"], "/inference.GRPCInferenceService/ModelInfer")
        for report in (http, grpc):
            self.assertEqual([(row["concurrency"], row["requests"], row["batch"]) for row in report["rows"]], [(1, 12, 2), (3, 12, 2)])
            self.assertIn("KServe: text to embedding", report["target"])
        for words, said in ((("decoder",), "no input of type BYTES and output of type FP32"), ((), "--kserve needs the name of a model"),
                            (("other",), "other")):
            done = bench("encode", "--url", server.url, "--kserve", *words)
            self.assertIn(done.returncode, (1, 78))
            self.assertIn(said, done.stderr)

    def test_mqtt_through_a_broker(self):
        port = free_port()
        (self.folder / "broker.conf").write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\n")
        broker = subprocess.Popen(["/usr/sbin/mosquitto", "-c", str(self.folder / "broker.conf")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(broker.wait)
        self.addCleanup(broker.kill)
        server = Server("--mqtt-url", f"mqtt://127.0.0.1:{port}", "--store", str(self.folder / "store"))
        self.addCleanup(server.stop)
        eventually(lambda: "mqtt.bridge.connected" in server.log(), server.log)
        load = ("--requests", "6", "--tokens", "4", "--prompt-tokens", "5", "--concurrency", "1,3")
        report = self.report("mqtt", "--url", f"mqtt://127.0.0.1:{port}", *load)
        self.assertEqual([(row["concurrency"], row["answers"], row["failed"]) for row in report["rows"]], [(1, 6, 0), (3, 6, 0)])
        self.assertEqual(len(report["figures"]), 6)
        again = self.report("mqtt", "--url", f"mqtt://127.0.0.1:{port}", *load)  # other sessions: no message is a repetition
        self.assertEqual([row["failed"] for row in again["rows"]], [0, 0])
        done = bench("mqtt", "--url", f"mqtt://127.0.0.1:{free_port()}", *load)
        self.assertEqual(done.returncode, 1, done.stderr)
        for words, status in ((("--url", "http://x"), 78), (("--prompt-tokens", "5"), 2), (("--url", "mqtt://x", "--threads", "1"), 2)):
            self.assertEqual(bench("mqtt", *words).returncode, status)
