"""Messages and their properties both ways, in both versions of MQTT; refusals; when messages are acknowledged."""
import time
import unittest

from broker import Broker
from client import Client, V311, V5
from host import Host

IN, OUT = "llm/v1/anna/s1/in", "llm/v1/anna/s1/out"
BROKERS_PAYLOAD = 960_000  # message_size_limit of share/mosquitto/tutti.conf


class Messages(unittest.TestCase):
    def setUp(self):
        self.broker = Broker()
        self.addCleanup(self.broker.close)

    def test_a_stock_client_exchanges_messages_in_each_version(self):
        for bridge_version in ("5", "3.1.1"):
            for client_version in (V5, V311):
                with self.subTest(bridge=bridge_version, client=client_version), \
                        Host(self.broker, version=bridge_version, client_id=f"tutti-{bridge_version}") as host, \
                        Client(self.broker, version=client_version) as anna:
                    anna.subscribe(OUT)
                    for qos in (0, 1):
                        anna.publish(IN, "\u00fcber Str\u00f6me", qos)
                        message = host.next("message")
                        self.assertEqual((message["topic"], message["payload"], message["qos"], message["redelivered"]),
                                         (IN, "\u00fcber Str\u00f6me", qos, False))
                        host.do("publish", topic=OUT, payload=f"answer {qos}", qos=qos)
                        answer = anna.next()
                        self.assertEqual((answer.payload.decode(), answer.qos), (f"answer {qos}", qos))
                        self.assertEqual(host.next("published")["reason"], "")
                    self.assertEqual(host.stop()["reason"], "")

    def test_properties_go_both_ways(self):
        with Host(self.broker) as host, Client(self.broker) as anna:
            anna.subscribe(OUT)
            anna.publish(IN, "{}", ResponseTopic=OUT, CorrelationData=b"attempt 1", ContentType="application/json",
                         PayloadFormatIndicator=1, MessageExpiryInterval=30,
                         UserProperty=[("traceparent", "00-ab"), ("a", "1"), ("a", "2")])
            message = host.next("message")
            self.assertEqual(message["response_topic"], OUT)
            self.assertEqual(message["correlation"], "attempt 1")
            self.assertEqual(message["content_type"], "application/json")
            self.assertTrue(message["text"])
            self.assertTrue(28 < message["expires_s"] <= 30, message["expires_s"])
            self.assertEqual(message["user"], [["traceparent", "00-ab"], ["a", "1"], ["a", "2"]])

            host.do("publish", topic=OUT, payload="{}", text=True, content_type="application/json", response_topic=IN,
                    correlation="attempt 1", expires_ms=20_000, user=[["seq", "7"], ["seq", "8"]])
            answer = anna.next().properties
            self.assertEqual(answer.ResponseTopic, IN)
            self.assertEqual(answer.CorrelationData, b"attempt 1")
            self.assertEqual(answer.ContentType, "application/json")
            self.assertEqual(answer.PayloadFormatIndicator, 1)
            self.assertTrue(18 <= answer.MessageExpiryInterval <= 20)
            self.assertEqual(answer.UserProperty, [("seq", "7"), ("seq", "8")])

    def test_what_was_not_accepted_stays_at_the_broker_after_a_kill(self):
        for version in ("5", "3.1.1"):
            with self.subTest(version=version), Client(self.broker) as anna:
                name = f"killed-{version}"
                with Host(self.broker, client_id=name, version=version, sink="keep") as host:
                    for n in range(5):
                        anna.publish(IN, f"prompt {n}")
                    host.many("message", 5)
                    self.assertEqual(host.statistics()["unacknowledged"], 5)
                    host.kill()
                # No message was acknowledged, so all are delivered again, in order and marked as redelivered.
                with Host(self.broker, client_id=name, version=version, sink="keep") as host:
                    again = host.many("message", 5)
                    self.assertEqual([m["payload"] for m in again], [f"prompt {n}" for n in range(5)])
                    self.assertTrue(all(m["redelivered"] for m in again))
                    host.do("accept")
                    host.until(lambda now: now["unacknowledged"] == 0)
                    host.stop()
                with Host(self.broker, client_id=name, version=version) as host:
                    anna.publish(IN, "next")
                    self.assertEqual(host.next("message")["payload"], "next", "what was accepted does not come again")
                    host.stop()

    def test_after_a_sink_throws_it_reconnects_and_loses_nothing(self):
        with Host(self.broker, sink="throw:2") as host, Client(self.broker) as anna:
            for n in range(5):
                anna.publish(IN, f"prompt {n}")
            # What is redelivered may arrive, and be refused or accepted, before the subscriptions are granted again,
            # which is when a connection counts.
            stats = host.until(lambda now: now["accepted"] == 5 and now["connected"])
            self.assertEqual(stats["tries_failed"], 2, "each throw ends a connection, and nothing else does")
            self.assertIn(stats["connects"], (2, 3))
            self.assertEqual(list(dict.fromkeys(m["payload"] for m in host.many("message", 7))), [f"prompt {n}" for n in range(5)])
            host.stop()

    def test_what_a_sink_refuses_is_redelivered_in_order(self):
        with Host(self.broker, sink="refuse:3") as host, Client(self.broker) as anna:
            for n in range(10):
                anna.publish(IN, f"prompt {n}")
            stats = host.until(lambda now: now["accepted"] == 10)
            self.assertEqual(stats["refused_by_sinks"], 3)
            self.assertEqual(stats["connects"], 1, "refusing costs no connection")
            seen = host.many("message", 13)
            firsts = list(dict.fromkeys(m["payload"] for m in seen))
            self.assertEqual(firsts, [f"prompt {n}" for n in range(10)])
            for at, message in enumerate(seen):
                earlier = [m["payload"] for m in seen[:at]]
                self.assertEqual(message["redelivered"], message["payload"] in earlier)

    def test_a_bridge_that_accepts_nothing_gets_receive_maximum_only(self):
        with Host(self.broker, sink="keep", receive_maximum=10) as host, Client(self.broker) as anna:
            for n in range(35):
                anna.publish(IN, f"prompt {n}")
            for _ in range(35):
                anna.told()
            seen = host.many("message", 10)
            time.sleep(0.3)  # in which more would come
            self.assertEqual(host.rest("message"), [])
            self.assertEqual(host.statistics()["unacknowledged"], 10)
            # From here on mosquitto 2.0.11 no longer counts, which is borne.
            while len(seen) < 35:
                host.do("accept")
                seen += host.rest("message")
                time.sleep(0.01)
            self.assertEqual([m["payload"] for m in seen], [f"prompt {n}" for n in range(35)])
            self.assertEqual(host.statistics()["connects"], 1)

    def test_what_exceeds_its_room_is_left_in_the_socket(self):
        for version in ("5", "3.1.1"):
            with self.subTest(version=version), \
                    Host(self.broker, version=version, client_id=f"room-{version}", sink="keep", receive_bytes=50_000) as host, \
                    Client(self.broker, window=200) as anna:
                text = "x" * 4000
                for n in range(300):
                    anna.publish(IN, f"{n} {text}")
                seen = host.many("message", 12)
                while len(seen) < 300:
                    host.do("accept")
                    seen += host.rest("message")
                    # Some 12 fit, and those of one read beyond.
                    self.assertLessEqual(host.statistics()["unacknowledged"], 12 + 16384 // 4000 + 1)
                    time.sleep(0.005)
                self.assertEqual([int(m["payload"].split()[0]) for m in seen], list(range(300)))
                self.assertEqual(host.statistics()["connects"], 1)

    def test_the_largest_broker_payload_passes_both_ways(self):
        for version in ("5", "3.1.1"):
            with self.subTest(version=version), Host(self.broker, version=version, client_id=f"large-{version}") as host, \
                    Client(self.broker) as anna:
                anna.subscribe(OUT)
                anna.publish(IN, b"x" * BROKERS_PAYLOAD)
                self.assertEqual(host.next("message")["size"], BROKERS_PAYLOAD)
                host.do("publish", topic=OUT, size=BROKERS_PAYLOAD - 500)
                self.assertEqual(len(anna.next().payload), BROKERS_PAYLOAD - 500)
                host.next("published")
                host.stop()

    def test_what_is_too_large_is_refused_and_others_go_on(self):
        with Host(self.broker) as host, Client(self.broker) as anna:
            anna.subscribe(OUT)
            host.do("publish", topic=OUT, size=BROKERS_PAYLOAD)
            refused = host.next("refused")
            self.assertEqual(refused["reason"], "request_too_large")
            self.assertIn(str(BROKERS_PAYLOAD), refused["message"])
            host.do("publish", topic=OUT, payload="small")
            self.assertEqual(anna.next().payload, b"small")
            self.assertEqual(host.statistics()["connects"], 1)

    def test_what_is_too_large_for_the_broker_is_not_sent_again(self):
        with Host(self.broker, publish_bytes=1 << 20) as host, Client(self.broker) as anna:
            anna.subscribe(OUT)
            host.do("publish", topic=OUT, size=BROKERS_PAYLOAD + 1)
            self.assertEqual(host.next("published")["reason"], "request_too_large", "the broker's word")
            host.do("publish", topic=OUT, payload="small")
            self.assertEqual(anna.next().payload, b"small")
            host.until(lambda now: now["waiting"] == 0)
            self.assertLessEqual(host.statistics()["connects"], 2)

    def test_a_bridge_with_small_packets_is_not_sent_large_ones(self):
        with Host(self.broker, packet_bytes=10_000) as host, Client(self.broker) as anna:
            anna.publish(IN, b"x" * 10_000)
            anna.publish(IN, "small")
            self.assertEqual(host.next("message")["payload"], "small")
            self.assertEqual(host.statistics()["connects"], 1)

    def test_in_the_older_version_they_are_skipped_and_acknowledged(self):
        with Host(self.broker, version="3.1.1", packet_bytes=10_000) as host, Client(self.broker) as anna:
            for n in range(5):
                anna.publish(IN, b"x" * (10_000 + 100_000 * n))
                anna.publish(IN, f"small {n}")
            self.assertEqual([m["payload"] for m in host.many("message", 5)], [f"small {n}" for n in range(5)])
            stats = host.until(lambda now: now["unacknowledged"] == 0)
            self.assertEqual((stats["too_large"], stats["accepted"], stats["connects"]), (5, 5, 1))
            host.stop()
        with Host(self.broker, version="3.1.1", packet_bytes=10_000) as host:
            again = host.statistics()
            self.assertEqual((again["received"], again["too_large"]), (0, 0))

    def test_who_publishes_is_told_the_brokers_verdict(self):
        with Host(self.broker) as host, Client(self.broker) as anna:
            anna.subscribe(OUT)
            for topic, reason in ((OUT, ""), ("llm/v1/anna/s2/out", "not_found"), ("elsewhere", "insufficient_scope")):
                host.do("publish", topic=topic, payload=topic)
                self.assertEqual(host.next("published")["reason"], reason, topic)
            for topic in ("llm/#", "", "a/+"):
                host.do("publish", topic=topic, payload="x")
                self.assertEqual(host.next("refused")["reason"], "invalid_value", topic)

    def test_messages_of_a_subscription_that_is_no_more_do_no_work(self):
        with Host(self.broker, filters="llm/v1/+/+/in,llm/v1/+/+/ctl") as host:
            host.stop()
        with Client(self.broker) as anna:
            for n in range(20):
                anna.publish("llm/v1/anna/s1/ctl", f"control {n}")
            anna.publish(IN, "prompt")
            for _ in range(21):
                anna.told()
        with Host(self.broker) as host:
            self.assertEqual(host.next("message")["payload"], "prompt")
            stats = host.until(lambda now: now["unmatched"] == 20 and now["unacknowledged"] == 0)
            self.assertEqual(stats["accepted"], 1)

    def test_twenty_thousand_messages_pass_without_loss_in_order(self):
        amount = 2_000 if host_is_slow() else 20_000
        with Host(self.broker) as host, Client(self.broker, window=1000) as anna:
            anna.subscribe(OUT)
            for begin in range(0, amount, 5_000):
                count = min(5_000, amount - begin)
                host.do("publish", topic=OUT, payload=f"{begin}", count=count)
                heard = [anna.next().payload.decode() for _ in range(count)]
                self.assertEqual(heard, [f"{begin}:{n}" for n in range(count)])
            self.assertEqual(host.until(lambda now: now["waiting"] == 0)["published"], amount)


def host_is_slow():
    import os
    return bool(os.environ.get("BRIDGE_SHORT"))


if __name__ == "__main__":
    unittest.main()
