"""The Helm chart and the runtimes of KServe (N67): rendered by Helm's own engine, checked against the API's schemas and our options."""
import itertools
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import helm_python as helm
import yaml

from harness import STEP_S

ROOT = pathlib.Path(__file__).resolve().parents[2]
TUTTI = os.environ["E2E_BINARY"]
CHART = ROOT / "deploy/helm/tutti"
GIVEN = {"tls": {"existingSecret": "tls"}, "auth": {"existingSecret": "key"}}
BROKER = {"backend": "rabbitmq", "url": "amqps://tutti@rabbit", "passwordSecret": "rabbit"}
FOREIGN = {"ServiceMonitor", "ScaledObject"}  # of Prometheus' and KEDA's operators: no schemas of the API
SETTINGS = {
    "plain": {},
    "scaled": {"autoscaling": {"enabled": True}, "models": {"create": True}, "serviceMonitor": {"enabled": True, "labels": {"a": "b"}}},
    "external": {"autoscaling": {"enabled": True, "metric": "external"}, "models": {"existingClaim": "models"}},
    "keda": {"autoscaling": {"enabled": True, "kind": "keda"}},
    "store": {"store": {"enabled": True}, "podDisruptionBudget": {"enabled": False}, "service": {"type": "LoadBalancer"}},
    "workers": {"workers": {"enabled": True, "broker": BROKER}, "store": {"enabled": True}, "extraArgs": ["--kv-dtype=int8"]},
    "scaled workers": {"workers": {"enabled": True, "broker": {"backend": "redis", "url": "redis://redis", "plain": True}},
                       "autoscaling": {"enabled": True, "kind": "keda"}},
}
REFUSED = (
    ({"tls": {"existingSecret": ""}}, "tls.existingSecret"), ({"auth": {"existingSecret": ""}}, "auth.existingSecret"),
    ({"threads": "many"}, "threads"), ({"treads": 4}, "treads"), ({"autoscaling": {"kind": "vpa"}}, "kind"),
    ({"store": {"enabled": True}, "replicaCount": 2}, "one process opens a store"), ({"workers": {"enabled": True}}, "broker.url"),
    ({"workers": {"enabled": True, "broker": BROKER}, "replicaCount": 2}, "one frontend"),
    ({"workers": {"enabled": True, "broker": BROKER}, "autoscaling": {"enabled": True}}, "no metrics of their own"),
)


def render(values):
    with helm.Chart.load(str(CHART)) as chart:
        chart.validate_schema(chart.merge_values({**GIVEN, **values}))
        texts = chart.render({**GIVEN, **values}, name="demo", namespace="prod")
    return [one for name, text in texts.items() if name.endswith(".yaml") for one in yaml.safe_load_all(text) if one]


def validate(documents):
    """What kubernetes-validate says of the documents, and whether it accepts them."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump_all(documents, file)
        file.flush()
        done = subprocess.run([pathlib.Path(sys.executable).parent / "kubernetes-validate", "--strict", file.name], capture_output=True, text=True,
                              timeout=STEP_S)
    return done.returncode == 0, done.stdout + done.stderr


def pods(documents):
    return [one["spec"]["template"]["spec"] for one in documents if one["kind"] == "Deployment"]


class Chart(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.rendered = {name: render(values) for name, values in SETTINGS.items()}

    def test_it_has_no_finding_of_lint(self):
        findings = helm.lint(str(CHART), GIVEN, strict=True)
        self.assertEqual(findings["total_charts_linted"], 1)
        self.assertEqual([one for one in findings["messages"] if one["severity"] > 1 or one["error"] != "icon is recommended"], [])

    def test_what_it_renders_is_valid(self):
        everything = [one for documents in self.rendered.values() for one in documents if one["kind"] not in FOREIGN]
        self.assertGreater(len(everything), 20)
        valid, words = validate(everything)
        self.assertTrue(valid, words)
        broken = [dict(one, spec={**one["spec"], "replicas": "one"}) for one in everything if one["kind"] == "Deployment"]
        self.assertFalse(validate(broken[:1])[0])

    def test_pods_have_probes_a_hook_and_no_rights(self):
        for name, documents in self.rendered.items():
            for pod in pods(documents):
                with self.subTest(name):
                    container = pod["containers"][0]
                    self.assertTrue(pod["securityContext"]["runAsNonRoot"])
                    self.assertTrue(container["securityContext"]["readOnlyRootFilesystem"])
                    self.assertEqual(container["securityContext"]["capabilities"], {"drop": ["ALL"]})
                    volumes = {one["name"] for one in pod["volumes"]}
                    self.assertEqual({one["name"] for one in container["volumeMounts"]}, volumes)
                    if container["args"][0] == "worker":
                        continue
                    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                        self.assertEqual(container[probe]["httpGet"]["scheme"], "HTTPS")
                    drain = next(int(one.split("=")[1]) for one in container["args"] if one.startswith("--drain-s="))
                    hook = container["lifecycle"]["preStop"]["sleep"]["seconds"]
                    self.assertGreater(pod["terminationGracePeriodSeconds"], drain + hook)
                    self.assertGreater(hook, container["readinessProbe"]["periodSeconds"])

    def test_what_scales_names_what_is_there(self):
        for name, documents in self.rendered.items():
            deployments = {one["metadata"]["name"]: one for one in documents if one["kind"] == "Deployment"}
            for one in documents:
                if one["kind"] in ("HorizontalPodAutoscaler", "ScaledObject"):
                    target = deployments[one["spec"]["scaleTargetRef"]["name"]]
                    self.assertNotIn("replicas", target["spec"], name)
                    self.assertIn("tutti_waiting_sequences", str(one["spec"]))
                if one["kind"] in ("Service", "PodDisruptionBudget", "ServiceMonitor"):
                    selector = one["spec"]["selector"]
                    wanted = selector.get("matchLabels", selector).items()
                    labels = [each["spec"]["template"]["metadata"]["labels"] for each in deployments.values()]
                    labels += [each["metadata"]["labels"] for each in documents if each["kind"] == "Service"]
                    self.assertTrue(any(wanted <= each.items() for each in labels), (name, one["kind"]))

    def test_the_program_takes_its_arguments(self):
        commands = {tuple(pod["containers"][0]["args"]) for pod in itertools.chain.from_iterable(map(pods, self.rendered.values()))}
        self.assertGreaterEqual(len(commands), 5)
        for command in commands:
            take_arguments(self, command)

    def test_values_that_cannot_work_are_refused(self):
        for values, words in REFUSED:
            with self.subTest(words), self.assertRaisesRegex(helm.HelmError, words):
                render(values)


def take_arguments(test, command):
    with tempfile.TemporaryDirectory() as folder:
        password = pathlib.Path(folder, "password")
        password.write_text("secret\n")
        arguments = [one.replace("/etc/tutti-broker/password", str(password)).replace("{{.Name}}", "chat") for one in command]
        run = subprocess.run([TUTTI, *arguments, "--print-config"], capture_output=True, text=True, timeout=STEP_S)
    test.assertEqual(run.returncode, 0, (command, run.stderr))


class KServe(unittest.TestCase):
    """The fields are those of KServe's ServingRuntime and InferenceService; the containers are checked as those of a pod."""

    RUNTIME = {"supportedModelFormats", "protocolVersions", "multiModel", "annotations", "volumes", "containers"}
    FORMAT = {"name", "version", "autoSelect", "priority"}

    def test_runtimes_are_valid(self):
        runtimes = list(yaml.safe_load_all((ROOT / "deploy/kserve/runtimes.yaml").read_text()))
        self.assertEqual([one["kind"] for one in runtimes], ["ServingRuntime"] * 2)
        for runtime in runtimes:
            spec = runtime["spec"]
            self.assertLessEqual(set(spec), self.RUNTIME)
            for each in spec["supportedModelFormats"]:
                self.assertLessEqual(set(each), self.FORMAT)
            container = spec["containers"][0]
            self.assertEqual(container["name"], "kserve-container")
            valid, words = validate([{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
                                      "spec": {"containers": spec["containers"], "volumes": spec["volumes"]}}])
            self.assertTrue(valid, words)
            self.assertEqual({one["name"] for one in container["volumeMounts"]}, {one["name"] for one in spec["volumes"]})
            take_arguments(self, container["args"])

    def test_the_example_names_a_runtime_and_its_format(self):
        service = yaml.safe_load((ROOT / "deploy/kserve/example.yaml").read_text())
        model = service["spec"]["predictor"]["model"]
        runtimes = {one["metadata"]["name"]: one["spec"] for one in yaml.safe_load_all((ROOT / "deploy/kserve/runtimes.yaml").read_text())}
        self.assertIn(model["modelFormat"]["name"], [one["name"] for one in runtimes[model["runtime"]]["supportedModelFormats"]])


if __name__ == "__main__":
    unittest.main()
