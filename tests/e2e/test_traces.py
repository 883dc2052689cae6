"""Traces for an OpenTelemetry collector: what the published definitions of its protocol read in what the program sends."""
import http.server
import json
import re
import secrets
import threading
import time
import unittest

import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest, ExportTraceServiceResponse
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from harness import MODEL, STEP_S, Server, eventually, free_port, grpc_streams
from test_live import generate, tutti_messages
from test_mqtt import Chat, mqtt_port, serve
from test_workers import World

STAGES = ("receive", "prepare", "queue", "prefill", "decode", "send")


SOON = {"OTEL_BSP_SCHEDULE_DELAY": "50"}


class Collector:
    """The OTLP/HTTP endpoint of a collector. It keeps what it is sent."""

    def __init__(self, port=0):
        self.posts, self.status, self.lock = [], 200, threading.Lock()
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with collector.lock:
                    status = collector.status
                    if status == 200:
                        collector.posts.append((self.path, dict(self.headers), body))
                self.send_response(status)
                answer = ExportTraceServiceResponse().SerializeToString()
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_port}"

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def spans(self, trace_id=None):
        """[(span, attributes of its resource)], as the published definitions read them."""
        found = []
        with self.lock:
            posts = list(self.posts)
        for _, _, body in posts:
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                for scope in resource.scope_spans:
                    found += [(span, attributes(resource.resource)) for span in scope.spans
                              if trace_id is None or span.trace_id.hex() == trace_id]
        return found

    def wait(self, trace_id, count=1):
        """The spans of a trace in which `count` processes had a part."""
        roots = lambda: [span for span, _ in self.spans(trace_id) if span.kind == span.SPAN_KIND_SERVER]  # noqa: E731
        eventually(lambda: len(roots()) >= count, lambda: f"spans: {[span.name for span, _ in self.spans(trace_id)]}")
        return self.spans(trace_id)


def attributes(holder):
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in holder.attributes}


def new_context(flags="01"):
    trace_id, span_id = secrets.token_hex(16), secrets.token_hex(8)
    return trace_id, span_id, f"00-{trace_id}-{span_id}-{flags}"


def named(spans, name):
    return next(span for span, _ in spans if span.name == name)


def milliseconds(span):
    return (span.end_time_unix_nano - span.start_time_unix_nano) / 1e6


class Traces(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.collector = Collector()
        cls.addClassCleanup(cls.collector.close)
        cls.server = Server("--traces-endpoint", cls.collector.url, environment={
            "OTEL_SERVICE_NAME": "a name", "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment=a%20test",
            "OTEL_EXPORTER_OTLP_HEADERS": "x-token=a%20secret", **SOON})
        cls.addClassCleanup(lambda: cls.server.stop())

    def test_spans_of_a_chat_are_its_stages_and_add_up(self):
        trace_id, span_id, traceparent = new_context()
        prompt = "A long story about a river and a king. " * 40
        status, headers, text = generate(self.server, 24, prompt, headers={"traceparent": traceparent, "tracestate": "vendor=1"})
        self.assertEqual(status, 200, text)
        spans = self.collector.wait(trace_id)
        root = named(spans, "completions")
        self.assertEqual(headers["traceresponse"], f"00-{trace_id}-{root.span_id.hex()}-01")
        self.assertEqual((root.parent_span_id.hex(), root.trace_state), (span_id, "vendor=1"))

        # What the server itself reports of the same request.
        trace = json.loads(self.server.get(f"/admin/requests/{headers['x-request-id']}")[2])["traces"][0]
        self.assertEqual(trace["trace_id"], trace_id)
        stages = {name: named(spans, name) for name in STAGES}
        for name, span in stages.items():
            self.assertAlmostEqual(milliseconds(span), trace["stages"][f"{'write' if name == 'send' else name}_ms"], delta=0.01, msg=name)
            self.assertEqual(span.parent_span_id, root.span_id)
        self.assertAlmostEqual(milliseconds(root), trace["stages"]["total_ms"], delta=0.01)
        in_stages = sum(milliseconds(span) for span in stages.values())
        self.assertAlmostEqual(milliseconds(root) - in_stages, trace["stages"]["other_ms"], delta=0.05)
        for before, after in zip(STAGES, STAGES[1:]):
            self.assertLessEqual(stages[before].end_time_unix_nano, stages[after].start_time_unix_nano, after)
        self.assertLess(abs(root.start_time_unix_nano / 1e9 - time.time()), STEP_S)

        # Steps lie in the stage whose children they are, and have all tokens of the prompt.
        steps = [span for span, _ in spans if span.name == "prefill.step"]
        self.assertTrue(steps)
        self.assertEqual({step.parent_span_id for step in steps}, {stages["prefill"].span_id})
        usage = json.loads(text)["usage"]
        found = attributes(root)
        self.assertEqual(sum(attributes(step)["tutti.tokens"] for step in steps) + found["tutti.cached_tokens"], usage["prompt_tokens"])
        self.assertEqual((found["gen_ai.usage.input_tokens"], found["gen_ai.usage.output_tokens"]), (usage["prompt_tokens"], 24))
        self.assertEqual((found["gen_ai.request.model"], found["http.response.status_code"], found["tutti.request.id"]),
                         (MODEL, 200, headers["x-request-id"]))
        self.assertNotIn("river", str(spans))

    def test_posts_have_the_resource_and_headers_of_the_environment(self):
        trace_id, _, traceparent = new_context()
        generate(self.server, headers={"traceparent": traceparent})
        resource = self.collector.wait(trace_id)[0][1]
        self.assertEqual((resource["service.name"], resource["deployment.environment"]), ("a name", "a test"))
        self.assertRegex(resource["service.instance.id"], rf":{self.server.process.pid}$")
        path, headers, body = self.collector.posts[0]
        self.assertEqual((path, headers["x-token"], headers["content-type"]), ("/v1/traces", "a secret", "application/x-protobuf"))
        # Without fields that the definitions do not know: they would come back in another order.
        message = ExportTraceServiceRequest.FromString(body)
        message.DiscardUnknownFields()
        self.assertEqual(message.ByteSize(), len(body))

    def test_the_callers_flag_decides(self):
        unsampled, _, traceparent = new_context("00")
        _, headers, _ = generate(self.server, headers={"traceparent": traceparent})
        self.assertRegex(headers["traceresponse"], rf"^00-{unsampled}-[0-9a-f]{{16}}-00$")
        malformed = secrets.token_hex(16)
        _, headers, _ = generate(self.server, headers={"traceparent": f"00-{malformed}-0000000000000000-01"})
        own = headers["traceresponse"].split("-")[1]
        self.assertNotEqual(own, malformed)
        self.collector.wait(own)  # later requests come later
        self.assertEqual(self.collector.spans(unsampled) + self.collector.spans(malformed), [])

    def test_refusals_are_traced_too(self):
        trace_id, _, traceparent = new_context()
        status, _, _ = self.server.post("/v1/completions", {"model": "unknown", "prompt": "Hi"}, headers={"traceparent": traceparent})
        self.assertEqual(status, 404)
        spans = self.collector.wait(trace_id)
        self.assertEqual(attributes(named(spans, "completions"))["http.response.status_code"], 404)
        self.assertEqual([span.name for span, _ in spans if span.name in ("queue", "prefill", "decode")], [])

    def test_kserve_requests_over_http_are_traced(self):
        trace_id, span_id, traceparent = new_context()
        status, _, text = self.server.post(f"/v2/models/{MODEL}/generate", {"text_input": "Hi", "max_tokens": 2},
                                           headers={"traceparent": traceparent})
        self.assertEqual(status, 200, text)
        spans = self.collector.wait(trace_id)
        root = next(span for span, _ in spans if span.kind == span.SPAN_KIND_SERVER)
        self.assertEqual(root.parent_span_id.hex(), span_id)


class WithoutACollector(unittest.TestCase):
    def test_requests_are_answered_and_the_end_is_quick(self):
        port = free_port()
        server = Server("--traces-endpoint", f"127.0.0.1:{port}", environment=SOON)
        self.addCleanup(lambda: server.stop() if server.process.poll() is None else None)
        for _ in range(3):
            self.assertEqual(generate(server)[0], 200)
        # It comes up later, and gets what is tried again.
        collector = Collector(port)
        self.addCleanup(collector.close)
        eventually(lambda: server.metric("tutti_traces_total", outcome="exported") == 3, server.log)
        collector.status = 400
        generate(server)
        server.expect_log(r"traces\.failed")
        self.assertEqual(server.metric("tutti_traces_total", outcome="failed"), 1)
        collector.status = 503
        generate(server)
        begun = time.monotonic()
        self.assertEqual(server.stop(), 0)
        self.assertLess(time.monotonic() - begun, STEP_S / 2)

    def test_a_ratio_of_zero_sends_only_what_callers_trace(self):
        collector = Collector()
        self.addCleanup(collector.close)
        server = Server("--traces-endpoint", collector.url, "--traces-sample-ratio", "0", environment=SOON)
        self.addCleanup(server.stop)
        for _ in range(4):
            generate(server)
        trace_id, _, traceparent = new_context()
        generate(server, headers={"traceparent": traceparent})
        collector.wait(trace_id)
        self.assertEqual({span.trace_id.hex() for span, _ in collector.spans()}, {trace_id})

    def test_a_bad_delay_ends_the_start(self):
        for delay in ("0", "soon", "3600001", "1 "):
            server = Server("--traces-endpoint", "127.0.0.1:4318", environment={"OTEL_BSP_SCHEDULE_DELAY": delay}, wait=False)
            self.assertEqual(server.process.wait(STEP_S), 78, server.log())
            self.assertIn("OTEL_BSP_SCHEDULE_DELAY", server.log())
            server.stop()

    def test_a_bad_url_ends_the_start(self):
        for url in ("ftp://x", "http://u:p@x", "http://x/?a=b"):
            server = Server("--traces-endpoint", url, wait=False)
            self.assertEqual(server.process.wait(STEP_S), 78, server.log())
            self.assertIn("example: http://127.0.0.1:4318", server.log())
            server.stop()


@grpc_streams()
class OtherServers(unittest.TestCase):
    def test_contexts_come_over_grpc_and_mqtt(self):
        collector = Collector()
        self.addCleanup(collector.close)
        server = serve(options=("--grpc-port", str(free_port()), "--traces-endpoint", collector.url))
        self.addCleanup(server.stop)
        address = re.search(r"grpc://([0-9.:]+)", "".join(server.output) + server.log()).group(1)
        trace_id, span_id, traceparent = new_context()
        with grpc.insecure_channel(address) as channel, tutti_messages() as (messages, services):
            request = messages.GenerateRequest(model=MODEL, max_tokens=4, conversation={"messages": [{"role": "user", "content": "Hi"}]})
            list(services.TuttiStub(channel).Generate(request, timeout=STEP_S, metadata=(("traceparent", traceparent),)))
        spans = collector.wait(trace_id)
        self.assertEqual(named(spans, "grpc.generate").parent_span_id.hex(), span_id)

        chat = Chat(mqtt_port(server), "anna")
        self.addCleanup(chat.close)
        trace_id, span_id, traceparent = new_context()
        properties = Properties(PacketTypes.PUBLISH)
        properties.UserProperty = [("traceparent", traceparent)]
        chat.client.publish(chat.base + "/in", json.dumps({"id": "m", "type": "message", "input": "Hi", "max_output_tokens": 4}), 1,
                            properties=properties)
        chat.turn()
        self.assertEqual(named(collector.wait(trace_id), "mqtt").parent_span_id.hex(), span_id)


class Workers(unittest.TestCase):
    def test_one_trace_goes_from_the_frontend_to_the_worker(self):
        collector = Collector()
        self.addCleanup(collector.close)
        options = ("--traces-endpoint", collector.url)
        with World(frontend=options, worker=("--max-num-seqs", "16", *options)) as world:
            eventually(lambda: MODEL in world.frontend.models())
            trace_id, span_id, traceparent = new_context()
            status, _, text = generate(world.frontend, 8, headers={"traceparent": traceparent})
            self.assertEqual(status, 200, text)
            spans = collector.wait(trace_id, 2)
            root, hop, child = (named(spans, name) for name in ("completions", "worker", "inference"))
            self.assertEqual((root.parent_span_id.hex(), hop.parent_span_id, child.parent_span_id), (span_id, root.span_id, hop.span_id))
            self.assertEqual(hop.kind, hop.SPAN_KIND_CLIENT)
            processes = {resource["service.instance.id"] for _, resource in spans}
            self.assertEqual(len(processes), 2)
            worker = next(resource for span, resource in spans if span is child or span.name == "inference")
            self.assertEqual(attributes(hop)["tutti.worker"], worker["service.instance.id"])
            # Both processes are of one machine, so their clocks are one.
            slack = 2_000_000
            for outer, inner in ((root, hop), (hop, child)):
                self.assertLessEqual(outer.start_time_unix_nano, inner.start_time_unix_nano + slack)
                self.assertLessEqual(inner.end_time_unix_nano, outer.end_time_unix_nano + slack)
            self.assertEqual({span.name for span, _ in spans} & {"queue", "prefill", "decode"}, {"queue", "prefill", "decode"})
            # A worker exports what its frontend samples, and nothing else.
            unsampled, _, traceparent = new_context("00")
            generate(world.frontend, 8, headers={"traceparent": traceparent})
            trace_id, _, traceparent = new_context()
            generate(world.frontend, 8, headers={"traceparent": traceparent})
            collector.wait(trace_id, 2)
            self.assertEqual(collector.spans(unsampled), [])
