"""Requests that are sent again under their Idempotency-Key, with the stock openai client: the stored answer is returned."""
import concurrent.futures
import tempfile
import unittest

import openai

from harness import MODEL, STEP_S, Server

QUESTION = [{"role": "user", "content": "Name three colours."}]


class Repeats(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tutti-repeats-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def start(self):
        self.server = Server("--store", self.folder)
        self.addCleanup(self.stop, self.server)
        client = openai.OpenAI(base_url=self.server.url + "/v1", api_key="none", timeout=STEP_S, max_retries=0)
        self.addCleanup(client.close)
        return self.server, client

    def stop(self, server):
        if server is self.server:
            server.stop()
            self.server = None

    @staticmethod
    def ask(client, key, messages=None, **options):
        """Without a seed: what is computed twice differs."""
        raw = client.chat.completions.with_raw_response.create(
            model=MODEL, messages=messages or QUESTION, max_tokens=24, extra_headers={"Idempotency-Key": key}, **options)
        return raw.parse(), raw.headers.get("idempotency-replayed")

    def test_the_same_again_is_the_answer_of_then_also_after_a_kill(self):
        server, client = self.start()
        first, replayed = self.ask(client, "k")
        self.assertIsNone(replayed)
        again, replayed = self.ask(client, "k")
        self.assertEqual((again.model_dump(), replayed), (first.model_dump(), "true"))
        self.assertNotEqual(self.ask(client, "other")[0].id, first.id)
        server.wait_idle()
        self.assertEqual(server.metric("tutti_output_tokens_total"),
                         first.usage.completion_tokens + self.ask(client, "other")[0].usage.completion_tokens)
        server.process.kill()
        self.stop(server)
        server, client = self.start()
        again, replayed = self.ask(client, "k")
        self.assertEqual((again.model_dump(), replayed), (first.model_dump(), "true"))
        self.assertEqual(server.metric("tutti_output_tokens_total"), 0)

    def test_faults_are_told_and_refusals_are_not_kept(self):
        _, client = self.start()
        self.ask(client, "k")
        with self.assertRaises(openai.UnprocessableEntityError) as raised:
            self.ask(client, "k", [{"role": "user", "content": "Name three animals."}])
        self.assertEqual((raised.exception.code, raised.exception.response.headers["x-should-retry"]),
                         ("idempotency_key_mismatch", "false"))
        with self.assertRaises(openai.BadRequestError):
            self.ask(client, "k" * 256)
        with self.assertRaises(openai.BadRequestError):
            self.ask(client, "refused", temperature=9)
        self.assertIsNone(self.ask(client, "refused")[1])

    def test_those_who_send_it_at_once_share_one_answer(self):
        server, client = self.start()
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _: self.ask(client, "k"), range(8)))
        self.assertEqual(len({answer.id for answer, _ in answers}), 1)
        self.assertEqual([replayed for _, replayed in answers].count(None), 1)
        server.wait_idle()
        self.assertEqual(server.metric("tutti_output_tokens_total"), answers[0][0].usage.completion_tokens)

    def test_a_stream_refuses_its_key_while_it_runs_and_is_not_kept(self):
        _, client = self.start()
        options = {"stream": True, "extra_body": {"ignore_eos": True}}
        stream = client.chat.completions.create(model=MODEL, messages=QUESTION, max_tokens=1500,
                                                extra_headers={"Idempotency-Key": "k"}, **options)
        next(iter(stream))
        with self.assertRaises(openai.ConflictError) as raised:
            client.chat.completions.create(model=MODEL, messages=QUESTION, max_tokens=1500,
                                           extra_headers={"Idempotency-Key": "k"}, **options)
        self.assertEqual((raised.exception.code, raised.exception.response.headers["retry-after"]),
                         ("idempotency_in_progress", "1"))
        stream.close()


if __name__ == "__main__":
    unittest.main()
