"""Brokers that are stopped, killed, silent or full, processes that are killed, and stopping."""
import os
import signal
import time
import unittest

from broker import Broker
from client import Client, V5
from host import Host

IN, OUT = "llm/v1/anna/s1/in", "llm/v1/anna/s1/out"
STATUS = "llm/v1/server/n1/status"
AMOUNT = 400 if os.environ.get("BRIDGE_SHORT") else 2000


class Faults(unittest.TestCase):
    def setUp(self):
        self.broker = Broker()
        self.addCleanup(self.broker.close)

    def restart(self, number=signal.SIGTERM, down_s=0.5):
        self.broker.end(number)
        time.sleep(down_s)
        self.broker.start()

    def test_a_broker_restart_under_load_loses_nothing(self):
        """Each message goes from a stock client over the bridge, which accepts it when its copy is acknowledged."""
        with Host(self.broker, sink=f"echo:{OUT}") as host, \
                Client(self.broker, client_id="collector", keep=True) as collector, \
                Client(self.broker, client_id="sender", keep=True) as sender:
            collector.subscribe(OUT)
            names, told, unsure = {}, set(), set()
            for n in range(AMOUNT):
                names[sender.publish(IN, f"prompt {n}").mid] = f"prompt {n}"
                if n % 20 == 0:
                    time.sleep(0.005)
                while not sender.published.empty():
                    told.add(names[sender.published.get()[0]])
                if n in (AMOUNT // 4, AMOUNT // 2):
                    host.until(lambda now: now["connected"])
                    # The sender repeats what was not acknowledged, and the broker takes the copy for a new message.
                    unsure |= set(names.values()) - told
                    self.restart()
            wanted = {f"prompt {n}" for n in range(AMOUNT)}
            heard = set()
            while heard != wanted:
                heard.add(collector.next().payload.decode())
            stats = host.until(lambda now: now["connected"] and now["waiting"] == 0 and now["unacknowledged"] == 0)
            self.assertEqual(stats["connects"], 3)
            seen = set()
            for message in host.rest("message"):
                twice = message["payload"] in seen
                self.assertFalse(twice and not message["redelivered"] and message["payload"] not in unsure,
                                 f"{message['payload']} came twice and was not said to")
                seen.add(message["payload"])
            self.assertEqual(seen, wanted)

    def test_what_came_during_an_outage_is_delivered_afterwards(self):
        with Host(self.broker) as host:
            host.stop()
        with Client(self.broker) as anna:
            for n in range(100):
                anna.publish(IN, f"prompt {n}")
            for _ in range(100):
                anna.told()
        self.restart(down_s=0)
        with Host(self.broker) as host:
            self.assertEqual([m["payload"] for m in host.many("message", 100)], [f"prompt {n}" for n in range(100)])

    def test_a_broker_kill_resends_unacknowledged_messages(self):
        with Host(self.broker) as host, Client(self.broker, client_id="collector", keep=True) as collector:
            collector.subscribe(OUT)
            # So that both sessions are on its disk: it writes every five seconds, and may lose what came since.
            self.broker.end()
            self.broker.start()
            host.next("connected")
            collector.connected.get(timeout=30)
            self.broker.send_signal(signal.SIGSTOP)
            host.do("publish", topic=OUT, payload="pending", count=50)
            host.until(lambda now: now["waiting"] == 50)
            self.restart(signal.SIGKILL)
            heard = [collector.next().payload.decode() for _ in range(50)]
            self.assertEqual(heard, [f"pending:{n}" for n in range(50)])
            self.assertEqual({event["reason"] for event in host.many("published", 50)}, {""})
            with Client(self.broker) as anna:
                host.until(lambda now: now["connected"])
                anna.publish(IN, "after")
                self.assertEqual(host.next("message")["payload"], "after", "subscribed again")

    def test_the_will_is_published_after_a_kill_but_not_after_a_stop(self):
        presence = {"will_topic": STATUS, "will_payload": '{"online":false}'}
        with Client(self.broker) as anna:
            anna.subscribe(STATUS)
            with Host(self.broker, **presence) as host:
                host.do("publish", topic=STATUS, payload='{"online":true}', retain=True)
                self.assertEqual(anna.next().payload, b'{"online":true}')
                host.kill()
                self.assertEqual(anna.next().payload, b'{"online":false}')
            with Client(self.broker, "ben") as ben:
                ben.subscribe(STATUS)
                late = ben.next()
                self.assertEqual((late.payload, late.retain), (b'{"online":false}', True))
            with Host(self.broker, **presence) as host:
                host.do("publish", topic=STATUS, payload='{"online":true}', retain=True)
                self.assertEqual(anna.next().payload, b'{"online":true}')
                self.assertEqual(host.stop()["reason"], "")
            anna.subscribe(STATUS)
            self.assertEqual(anna.next().payload, b'{"online":true}', "kept, and no Will after it")
            self.assertEqual(anna.rest(), [])

    def test_a_silent_broker_fills_the_queue_and_one_more_is_refused(self):
        with Host(self.broker, messages=100) as host, Client(self.broker) as anna:
            anna.subscribe(OUT)
            self.broker.send_signal(signal.SIGSTOP)
            host.do("publish", topic=OUT, payload="m", count=130)
            refused = host.many("refused", 30)
            self.assertEqual({event["reason"] for event in refused}, {"overloaded"})
            stats = host.statistics()
            self.assertEqual((stats["waiting"], stats["refused"], stats["published"]), (100, 30, 0))
            self.broker.send_signal(signal.SIGCONT)
            self.assertEqual([anna.next().payload.decode() for _ in range(100)], [f"m:{n}" for n in range(100)])
            host.until(lambda now: now["waiting"] == 0)
            host.do("publish", topic=OUT, payload="room")
            self.assertEqual(anna.next().payload, b"room")

    def test_without_broker_qos_1_is_queued_and_qos_0_refused(self):
        with Host(self.broker, messages=100, bytes=40_000) as host, Client(self.broker, client_id="c", keep=True) as anna:
            anna.subscribe(OUT)
            self.broker.end()
            host.until(lambda now: not now["connected"])
            host.do("publish", topic=OUT, payload="delta", qos=0)
            self.assertEqual(host.next("refused")["reason"], "overloaded")
            host.do("publish", topic=OUT, payload="late", expires_ms=100)
            host.do("publish", topic=OUT, payload="m", count=90)
            host.do("publish", topic=OUT, size=20_000)
            self.assertEqual(host.next("refused")["reason"], "overloaded", "too many bytes")
            host.do("publish", topic=OUT, payload="m", count=10)
            self.assertEqual(host.next("refused")["reason"], "overloaded", "too many messages")
            time.sleep(0.1)
            self.broker.start()
            heard = [anna.next().payload.decode() for _ in range(99)]
            self.assertEqual(heard, [f"m:{n}" for n in range(90)] + [f"m:{n}" for n in range(9)])
            told = {event["payload"]: event["reason"] for event in host.many("published", 100)}
            self.assertEqual(told.pop("late"), "deadline_exceeded")
            self.assertEqual(set(told.values()), {""})

    def test_stopping_sends_what_waits(self):
        with Host(self.broker) as host, Client(self.broker, window=500) as anna:
            anna.subscribe(OUT)
            host.do("publish", topic=OUT, payload="m", count=500)
            self.assertEqual(host.stop()["reason"], "")
            self.assertEqual({event["reason"] for event in host.many("published", 500)}, {""})
            self.assertEqual([anna.next().payload.decode() for _ in range(500)], [f"m:{n}" for n in range(500)])

    def test_stopping_waits_for_receipts_and_acknowledges_them(self):
        with Client(self.broker) as anna:
            with Host(self.broker, sink=f"echo:{OUT}") as host:
                anna.subscribe(OUT)
                for n in range(50):
                    anna.publish(IN, f"m{n}")
                host.next("message")
                self.assertEqual(host.stop()["reason"], "")
                seen = 1 + len(host.rest("message"))
            with Host(self.broker, sink=f"echo:{OUT}") as host:
                # All of them, and none of the accepted again.
                host.many("message", 50 - seen)
                host.until(lambda now: now["unacknowledged"] == 0)
                self.assertEqual(host.rest("message"), [])
            self.assertEqual(sorted(anna.next().payload.decode() for _ in range(50)), sorted(f"m{n}" for n in range(50)))

    def test_stopping_with_a_silent_broker_times_out_with_a_count(self):
        with Host(self.broker) as host:
            self.broker.send_signal(signal.SIGSTOP)
            host.do("publish", topic=OUT, payload="m", count=20)
            began = time.monotonic()
            stopped = host.stop(limit_ms=500)
            self.assertLess(time.monotonic() - began, 10)
            self.assertEqual(stopped["reason"], "deadline_exceeded")
            self.assertIn("20 messages", stopped["message"])
            self.assertEqual({event["reason"] for event in host.many("published", 20)}, {"draining"})

    def test_stopping_without_a_broker_is_immediate_when_queue_empty(self):
        with Host(self.broker) as host:
            self.broker.end()
            host.until(lambda now: not now["connected"])
            began = time.monotonic()
            self.assertEqual(host.stop(limit_ms=60_000)["reason"], "")
            self.assertLess(time.monotonic() - began, 20)

    def test_a_start_without_a_broker_waits_for_one(self):
        self.broker.end()
        with Host(self.broker, connect=False) as host:
            host.until(lambda now: now["tries_failed"] >= 1)
            self.assertEqual(host.statistics()["last_failure"], "broker_unreachable")
            self.broker.start()
            host.next("connected")


if __name__ == "__main__":
    unittest.main()
