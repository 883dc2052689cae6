"""`paho-mqtt`, a stock client, with the embedded listener, in MQTT 3.1.1 and 5, over TCP and WebSocket."""
import os
import queue
import subprocess
import threading
import unittest

import paho.mqtt.client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

PATIENCE_S = 30


class Host:
    def __init__(self):
        self.process = subprocess.Popen([os.environ["MQTT_HOST"]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port, self.websocket_port = map(int, self.process.stdout.readline().split()[-2:])

    def stop(self):
        """The exit status."""
        self.process.stdin.close()
        try:
            return self.process.wait(PATIENCE_S)
        finally:
            self.process.kill()
            self.process.stdout.close()


class Client:
    """One connection, with everything that happens to it in queues."""

    def __init__(self, host, user="alice", client_id="", version=mqtt.MQTTv5, websocket=False, password=None, will=None,
                 clean=True, expiry_s=0):
        five = version == mqtt.MQTTv5
        self.client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id=client_id, protocol=version,
                                  transport="websockets" if websocket else "tcp", **({} if five else {"clean_session": clean}))
        if user is not None:
            self.client.username_pw_set(user, f"secret of {user}" if password is None else password)
        if will:
            self.client.will_set(*will)
        self.connected, self.messages, self.gone = queue.Queue(), queue.Queue(), queue.Queue()
        self.subscribed, self.published = queue.Queue(), queue.Queue()
        self.client.on_connect = lambda client, data, flags, reason, properties: self.connected.put((reason, flags, properties))
        self.client.on_message = lambda client, data, message: self.messages.put(message)
        self.client.on_disconnect = lambda client, data, flags, reason, properties: self.gone.put(reason)
        self.client.on_subscribe = lambda client, data, mid, reasons, properties: self.subscribed.put(reasons)
        self.client.on_publish = lambda client, data, mid, reason, properties: self.published.put(reason)
        if websocket:
            self.client.ws_set_options(path="/mqtt")
        more = {}
        if five:
            properties = Properties(PacketTypes.CONNECT)
            properties.SessionExpiryInterval = expiry_s
            more = {"clean_start": clean, "properties": properties}
        self.client.connect("127.0.0.1", host.websocket_port if websocket else host.port, keepalive=60, **more)
        self.client.loop_start()
        self.reason, self.flags, self.properties = self.connected.get(timeout=PATIENCE_S)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.disconnect()
        self.client.loop_stop()

    def subscribe(self, topic, qos=1):
        self.client.subscribe(topic, qos)
        return self.subscribed.get(timeout=PATIENCE_S)[0]

    def publish(self, topic, payload, qos=1, **properties):
        """The reason of the acknowledgement."""
        given = None
        if properties:
            given = Properties(PacketTypes.PUBLISH)
            for name, value in properties.items():
                setattr(given, name, value)
        self.client.publish(topic, payload, qos, properties=given)
        return self.published.get(timeout=PATIENCE_S)

    def message(self):
        return self.messages.get(timeout=PATIENCE_S)

    def drop(self):
        """Goes without a word."""
        self.client.loop_stop()
        self.client.socket().close()


class PahoTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.host = Host()

    @classmethod
    def tearDownClass(cls):
        status = cls.host.stop()
        assert status == 0, f"exit status {status}"

    def kinds(self):
        for version in (mqtt.MQTTv311, mqtt.MQTTv5):
            for websocket in (False, True):
                with self.subTest(version=version, websocket=websocket):
                    yield {"version": version, "websocket": websocket}

    def test_a_turn_there_and_back(self):
        for kind in self.kinds():
            with Client(self.host, **kind) as client:
                self.assertFalse(client.reason.is_failure)
                self.assertFalse(client.subscribe("llm/v1/alice/+/out").is_failure)
                for text in ("hello", "grüße", "x" * 200_000):
                    self.assertFalse(client.publish("llm/v1/alice/s1/in", text).is_failure)
                    message = client.message()
                    self.assertEqual(message.topic, "llm/v1/alice/s1/out")
                    self.assertEqual(message.payload.decode(), text)
                    self.assertEqual(message.qos, 1)

    def test_two_hundred_turns_of_ten_clients_reach_their_own(self):
        def talk(number, failures):
            try:
                user = f"user{number}"
                with Client(self.host, user=user, version=mqtt.MQTTv5 if number % 2 else mqtt.MQTTv311) as client:
                    client.subscribe(f"llm/v1/{user}/#")
                    for turn in range(20):
                        client.client.publish(f"llm/v1/{user}/s/in", f"{number} {turn}", 1)
                    answers = []
                    while len(answers) < 20:
                        message = client.message()
                        if message.topic.endswith("/out"):
                            answers.append(message.payload.decode())
                    if answers != [f"{number} {turn}" for turn in range(20)]:
                        failures.append((number, answers))
            except Exception as error:  # reported by the test, not by the thread
                failures.append((number, repr(error)))

        failures = []
        threads = [threading.Thread(target=talk, args=(number, failures)) for number in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])

    def test_a_wrong_password_and_nobody_are_refused(self):
        for kind in self.kinds():
            for who in ({"password": "wrong"}, {"user": None}):
                client = Client(self.host, **who, **kind)
                self.assertTrue(client.reason.is_failure)
                client.client.loop_stop()

    def test_a_user_reads_and_writes_nothing_of_another(self):
        for kind in self.kinds():
            with Client(self.host, user="bob", **kind) as bob:
                for topic in ("#", "llm/v1/alice/#", "llm/v1/+/+/out", "$SYS/#"):
                    self.assertTrue(bob.subscribe(topic).is_failure, topic)
                if kind["version"] == mqtt.MQTTv5:
                    self.assertEqual(bob.publish("llm/v1/alice/s/in", "forged").value, 0x87)

    def test_the_servers_status_is_retained(self):
        for kind in self.kinds():
            with Client(self.host, **kind) as client:
                client.subscribe("llm/v1/server/+/status")
                message = client.message()
                self.assertTrue(message.retain)
                self.assertEqual(message.payload, b'{"online":true}')

    def test_correlation_data_and_response_topic(self):
        with Client(self.host) as client:
            client.subscribe("llm/v1/alice/#")
            client.publish("llm/v1/alice/s/in", "x", ResponseTopic="llm/v1/alice/other/out", CorrelationData=b"\0\xff")
            answer = next(message for message in iter(client.message, None) if message.topic.endswith("out"))
            self.assertEqual(answer.topic, "llm/v1/alice/other/out")
            self.assertEqual(answer.properties.CorrelationData, b"\0\xff")
            self.assertEqual(answer.properties.ContentType, "text/plain")
            self.assertEqual(client.publish("llm/v1/alice/s/in", "x", ResponseTopic="llm/v1/bob/s/out").value, 0x87)

    def test_a_session_waits_for_its_client(self):
        for version in (mqtt.MQTTv311, mqtt.MQTTv5):
            with self.subTest(version=version):
                name = f"resuming{version}"
                with Client(self.host, client_id=name, version=version, clean=False, expiry_s=60) as client:
                    self.assertFalse(client.flags.session_present)
                    client.subscribe("llm/v1/alice/away/out")
                with Client(self.host, version=version) as other:
                    other.publish("llm/v1/alice/away/in", "meanwhile")
                with Client(self.host, client_id=name, version=version, clean=False, expiry_s=0) as client:
                    self.assertTrue(client.flags.session_present)
                    self.assertEqual(client.message().payload, b"meanwhile")
                with Client(self.host, client_id=name, version=version):
                    pass

    def test_a_second_connection_takes_the_id_over(self):
        first = Client(self.host, client_id="twice")
        first.client.reconnect_delay_set(600, 600)
        with Client(self.host, client_id="twice") as second:
            self.assertEqual(first.gone.get(timeout=PATIENCE_S).value, 0x8E)
            self.assertFalse(second.subscribe("llm/v1/alice/#").is_failure)
        first.client.loop_stop()

    def test_a_will_is_published_when_its_client_is_lost(self):
        with Client(self.host) as watcher:
            watcher.subscribe("llm/v1/alice/status")
            lost = Client(self.host, will=("llm/v1/alice/status", '{"online":false}', 1, True))
            lost.drop()
            self.assertEqual(watcher.message().payload, b'{"online":false}')
            watcher.client.publish("llm/v1/alice/status", "", 1, retain=True)
            watcher.message()
            with Client(self.host, will=("llm/v1/alice/status", "gone", 1, False)):
                pass
            watcher.publish("llm/v1/alice/status", "last")
            self.assertEqual(watcher.message().payload, b"last", "no Will after a goodbye")


if __name__ == "__main__":
    unittest.main()
