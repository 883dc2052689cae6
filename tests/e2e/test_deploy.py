"""The files in deploy/: the scale-out demonstration runs, and the manifests are valid for Kubernetes."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import yaml

from harness import STEP_S, default_model, figure, grpc_streams

ROOT = pathlib.Path(__file__).resolve().parents[2]
TUTTI = os.environ["E2E_BINARY"]
MANIFESTS = ROOT / "deploy/kubernetes/tutti.yaml"


class Deploy(unittest.TestCase):
    @grpc_streams()
    def test_the_scale_out_script_runs_and_leaves_nothing(self):
        self.run_script()

    def test_it_runs_with_a_broker_between_them(self):
        for broker in ("redis", "rabbitmq"):
            with self.subTest(broker):
                self.run_script("--broker", broker)

    def run_script(self, *options):
        if len(os.sched_getaffinity(0)) < 2:
            self.skipTest("two workers need two cores")
        with tempfile.TemporaryDirectory() as folder:
            run = subprocess.run([ROOT / "deploy/scale-out.sh", "--tutti", TUTTI, "--model", default_model(), "--clients", "4", "--requests", "8",
                                  *options], capture_output=True, text=True, timeout=3 * STEP_S, env=dict(os.environ, TMPDIR=folder))
            self.assertEqual(run.returncode, 0, run.stderr)
            times = float(re.search(r"two workers: \d+ tok/s, ([\d.]+) times", run.stdout)[1])
            figure(f"deploy: a second worker brings {times} times")
            self.assertGreater(times, 0)  # how many times is no matter of right or wrong where other tests have the cores too
            self.assertEqual(os.listdir(folder), [])
        left = subprocess.run(["pgrep", "-f", f"{TUTTI} worker .*{folder}"], capture_output=True, text=True)
        self.assertEqual(left.stdout, "")

    def test_the_script_says_what_is_wrong(self):
        for arguments, status, words in ((["--nonsense"], 2, "--help"), (["--tutti", "/nowhere"], 1, "no program")):
            run = subprocess.run([ROOT / "deploy/scale-out.sh", *arguments], capture_output=True, text=True, timeout=STEP_S)
            self.assertEqual(run.returncode, status)
            self.assertIn(words, run.stderr)
        self.assertIn("--keep", subprocess.run([ROOT / "deploy/scale-out.sh", "--help"], capture_output=True, text=True, timeout=STEP_S).stdout)

    def test_the_manifests_are_valid(self):
        validate = pathlib.Path(sys.executable).parent / "kubernetes-validate"
        checked = subprocess.run([validate, "--strict", MANIFESTS], capture_output=True, text=True, timeout=STEP_S)
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
        broken = MANIFESTS.read_text().replace("replicas: 1 ", 'replicas: "one" ')
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write(broken)
            file.flush()
            self.assertNotEqual(subprocess.run([validate, "--strict", file.name], capture_output=True, timeout=STEP_S).returncode, 0)

    def test_they_name_the_image_of_this_version(self):
        version = subprocess.run([TUTTI, "--version"], capture_output=True, text=True, check=True, timeout=STEP_S).stdout.split()[1]
        images = re.findall(r"image: tutti:(\S+)", MANIFESTS.read_text() + (ROOT / "deploy/kserve/runtimes.yaml").read_text())
        self.assertEqual(images, [version] * 5)
        chart = yaml.safe_load((ROOT / "deploy/helm/tutti/Chart.yaml").read_text())
        self.assertEqual((chart["version"], chart["appVersion"]), (version, version))
        self.assertIn(f'version = "{version}"', (ROOT / "python/pyproject.toml").read_text())

    def test_their_arguments_and_settings_are_ours(self):
        """--print-config takes what the manifests and units give."""
        documents = list(yaml.safe_load_all(MANIFESTS.read_text()))
        settings = next(one for one in documents if one["kind"] == "ConfigMap")["data"]["tutti.toml"]
        containers = next(one for one in documents if one["kind"] == "Deployment")["spec"]["template"]["spec"]["containers"]
        with tempfile.TemporaryDirectory() as folder:
            config = folder + "/tutti.toml"
            pathlib.Path(config).write_text(settings)
            # The image's entry point is the program.
            commands = [container.get("command", ["tutti"]) + container["args"] for container in containers]
            for unit in (ROOT / "deploy/systemd").iterdir():
                commands.append(re.search(r"^ExecStart=(/usr/(?:local/)?bin/.*)$", unit.read_text(), re.M)[1].split())
            self.assertEqual(len(commands), 6)
            for command in commands:
                arguments = [config if one == "/etc/tutti/tutti.toml" else one for one in command[1:]]
                self.assertEqual(pathlib.Path(command[0]).name, "tutti")
                if arguments[0] == "worker":
                    self.assertIn("--no-restart", arguments)
                run = subprocess.run([TUTTI, *arguments, "--print-config"], capture_output=True, text=True, timeout=STEP_S)
                self.assertEqual(run.returncode, 0, (command, run.stderr))
