"""Administration over HTTP (N46, N49, R31): keys and users, jobs and batches of all tenants, what a caller may see of itself."""
import concurrent.futures
import json
import os
import tempfile
import threading
import time
import unittest
import urllib.request

import openai

from harness import MODEL, STEP_S, Server, eventually, figure, make_key

SCOPES = ("generate", "embed", "tokenize", "models", "metrics")
CHAT = {"model": MODEL, "messages": [{"role": "user", "content": "Name a colour."}], "max_tokens": 4, "temperature": 0}


class Admin(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="tutti-admin-")
        cls.store = os.path.join(cls.folder.name, "store")
        cls.server = Server(environment={"TUTTI_STORE": cls.store})
        cls.admin = make_key(cls.store, "boss", "--routes", "admin")

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0
        cls.folder.cleanup()

    def call(self, method, path, body=None, key=None, **headers):
        status, _, text = self.server.request(method, path, json.dumps(body) if body is not None else None,
                                              {"Authorization": "Bearer " + (key or self.admin), "Content-Type": "application/json", **headers})
        return status, text

    def done(self, method, path, body=None, key=None, **headers):
        status, text = self.call(method, path, body, key, **headers)
        self.assertIn(status, (200, 202), text)
        return json.loads(text)

    def make(self, name, **members):
        return self.done("POST", "/admin/keys", {"name": name, **members})["secret"]

    def test_a_key_works_at_once_and_ends_with_its_streams(self):
        secret = self.make("short", tenant="acme", limits={"requests_per_minute": 50})
        self.assertEqual(self.call("POST", "/v1/chat/completions", CHAT, secret)[0], 200)
        listed = {each["name"]: each for each in self.done("GET", "/admin/keys")["keys"]}
        self.assertEqual((listed["short"]["tenant"], listed["short"]["state"]), ("acme", "active"))
        self.assertNotIn(secret.split("-")[2], self.call("GET", "/admin/keys")[1])
        begun, ended = threading.Event(), []

        def read():
            request = urllib.request.Request(
                self.server.url + "/v1/chat/completions", json.dumps({**CHAT, "max_tokens": 4000, "stream": True, "ignore_eos": True}).encode(),
                {"Authorization": "Bearer " + secret, "Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=STEP_S) as answer:
                for line in answer:
                    begun.set()
                    ended.append(line)

        reader = threading.Thread(target=read)
        reader.start()
        self.assertTrue(begun.wait(STEP_S))
        started = time.monotonic()
        self.assertEqual(self.done("DELETE", "/admin/keys/short")["revoked"], [listed["short"]["id"]])
        self.assertEqual(self.call("POST", "/v1/chat/completions", CHAT, secret)[0], 401)
        refused_after = time.monotonic() - started
        reader.join(STEP_S)
        ended_after = time.monotonic() - started
        figure(f"a revoked key: refused after {refused_after * 1000:.0f} ms, its stream ended after {ended_after * 1000:.0f} ms")
        self.assertLess(refused_after, 1)
        self.assertLess(ended_after, 5)
        self.assertTrue(any(b"key_revoked" in line for line in ended), ended[-3:])
        self.assertEqual(self.call("DELETE", "/admin/keys/short")[0], 404)

    def test_new_limits_hold_from_the_next_request(self):
        secret = self.make("limited", limits={"requests_per_minute": 2})
        self.assertEqual([self.call("POST", "/v1/chat/completions", CHAT, secret)[0] for _ in range(3)], [200, 200, 429])
        self.done("POST", "/admin/keys/limited", {"limits": {"requests_per_minute": 1000}})
        self.assertEqual(self.call("POST", "/v1/chat/completions", CHAT, secret)[0], 200)
        self.assertEqual(self.done("POST", "/admin/keys/limited", {"scopes": {"routes": ["models"]}})["keys"][0]["limits"],
                         {"requests_per_minute": 1000})
        self.assertEqual(self.call("POST", "/v1/chat/completions", CHAT, secret)[0], 403)

    def test_me_agrees_with_the_limits_in_the_headers(self):
        secret = self.make("me", tenant="me", limits={"requests_per_minute": 50, "tokens_per_minute": 10000, "daily_tokens": 90000},
                           scopes={"routes": ["generate"]})
        status, headers, text = self.server.request("POST", "/v1/chat/completions", json.dumps(CHAT),
                                                    {"Authorization": "Bearer " + secret, "Content-Type": "application/json"})
        self.assertEqual(status, 200, text)
        used = json.loads(text)["usage"]
        computed = used["prompt_tokens"] - used["prompt_tokens_details"]["cached_tokens"] + used["completion_tokens"]
        me = self.done("GET", "/v1/me", key=secret)
        left = {each["limit"]: each for each in me["limits"] if each["of"] == "key"}
        # One request comes back every 1.2 s.
        self.assertIn(left["requests_per_minute"]["remaining"] - int(headers["x-ratelimit-remaining-requests"]), (0, 1))
        self.assertEqual(left["daily_tokens"]["remaining"], 90000 - computed)
        self.assertEqual((me["name"], me["tenant"], me["admin"], me["keys"], me["scopes"]), (
            "me", "me", False, True, {"routes": ["generate"], "models": None}))
        self.assertEqual(me["models"], [MODEL])
        self.assertTrue(all(me["server"]["services"][each] for each in ("conversations", "jobs", "files", "batches", "keys")))
        self.assertEqual(self.server.get("/v1/me")[0], 401)

    def test_sums_of_the_usage(self):
        secret = self.make("spender", tenant="spent")
        used = self.done("POST", "/v1/chat/completions", CHAT, secret)["usage"]
        eventually(lambda: [each["output_tokens"] for each in self.done("GET", "/admin/usage?by=tenant")["sums"] if each["group"] == "spent"]
                   == [used["completion_tokens"]])
        later = int(time.time() * 1000) + 60_000
        self.assertEqual(self.done("GET", f"/admin/usage?by=key&from_ms={later}")["sums"], [])
        self.assertEqual(self.call("GET", "/admin/usage?by=colour")[0], 400)

    def test_jobs_and_batches_of_all_tenants(self):
        secret = self.make("worker", tenant="jobs")
        job = self.done("POST", "/v1/chat/completions", CHAT, secret, Prefer="respond-async")["id"]
        late = self.done("POST", "/v1/chat/completions", CHAT, secret, Prefer="respond-async",
                         **{"X-Tutti-Run-At": str(int(time.time()) + 3600)})["id"]
        eventually(lambda: self.done("GET", "/admin/jobs/" + job)["job"]["status"] == "completed")
        page = self.done("GET", "/admin/jobs?tenant=jobs")
        self.assertEqual([(each["id"], each["tenant"], each["status"]) for each in page["jobs"]],
                         [(late, "jobs", "queued"), (job, "jobs", "completed")])
        self.assertEqual(page["jobs"][1]["progress_tokens"], 4)
        first = self.done("GET", "/admin/jobs?tenant=jobs&limit=1")
        self.assertEqual((len(first["jobs"]), first["more"]), (1, True))
        self.assertEqual([each["id"] for each in self.done("GET", f"/admin/jobs?tenant=jobs&after={late}")["jobs"]], [job])
        self.assertEqual(self.done("POST", f"/admin/jobs/{late}/cancel")["job"]["status"], "cancelled")
        self.assertEqual(self.call("POST", f"/admin/jobs/{job}/replay")[0], 409, "it did not fail")
        self.done("POST", "/admin/jobs/pause", {"tenant": "jobs"})
        self.assertEqual(self.done("GET", "/admin/jobs")["paused"], ["jobs"])
        waiting = self.done("POST", "/v1/chat/completions", CHAT, secret, Prefer="respond-async")["id"]
        self.assertEqual(self.done("GET", "/admin/jobs/" + waiting)["job"]["status"], "queued")
        self.done("POST", "/admin/jobs/resume", {"tenant": "jobs"})
        eventually(lambda: self.done("GET", "/admin/jobs/" + waiting)["job"]["status"] == "completed")
        self.server.expect_log("jobs.changed op=jobs.cancel id=" + late, "result=ok by=key:")

        lines = "".join(json.dumps({"custom_id": str(n), "method": "POST", "url": "/v1/chat/completions", "body": CHAT}) + "\n" for n in range(3))
        with openai.OpenAI(base_url=self.server.url + "/v1", api_key=secret, timeout=STEP_S, max_retries=0) as client:
            file = client.files.create(file=("in.jsonl", lines.encode()), purpose="batch")
            batch = client.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h").id
        eventually(lambda: self.done("GET", "/admin/batches/" + batch)["batch"]["status"] == "completed")
        listed = self.done("GET", "/admin/batches?tenant=jobs")["batches"]
        self.assertEqual([(each["batch"]["id"], each["tenant"]) for each in listed], [(batch, "jobs")])
        self.assertEqual(listed[0]["batch"]["request_counts"], {"total": 3, "completed": 3, "failed": 0})
        self.assertEqual(self.done("GET", "/admin/batches?tenant=none")["batches"], [])
        self.assertEqual(self.call("POST", f"/admin/batches/{batch}/cancel")[0], 409)

    def test_no_admin_datum_reaches_another_scope(self):
        """Each route below /admin with a key of each other scope, and objects of another tenant by their ids."""
        theirs = self.make("planted-key", tenant="planted-tenant")
        self.done("POST", "/admin/users", {"name": "planted-user", "no_password": True, "tenant": "planted-tenant"})
        job = self.done("POST", "/v1/chat/completions", CHAT, theirs, Prefer="respond-async")["id"]
        conversation = self.done("POST", "/v1/conversations", {"metadata": {"k": "planted"}}, theirs)["id"]
        routes = [("GET", "/admin/keys"), ("POST", "/admin/keys"), ("POST", "/admin/keys/planted-key"), ("DELETE", "/admin/keys/planted-key"),
                  ("POST", "/admin/keys/planted-key/rotate"), ("GET", "/admin/users"), ("POST", "/admin/users"),
                  ("DELETE", "/admin/users/planted-user"), ("POST", "/admin/users/planted-user/password"),
                  ("POST", "/admin/users/planted-user/disable"), ("POST", "/admin/users/planted-user/enable"), ("GET", "/admin/jobs"),
                  ("GET", "/admin/jobs/" + job), ("POST", f"/admin/jobs/{job}/cancel"), ("POST", f"/admin/jobs/{job}/replay"),
                  ("POST", "/admin/jobs/pause"), ("POST", "/admin/jobs/resume"), ("GET", "/admin/batches"), ("GET", "/admin/batches/batch_x"), ("GET", "/admin/usage?by=key"),
                  ("POST", "/admin/batches/batch_x/cancel"), ("POST", "/admin/reload")]
        everything = self.make("all-but-admin")
        for key in [everything] + [self.make("only-" + scope, scopes={"routes": [scope]}) for scope in SCOPES]:
            for method, path in routes:
                status, text = self.call(method, path, {} if method == "POST" else None, key)
                self.assertEqual(status, 403, (method, path, text))
                self.assertNotIn("planted", text)
            self.assertNotIn("planted", self.call("GET", "/v1/me", key=key)[1])
        for method, path in (("GET", "/v1/jobs/" + job), ("POST", f"/v1/jobs/{job}/cancel"), ("GET", "/v1/conversations/" + conversation),
                             ("DELETE", "/v1/conversations/" + conversation), ("GET", "/v1/conversations?after=" + conversation)):
            status, text = self.call(method, path, None, everything)
            self.assertEqual(status, 404, (method, path, text))
        self.assertNotIn("planted", self.call("GET", "/v1/conversations", key=everything)[1])
        self.assertIn("planted", self.call("GET", "/v1/conversations", key=theirs)[1])
        self.assertIn("planted-user", self.call("GET", "/admin/users")[1])

    def test_many_operators_at_once_lose_no_change(self):
        with concurrent.futures.ThreadPoolExecutor(32) as pool:
            made = list(pool.map(lambda n: self.call("POST", "/admin/keys", {"name": f"many-{n}"}), range(64)))
        self.assertEqual({status for status, _ in made}, {200})
        names = {each["name"] for each in self.done("GET", "/admin/keys")["keys"]}
        self.assertTrue({f"many-{n}" for n in range(64)} <= names)
        self.server.expect_log("accounts.changed op=keys.create name=many-63 id=", "result=ok by=key:")


class OpenServer(unittest.TestCase):
    def test_an_open_server_makes_no_keys_over_http(self):
        with tempfile.TemporaryDirectory(prefix="tutti-admin-") as folder:
            server = Server(environment={"TUTTI_STORE": os.path.join(folder, "store")})
            self.addCleanup(server.stop)
            me = json.loads(server.get("/v1/me")[2])
            self.assertEqual((me["keys"], me["kind"], me["server"]["services"]["keys"]), (False, "open", False))
            status, _, text = server.post("/admin/keys", {"name": "boss"})
            self.assertEqual((status, json.loads(text)["error"]["code"]), (403, "insufficient_scope"))
            self.assertEqual(server.get("/admin/jobs")[0], 200)
