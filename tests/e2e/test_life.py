"""A server's life as probes and signals see it: start, drain with clients in flight, a second signal."""
import http.client
import json
import pathlib
import re
import resource
import signal
import time
import unittest

from harness import LONGER, MODEL, STEP_S, Server, eventually, free_port, judged, raw_request

MIB = 1 << 20


def story(tokens, **more):
    return {"model": MODEL, "messages": [{"role": "user", "content": "Count."}], "max_tokens": tokens, "ignore_eos": True, **more}


class Life(unittest.TestCase):
    def start(self, *options, **more):
        server = Server(*options, **more)
        self.addCleanup(lambda: server.process.poll() is None and server.process.kill())
        return server

    def stream(self, server, tokens):
        connection = raw_request(server.port, "POST", "/v1/chat/completions", story(tokens, stream=True))
        self.addCleanup(connection.close)
        eventually(lambda: server.load()["running"] >= 1)
        return connection

    def read_all(self, connection):
        text = b""
        while piece := connection.recv(65536):
            text += piece
        return text.decode()

    def exit_status(self, server, limit_s=STEP_S):
        status = server.process.wait(limit_s)
        server.stop()
        return status

    def test_while_the_model_loads_the_server_is_live_but_not_ready(self):
        server = self.start(model=MODEL, wait=False)
        server.wait_listening()
        seen = []
        end = time.monotonic() + STEP_S * 3
        while (not seen or seen[-1] != (200, 200)) and time.monotonic() < end:
            ready, started = server.get("/readyz"), server.get("/startupz")[0]
            self.assertEqual(server.get("/livez")[0], 200)
            if ready[0] == 503:
                self.assertEqual(json.loads(ready[2])["error"]["code"], "model_loading")
            seen.append((ready[0], started))
        self.assertEqual(seen[0][0], 503, "the port opens before the model answers")
        self.assertEqual(seen, sorted(seen, reverse=True), "once ready, it stays so")
        server.wait_ready()
        server.post_json("/v1/chat/completions", story(2))
        self.assertEqual(server.stop(), 0)

    def test_a_drain_finishes_what_runs_and_refuses_what_comes(self):
        server = self.start()
        running = [self.stream(server, 200 * LONGER) for _ in range(4)]
        kept = http.client.HTTPConnection("127.0.0.1", server.port, timeout=STEP_S)

        def ask(method, path, body=None):
            kept.request(method, path, body and json.dumps(body), {"Content-Type": "application/json"})
            response = kept.getresponse()
            return response.status, response.headers, response.read().decode()

        self.assertEqual(ask("GET", "/readyz")[0], 200)
        server.process.send_signal(signal.SIGTERM)
        eventually(lambda: ask("GET", "/readyz")[0] == 503)
        self.assertEqual(ask("GET", "/livez")[0], 200)
        status, headers, text = ask("POST", "/v1/chat/completions", story(2))
        self.assertEqual((status, json.loads(text)["error"]["code"]), (503, "draining"), text)
        self.assertGreaterEqual(int(headers["Retry-After"]), 1)
        for connection in running:
            text = self.read_all(connection)
            self.assertIn('"finish_reason":"length"', text)
            self.assertIn("data: [DONE]", text)
        kept.close()
        self.assertEqual(self.exit_status(server), 0)

    def test_ctrl_c_says_what_is_waited_for_and_how_to_end_now(self):
        for requests, line in ((0, None), (1, "tutti: waiting up to 30 s for 1 request; again to end now\n"),
                               (3, "tutti: waiting up to 30 s for 3 requests; again to end now\n")):
            server = self.start("--max-num-seqs", "2")  # of three, one waits
            running = [self.stream(server, 100 * LONGER) for _ in range(requests)]
            eventually(lambda: server.load()["server_load"] == requests)
            server.process.send_signal(signal.SIGINT)
            texts = [self.read_all(connection) for connection in running]
            self.assertEqual(server.process.wait(STEP_S), 0)
            log = server.log()
            server.stop()
            for text in texts:
                self.assertIn("data: [DONE]", text)
                self.assertIn('"finish_reason":"length"', text)
            self.assertIn("signal=SIGINT", log)
            self.assertEqual(log.count("waiting up to"), 0 if line is None else 1, log)
            self.assertIn(line or "", log)

    def test_what_outlives_the_drain_is_told_so(self):
        server = self.start("--drain-s", "1")
        connection = self.stream(server, 6000)
        server.process.send_signal(signal.SIGTERM)
        text = self.read_all(connection)
        self.assertNotIn('"finish_reason":"', text)
        self.assertIn('"code":"draining"', text)
        self.assertEqual(self.exit_status(server), 0)

    def test_a_hangup_ends_nothing_and_reloads(self):
        server = self.start()
        server.process.send_signal(signal.SIGHUP)
        eventually(lambda: "config.reloaded" in server.log())
        self.assertIsNone(server.process.poll())

    def test_a_drain_works_when_no_thread_can_be_started(self):
        """Simulates a limit of threads by a limit of address space that has no room for another stack."""
        if not judged("a drain without threads", "a sanitizer's addresses have no limit"):
            return
        before = resource.getrlimit(resource.RLIMIT_STACK)
        resource.setrlimit(resource.RLIMIT_STACK, (64 * MIB, before[1]))
        try:
            server = self.start(environment={"TUTTI_GRPC_PORT": str(free_port())})
        finally:
            resource.setrlimit(resource.RLIMIT_STACK, before)
        status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
        size = int(re.search(r"VmSize:\s+(\d+)", status).group(1)) << 10
        # A little less than there is: the stack of the thread that loaded the model is given back in the drain.
        resource.prlimit(server.process.pid, resource.RLIMIT_AS, (size - 4 * MIB,) * 2)
        server.process.send_signal(signal.SIGTERM)
        self.assertEqual(server.process.wait(STEP_S), 0, server.log())
        self.assertIn("drain.end clean=yes", server.log())
        server.stop()

    def test_two_signals_in_one_moment_are_one_wish(self):
        """`timeout` sends a signal to the process and to its group: running requests were once cut off."""
        for second in (signal.SIGINT, signal.SIGTERM):  # the system may make one of two that are the same
            server = self.start()
            connection = self.stream(server, 100)
            server.process.send_signal(signal.SIGINT)
            server.process.send_signal(second)
            self.assertIn('"finish_reason":"length"', self.read_all(connection))
            self.assertEqual(self.exit_status(server), 0)

    def test_a_second_signal_ends_at_once(self):
        for first, second, status in ((signal.SIGTERM, signal.SIGTERM, 143), (signal.SIGTERM, signal.SIGINT, 130)):
            server = self.start()
            self.stream(server, 6000)
            server.process.send_signal(first)
            eventually(lambda: "drain.begin" in server.log())
            begin = time.monotonic()

            def ended():
                """The signal is repeated, because one sent at once may still count as the first."""
                server.process.send_signal(second)
                return server.process.poll() is not None
            eventually(ended)
            self.assertEqual(self.exit_status(server), status)
            self.assertLess(time.monotonic() - begin, 10)


if __name__ == "__main__":
    unittest.main()
