"""N33: brokers, servers and subscribers are killed at random while many sessions talk; the broker carries, the store remembers.

Some kills in `make test`; `run.py --kills N` runs N of them.
"""
import os
import random
import time
import unittest

from harness import STEP_S, amount, eventually, stand_in
from mqtt_world import PASSWORDS, Ledger, World

KILLS = int(os.environ.get("E2E_KILLS") or amount(6, 6, 60))
TURNS, AT_ONCE, SESSIONS = 20, 4, 10  # of a session; of it unanswered; concurrent sessions of each user
ASK_AGAIN_S = 15


class Kills(unittest.TestCase):
    def setUp(self):
        self.world = World(model=stand_in())
        self.addCleanup(self.world.close)

    def ledger(self, user):
        ledger = Ledger(self.world, user)
        self.addCleanup(ledger.close)
        return ledger

    def test_after_a_server_is_killed_finals_come_unasked_and_once(self):
        """No client asks again: after a restart the server publishes stored answers by itself. An answer that was being
        delivered at the kill may come once more, under the same id, because its acknowledgement is stored after the
        delivery."""
        ledger, rounds, before = self.ledger("anna"), 4, set()
        for one in range(rounds):
            for name in range(3):
                ledger.say(f"r{one}", f"m{name}", f"message {name}", max_output_tokens=1000, ignore_eos=True)

            def accepted():
                ledger.hear()
                return sum(session == f"r{one}" for session, _ in ledger.turns) == 3
            eventually(accepted, lambda: f"accepted: {ledger.turns}")
            time.sleep(0.05 * one)
            self.world.kill_server()
            time.sleep(0.3)  # for what the broker has of it
            ledger.hear()
            before |= {key for key in ledger.finals if key[0] == f"r{one}"}
            self.world.start_server()

            def answered():
                ledger.hear()
                return not ledger.unanswered()
            eventually(answered, lambda: f"not told: {ledger.unanswered()}; {self.world.server.log()}")
        time.sleep(1.5)  # longer than a final waits to be sent again
        ledger.hear()
        told_twice = {key for key, finals in ledger.finals.items() if len(finals) > 1}
        self.assertLessEqual(told_twice, before)
        after = set(ledger.finals) - before
        self.assertGreaterEqual(len(after), rounds, f"told before the kills: {before}")
        ledger.check(self, [f"r{one}" for one in range(rounds)])

    def test_random_kills_neither_lose_double_nor_reorder_turns(self):
        seed = int(os.environ.get("E2E_SEED") or time.time())
        chance = random.Random(seed)
        print(f"\n    {KILLS} kills, seed {seed}", flush=True)
        ledgers = [self.ledger(user) for user in PASSWORDS if user != "llmserver"]
        progress = {(ledger, number): [0, 0] for ledger in ledgers for number in range(SESSIONS)}  # session, messages sent in it
        killed = {"broker": 0, "server": 0, "subscriber": 0}

        def talk(goes_on=True):
            for (ledger, number), place in progress.items():
                if place[1] == TURNS and goes_on and self.answered(ledger, number, place) == TURNS:
                    place[:] = [place[0] + 1, 0]
                while place[1] < TURNS and place[1] - self.answered(ledger, number, place) < AT_ONCE:
                    ledger.say(f"s{number}-{place[0]}", f"m{place[1]}", f"message {place[1]}", max_output_tokens=chance.choice((8, 40, 150)),
                               ignore_eos=True)
                    place[1] += 1

        def run(seconds):
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                for ledger in ledgers:
                    ledger.hear()
                    ledger.ask_again(ASK_AGAIN_S)
                talk()
                time.sleep(0.01)

        for _ in range(KILLS):
            run(chance.uniform(0.1, 1.5))
            victim = chance.choices(("broker", "server", "subscriber"), (2, 5, 3))[0]
            killed[victim] += 1
            if victim == "broker":
                self.world.broker.process.kill()
                self.world.broker.process.wait()
                run(chance.uniform(0, 1))
                self.world.broker.start()
            elif victim == "server":
                self.world.kill_server()
                run(chance.uniform(0, 0.5))
                self.world.start_server()
            else:
                collector = chance.choice(ledgers).collector
                collector.kill()
                run(chance.uniform(0, 1))
                collector.start()
        end = time.monotonic() + 3 * STEP_S
        while any(ledger.unanswered() for ledger in ledgers) and time.monotonic() < end:
            for ledger in ledgers:
                ledger.hear()
                ledger.ask_again(ASK_AGAIN_S)
            time.sleep(0.05)
        turns = sum(len(ledger.sent) for ledger in ledgers)
        print(f"    {killed}: {turns} turns in {len({(l, s) for l in ledgers for s, _ in l.sent})} sessions, "
              f"{sum(len(ledger.resent) for ledger in ledgers)} asked again, {sum(ledger.repeats() for ledger in ledgers)} finals carried "
              f"twice, errors {[dict(ledger.errors) for ledger in ledgers]}", flush=True)
        for ledger in ledgers:
            ledger.check(self, sorted({session for session, _ in ledger.sent}))

    @staticmethod
    def answered(ledger, number, place):
        session = f"s{number}-{place[0]}"
        return len(ledger.order[session])


if __name__ == "__main__":
    unittest.main()
