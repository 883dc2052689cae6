"""Row N51, memory load levels: a process whose memory limit is little above its models' size, and clients whose half-sent requests
fill it. First requests of the lower classes are refused, then all requests, until those clients disconnect."""
import json
import socket
import time
import unittest

from harness import MODEL, STEP_S, Server, eventually, judged

ROOM = 24 << 20  # bytes in addition to the models
PIECE = 900 << 10  # of a body of 1 MiB that never comes whole
MOST = 150  # clients: a process may need less memory than one before it measured


def ask(server, **fields):
    """The status of a request of two tokens, its error's code, and Retry-After."""
    body = json.dumps({"model": MODEL, "prompt": "Once", "max_tokens": 2, "temperature": 0, **fields})
    status, headers, answer = server.request("POST", "/v1/completions", body)
    return status, json.loads(answer).get("error", {}).get("code"), headers.get("retry-after")


@unittest.skipUnless(judged("levels of memory", "a sanitizer keeps freed memory, and has more of its own"), "sanitized")
class LevelsOfMemory(unittest.TestCase):
    def setUp(self):
        options = ("--kv-cache-bytes", "8MiB", "--http-access-log", "off")
        before = Server(*options)
        # The first answers may come before the last model's memory has been counted.
        eventually(lambda: before.metric("tutti_memory_models_bytes") > 0, limit_s=STEP_S)
        models = int(before.metric("tutti_memory_models_bytes"))
        self.assertEqual(before.stop(), 0)
        self.server = Server(*options, "--memory-limit-bytes", str(models + ROOM))
        self.addCleanup(self.server.stop)
        self.clients = []
        self.addCleanup(self.leave)

    def leave(self):
        for client in self.clients:
            client.close()
        self.clients.clear()

    def come(self):
        client = socket.create_connection(("127.0.0.1", self.server.port))
        client.settimeout(10)
        client.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                       b"Content-Length: 1048576\r\n\r\n" + b" " * PIECE)
        self.clients.append(client)

    def level(self):
        level = json.loads(self.server.get("/load")[2])["level"]
        values = dict(line.rsplit(" ", 1) for line in self.server.get("/metrics")[2].splitlines() if "_level" in line and line[0] != "#")
        self.assertEqual(values["tutti_load_level"], values["tutti_memory_level"], "the queue is empty")
        return level

    def fill_until(self, level):
        while self.level() != level:
            self.assertLess(len(self.clients), MOST, f"{self.server.resident_kib()} KiB resident, {self.level()}")
            self.come()
            time.sleep(0.3)  # the watch looks four times a second

    def test_lower_classes_are_refused_first_as_memory_runs_out(self):
        self.assertEqual(self.level(), "green")
        self.assertEqual(ask(self.server, service_tier="flex")[:2], (200, None))
        self.fill_until("yellow")
        status, code, after = ask(self.server, service_tier="flex")
        self.assertEqual((status, code), (503, "overloaded"))
        self.assertGreaterEqual(int(after), 1)
        self.assertEqual(ask(self.server)[0], 200, "interactive")
        self.assertEqual(self.server.get("/readyz")[0], 200)
        self.fill_until("red")
        self.assertEqual(ask(self.server)[:2], (503, "overloaded"))
        status, _, text = self.server.get("/readyz")
        self.assertEqual(status, 503)
        self.assertIn("overloaded", text)
        self.assertEqual(self.server.get("/livez")[0], 200, "a new process would not have more")
        self.leave()
        eventually(lambda: self.level() == "green", limit_s=20)
        self.assertEqual(ask(self.server, service_tier="flex")[:2], (200, None))
        self.assertEqual(self.server.get("/readyz")[0], 200)
        self.server.expect_log("level=yellow", "level=red", "level=green")


if __name__ == "__main__":
    unittest.main()
