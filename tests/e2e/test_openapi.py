"""The OpenAPI document against the server that serves it, by schemathesis, which sends requests that it makes of the document."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from encoder_models import EMBEDDER
from harness import STEP_S, Server, amount, default_model

# What a run in a test must not do or cannot end: streams without an end, changes of the server's own state, fetches, upgrades.
LEFT_OUT = ("/api/pull", "/api/delete", "/api/copy", "/admin/events", "/admin/reload", "/v1/ws", "/v1/jobs/{id}/events",
            "/v1/models/unload", "/models/unload", "/v2/repository/models/{id}/unload", "/v1/jobs/pause", "/admin/jobs/pause")
CHECKS = ("not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance",
          "response_headers_conformance", "unsupported_method")


class Document(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        adapters = os.path.join(cls.folder.name, "adapters")
        os.mkdir(adapters)
        cls.server = Server(EMBEDDER, "--store", os.path.join(cls.folder.name, "store"), "--lora-folder", adapters, model=default_model())
        cls.addClassCleanup(lambda: cls.server.stop())
        cls.server.wait_models(2)
        status, headers, text = cls.server.get("/openapi.json")
        assert status == 200, text
        cls.document = json.loads(text)
        cls.file = pathlib.Path(cls.folder.name, "openapi.json")
        cls.file.write_text(json.dumps(cls.narrowed(json.loads(text))))

    @classmethod
    def narrowed(cls, document):
        """The document for requests that reach a model: of its name, and with time for an answer."""
        names = cls.server.models()
        for schema in document["components"]["schemas"].values():
            for name, narrower in (("model", {"enum": names}), ("deadline_ms", {"type": "integer", "minimum": 60_000, "maximum": 86_400_000})):
                if name in schema.get("properties", {}):
                    schema["properties"][name] = narrower
        return document

    def test_generated_requests_get_documented_answers(self):
        arguments = [sys.executable, "-m", "schemathesis.cli", "run", str(self.file), "--url", self.server.url, "--mode", "all",
                     "--phases", "examples,fuzzing", "--max-examples", str(amount(1, 3, 50)), "--seed", "1", "--exclude-deprecated",
                     "--checks", ",".join(CHECKS), "--request-timeout", str(STEP_S), "--generation-database", "none",
                     "--suppress-health-check", "all"]
        for path in LEFT_OUT:
            arguments += ["--exclude-path", path]
        run = subprocess.run(arguments, capture_output=True, text=True, timeout=20 * STEP_S, cwd=self.folder.name)
        self.assertEqual(run.returncode, 0, run.stdout[-8000:] + run.stderr[-2000:])
        tested = int(re.search(r"Tested: (\d+)", run.stdout).group(1))
        operations = [(path, method) for path, item in self.document["paths"].items() for method, each in item.items()
                      if path not in LEFT_OUT and not each.get("deprecated")]
        self.assertEqual(tested, len(operations), run.stdout[-3000:])
        self.assertEqual(self.server.get("/livez")[0], 200)
        self.assertIsNone(self.server.process.poll())

    def test_documented_query_parameters_are_known(self):
        """A strict server refuses parameters that it does not know: it knows those of the document, and no others."""
        server = Server("--store", os.path.join(self.folder.name, "strict"), "--strict", "on")
        self.addCleanup(server.stop)
        examples = {"integer": "1", "boolean": "true", "string": "x"}
        tested = 0
        for path, item in self.document["paths"].items():
            operation = item.get("get")
            if operation is None or path in LEFT_OUT or "101" in operation["responses"]:
                continue
            query = [each for each in operation.get("parameters", []) if each["in"] == "query"]
            for each in query:
                schema = each["schema"]
                value = str(schema.get("const") or schema.get("enum", [examples.get(schema.get("type"))])[0])
                text = server.get(f"{path.replace('{id}', 'x')}?{each['name']}={value}")[2]
                self.assertNotIn("unknown_parameter", text, f"{path} {each['name']}")
                tested += 1
            if query and not path.startswith(("/admin", "/models")):  # these two know no strict mode for their queries
                text = server.get(f"{path.replace('{id}', 'x')}?no_such=1")[2]
                self.assertRegex(text, "no_such|not_found", path)
        self.assertGreater(tested, 25)

    def test_left_out_paths_are_in_the_document(self):
        self.assertEqual([path for path in LEFT_OUT if path not in self.document["paths"]], [])

    def test_every_schema_is_a_schema(self):
        import jsonschema
        for name, schema in self.document["components"]["schemas"].items():
            with self.subTest(name):
                jsonschema.Draft202012Validator.check_schema(schema)

    def test_a_request_of_the_pages_fits_its_schema(self):
        import jsonschema
        body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}, {"role": "user", "content": [{"type": "text", "text": "x"}]}],
                "temperature": 0.5, "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}], "seed": None}
        schema = {"$ref": "#/components/schemas/ChatCompletionRequest", "components": self.document["components"]}
        jsonschema.Draft202012Validator(schema).validate(body)
        for wrong in ({"temperature": 3}, {"messages": "Hi"}, {"n": 0}, {"stream": "yes"}):
            with self.assertRaises(jsonschema.ValidationError, msg=wrong):
                jsonschema.Draft202012Validator(schema).validate({**body, **wrong})
