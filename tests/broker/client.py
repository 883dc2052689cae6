"""paho-mqtt, a stock client, whose callbacks put all events into queues."""
import queue

import paho.mqtt.client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from broker import PASSWORDS, PATIENCE_S

V5, V311 = mqtt.MQTTv5, mqtt.MQTTv311


class Client:
    def __init__(self, broker, user="anna", version=V5, client_id="", password=None, will=None, keep=False, expect=0,
                 window=20):
        """`keep`: a session that outlasts the connection. `expect`: the reason code of CONNACK."""
        self.version = version
        self.client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id=client_id, protocol=version,
                                  **({} if version == V5 else {"clean_session": not keep}))
        if user is not None:
            self.client.username_pw_set(user, PASSWORDS.get(user) if password is None else password)
        if will:
            self.client.will_set(*will)
        self.client.max_inflight_messages_set(window)
        self.client.reconnect_delay_set(1, 1)
        self.connected, self.messages, self.gone = queue.Queue(), queue.Queue(), queue.Queue()
        self.subscribed, self.published = queue.Queue(), queue.Queue()
        self.client.on_connect = lambda client, data, flags, reason, properties: self.connected.put(reason)
        self.client.on_message = lambda client, data, message: self.messages.put(message)
        self.client.on_disconnect = lambda client, data, flags, reason, properties: self.gone.put(reason)
        self.client.on_subscribe = lambda client, data, mid, reasons, properties: self.subscribed.put(reasons)
        self.client.on_publish = lambda client, data, mid, reason, properties: self.published.put((mid, reason))
        more = {}
        if version == V5:
            properties = Properties(PacketTypes.CONNECT)
            properties.SessionExpiryInterval = 3600 if keep else 0
            more = {"clean_start": not keep, "properties": properties}
        self.client.connect("127.0.0.1", broker.port, keepalive=60, **more)
        self.client.loop_start()
        reason = self.connected.get(timeout=PATIENCE_S)
        assert reason.value == expect, f"CONNACK {reason}"

    def subscribe(self, *filters):
        self.client.subscribe([(one, mqtt.SubscribeOptions(qos=1)) if self.version == V5 else (one, 1) for one in filters])
        return self.subscribed.get(timeout=PATIENCE_S)

    def publish(self, topic, payload, qos=1, retain=False, **properties):
        """Without waiting."""
        given = None
        if properties:
            given = Properties(PacketTypes.PUBLISH)
            for name, value in properties.items():
                setattr(given, name, value)
        return self.client.publish(topic, payload, qos, retain, given)

    def told(self):
        """The reason code of the next PUBACK; of 3.1.1 always 0."""
        return self.published.get(timeout=PATIENCE_S)[1].value

    def next(self, timeout=PATIENCE_S):
        try:
            return self.messages.get(timeout=timeout)
        except queue.Empty:
            raise AssertionError(f"no message within {timeout} s") from None

    def rest(self):
        messages = []
        while not self.messages.empty():
            messages.append(self.messages.get())
        return messages

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.disconnect()
        self.client.loop_stop()
