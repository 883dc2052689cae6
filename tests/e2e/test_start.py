"""Too little memory: too little address space for weights, cache or thread stacks at the start, and for the largest
requests later."""
import collections
import concurrent.futures
import itertools
import json
import os
import re
import resource
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
import unittest

import encoder_models
import tiny_model
from harness import MODEL, STEP_S, ServerCase, amount, free_port, judged

MIB = 1 << 20


def limited(address_space_mib, stack_mib=8):
    """For a child process: what it may map, and how much of that each thread's stack takes."""
    def apply():
        resource.setrlimit(resource.RLIMIT_STACK, (stack_mib * MIB, stack_mib * MIB))
        resource.setrlimit(resource.RLIMIT_AS, (address_space_mib * MIB, address_space_mib * MIB))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    return apply


class Refusals(unittest.TestCase):
    """Options that cannot work are reported before a port is opened or weights are read."""

    def refused(self, *arguments):
        done = subprocess.run([os.environ["E2E_BINARY"], *arguments], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=STEP_S)
        self.assertIn(done.returncode, (1, 78), done.stderr)
        self.assertEqual(done.stdout, "")
        return done.stderr

    def test_one_port_for_two_servers_is_refused(self):
        self.assertIn("--grpc-port and --port are both 8123", self.refused("serve", MODEL, "--port", "8123", "--grpc-port", "8123"))

    def test_a_model_called_like_a_test_model_is_refused(self):
        self.assertIn("brings a model called simple", self.refused(
            "serve", "simple=" + MODEL, "--port", "0", "--grpc-port", "0", "--kserve-test-models", "on"))

    def test_an_encoder_is_not_asked_for_text(self):
        for command in (["chat", encoder_models.EMBEDDER], ["run", encoder_models.EMBEDDER, "-p", "Hi"]):
            self.assertIn("generates no text: it is an encoder", self.refused(*command))

    def test_an_encoder_is_sent_to_its_own_bench(self):
        for bench in (["engine", encoder_models.EMBEDDER], ["strategies", encoder_models.EMBEDDER]):
            self.assertIn("it is an encoder, which `tutti bench encode` measures", self.refused("bench", *bench))

    def test_a_model_that_cannot_be_looked_at_is_not_called_missing(self):
        with tempfile.TemporaryDirectory() as folder:
            loop = os.path.join(folder, "loop")
            os.symlink(loop, loop)  # what root may not look at either
            self.assertIn("cannot be looked at: Too many levels of symbolic links",
                          self.refused("run", loop + "/model.gguf", "-p", "Hi"))
            if os.geteuid() != 0:
                closed = os.path.join(folder, "closed")
                os.mkdir(closed, 0)
                self.assertIn("cannot be looked at: Permission denied", self.refused("run", closed + "/model.gguf", "-p", "Hi"))

    def test_settings_that_could_have_no_effect_are_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            config = os.path.join(folder, "tutti.toml")
            with open(config, "w") as out:
                out.write('[[mqtt.project]]\nname = "driving"\n')
            self.assertIn('[[mqtt.project]] "driving" cannot be reached', self.refused(
                "serve", MODEL, "--port", "0", "--grpc-port", "0", "--config", config))
        self.assertIn("debug.session also needs debug.conversations", self.refused(
            "serve", MODEL, "--port", "0", "--grpc-port", "0", "--debug-session", "ada/s1"))

    def test_a_project_of_an_unknown_model_is_refused_with_a_hint(self):
        """The server once started, and refused each message of the project."""
        with tempfile.TemporaryDirectory() as folder:
            config = os.path.join(folder, "tutti.toml")
            with open(config, "w") as out:
                out.write('[[mqtt.project]]\nname = "driving"\nmodel = "tal"\n')
            self.assertIn('[[mqtt.project]] "driving": the model "tal" is not served; served are: talk (did you mean talk?)',
                          self.refused("serve", "talk=" + MODEL, "--port", "0", "--grpc-port", "0", "--config", config,
                                       "--mqtt-port", str(free_port())))

    def test_a_port_in_use_is_told_with_its_server(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = str(taken.getsockname()[1])
            self.assertIn("MQTT: cannot listen on 127.0.0.1 port " + port, self.refused(
                "serve", MODEL, "--port", "0", "--grpc-port", "0", "--mqtt-port", port))

    def test_an_encoders_gguf_is_inspected_as_one(self):
        """Such a file was once reported as a model of an unknown architecture."""
        with tempfile.TemporaryDirectory() as folder:
            bert = os.path.join(folder, "bert.gguf")
            with open(bert, "wb") as out:
                out.write(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + tiny_model.key("general.architecture", 8, tiny_model.text("bert")))
            self.assertIn("bert.block_count", self.refused("inspect", bert))
            self.assertIn("it is an encoder, which `tutti bench encode` measures", self.refused("bench", "engine", bert))

    def test_a_model_without_a_tensor_is_refused_before_a_port_opens(self):
        """The servers were opened first, and of a second model the first one's weights were packed."""
        with tempfile.TemporaryDirectory() as folder:
            whole, part, encoder = (os.path.join(folder, name) for name in ("whole.gguf", "part.gguf", "encoder"))
            tiny_model.write(whole)
            with open(whole, "rb") as file, open(part, "wb") as out:
                out.write(file.read().replace(b"blk.0.ffn_up.weight", b"blk.0.ffn_xx.weight"))
            shutil.copytree(encoder_models.embedder_folder(), encoder)
            with open(os.path.join(encoder, "config.json"), "r+") as file:
                config = json.load(file)
                config["num_hidden_layers"] += 1
                file.seek(0)
                json.dump(config, file)
                file.truncate()
            for arguments, missing in (([part], "blk.0.ffn_up.weight"), ([whole, "--draft", part], "blk.0.ffn_up.weight"),
                                       ([encoder], "encoder.layer.6.")):
                with self.subTest(arguments=arguments):
                    errors = self.refused("serve", *arguments, "--port", "0", "--store", "memory", "--kv-cache-bytes", "8MiB")
                    self.assertIn("tutti: model_tensor_missing: ", errors)
                    self.assertIn(missing, errors)
                    self.assertNotIn("listening", errors)

    def test_an_arithmetic_that_nobody_knows_is_named(self):
        self.assertIn("no arithmetic is called f8", self.refused("run", MODEL + ":f8", "-p", "Hi"))


@unittest.skipUnless(judged("starts with too little address space", "a sanitizer maps terabytes of its own"), "sanitized")
class TooLittleMemory(unittest.TestCase):
    """Every start either succeeds or ends with exit status 1 and a last line that says why.

    Threads once stayed joinable while a failed start was unwound, and no handler caught an allocation failure on a
    thread of its own: both ended in an abort.
    """

    def start(self, arguments, limits):
        """(exit status, standard error); a server that gets ready is ended by SIGTERM."""
        process = subprocess.Popen([os.environ["E2E_BINARY"], *arguments], stdin=subprocess.DEVNULL, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=limited(*limits))
        watchdog = threading.Timer(STEP_S, process.kill)
        watchdog.start()
        if arguments[0] == "serve" and "serving" in process.stdout.readline():
            process.terminate()
        errors = process.communicate()[1]
        watchdog.cancel()
        return process.returncode, errors

    def check(self, arguments, ladder, stack_mib=8):
        """With some of these sizes the program starts, with some it is refused."""
        ended = {}
        for address_space_mib in ladder:
            limits = (address_space_mib, stack_mib)
            if self.start(["version"], limits)[0] != 0:
                continue  # not even the program's libraries fit
            with self.subTest(arguments=arguments, limits=limits):
                status, errors = self.start(arguments, limits)
                ended[status] = f"{limits}: {errors}"
                self.assertIn(status, (0, 1), errors)
                self.assertNotIn("terminate called", errors)
                if status == 1:
                    # More threads than cores are remarked on, which is no refusal.
                    lines = [line for line in errors.splitlines() if not line.startswith("tutti: --threads ")]
                    self.assertTrue(lines[-1].startswith("tutti: "), errors)
                    self.assertEqual(sum(line.startswith("tutti: ") for line in lines), 1, errors)
        self.assertEqual(set(ended), {0, 1}, ended)

    def test_weights_and_cache_that_exceed_memory_fail_in_one_line(self):
        ladder = (64, 96, 128, 160, 200, 240, 280, 330, 400, 600, 1200, 3000)
        for arguments in (["run", MODEL, "-p", "Hi", "-n", "2", "--threads", "4"],
                          ["chat", MODEL, "--threads", "4"],
                          ["serve", MODEL, "--port", "0", "--threads", "4"]):
            self.check(arguments, ladder)

    def test_threads_that_cannot_start_are_refused_in_one_line(self):
        # Each stack takes 64 MiB of the address space, so that every step of the ladder starts one thread more. The heaps
        # that the C library reserves for threads differ from start to start: the last step is far beyond them. The suite takes
        # every second step.
        step = amount(256, 256, 64)
        with tempfile.TemporaryDirectory() as folder:
            model = os.path.join(folder, "tiny.gguf")
            tiny_model.write(model)
            small = ("--threads", "6", "--kv-cache-bytes", "8MiB")
            serve = ["serve", model, "--port", "0", *small]
            for arguments, most in ((["run", model, "-p", "Hi", "-n", "2", *small], 1500), (serve, 2500), (["doctor"], 1500)):
                self.check(arguments, [*range(96, most, step), 2 * most], stack_mib=64)
            # gRPC's library once waited for ever for a thread that it did not get.
            self.check([*serve, "--grpc-port", str(free_port())], [*range(96, 4500, step), 9000], stack_mib=64)


@unittest.skipUnless(judged("threads whose allocations fail", "a sanitizer has an allocator of its own"), "sanitized")
class NoMemoryForAThread(unittest.TestCase):
    """A thread that finds no memory for the first things it needs ends the start in one line, or not at all.

    A start with little address space once ended in "terminate called after throwing an instance of 'std::bad_alloc'".
    """
    THREADS = 13  # of the program's own; the library of gRPC, which ends the process as it likes, starts others later

    def test_each_thread_in_its_first_allocations(self):
        with tempfile.TemporaryDirectory() as folder:
            model, library = os.path.join(folder, "tiny.gguf"), os.path.join(folder, "fail_allocation.so")
            tiny_model.write(model)
            subprocess.run(["c++", "-O2", "-fPIC", "-shared", "-ftls-model=initial-exec", "-o", library,
                            os.path.join(os.path.dirname(os.path.abspath(__file__)), "fail_allocation.cc")], check=True)
            failed = 0
            for thread, allocation in itertools.product(range(1, self.THREADS), range(1, 5)):
                process = subprocess.Popen(
                    [os.environ["E2E_BINARY"], "serve", model, "--port", "0", "--threads", "2", "--store", "memory",
                     "--kv-cache-bytes", "8MiB"], stdin=subprocess.DEVNULL, text=True, stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE, env={**os.environ, "LD_PRELOAD": library, "FAIL_THREAD": str(thread),
                                                 "FAIL_ALLOCATION": str(allocation)})
                watchdog = threading.Timer(STEP_S, process.kill)
                watchdog.start()
                if "serving" in process.stdout.readline():
                    process.terminate()
                errors = process.communicate()[1]
                watchdog.cancel()
                with self.subTest(thread=thread, allocation=allocation):
                    self.assertIn(process.returncode, (0, 1), errors)
                    self.assertLessEqual(sum(line.startswith("tutti: ") for line in errors.splitlines()), 1, errors)
                    failed += "[failed]" in errors
        self.assertGreater(failed, 20)


@unittest.skipUnless(judged("requests with too little address space", "a sanitizer maps terabytes of its own"), "sanitized")
class MemoryRunsOut(ServerCase):
    """Requests that want more memory than there is are refused, each for itself.

    Counting the tokens of a long prompt once ended the program.
    """
    OPTIONS = ("--kv-cache-bytes", "16MiB", "--threads", "1")

    def limit(self, spare_mib):
        with open(f"/proc/{self.server.process.pid}/status") as status:
            mapped = int(re.search(r"VmSize:\s+(\d+)", status.read()).group(1)) * 1024
        resource.prlimit(self.server.process.pid, resource.RLIMIT_AS,
                         (mapped + spare_mib * MIB if spare_mib else resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    SMALL = {"model": MODEL, "prompt": "Once upon a time", "max_tokens": 8, "temperature": 0, "cache": "bypass"}
    LARGE = [("/v1/completions", {**SMALL, "prompt": "a" * 6_000_000}),
             ("/v1/completions", {**SMALL, "prompt": "ab c " * 1_200_000}),
             ("/v1/completions", {**SMALL, "prompt": [5] * 2_000_000}),
             ("/tokenize", {"prompt": "word " * 1_200_000}),
             ("/detokenize", {"tokens": [5] * 2_000_000}),
             ("/apply-template", {"messages": [{"role": "user", "content": "a" * 6_000_000}]})]

    def text(self):
        return self.server.post_json("/v1/completions", self.SMALL)["choices"][0]["text"]

    def send_large(self):
        """How often each status and error code was answered, three requests at a time."""
        def send(request):
            path, body = request
            try:
                status, _, answer = self.server.post(path, body)
            except ConnectionError:  # refused while it was being sent
                return None, "cut"
            return status, json.loads(answer).get("error", {}).get("code")
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            return collections.Counter(pool.map(send, self.LARGE))

    def test_large_requests_are_refused_and_the_others_answered(self):
        before = self.text()
        answers = collections.Counter()
        for spare_mib in (4, 8, 16, 32, 64, 128):
            self.limit(spare_mib)
            answers += self.send_large()
            self.assertEqual(self.text(), before)
            self.limit(None)
        self.assertLessEqual(set(answers), {(200, None), (400, "context_length_exceeded"), (503, "overloaded"), (None, "cut")}, answers)
        self.assertGreaterEqual(answers[503, "overloaded"], 6, answers)
        self.server.wait_idle()

    def test_the_memory_of_large_requests_goes_back_to_the_system(self):
        """The allocator once kept hundreds of megabytes of them."""
        self.text()
        before = self.server.resident_kib()
        for _ in range(2):
            self.assertEqual(self.send_large(), {(400, "context_length_exceeded"): 3, (200, None): 3})
        self.text()
        self.assertLess(self.server.resident_kib() - before, 64 << 10)


if __name__ == "__main__":
    unittest.main()
