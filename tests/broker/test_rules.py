"""Authentication, and permissions to read and write topics, under the shipped rules."""
import pathlib
import time
import unittest

from broker import Broker, PASSWORDS
from client import Client, V311, V5
from host import Host

REFUSED = 0x87  # "not authorised"; mosquitto uses it for wrong passwords too, and paho maps 3.1.1's 5 to it
AMOUNT = 50
# Everything that might show others' messages.
CURIOUS = ("#", "+/+/+/+/+", "llm/#", "llm/v1/#", "llm/v1/+/+/in", "llm/v1/anna/#", "llm/v1/anna/s1/out", "$share/g/#",
           "$share/g/llm/v1/#", "$share/g/llm/v1/anna/s1/in", "llm/v1/anna/status")


class Rules(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # A user whose name is a wildcard would match all topics if %u were put in as it is.
        cls.broker = Broker(users={**PASSWORDS, "+": "secret of plus"})

    @classmethod
    def tearDownClass(cls):
        cls.broker.close()

    def test_a_wrong_password_is_refused(self):
        for version in (V5, V311):
            for user, password in (("anna", "wrong"), ("anna", PASSWORDS["ben"]), ("nobody", "x"), ("anna", "")):
                with self.subTest(version=version, user=user), \
                        Client(self.broker, user, version, password=password, expect=REFUSED):
                    pass

    def test_nobody_comes_in_without_a_name(self):
        for version in (V5, V311):
            with self.subTest(version=version), Client(self.broker, None, version, expect=REFUSED):
                pass

    def test_a_bridge_with_a_wrong_password_reports_it_and_backs_off(self):
        with Host(self.broker, connect=False, password="hunter2", client_id="wrong") as host:
            stats = host.until(lambda now: now["tries_failed"] >= 2)
            self.assertEqual(stats["last_failure"], "broker_credentials")
            self.assertFalse(stats["connected"])
            before, began = stats["tries_failed"], time.monotonic()
            time.sleep(1.5)
            # The waits are at least 0.5, 1 and 2 s from the first on.
            self.assertLessEqual(host.statistics()["tries_failed"] - before, 1 + (time.monotonic() - began) / 1.0)
            cpu = pathlib.Path(f"/proc/{host.process.pid}/stat").read_text().split()
            self.assertLess(int(cpu[13]) + int(cpu[14]), 100, "ticks of 10 ms: it does not spin")
            host.do("publish", topic="llm/v1/anna/s1/out", payload="x", qos=0)
            self.assertEqual(host.next("refused")["reason"], "overloaded")
            self.assertIn("reason=broker_credentials", host.log())
            self.assertIn("mqtt.password_file", host.log())
            words = pathlib.Path(f"/proc/{host.process.pid}/cmdline").read_text()
            for place in (host.log(), words):
                self.assertNotIn("hunter2", place)

    def test_a_password_change_is_used_at_the_next_connection(self):
        """The file was once read at the start alone: every reconnect after a change was refused until a restart."""
        with Broker(users={**PASSWORDS}) as broker, Host(broker, client_id="rotated") as host:
            broker.add_users({"llmserver": "another secret"})
            broker.end()
            broker.start()
            host.until(lambda now: now["last_failure"] == "broker_credentials")
            # An unreadable password file is logged and stops nothing.
            host.secret.write_text("")
            host.until(lambda now: "mqtt.bridge.password_not_read" in host.log())
            host.secret.write_text("another secret\n")
            stats = host.until(lambda now: now["connected"])
            self.assertEqual(stats["connects"], 2)
            self.assertNotIn("another secret", host.log())
            host.stop()

    def test_a_topic_refused_by_the_rules_costs_one_connection(self):
        for version in (V5, V311):
            with self.subTest(version=version), Host(self.broker, client_id=f"refused{version}", version=version) as host, \
                    Client(self.broker, "anna", version) as anna:
                anna.subscribe("llm/v1/anna/s1/out")
                for n in range(3):
                    host.do("publish", topic="driving/status", payload=f"status {n}", qos=1, retain=True)
                    host.do("publish", topic="llm/v1/anna/s1/out", payload=f"answer {n}", qos=1)
                    while anna.next().payload != f"answer {n}".encode():
                        pass  # one that was on its way comes twice
                stats = host.until(lambda now: now["connected"] and now["waiting"] == 0)
                self.assertLessEqual(stats["connects"], 2)
                if version == V5:  # 3.1.1 has no word for it
                    reasons = [host.next("published")["reason"] for _ in range(6)]
                    self.assertEqual(reasons.count("insufficient_scope"), 3, reasons)
                    self.assertEqual(host.log().count("mqtt.bridge.publish_refused"), 1)
                host.stop()

    def test_nobody_reads_what_is_anothers(self):
        for version in (V5, V311):
            with self.subTest(version=version), Client(self.broker, "ben", version) as ben, \
                    Client(self.broker, "+", version, password="secret of plus") as plus, \
                    Client(self.broker, "anna", version) as anna, Client(self.broker, "llmserver") as server:
                for curious in (ben, plus):
                    curious.subscribe(*CURIOUS)
                server.subscribe("llm/v1/+/+/in", "llm/v1/+/+/ctl")
                anna.subscribe("llm/v1/anna/#")
                for n in range(AMOUNT):
                    anna.publish("llm/v1/anna/s1/in", f"prompt {n}")
                    anna.publish("llm/v1/anna/s1/ctl", f"control {n}")
                    server.publish("llm/v1/anna/s1/out", f"answer {n}")
                anna.publish("llm/v1/anna/status", "here", retain=True)
                # The retained message, which every client may read, arrives after all that the curious clients could
                # have received.
                server.publish("llm/v1/server/n1/status", "end", retain=True)
                ben.publish("llm/v1/ben/s1/in", "own")
                own = set()
                while len(own) < 2:
                    message = ben.next()
                    own.add(message.topic)
                self.assertEqual(own, {"llm/v1/ben/s1/in", "llm/v1/server/n1/status"})
                for _ in range(3 * AMOUNT):
                    self.assertTrue(anna.next().topic.startswith("llm/v1/anna/"))
                for _ in range(2 * AMOUNT):
                    server.next()
                for curious in (ben, plus):
                    foreign = [message.topic for message in curious.rest() if "anna" in message.topic]
                    self.assertEqual(foreign, [])

    def test_what_is_kept_for_later_is_not_read_by_others_either(self):
        with Client(self.broker, "anna") as anna:
            anna.publish("llm/v1/anna/status", "kept", retain=True)
            self.assertIn(anna.told(), (0, 0x10))
        with Client(self.broker, "ben") as ben, Client(self.broker, "anna") as anna:
            for client in (ben, anna):
                client.subscribe("llm/v1/anna/#", "#")
            self.assertEqual(anna.next().payload, b"kept")
            ben.publish("llm/v1/ben/s1/in", "own")
            topics = []
            while "llm/v1/ben/s1/in" not in topics:
                topics.append(ben.next().topic)
            self.assertEqual([topic for topic in topics if "anna" in topic], [])

    def test_nobody_writes_in_anothers_name(self):
        forged = ("llm/v1/anna/s1/in", "llm/v1/anna/s1/ctl", "llm/v1/anna/status", "llm/v1/anna/s1/out",
                  "llm/v1/ben/s1/out", "llm/v1/server/n1/status", "llm/v1/jobs/a", "other", "driving/user_input",
                  "llm/v1/ben/s1/s2/in", "llm/v1/in")
        for version in (V5, V311):
            with self.subTest(version=version), Client(self.broker, "llmserver") as server, \
                    Client(self.broker, "ben", version) as ben, Client(self.broker, "anna") as anna:
                server.subscribe("llm/v1/+/+/in", "llm/v1/+/+/ctl", "llm/v1/+/status")
                anna.subscribe("llm/v1/anna/#", "llm/v1/server/#")
                server.rest(), anna.rest()
                for topic in forged:
                    ben.publish(topic, "forged")
                    self.assertEqual(ben.told(), REFUSED if version == V5 else 0, topic)
                ben.publish("llm/v1/ben/s1/in", "own")
                anna.publish("llm/v1/anna/s1/in", "own")
                heard = [server.next(), server.next()]
                heard += server.rest()
                heard.append(anna.next())
                heard += anna.rest()
                self.assertNotIn(b"forged", [message.payload for message in heard])

    def test_nobody_dies_in_anothers_name(self):
        with Client(self.broker, "llmserver") as server:
            server.subscribe("llm/v1/+/status")
            ben = Client(self.broker, "ben", will=("llm/v1/anna/status", "forged", 1, True))
            ben.client.loop_stop()
            ben.client.socket().close()
            with Client(self.broker, "ben") as again:
                again.publish("llm/v1/ben/status", "own")
                while True:
                    message = server.next()
                    self.assertNotEqual(message.payload, b"forged")
                    if message.payload == b"own":
                        break


if __name__ == "__main__":
    unittest.main()
