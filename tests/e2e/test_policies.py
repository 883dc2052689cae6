"""Policies for a message that arrives while another is being answered: replies and history of each policy, at random moments, with
the stock openai client against the real model. A hundred repeats of each in `make soak`."""
import os
import random
import time

import openai

from harness import AMOUNT, MODEL, RealModel, ServerCase, amount, figure
from test_conversations import texts
from test_responses import client_of

REPEATS = amount(1, 2, 100)
BLOCK = 32  # tokens of which the prefix cache keeps equal beginnings
FIRST = "Here is a list of things in my room: " + ", ".join(f"{i} books" for i in range(1, 25)) + ". Tell me a story about them."
SECOND = "Name three colours."
FIRST_TOKENS, SECOND_TOKENS = 48, 16


class Policies(RealModel, ServerCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.client = client_of(cls.server)
        cls.seed = int(os.environ.get("E2E_SEED", "1"))
        for _ in range(2):  # the second finds its prompt read, as those that follow do
            begin = time.monotonic()
            cls.whole = cls.ask(cls.client.conversations.create().id, FIRST, FIRST_TOKENS).output_text
        cls.lasts = time.monotonic() - begin

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        super().tearDownClass()

    @classmethod
    def ask(cls, conversation, text, tokens, policy="enqueue", **options):
        return cls.client.responses.create(
            model=MODEL, conversation=conversation, input=text, max_output_tokens=tokens, temperature=0,
            extra_body={"ignore_eos": True, "policy": policy}, **options)

    def history(self, conversation):
        items = self.client.conversations.items.list(conversation, order="asc", limit=100)
        return texts(items), [item.status for item in items]

    def alone(self, history):
        """The answer to such a history by itself, and its prompt's tokens."""
        chat = self.client.chat.completions.create(
            model=MODEL, max_tokens=SECOND_TOKENS, temperature=0, extra_body={"ignore_eos": True},
            messages=[{"role": role, "content": text} for role, text in history])
        return chat.choices[0].message.content, chat.usage.prompt_tokens

    def repeat(self, policy, moment):
        """Its second message comes `moment` seconds after the first was accepted; how the first ended, and the second."""
        conversation = self.client.conversations.create().id
        first = self.ask(conversation, FIRST, FIRST_TOKENS, background=True)
        time.sleep(moment)
        try:
            second = self.ask(conversation, SECOND, SECOND_TOKENS, policy)
        except openai.ConflictError as refused:
            self.assertEqual((policy, refused.code), ("reject", "conversation_busy"))
            self.ask(conversation, SECOND, SECOND_TOKENS)  # behind the first
            second = None
        first = self.client.responses.retrieve(first.id)
        history, statuses = self.history(conversation)
        asked, answered = ("user", FIRST), ("assistant", first.output_text)
        whole = first.status == "incomplete" and first.incomplete_details.reason == "max_output_tokens"
        if whole:
            self.assertEqual(first.output_text, self.whole)
            before = [asked, answered]
        else:
            self.assertTrue(self.whole.startswith(first.output_text), first.output_text)
            before = {"interrupt": [asked, answered], "rollback": [],
                      "steer": [asked, answered] if first.output_text else [asked]}[policy]
            reason = first.incomplete_details.reason if first.incomplete_details else None
            self.assertEqual((first.status, reason),
                             ("incomplete", "steered") if policy == "steer" else ("cancelled", None))
            for item in first.output:
                self.assertEqual(item.status, "incomplete")
        self.assertEqual(history[:-1], before + [("user", SECOND)])
        self.assertEqual(statuses[1:2] if len(before) == 2 else [], ["incomplete"] if len(before) == 2 else [])
        if second is not None:
            text, tokens = self.alone(before + [("user", SECOND)])
            self.assertEqual((second.output_text, second.usage.input_tokens), (text, tokens))
            self.assertEqual(history[-1], ("assistant", text))
        return first, second, whole

    def test_enqueue(self):
        self.run_repeats("enqueue", lambda first, second, whole: self.assertTrue(whole))

    def test_reject(self):
        self.run_repeats("reject", lambda first, second, whole: self.assertTrue(whole))

    def test_interrupt(self):
        self.run_repeats("interrupt", None)

    def test_rollback(self):
        self.run_repeats("rollback", None)

    def test_steer_reads_only_what_is_new(self):
        def check(first, second, whole):
            if whole:
                return
            # All that was computed when it was steered, up to the last whole block: the last token may not be in yet.
            computed = first.usage.total_tokens - 1
            self.assertGreaterEqual(second.usage.input_tokens_details.cached_tokens, computed // BLOCK * BLOCK)
        self.run_repeats("steer", check)

    def run_repeats(self, policy, check):
        moments = random.Random(f"{self.seed} {policy}")
        cut = refused = 0
        for repeat in range(REPEATS):
            # The first while it runs for certain; of the others some come when it has just ended.
            moment = moments.uniform(0, 1.1 if repeat else 0.3) * self.lasts
            first, second, whole = self.repeat(policy, moment)
            cut += not whole
            refused += second is None
            if check:
                check(first, second, whole)
        if AMOUNT != "short":
            self.assertGreater({"reject": refused, "enqueue": 1}.get(policy, cut), 0)
        figure(f"{policy}: {REPEATS} repeats, {cut} cut short, {refused} refused")
