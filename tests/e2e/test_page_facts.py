"""Options, routes, fields and defaults that README.md and docs/*.md name are those of the program (N64, R44).

What the pages say is compared with `--help`, `--print-config`, /openapi.json and the answers of a server. docs/configuration.md is
printed by the program's own table (app_test), so its rows stand for the program here.
"""
import functools
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import encoder_models
from encoder_models import EMBEDDER
from harness import STEP_S, Server, default_model

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import make_site  # noqa: E402

BINARY = os.environ["E2E_BINARY"]
MIGRATION = "docs/coming-from.md"
NOT_PAGES = {"docs/renames.md"}  # which has names of the past
# Options of other programs, and of scripts of this project, that pages name in their text.
FOREIGN = {"--cacert", "--health-cmd", "--peers"}
ANY_NUMBER = re.compile(r"^-?\d[\d,]*(?:\.\d+)?")
UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
CHAT = "/v1/chat/completions"
LITERAL = re.compile(r"(-?\d+|true|false)(?=;|$)|`([a-z]+)`(?=;|$)")
# Values of fields that change the answer, if the default is another.
OBSERVED = {"echo": True, "add_generation_prompt": False, "timings": True, "explain_cache": True, "stream": True, "top_logprobs": 2,
            "service_tier": "flex", "encoding_format": "base64", "top_n": 1, "return_documents": False, "raw_scores": True}
SPANS = {"a minute": 60, "an hour": 3600, "a day": 86_400}


def page_names():
    names = ["README.md", "python/README.md", *(path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "docs").glob("*.md")))]
    return [name for name in names if name not in NOT_PAGES]


def without_blocks(text):
    return re.sub(r"^[ \t]*```.*?^[ \t]*```", "", text, flags=re.S | re.M)


@functools.cache
def prose(name):
    return without_blocks((ROOT / name).read_text())


def cells(row):
    """Of a row of a table. An escaped bar is text."""
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", row.strip().strip("|"))]


def tables(text):
    """(heading of the first column, [cells of each row]) of each table."""
    for table in re.findall(r"(?:^\|.*\n?)+", text, re.M):
        head, _, *rows = table.strip().splitlines()
        yield cells(head)[0], [cells(row) for row in rows]


def code(text):
    return re.findall(r"`([^`\n]+)`", text)


@functools.cache
def help_of(*words):
    every = ("--help-all",) if words in (("serve",), ("worker",)) else ("--help",)
    done = subprocess.run([BINARY, *words, *every], capture_output=True, text=True, timeout=STEP_S, check=False)
    return done.stdout


@functools.cache
def commands():
    """The words of each command: (), ("serve",), ("bench", "engine"), ..."""
    found, todo = [], [()]
    while todo:
        words = todo.pop()
        found.append(words)
        listed = re.search(r"^Subcommands:\n(.*?)(?:\n\n|\Z)", help_of(*words), re.S | re.M)
        todo += [(*words, name) for name in re.findall(r"^  ([a-z]\S*)", listed[1], re.M)] if listed and words != ("help",) else []
    return found


def options_of(words):
    """{option: its line or two of help}."""
    found, last = {}, []
    for line in help_of(*words).splitlines():
        if option := re.match(r"  (-\S+)", line):
            last = option[1].split(",")
            found.update({name: line for name in last})
        elif line.startswith("      "):
            found.update({name: found[name] + " " + line.strip() for name in last})
    return found


@functools.cache
def all_options():
    return {name for words in commands() for name in options_of(words)}


@functools.cache
def settings():
    """{name: default} of each setting of docs/configuration.md, by flag, TOML key and variable."""
    found = {}
    for _, rows in tables((ROOT / "docs/configuration.md").read_text()):
        for row in rows:
            if len(row) == 6 and row[0].startswith("`--"):
                found.update({name: row[3].strip("`") for cell in row[:3] for name in code(cell)})
    return found


def variables():
    other = prose("docs/configuration.md").split("## Other variables")[1]
    return {name for name in settings() if name.startswith("TUTTI_")} | set(re.findall(r"`([A-Z][A-Z_]+)`", other))


def value(text):
    """A number, of bytes where it has a unit, or a word, as the pages write defaults."""
    text = text.strip().strip("`")
    if text in SPANS:
        return float(SPANS[text])
    if number := ANY_NUMBER.match(text):
        unit = re.match(r"\s*([KMGT]iB)\b", text[number.end():])
        return float(number[0].replace(",", "")) * (UNITS[unit[1]] if unit else 1)
    return text


def default_claims(text):
    """(name, claimed default, the words) of each default of a setting that a page tells, in one of these forms:

    `--load-wait-s` (120 s)        also with up to four words between them, and with `load.wait_s`
    `--speculate off`, the default
    | `--web auto` | the default: ...
    | `--traces-sample-ratio R` | ... 1 by default |    in a row that names one option
    `--mqtt-port` (off by default)
    """
    known = settings()
    for row_or_paragraph in re.split(r"\n\s*\n|\n(?=[-*|] )", text):
        flat = re.sub(r"\s+", " ", row_or_paragraph)
        for found in re.finditer(r"`((?:--)?[a-z][\w.-]*)(?: [A-Z][A-Z:]*)?`(?: [a-z]+){0,4} \((?:default:? )?((?:\d[^()]*|a day|on|off|auto))\)", flat):
            if found[1] in known and known[found[1]]:
                yield found[1], re.sub(r"\s*by default$", "", found[2]), found[0]
        for found in re.finditer(r"`(--[a-z][\w-]*) ([\w.-]+)`(?:,| \|) the default(?! with)", flat):
            yield found[1], found[2], found[0]
        for found in re.finditer(r"([\w.,]+) by default", flat):
            named = [words.split()[0] for words in code(flat[:found.start()]) if words.split()[0] in known and words.startswith("--")]
            row = flat.startswith("|") and len(named) == 1
            if named and (row or re.search(r"`--[\w-]+` \($", flat[:found.start()])) and (ANY_NUMBER.match(found[1]) or found[1] in ("on", "off")):
                yield named[-1], found[1], flat[max(0, found.start() - 60):found.end()]


def is_default(name, claimed):
    """A number of 0 may be told as off."""
    real, claimed = value(settings()[name]), value(re.split(r"[,;]| in ", claimed)[0] if not ANY_NUMBER.match(claimed) else claimed)
    return real == claimed or (real, claimed) == (0, "off")


def same_words(claim, line):
    """Whether the default in the help, in brackets or as `TEXT:{a,b}=a`, is the one of the page."""
    found = re.search(r"\[([^\[\]]*)\]", line) or re.search(r"\}=(\w+)", line)
    return found is not None and value(found[1]) == value(claim)


class Options(unittest.TestCase):
    def test_options_of_pages_exist(self):
        named = 0
        for name in page_names():
            text = prose(name)
            if name == MIGRATION:  # the first cells of its tables are of others
                text = "\n".join(" ".join(row[1:]) for _, rows in tables(text) for row in rows)
            for words in code(text):
                for option in re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", words):
                    named += 1
                    self.assertTrue(option in all_options() or option in FOREIGN, f"{name}: no command has {option}")
        self.assertGreater(named, 400)

    def test_commands_of_pages_have_their_options(self):
        """`tutti serve --port 1` in a text or table is a command with its own options."""
        named = 0
        for name in page_names():
            for words in code(prose(name)):
                if not words.startswith("tutti ") or "|" in words:
                    continue
                parts = words.split()[1:]
                of = max((known for known in commands() if parts[:len(known)] == list(known)), key=len)
                self.assertTrue(of or parts[0].startswith("-") or not re.match(r"[a-z]", parts[0]), f"{name}: no command {words}")
                for option in (part for part in parts if re.match(r"--?[a-z]", part)):
                    named += 1
                    self.assertIn(option.split("=")[0], {**options_of(of), **options_of(())}, f"{name}: {words}")
        self.assertGreater(named, 25)

    def test_variables_of_the_migration_page_exist(self):
        named = 0
        for _, rows in tables(prose(MIGRATION)):
            for row in rows:
                for words in re.findall(r"`([A-Z]+_[A-Z_]+)`", " ".join(row[1:])):
                    named += 1
                    self.assertIn(words, variables(), row)
        self.assertGreater(named, 20)

    def test_defaults_of_settings_in_pages(self):
        claims = 0
        for name in page_names():
            text = prose(name)
            if name == "docs/configuration.md":
                text = re.sub(r"^\| `--.*", "", text, flags=re.M)
            for setting, claimed, words in default_claims(text):
                claims += 1
                self.assertTrue(is_default(setting, claimed), f"{name}: the default of {setting} is {settings()[setting]}: {words}")
        print(f"page facts: {claims} defaults in the text of pages are those of the program")
        self.assertGreaterEqual(claims, 18)

    def test_false_defaults_are_found(self):
        for text, good in (("`--load-wait-s` (120 s)", True), ("`--load-wait-s` (121 s)", False), ("`--max-loras` adapters (65)", False),
                           ("`jobs.window_s` (a day)", True), ("`jobs.window_s` (an hour)", None), ("`files.file_bytes` (200 MiB)", True),
                           ("`files.file_bytes` (200 MB)", False), ("`--speculate ngram`, the default", False), ("`--speculate off`, the default", True),
                           ("| `--web on` | the default: always |", False), ("| `--traces-sample-ratio R` | share. 0.5 by default |", False),
                           ("`--mqtt-port` (off by default)", True), ("`--cache-exact` (on by default)", False)):
            with self.subTest(text):
                found = [is_default(name, claimed) for name, claimed, _ in default_claims(text)]
                self.assertEqual(all(found) and bool(found), bool(good), found)

    def test_defaults_of_commands_in_the_table(self):
        """The last table of docs/configuration.md: a number in brackets at the end of a row is the default of `--help`."""
        checked, faults = 0, []
        rows = next(rows for head, rows in tables(prose("docs/configuration.md")) if head == "command")
        for command, option, meaning in rows:
            claim = re.search(r"\((`?[\w/.-]+`?)\)$", meaning)
            if not claim or not (ANY_NUMBER.match(claim[1]) or claim[1].startswith("`")):
                continue
            for name in code(command):
                kinds = [words for words in commands() if words[:1] == (name,) and code(option)[0].split()[0] in options_of(words)]
                self.assertTrue(kinds, f"{command} {option}")
                for words in kinds:
                    checked += 1
                    line = options_of(words)[code(option)[0].split()[0]]
                    if not same_words(claim[1], line):
                        faults.append(f"{' '.join(words)} {option}: {meaning}; help: {line.strip()}")
        self.assertEqual(faults, [])
        self.assertGreaterEqual(checked, 6)


class Links(unittest.TestCase):
    """What the strict build of the site checks too (tests/ship/site.py), without it."""

    def slugs(self, text):
        """Anchors of headings, as code hosts make them."""
        found = []
        for heading in re.findall(r"^#+ +(.*?) *$", without_blocks(text), re.M):
            words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.replace("`", ""))
            slug = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
            found.append(f"{slug}-{found.count(slug)}" if slug in found else slug)
        return set(found) | set(re.findall(r'<a (?:id|name)="([^"]+)"', text))

    def test_links_and_their_anchors_exist(self):
        texts = {name: (ROOT / name).read_text() for name in make_site.files() if name.endswith(".md")}
        anchors = {name: self.slugs(text) for name, text in texts.items()}
        checked = 0
        for name, text in texts.items():
            for _, _, target in make_site.LINK.findall(without_blocks(text)):
                if re.match(r"[a-z]+:", target):
                    continue
                checked += 1
                path, _, anchor = target.partition("#")
                to = os.path.normpath(os.path.join(os.path.dirname(name), path)) if path else name
                self.assertTrue((ROOT / to).exists(), f"{name} links to {target}")
                if anchor:
                    self.assertIn(anchor, anchors[to], f"{name} links to {target}")
        self.assertGreater(checked, 500)

    def test_each_page_is_in_the_navigation_of_the_site(self):
        navigation = (ROOT / "docs/site/mkdocs.yml").read_text().split("\nnav:\n")[1]
        named = set(re.findall(r": (\S+\.md|\w+/)$", navigation, re.M))
        for target in make_site.files().values():
            if target.endswith(".md"):
                self.assertTrue(target in named or f"{target.partition('/')[0]}/" in named or target == "checks.md", target)


class Served(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        encoder_models.write_cross_encoder(pathlib.Path(folder.name))
        cls.server = Server(EMBEDDER, f"reranker={folder.name}", model=default_model())
        cls.addClassCleanup(lambda: cls.server.stop())
        cls.server.wait_models(3)
        cls.document = json.loads(cls.server.get("/openapi.json")[2])
        cls.model = cls.server.models()[0]

    def has_path(self, path):
        pattern = "/".join("[^/]+" if part.startswith("{") or part in ("M", "R", "id") else re.escape(part) for part in path.split("?")[0].split("/"))
        return any(re.fullmatch(pattern, known) or re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", known), path) for known in self.document["paths"])

    def test_routes_of_tables_exist(self):
        """The second column of the migration page, and the first of the tables of routes of README.md and docs/http.md."""
        named = 0
        for name, headings, column in ((MIGRATION, {"route", "command"}, 1), ("README.md", {"API"}, 1), ("docs/http.md", {"route"}, 0)):
            for head, rows in tables(prose(name)):
                for row in rows if head in headings else ():
                    for words in code(row[column]):
                        path = words.split()[-1]
                        if not path.startswith("/") or "..." in path or path in ("/api", "/v1"):
                            continue
                        named += 1
                        self.assertTrue(self.has_path(path), f"{name}: no route {path}")
        self.assertGreater(named, 150)

    def test_every_route_is_on_a_page(self):
        text = "\n".join(prose(name) for name in page_names())
        text += "".join((ROOT / name).read_text() for name in page_names() if name != "README.md")
        missing = []
        for path in self.document["paths"]:
            parts = [part for part in path.split("/") if part]
            steady = "/" + "/".join(parts[:next((i for i, part in enumerate(parts) if part.startswith("{")), len(parts))])
            last = next((part for part in reversed(parts) if not part.startswith("{")), "")
            if steady not in text or last not in text:
                missing.append(path)
        self.assertEqual(missing, [])

    def test_fields_of_the_migration_page_exist(self):
        known, stack = set(), [self.document]
        while stack:
            item = stack.pop()
            if isinstance(item, dict):
                known.update(item.get("properties", {}))
                stack += item.values()
            elif isinstance(item, list):
                stack += item
        named = refused = 0
        for head, rows in tables(prose(MIGRATION)):
            for row in rows if head == "field" else ():
                for field in code(row[1]):
                    named += 1
                    self.assertIn(field, known, row)
                if row[1] == "none: refused":
                    for field in code(row[0]):
                        refused += 1
                        self.check_refused(field)
        self.assertGreater(named, 20)
        self.assertGreater(refused, 5)

    def check_refused(self, field):
        values = {"samplers": ["top_k"], "mirostat": 1, "use_beam_search": True, "return_token_ids": True}
        status, _, text = self.server.post("/v1/chat/completions", {"model": self.model, "messages": [{"role": "user", "content": "Hi"}],
                                                                   "max_tokens": 1, field: values.get(field, 0.5)})
        self.assertEqual((status, json.loads(text)["error"]["param"]), (400, field), text)

    def test_fields_of_others_name_ours(self):
        """Where the migration page translates a field of llama.cpp that is refused, the error has the same translation."""
        rows = [row for head, rows in tables(prose(MIGRATION).split("## Ollama")[0]) for row in rows if head == "field"]
        for theirs, ours in (("n_predict", "max_tokens"), ("n_probs", "logprobs"), ("repeat_penalty", "repetition_penalty")):
            self.assertIn([f"`{theirs}`", f"`{ours}`"], rows)
            status, _, text = self.server.post("/v1/chat/completions", {"model": self.model, theirs: 2, "messages": [{"role": "user", "content": "Hi"}]})
            self.assertEqual(status, 400, text)
            self.assertIn(ours, json.loads(text)["error"]["message"])

    def sampled(self, **fields):
        body = {"model": self.model, "messages": [{"role": "user", "content": "Name three rivers."}], "max_tokens": 24, "seed": 11, **fields}
        status, _, text = self.server.post("/v1/chat/completions", body)
        return status, [choice["message"] for choice in json.loads(text).get("choices", [])] or text

    def test_defaults_and_ranges_of_sampling_fields(self):
        """The table of sampling fields of docs/http.md: a field with its default changes nothing, and its range is kept."""
        section = prose("docs/http.md").split("### Sampling")[1].split("\n### ")[0]
        (_, rows), = tables(section)
        status, plain = self.sampled()
        self.assertEqual(status, 200, plain)
        defaults = ranges = 0
        for names, span, default in rows:
            for name in code(names):
                if ANY_NUMBER.match(default):
                    defaults += 1
                    self.assertEqual(self.sampled(**{name: value(default)} if name != "n" else {name: int(default)}), (200, plain), f"{name} {default}")
                bounds = re.match(r"(above )?(-?\d+)(?:,? (?:up )?to (-?\d+))?\b", span)
                if not bounds or "ids" in span or "bit" in span:
                    continue
                ranges += 1
                low, high = int(bounds[2]), int(bounds[3]) if bounds[3] else None
                self.assertEqual(self.sampled(**{name: low})[0], 400 if bounds[1] else 200, f"{name} {low}")
                for outside in (low - 1, high + 1) if high is not None else ():
                    self.assertEqual(self.sampled(**{name: outside})[0], 400, f"{name} {outside}")
                if high is not None:
                    self.assertEqual(self.sampled(**{name: high})[0], 200, f"{name} {high}")
        self.assertGreaterEqual(defaults, 7)
        self.assertGreaterEqual(ranges, 7)
        for name, other in (("temperature", 2), ("top_p", 0.1), ("min_p", 0.9), ("repetition_penalty", 9), ("top_k", 1)):
            self.assertNotEqual(self.sampled(**{name: other})[1], plain, name)


    def test_defaults_of_request_fields(self):
        """A field with the default that docs/http.md names changes nothing; the opposite of some changes the answer."""
        chat = {"messages": [{"role": "user", "content": "Name three rivers."}], "max_tokens": 12, "seed": 11}
        text = {"prompt": "Three rivers are", "max_tokens": 12, "seed": 11}
        checked = 0
        for section, path, body in (("Prompt", CHAT, chat), ("Length", CHAT, chat), ("Output", CHAT, chat), ("Scheduling", CHAT, chat),
                                    ("`POST /v1/embeddings`", "/v1/embeddings", {"input": ["a river", "a sea"]}),
                                    ("`POST /v1/rerank`", "/v1/rerank", {"query": "a river", "documents": ["Rhine", "Oslo", "Po"]})):
            (_, rows), = tables(prose("docs/http.md").split(f"### {section}\n")[1].split("\n### ")[0])
            for names, _, default in rows:
                literal = LITERAL.match(default)
                if not literal or names.startswith("header"):
                    continue
                name, wanted = code(names)[0], json.loads(literal[1] or f'"{literal[2]}"')
                to, whole = ("/v1/completions", text) if "completions)" in names or "text `prompt`" in names else (path, body)
                more = {"logprobs": True} if name == "top_logprobs" else {}
                checked += 1
                absent = self.answered(to, {**whole, **more})
                self.assertEqual(self.answered(to, {**whole, **more, name: wanted}), absent, f"{section} {name} {default}")
                if name in OBSERVED:
                    self.assertNotEqual(self.answered(to, {**whole, **more, name: OBSERVED[name]}), absent, f"{section} {name} {default}")
        self.assertGreaterEqual(checked, 20)
        # Two that stand behind a semicolon.
        self.assertIn("the rest of the context; completions: 16", prose("docs/http.md"))
        long = {"model": self.model, "ignore_eos": True, "prompt": "Once", "messages": None}
        self.assertEqual(json.loads(self.server.post("/v1/completions", {key: long[key] for key in ("model", "ignore_eos", "prompt")})[2])
                         ["usage"]["completion_tokens"], 16)
        self.assertIn("false; `/generate`: true", prose("docs/http.md"))
        self.assertIn("text/event-stream", self.server.post("/generate", {"prompt": "Once", "max_tokens": 2})[1]["Content-Type"])

    def answered(self, path, body):
        """What an answer says, without ids and times."""
        model = {CHAT: self.model, "/v1/completions": self.model, "/v1/embeddings": EMBEDDER, "/v1/rerank": "reranker"}[path]
        status, headers, text = self.server.post(path, {"model": model, **body})
        if headers["Content-Type"].startswith("text/event-stream"):
            return "a stream"
        answer = json.loads(text)
        self.assertEqual(status, 200, text)
        for name in ("id", "created"):
            answer.pop(name, None)
        answer.get("usage", {}).get("prompt_tokens_details", {}).pop("cached_tokens", None)
        return answer


if __name__ == "__main__":
    unittest.main()
