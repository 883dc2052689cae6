"""Keys, TLS and browsers' origins, end to end on the program."""
import http.client
import os
import ssl
import subprocess
import tempfile
import unittest

import openai

import tiny_model
from harness import MODEL, STEP_S, Server, ServerCase

ORIGIN = "https://app.example"


class Protected(ServerCase):
    KEY = "sk-e2e-file-key"

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        cls.cert, key, cls.key_file = (os.path.join(folder.name, name) for name in ("cert.pem", "key.pem", "api-key"))
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                        "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key, "-out", cls.cert],
                       check=True, capture_output=True)
        with open(os.open(cls.key_file, os.O_CREAT | os.O_WRONLY, 0o600), "w") as out:
            out.write(cls.KEY + "\n")
        cls.OPTIONS = ("--tls-cert", cls.cert, "--tls-key", key, "--api-key-file", cls.key_file, "--cors-origin", ORIGIN)
        super().setUpClass()
        cls.http = openai.DefaultHttpxClient(base_url=f"https://127.0.0.1:{cls.server.port}", verify=ssl.create_default_context(cafile=cls.cert),
                                timeout=STEP_S)

    @classmethod
    def tearDownClass(cls):
        cls.http.close()
        super().tearDownClass()

    def client(self, key):
        return openai.OpenAI(base_url=f"https://127.0.0.1:{self.server.port}/v1", api_key=key, http_client=self.http, max_retries=0)

    def test_the_stock_client_works_over_tls_with_a_key_file(self):
        client = self.client(self.KEY)
        self.assertEqual(client.models.list().data[0].id, MODEL)
        chunks = client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "Hi"}], max_tokens=8, stream=True)
        self.assertTrue("".join(c.choices[0].delta.content or "" for c in chunks))
        for wrong in ("sk-e2e-file-ke", "sk-e2e-file-key2", "Bearer"):
            with self.assertRaises(openai.AuthenticationError):
                self.client(wrong).models.list()
        self.assertEqual(self.http.get("/metrics").status_code, 401)
        self.assertEqual(self.http.get("/livez").status_code, 200)
        self.assertNotIn(self.KEY, self.server.log())

    def test_clients_without_current_tls_get_nothing(self):
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
        old.set_ciphers("ALL:@SECLEVEL=0")
        old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
        for connection in (http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=STEP_S),
                           http.client.HTTPSConnection("127.0.0.1", self.server.port, timeout=STEP_S, context=old)):
            with self.assertRaises((http.client.HTTPException, OSError)):
                connection.request("GET", "/livez")
                connection.getresponse()
            connection.close()
        self.assertEqual(self.http.get("/livez").status_code, 200)

    def test_browsers_may_call_from_the_named_origin_only(self):
        asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization, content-type"}
        answer = self.http.options("/v1/chat/completions", headers={"Origin": ORIGIN, **asked})
        self.assertEqual(answer.status_code, 204)
        self.assertEqual(answer.headers["access-control-allow-origin"], ORIGIN)
        self.assertIn("POST", answer.headers["access-control-allow-methods"])
        self.assertIn("authorization", answer.headers["access-control-allow-headers"])
        key = {"Authorization": f"Bearer {self.KEY}"}
        self.assertEqual(self.http.get("/v1/models", headers={"Origin": ORIGIN, **key}).headers["access-control-allow-origin"], ORIGIN)
        for foreign in ("https://app.example.evil.example", "http://app.example", "null"):
            answer = self.http.options("/v1/chat/completions", headers={"Origin": foreign, **asked})
            self.assertNotIn("access-control-allow-origin", answer.headers, foreign)

    def test_an_unprotected_or_leaky_start_is_refused(self):
        shared = os.path.join(self.folder, "shared-key")
        with open(shared, "w") as out:
            out.write("sk-shared")
        os.chmod(shared, 0o644)
        for options in (["--host", "0.0.0.0"], ["--host", "0.0.0.0", "--api-key-file", self.key_file], ["--api-key-file", shared],
                        ["--tls-cert", self.cert], ["--cors-origins", ORIGIN]):
            run = subprocess.run([os.environ["E2E_BINARY"], "serve", "--port", "0", *options], capture_output=True, text=True, timeout=STEP_S)
            self.assertEqual(run.returncode, 2 if options[0] == "--cors-origins" else 78, (options, run.stderr))
            self.assertIn("tutti: " if run.returncode == 78 else "cors-origin", run.stderr)


class Names(unittest.TestCase):
    """Under which names the program answers: a page whose name was made to point here has another one."""
    TOML = "[http]\nallowed_hosts = \"llm.example, proxy.internal\"\n"

    def test_listed_names_are_answered_wherever_the_list_came_from(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        model, file = os.path.join(folder.name, "tiny.gguf"), os.path.join(folder.name, "tutti.toml")
        tiny_model.write(model)
        with open(file, "w") as out:
            out.write(self.TOML)
        for options, environment in ((["--allowed-hosts", "LLM.example,proxy.internal"], {}),
                                     ([], {"TUTTI_ALLOWED_HOSTS": "llm.example,proxy.internal"}), (["--config", file], {})):
            server = Server(*options, model=model, environment=environment)
            self.addCleanup(server.process.kill)
            for host, status in (("llm.example", 200), ("Proxy.Internal:443", 200), ("localhost", 200), ("127.0.0.1", 200),
                                 ("evil.example", 403), ("llm.example.evil.example", 403)):
                for path in ("/v1/models", "/livez"):
                    self.assertEqual(server.get(path, headers={"Host": host})[0], status, (options, host, path))
            self.assertIn("--allowed-hosts", server.get("/livez", headers={"Host": "evil.example"})[2])
            self.assertEqual(server.stop(), 0)

    def test_what_is_no_list_of_names_is_refused_at_start(self):
        for value in ("llm.example:8080", "*", "a,,b"):
            run = subprocess.run([os.environ["E2E_BINARY"], "serve", "--port", "0", "--allowed-hosts", value], capture_output=True, text=True,
                                 timeout=STEP_S)
            self.assertEqual(run.returncode, 78, run.stderr)
            self.assertIn("allowed-hosts", run.stderr)


if __name__ == "__main__":
    unittest.main()
