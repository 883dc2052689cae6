"""TLS with the test's own certificate authority."""
import pathlib
import subprocess
import tempfile
import unittest

from broker import Broker
from host import Host

OUT = "llm/v1/anna/s1/out"


def openssl(folder, *words):
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)


def make_authority(folder, name):
    openssl(folder, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}", "-keyout",
            f"{name}.key", "-out", f"{name}.crt")


def make_certificate(folder, authority, name, subject, alternatives=None):
    openssl(folder, "req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={subject}", "-keyout", f"{name}.key", "-out",
            f"{name}.csr")
    names = pathlib.Path(folder, "names")
    names.write_text(f"subjectAltName={alternatives}\n" if alternatives else "")
    openssl(folder, "x509", "-req", "-in", f"{name}.csr", "-CA", f"{authority}.crt", "-CAkey", f"{authority}.key",
            "-CAcreateserial", "-days", "2", "-extfile", "names", "-out", f"{name}.crt")
    pathlib.Path(folder, f"{name}.key").chmod(0o600)


class Tls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.held = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.held.name)
        for name in ("ours", "theirs", "clients-ca"):
            make_authority(cls.folder, name)
        cls.servers = {}
        for name, alternatives in (("good", "IP:127.0.0.1,DNS:localhost"), ("misnamed", "DNS:broker.example")):
            cls.servers[name] = cls.folder / name
            cls.servers[name].mkdir()
            make_certificate(cls.folder, "ours", "broker", "broker", alternatives)
            for file in ("broker.crt", "broker.key"):
                (cls.folder / file).rename(cls.servers[name] / file)
        make_certificate(cls.folder, "clients-ca", "client", "llmserver")
        make_certificate(cls.folder, "theirs", "stranger", "llmserver")

    @classmethod
    def tearDownClass(cls):
        cls.held.cleanup()

    def broker(self, name="good", clients=False):
        folder = self.servers[name]
        wanted = folder / "clients-ca.crt"
        wanted.unlink(missing_ok=True)
        if clients:
            wanted.write_bytes((self.folder / "clients-ca.crt").read_bytes())
        broker = Broker(tls=folder)
        self.addCleanup(broker.close)
        return broker

    def host(self, at, name="127.0.0.1", **settings):
        return Host(at, **{"broker": f"mqtts://{name}:{at.tls_port}", "tls_ca": self.folder / "ours.crt", **settings})

    def exchange(self, host):
        """Through the broker and back, some of it larger than a record of TLS."""
        host.do("publish", topic="llm/v1/anna/s1/in", payload="small", count=200)
        host.do("publish", topic="llm/v1/anna/s1/in", size=300_000)
        sizes = [message["size"] for message in host.many("message", 201)]
        self.assertEqual(sizes[-1], 300_000)
        self.assertEqual({event["reason"] for event in host.many("published", 201)}, {""})

    def failure(self, host):
        return host.until(lambda now: now["tries_failed"] >= 1)["last_failure"]

    def test_a_broker_with_a_trusted_certificate_by_address_and_name(self):
        broker = self.broker()
        for name in ("127.0.0.1", "localhost"):
            with self.subTest(name=name), self.host(broker, name) as host:
                self.exchange(host)
                self.assertEqual(host.stop()["reason"], "")

    def test_a_broker_that_is_stopped_and_started_is_found_again(self):
        broker = self.broker()
        with self.host(broker) as host:
            broker.end()
            broker.start()
            host.next("connected")
            self.exchange(host)

    def test_a_certificate_of_another_authority_is_refused(self):
        with self.host(self.broker(), connect=False, tls_ca=self.folder / "theirs.crt") as host:
            self.assertEqual(self.failure(host), "broker_tls")
            self.assertIn("TLS", host.log())

    def test_so_is_one_of_no_authority_that_the_system_knows(self):
        with self.host(self.broker(), connect=False, tls_ca=None) as host:
            self.assertEqual(self.failure(host), "broker_tls")

    def test_so_is_one_for_another_name(self):
        broker = self.broker("misnamed")
        for name in ("127.0.0.1", "localhost"):
            with self.subTest(name=name), self.host(broker, name, connect=False) as host:
                self.assertEqual(self.failure(host), "broker_tls")

    def test_a_broker_that_does_not_speak_tls_gets_no_clear_text(self):
        broker = self.broker()
        with self.host(broker, connect=False, broker=f"mqtts://127.0.0.1:{broker.port}") as host:
            self.assertIn(self.failure(host), ("broker_tls", "broker_unreachable"))
            self.assertEqual(host.statistics()["connects"], 0)

    def test_a_client_certificate_stands_for_the_user(self):
        broker = self.broker(clients=True)
        keys = {"tls_cert": self.folder / "client.crt", "tls_key": self.folder / "client.key", "username": None,
                "password_file": None}
        with self.host(broker, **keys) as host:
            self.exchange(host)

    def test_without_one_or_with_a_strangers_nobody_comes_in(self):
        broker = self.broker(clients=True)
        stranger = {"tls_cert": self.folder / "stranger.crt", "tls_key": self.folder / "stranger.key"}
        for keys in ({}, stranger):
            with self.subTest(keys=keys), self.host(broker, connect=False, **keys) as host:
                self.assertIn(self.failure(host), ("broker_tls", "broker_gone"))
                self.assertEqual(host.statistics()["connects"], 0)

    def test_a_key_that_others_can_read_is_refused_before_connecting(self):
        key = self.folder / "open.key"
        key.write_bytes((self.folder / "client.key").read_bytes())
        key.chmod(0o644)
        with self.host(self.broker(), connect=False, tls_cert=self.folder / "client.crt", tls_key=key) as host:
            self.assertIn("chmod 600", host.next("stopped")["message"])

    def test_a_broker_elsewhere_without_tls_is_refused(self):
        with self.host(self.broker(), connect=False, broker="mqtt://192.0.2.1", tls_ca=None) as host:
            stopped = host.next("stopped")
            self.assertEqual(stopped["reason"], "invalid_value")
            self.assertIn("mqtts://192.0.2.1", stopped["message"])


if __name__ == "__main__":
    unittest.main()
