#!/usr/bin/env python3
"""Renders every chat template under tests/third_party/chat_templates with transformers' own renderer.

Needs `pip install jinja2 transformers` (no torch). Writes tests/data/templates/<template>.json: for each dialog
of dialogs.json the prompt, or the fact that the template refuses it. Also fills in what the small templates of
snippets.json render to. Run it again after adding a template, dialog or snippet:

    python3 tools/make_template_goldens.py
"""
import argparse
import copy
import datetime
import json
import pathlib

import transformers.utils.chat_template_utils as reference


class FixedDatetime:
    """Stands in for datetime.datetime inside the renderer, so that strftime_now does not depend on the day."""

    moment = None

    @classmethod
    def now(cls):
        return cls.moment


def render(source, tokens, dialog, tools):
    try:
        prompts, _ = reference.render_jinja_template(
            conversations=[dialog["messages"]],
            tools=tools if dialog.get("use_tools") else None,
            chat_template=source,
            add_generation_prompt=dialog.get("add_generation_prompt", True) and not dialog.get("continue_final_message"),
            continue_final_message=dialog.get("continue_final_message", False),
            **tokens,
            **dialog.get("extra", {}),
        )
        return {"dialog": dialog["name"], "prompt": prompts[0]}
    except Exception as error:  # the template, or the renderer, refuses
        return {"dialog": dialog["name"], "error": f"{type(error).__name__}: {error}"[:200]}


def render_snippet(source, variables):
    try:
        return {"source": source, "text": reference._cached_compile_jinja_template(source).render(**copy.deepcopy(variables))}
    except Exception as error:
        return {"source": source, "error": f"{type(error).__name__}: {error}"[:200]}


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--templates", type=pathlib.Path, default=root / "tests/third_party/chat_templates")
    parser.add_argument("--data", type=pathlib.Path, default=root / "tests/data/templates")
    args = parser.parse_args()

    inputs = json.loads((args.data / "dialogs.json").read_text())
    FixedDatetime.moment = datetime.datetime.fromtimestamp(inputs["now_unix_s"], datetime.timezone.utc)
    reference.datetime = FixedDatetime
    # The renderer copies one key of a message under other names, for its own callers; prompts are made without.
    reference._alias_reasoning_fields = lambda chat: chat
    snippets_path = args.data / "snippets.json"
    if snippets_path.exists():
        snippets = json.loads(snippets_path.read_text())
        snippets["cases"] = [render_snippet(case["source"], snippets["variables"]) for case in snippets["cases"]]
        snippets_path.write_text(json.dumps(snippets, ensure_ascii=False, indent=1) + "\n")
        print(f"snippets.json: {len(snippets['cases'])} snippets")
    for entry in json.loads((args.templates / "templates.json").read_text()):
        # Not read_text(): that would translate line ends before the template engine sees them.
        source = (args.templates / entry["file"]).read_bytes().decode()
        tokens = {name: entry[name] for name in ("bos_token", "eos_token") if name in entry}
        cases = [render(source, tokens, dialog, inputs["tools"]) for dialog in inputs["dialogs"]]
        output = {"template": entry["file"], "family": entry["family"], **tokens, "cases": cases}
        name = pathlib.Path(entry["file"]).stem + ".json"
        (args.data / name).write_text(json.dumps(output, ensure_ascii=False, indent=1) + "\n")
        print(f"{name}: {sum('prompt' in case for case in cases)} prompts, {sum('error' in case for case in cases)} refusals")


if __name__ == "__main__":
    main()
