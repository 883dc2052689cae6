"""Every block of README.md, python/README.md and docs/*.md runs, parses, or says why it does not (N64, R44).

A page's blocks run in order, in a folder of their own, against one server that all pages share or against those that the page starts.
page_blocks.py has the rules.
"""
import collections
import contextlib
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time
import unittest
import unittest.mock

import calling_model
import encoder_models
import lora_files
import page_blocks
import redis_server
import thinking_model
import tiny_model
from harness import STEP_S, RealModel, Server
from hub_server import HubServer, Repository
from page_blocks import blocks

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ["E2E_BINARY"]
NOT_PAGES = {"docs/renames.md"}
OF_THE_PACKAGE = "python/README.md"  # tests/python runs it where the wheel is installed
FIM = ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|repo_name|>", "<|file_sep|>"]


def pages():
    names = ["README.md", *(path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "docs").glob("*.md")))]
    return {name: blocks(name, (ROOT / name).read_text()) for name in names if name not in NOT_PAGES}


def adapters(folder, **_):
    (folder / "adapters").mkdir()
    lora_files.write_gguf(str(folder / "adapters/sql.gguf"), base=lora_files.SMOLLM2, rank=4)
    lora_files.write_folder(str(folder / "adapters/sql-v2"), base=lora_files.SMOLLM2, rank=4)
    lora_files.write_folder(str(folder / "adapters/tone"), base=lora_files.SMOLLM2, rank=4, seed=2)


def certificate(folder, environment, **_):
    """By the command of README.md."""
    (block,) = (one for one in pages()["README.md"] if "-keyout key.pem" in one.text)
    subprocess.run(["bash", "-ec", block.text], cwd=folder, env=environment, check=True, capture_output=True)


def redis(folder, page, cleanup, **_):
    server = redis_server.RedisServer()
    cleanup(server.close)
    page.own["6379"] = str(server.port)


def projects(folder, page, **_):
    (block,) = (one for one in pages()["docs/mqtt.md"] if "[[mqtt.project]]" in one.text)
    (folder / "projects.toml").write_text(page.ports(block.text))


def folder_of_models(folder, models, **_):
    """The one that docs/model-management.md shows."""
    for name in ("chat.gguf", "bge-small", "Qwen/Qwen3-0.6B"):
        path = folder / "models" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(models / {"chat.gguf": "tiny.gguf", "bge-small": "sentiment"}.get(name, "thinking"))


def path_to(folder, models, **_):
    """The models that README.md names by `path/to`."""
    (folder / "path/to").mkdir(parents=True)
    for name in ("Qwen3-0.6B", "Qwen2.5-0.5B-Instruct"):
        (folder / "path/to" / name).symlink_to(models / "thinking")
    (folder / "path/to/other.gguf").symlink_to(models / "tiny.gguf")


# What a reader has who begins with one of these pages.
PREPARED = {"README.md": (path_to,), "docs/callers.md": (certificate,), "docs/caches.md": (redis,), "docs/coming-from.md": (path_to,), "docs/lora.md": (adapters,),
            "docs/model-management.md": (folder_of_models,), "docs/mqtt.md": (projects,), "docs/workers.md": (folder_of_models,)}


class Pages(RealModel, unittest.TestCase):
    """All pages, two at a time; each test reads the faults of one."""
    EVEN_SANITIZED = True

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = tempfile.TemporaryDirectory(prefix="tutti-pages-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.models = cls.folder / "models-of-others"
        for name, write in (("thinking", thinking_model.write), ("calling", calling_model.write)):
            (cls.models / name).mkdir(parents=True)
            write(cls.models / name)
        (cls.models / "reranker").mkdir()
        encoder_models.write_cross_encoder(cls.models / "reranker")
        (cls.models / "sentiment").mkdir()
        encoder_models.write_cross_encoder(cls.models / "sentiment", labels=("NEGATIVE", "POSITIVE"))
        tiny_model.write(str(cls.models / "infill.gguf"), marks=FIM)
        cls.hub = HubServer()
        cls.addClassCleanup(cls.hub.stop)
        tiny_model.write(str(cls.models / "tiny.gguf"))
        cls.environment = cls.variables()
        cls.hub.repositories.update(cls.published())
        cls.grpc, cls.http = page_blocks.free_ports(2)
        cls.server = Server("all-minilm-l6-v2", f"qwen={cls.models}/calling", f"qwen3={cls.models}/thinking",
                            f"qwen-coder={cls.models}/infill.gguf", f"reranker={cls.models}/reranker", f"sentiment={cls.models}/sentiment",
                            "--grpc-port", str(cls.grpc), "--context", "1200", environment=cls.environment)
        cls.addClassCleanup(cls.server.stop)
        cls.server.wait_models(7)
        cls.pages, cls.seconds = pages(), {}
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            cls.faults = dict(zip(cls.pages, pool.map(cls.run_page, cls.pages)))
        print("pages:", ", ".join(f"{name} {cls.seconds[name]:.1f} s" for name in sorted(cls.seconds, key=cls.seconds.get)[:-7:-1]))

    @classmethod
    def variables(cls):
        """A HOME without anything of this user, but for the models of `make models`."""
        home = cls.folder / "home"
        home.mkdir()
        (home / ".curlrc").write_text("fail-with-body\n")
        cache = pathlib.Path(os.environ.get("TUTTI_CACHE") or os.path.expanduser("~/.cache/tutti")).resolve()
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "TMPDIR", "ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS",
                                                    "LD_LIBRARY_PATH") if name in os.environ}
        return {**kept, "HOME": str(home), "TUTTI_CACHE": str(cache), "TUTTI_STORE": str(home / "store"), "TUTTI_CONTEXT": "512",
                "HF_ENDPOINT": cls.hub.url, "HF_HUB_DISABLE_XET": "1", "NO_PROXY": "127.0.0.1", "PYTHONDONTWRITEBYTECODE": "1",
                "PYTHONUNBUFFERED": "1"}

    @classmethod
    def published(cls):
        """What the hub of this test has, under names of real ones."""
        tiny = (cls.models / "tiny.gguf").read_bytes()
        folder = encoder_models.embedder_folder()
        embedder = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        return {**{f"Qwen/{name}-GGUF": Repository({f"{name}-Q8_0.gguf": tiny}) for name in ("Qwen3-0.6B", "Qwen2.5-0.5B-Instruct")},
                "sentence-transformers/all-MiniLM-L6-v2": Repository(embedder)}

    @classmethod
    def run_page(cls, name):
        start = time.monotonic()
        try:
            return cls.run_blocks(name)
        finally:
            cls.seconds[name] = time.monotonic() - start

    @classmethod
    def run_blocks(cls, name):
        folder = cls.folder / name.replace("/", "-")
        folder.mkdir()
        (folder / "home").mkdir()
        shutil.copy(cls.folder / "home/.curlrc", folder / "home")
        for part in ("docs", "examples", "proto", "share"):  # as in a checkout
            (folder / part).symlink_to(ROOT / part)
        environment = dict(cls.environment, HF_HOME=str(folder / "hub"))
        page = page_blocks.Page(folder, BINARY, environment, {"8080": cls.server.port, "8081": cls.grpc})
        try:
            with contextlib.ExitStack() as stack:
                for prepare in PREPARED.get(name, ()):
                    prepare(folder=folder, page=page, environment=environment, models=cls.models, cleanup=stack.callback)
                found = page_blocks.faults(cls.pages[name], page)
        finally:
            page.close()
        return [f"{fault.block.page}:{fault.block.line}: {fault.message}" for fault in found] + ([page.logs()[-2000:]] if found else [])


def of_page(name):
    def test(self):
        self.assertFalse(self.faults[name], "\n" + "\n".join(self.faults[name]))
    return test


class Blocks(unittest.TestCase):
    """What needs no server of the pages, and the rules themselves."""

    def test_each_configuration_shown_is_accepted(self):
        shown = [block for page in pages().values() for block in page if block.language == "toml" and block.mark is None]
        self.assertGreater(len(shown), 3)
        for block in shown:
            with self.subTest(f"{block.page}:{block.line}"), tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
                file.write(block.text)
                file.flush()
                done = subprocess.run([BINARY, "serve", "--config", file.name, "--print-config"], capture_output=True, text=True, timeout=STEP_S,
                                      check=False)
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_most_blocks_run_and_the_others_say_why(self):
        found = [block for page in pages().values() for block in page]
        ran = [block for block in found if block.language in page_blocks.RUN and block.mark is None]
        marked = collections.Counter(block.mark for block in found if block.mark)
        print(f"pages: {len(ran)} blocks run, {sum(block.language in page_blocks.PARSED for block in found)} are parsed, not run:",
              ", ".join(f"{reason} {count}" for reason, count in marked.most_common()))
        self.assertGreaterEqual(len(ran), 95)
        self.assertLessEqual(sum(marked.values()), 32)

    def test_no_block_of_code_is_without_a_fence(self):
        """Markdown takes four spaces for code too, which would never run."""
        for name in pages():
            fenced, item = False, False
            for number, line in enumerate((ROOT / name).read_text().splitlines(), 1):
                fenced ^= line.lstrip().startswith("```")
                if line[:1] not in ("", " "):
                    item = bool(re.match(r"[-*] |\d+\. ", line))
                self.assertFalse(line.startswith("    ") and not fenced and not item, f"{name}:{number}")

    def test_each_block_of_cpp_compiles(self):
        """Each in a function of its own, with the names that its page has introduced before. docs/library.md's program is also run, by
        package_test."""
        parts, blocks_of_cpp = ["#include <iostream>\n#include <string>\n#include <vector>\n#include \"tutti/tutti.h\"\n"], 0
        for name, found in pages().items():
            for block in (one for one in found if one.language == "cpp"):
                text = re.sub(r"^#include.*", "", block.text, flags=re.M)
                place = f'#line {block.line + 1} "{name}"\n'
                if "int main(" in text:
                    parts.append(f"namespace program_{blocks_of_cpp} {{\n{place}{text.replace('int main(', 'int Main(')}}}\n")
                else:
                    parts.append(f"void Block{blocks_of_cpp}(const tutti::Expected<tutti::Model>& model, const std::string& schema) {{ {{\n"
                                 f"{place}{text}}} }}\n")
                blocks_of_cpp += 1
        self.assertGreaterEqual(blocks_of_cpp, 5)
        done = subprocess.run(["g++", "-std=c++20", "-fsyntax-only", "-Wall", "-Wno-unused-variable", "-Wno-unused-but-set-variable",
                               "-Wno-missing-field-initializers", f"-I{ROOT / 'include'}", "-x", "c++", "-"], input="".join(parts),
                              capture_output=True, text=True, timeout=STEP_S, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def page(self, text):
        """The messages of the faults of a page with this text."""
        with tempfile.TemporaryDirectory() as folder:
            page = page_blocks.Page(folder, BINARY, dict(os.environ, HOME=folder), {})
            try:
                return [fault.message for fault in page_blocks.faults(blocks("a page", text), page)]
            finally:
                page.close()

    def test_marks_and_languages_are_checked(self):
        for text, message in (("```sh\ntrue\n```", None), ("```sh\nfalse\n```", "it fails"), ("```\nx\n```", "language ''"),
                              ("```bash\ntrue\n```", "language 'bash'"),
                              ("<!-- not run: boring -->\n```sh\nfalse\n```", "no reason"),
                              ("<!-- not run: root -->\n```sh\ntrue\n```", "needs 'root'"),
                              ("<!-- not run: root -->\n```sh\nsystemctl stop x\n```", None),
                              ("<!-- not run: program -->\n```sh\ncat x | tr a b\n```", "installed"),
                              ("<!-- not run: program -->\n```sh\nno-such-program x\n```", None),
                              ("```sh\nsudo true\n```", "is not run without"), ("```text\ntutti serve\n```", "a command"),
                              ("<!-- not run: root -->\n```json\n{}\n```", "never run"),
                              ("```json\n{\"a\": 1,}\n```", "does not parse"), ("```json\n{}\n[1]\n```", None),
                              ("```toml\na = = 1\n```", "does not parse")):
            with self.subTest(text):
                found = self.page(text)
                self.assertEqual(len(found), 0 if message is None else 1, found)
                if message:
                    self.assertIn(message, found[0])

    def test_outputs_are_compared(self):
        for text, good in (("$ echo a b\na b", True), ("$ echo a\nb", False), ("$ echo abc\na...c", True), ("$ echo abc\nb...", False),
                           ("$ echo 'a\nb' |\n    cat\na\nb", True), ("$ true", True), ("a", False), ("$ false\n", False),
                           ("$ x=1\n$ echo $x\n1", True)):
            with self.subTest(text):
                self.assertEqual(self.page(f"```console\n{text}\n```"), [] if good else [unittest.mock.ANY])

    def test_blocks_of_a_page_share_their_names(self):
        self.assertEqual(self.page("```sh\na=1\n```\n```python\nb = 2\n```\n```sh\n[ $a = 1 ]\n```\n"
                                   "```python\nprint(b)  # -> 2\n```"), [])
        self.assertIn("does not print '3'", self.page("```python\nprint(2)  # -> 3\n```")[0])
        self.assertIn("NameError", self.page("```python\nnone_such\n```")[0])

    def test_a_failed_block_ends_its_page(self):
        self.assertEqual(len(self.page("```sh\nfalse\n```\n```sh\nfalse\n```\n```json\n{\n```")), 2)

    def test_only_ports_of_the_list_are_replaced(self):
        with tempfile.TemporaryDirectory() as folder:
            page = page_blocks.Page(folder, BINARY, dict(os.environ), {"8080": 1, "8081": 2})
            self.assertEqual(page.ports("http://127.0.0.1:8080/v1 :8081 18080 8080x 8080.5"), "http://127.0.0.1:1/v1 :2 18080 8080x 8080.5")
            page.owns = True
            self.assertEqual(page.ports("8080"), page.own["8080"])


for page_name in pages():
    setattr(Pages, "test_" + page_name.removesuffix(".md").replace("/", "_").replace("-", "_"), of_page(page_name))


if __name__ == "__main__":
    unittest.main()
