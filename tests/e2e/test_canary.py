"""No client sees another's words: 64 tenants with a secret each, hostile and disconnecting clients and a small KV cache,
along with one steady stream whose bytes must not change."""
import concurrent.futures
import http.client
import json
import os
import random
import re
import threading
import time
import unittest

import hostile
from harness import AMOUNT, MODEL, STAND_IN, STEP_S, ServerCase, amount, events, figure

TENANTS = 64
REQUESTS = amount(300, 160, 4000)
CLIENTS = 16
SEED = int(os.environ.get("E2E_SEED", "1"))


def make_secrets(rng):
    syllables = [c + v for c in "bdfgklmnprstvz" for v in "aeiou"]
    secrets = set()
    while len(secrets) < TENANTS:
        secrets.add("".join(rng.choice(syllables) for _ in range(6)))
    return sorted(secrets)


class Canary(ServerCase):
    OPTIONS = ("--max-num-seqs", "16", "--queue", "400", "--sched-queue-age-s", "0", "--kv-cache-bytes", "1MiB" if STAND_IN else "12MiB")
    STEADY = {"model": MODEL, "messages": [{"role": "user", "content": "Describe a lighthouse."}], "max_tokens": 40, "temperature": 0,
              "ignore_eos": True, "stream": True}

    def steady_text(self):
        status, _, text = self.server.post("/v1/chat/completions", self.STEADY)
        while status == 503 and '"code":"queue_full"' in text:
            time.sleep(0.2)
            status, _, text = self.server.post("/v1/chat/completions", self.STEADY)
        assert status == 200 and text.endswith("data: [DONE]\n\n"), text[-300:]
        data = [json.loads(e[6:]) for e in events(text)[:-1]]
        return [e["choices"][0]["delta"].get("content", "") for e in data], data[-1]["choices"][0]["finish_reason"]

    def ask(self, connection, secret, rng):
        """One request of a tenant: (path, everything that came back)."""
        kind = rng.randrange(4)
        body = {"model": MODEL, "max_tokens": rng.randint(1, 28), "ignore_eos": True, "temperature": rng.choice([0, 1]), "seed": rng.randrange(1000)}
        if rng.random() < 0.5:
            body["cache_salt"] = secret
        if kind == 0:
            path, body = "/v1/completions", dict(body, prompt=f"The secret word is {secret}. " * rng.randint(1, 8), echo=True)
        else:
            path = "/v1/chat/completions"
            question = f"The secret word is {secret}. " * rng.randint(1, 6) + "Say the secret word twice."
            body = dict(body, messages=[{"role": "user", "content": question}], stream=kind == 1, n=2 if kind == 2 else 1)
        while True:  # a full queue gives 503; the client tries again, as stock clients do
            connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
            response = connection.getresponse()
            text = response.read().decode()
            if response.status != 503 or '"code":"queue_full"' not in text:
                break
            time.sleep(rng.uniform(0.1, 0.5))
        assert response.status == 200, (response.status, text[:300])
        if kind == 1:  # the word may be cut by events
            assert text.endswith("data: [DONE]\n\n"), text[-300:]
            text += "".join(json.loads(e[6:])["choices"][0]["delta"].get("content", "") for e in events(text)[:-1])
        return text

    def test_no_foreign_words_and_a_steady_stream_under_attack(self):
        secrets = make_secrets(random.Random(SEED))
        any_secret = re.compile("|".join(secrets))
        steady = self.steady_text()
        self.assertEqual(steady[1], "length")
        over = threading.Event()
        mutex = threading.Lock()
        own, answers, attacks, repeats = 0, 0, {}, 0

        def keep_steady():
            nonlocal repeats
            while not over.is_set():
                self.assertEqual(self.steady_text(), steady, "the steady stream has changed")
                repeats += 1

        def client(number):
            nonlocal own, answers
            rng = random.Random(SEED * 1000 + number)
            connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=STEP_S)
            for i in range(number, REQUESTS, CLIENTS):
                if rng.random() < 0.65:
                    attack = rng.choice(hostile.ATTACKS)
                    attack(self.server.port, rng)
                    with mutex:
                        attacks[attack.__name__] = attacks.get(attack.__name__, 0) + 1
                    continue
                secret = secrets[i % TENANTS]
                found = set(any_secret.findall(self.ask(connection, secret, rng)))
                self.assertLessEqual(found, {secret}, "a foreign word")
                with mutex:
                    answers += 1
                    own += bool(found)
            connection.close()

        begin = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(CLIENTS + 1) as pool:
            during = pool.submit(keep_steady)
            try:
                for done in [pool.submit(client, k) for k in range(CLIENTS)]:
                    done.result()
            finally:
                over.set()
            during.result()
        self.server.wait_idle()
        preemptions = self.server.metric("tutti_preemptions_total")
        cancelled = self.server.metric("tutti_requests_total", code="499")
        figure(f"{REQUESTS} requests in {time.monotonic() - begin:.1f} s: {answers} answers, {own} with the own word, 0 with a foreign one; "
               f"{sum(attacks.values())} attacks of {len(attacks)} kinds, {cancelled:.0f} left; {repeats} steady streams; "
               f"{preemptions:.0f} preemptions")
        share = 8 if STAND_IN else 4  # that one repeats words only where they are echoed, in a quarter of the answers
        self.assertGreater(own, answers // share, "the words do come back to their owners")
        self.assertGreater(repeats, 0)
        self.assertEqual(answers + sum(attacks.values()), REQUESTS)
        if AMOUNT != "short":
            for value in (cancelled, self.server.metric("tutti_prefix_hit_tokens_total")):
                self.assertGreater(value, 0, "the load had cancels and cache hits")
        if AMOUNT == "full":  # a few in a thousand requests: certain only in the larger amount
            self.assertGreater(preemptions, 0)
        for text in (self.server.log(), self.server.get("/metrics")[2]):
            self.assertIsNone(any_secret.search(text), "no word of a prompt in logs or metrics")
        self.assertEqual(self.server.metric("tutti_requests_total", code="500"), 0)
        self.assertEqual(self.steady_text(), steady)


if __name__ == "__main__":
    unittest.main()
