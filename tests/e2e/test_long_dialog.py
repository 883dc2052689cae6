"""Row N36: dialogs of 60 turns that outgrow their window several times, over HTTP and over MQTT at once: the cached part of each
prompt, how often and how far the history is truncated, how that is reported, and requests that forbid it."""
import collections
import concurrent.futures
import json
import random
import re
import unittest

import openai

from harness import MODEL, STEP_S, amount, figure
from test_mqtt import Chat, mqtt_port, serve
from test_responses import client_of

TURNS = amount(60, 30, 60)  # of about 60 tokens
CONTEXT, ANSWER = amount(1536, 768, 1536), 16
WINDOW = CONTEXT - ANSWER  # tokens of a prompt
# Prompt tokens of earlier turns that may be missing from the cache: part of a block, and the last answer with what the
# template puts behind it, where tokenising its text gives other tokens than the model generated.
LACKS = 32 + ANSWER + 2
LONG = amount(20, 10, 20)  # LACKS times this: half of the window, or two thirds
WORDS = "river stone cloud lemon seven north glass winter copper garden letter window".split()

# `dropped`: (turns, items), or none
Said = collections.namedtuple("Said", "prompt cached answer dropped")


class TooLong(Exception):
    """Refused; the tokens that the prompt has."""

    def __init__(self, text):
        super().__init__(text)
        self.tokens, self.most = map(int, re.search(r"has (\d+) tokens.* (\d+)$", text).groups())


def said(response, dropped):
    usage = response["usage"]
    return Said(usage["input_tokens"], usage["input_tokens_details"]["cached_tokens"], usage["output_tokens"], dropped)


class OverHttp:
    def __init__(self, server):
        self.client = client_of(server)
        self.conversation = self.client.conversations.create().id
        self.cuts = 0

    def say(self, text, truncation):
        body = {"model": MODEL, "conversation": self.conversation, "input": text, "truncation": truncation,
                "max_output_tokens": ANSWER, "temperature": 0}
        try:
            if truncation == "auto":
                self.cuts += 1
                if self.cuts % 2 == 0:
                    return self.stream(body)
            answer = self.client.responses.with_raw_response.create(**body)
        except openai.BadRequestError as error:
            assert error.status_code == 400 and error.code == "context_length_exceeded", error
            raise TooLong(error.body["message"]) from None
        items = answer.headers.get("x-context-dropped-items")
        return said(json.loads(answer.text), (int(items) // 2, int(items)) if items else None)

    def stream(self, body):
        events = [event.model_dump() for event in self.client.responses.create(**body, stream=True)]
        cut = [event for event in events if event["type"] == "context.truncated"]
        return said(events[-1]["response"], (cut[0]["dropped_turns"], cut[0]["dropped_items"]) if cut else None)

    def texts(self):
        """The texts of the user's messages, oldest first."""
        items = self.client.conversations.items.list(self.conversation, limit=100, order="asc")
        return [item.content[0].text for item in items if item.role == "user"]

    def close(self):
        self.client.close()


class OverMqtt:
    def __init__(self, server):
        self.chat = Chat(mqtt_port(server), "ada", "long")
        self.sent = 0

    def say(self, text, truncation):
        self.sent += 1
        # Truncation "auto" is the default here.
        self.chat.say(text, f"m-{self.sent}", max_output_tokens=ANSWER, **({} if truncation == "auto" else {"truncation": truncation}))
        events = self.chat.turn()
        if events[-1]["type"] == "error":
            assert events[-1]["code"] == "context_length_exceeded" and len(events) == 1, events
            raise TooLong(events[-1]["message"])
        cut = [event for event in events if event["type"] == "context.truncated"]
        return said(events[-1]["response"], (cut[0]["dropped_turns"], cut[0]["dropped_items"]) if cut else None)

    def texts(self):
        """The texts of the user's last messages."""
        self.chat.control(type="history", id="h", limit=100)
        return [item["content"] for item in self.chat.out.get(timeout=STEP_S)["items"] if item["role"] == "user"]

    def close(self):
        self.chat.close()


class LongDialogs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = serve(options=("--context", str(CONTEXT)))

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0

    def run_dialog(self, dialog, seed):
        """[(answer, tokens of the refused prompt if it had to be cut)]"""
        rng, turns, texts = random.Random(seed), [], []
        for turn in range(TURNS):
            text = f"{turn}: " + " ".join(rng.choice(WORDS) for _ in range(rng.randrange(20, 70)))
            texts.append(text)
            try:
                turns.append((dialog.say(text, "disabled"), None))
            except TooLong as error:
                self.assertGreater(error.tokens, WINDOW)
                self.assertEqual(error.most, WINDOW)
                turns.append((dialog.say(text, "auto"), error.tokens))
        there = dialog.texts()
        self.assertGreaterEqual(len(there), TURNS - 10)
        self.assertEqual(there, texts[-len(there):], "each once, those that were refused at first too")
        return turns

    def judge(self, name, turns):
        before, since, cuts, dropped, cached, earlier, shares = None, 0, 0, 0, 0, 0, []
        for number, (now, refused) in enumerate(turns):
            if refused is not None:
                self.assertIsNotNone(now.dropped, f"{name}: turn {number} was cut, and nothing says so")
                turns_gone, items_gone = now.dropped
                self.assertGreater(turns_gone, 0)
                self.assertEqual(items_gone, 2 * turns_gone)
                self.assertLessEqual(now.prompt, WINDOW - WINDOW // 4, f"{name}: turn {number} after a cut")
                self.assertGreaterEqual(refused - since, WINDOW // 4, f"{name}: tokens since the last cut")
                cuts, dropped, since = cuts + 1, dropped + turns_gone, now.prompt
            else:
                self.assertIsNone(now.dropped, f"{name}: turn {number}")
                self.assertLessEqual(now.prompt, WINDOW)
                if before is not None:
                    there = before.prompt + before.answer
                    cached, earlier = cached + now.cached, earlier + there
                    self.assertGreaterEqual(now.cached, there - LACKS, f"{name}: turn {number}, {there} tokens before it")
                    if there >= LONG * LACKS:  # else that is more than 1 / LONG of them
                        shares.append(now.cached / there)
            before = now
        self.assertGreaterEqual(cuts, 4)
        self.assertGreater(len(shares), TURNS // 4)
        figure(f"{name}: {cached / earlier:.2%} of {earlier} earlier tokens were cached over {TURNS - cuts - 1} turns without a cut, "
               f"{min(shares):.2%} at least where they were {LONG * LACKS} or more; {cuts} cuts, {dropped} turns")
        self.assertGreaterEqual(min(shares), 1 - 1 / LONG)
        self.assertGreaterEqual(cached / earlier, 1 - 1 / LONG)

    def test_dialogs_over_http_and_mqtt_keep_their_cache(self):
        dialogs = {"HTTP": OverHttp(self.server), "MQTT": OverMqtt(self.server)}
        with concurrent.futures.ThreadPoolExecutor(len(dialogs)) as pool:
            runs = {name: pool.submit(self.run_dialog, dialog, name) for name, dialog in dialogs.items()}
        for name, run in runs.items():
            self.judge(name, run.result())
            dialogs[name].close()

    def test_a_refused_message_leaves_the_dialog_as_it_was(self):
        dialog = OverHttp(self.server)
        self.addCleanup(dialog.close)
        first = dialog.say("stone " * (WINDOW * 3 // 4), "disabled")
        with self.assertRaises(TooLong) as refused:
            dialog.say("river " * (WINDOW // 2), "disabled")
        self.assertGreater(refused.exception.tokens, WINDOW)
        self.assertEqual(len(dialog.texts()), 1)
        second = dialog.say("And now?", "disabled")
        self.assertIsNone(second.dropped)
        self.assertGreaterEqual(second.cached, first.prompt + first.answer - LACKS)
        # A message that does not fit even without history is refused under every truncation setting.
        with self.assertRaises(TooLong):
            dialog.say("river " * (WINDOW + 100), "auto")
        self.assertEqual(len(dialog.texts()), 2)


if __name__ == "__main__":
    unittest.main()
