#!/usr/bin/env python3
"""Makes tests/golden/decisions.json: the probabilities of the labels of decisions by transformers, in float32 on a CPU.

    make_decision_goldens.py SmolLM2-135M-Instruct.Q4_1.gguf tests/golden/decisions.json

Needs the PyPI packages torch, transformers and gguf. transformers reads the GGUF's weights, its tokenizer and its chat
template. The prompt is written here as docs/http.md describes it: a chat whose one message is the text, an empty line, the
instructions and the labels. A label's log-probability is the sum over its tokens, each computed behind the whole text
before it, without a cache; the probabilities are the softmax over the labels of a question.

Format: a list of {"input", "questions" (of /v1/decisions), "probabilities" (of each question, in the labels' order)}.
"""
import functools
import json
import os
import sys

TEXTS = (
    "Help! My payouts have been failing for three days, and nobody answers me.",
    "The river rises in the hills above the town and runs for ninety miles before it reaches the sea.",
    "def area(radius):\n    return 3.14159 * radius ** 2",
    "Das Paket ist heute angekommen. Vielen Dank für die schnelle Lieferung!",
    "I would rather not go there again: the food was cold, and the waiter laughed when we said so. " * 4,
)
QUESTIONS = (
    {"type": "predicate", "name": "angry", "instructions": "Is the writer angry?"},
    {"type": "choice", "instructions": "What is it?", "choices": [
        {"value": "complaint"}, {"value": "source code"}, {"value": "thanks", "description": "somebody is grateful"}, {"value": True}]},
    {"type": "score", "name": "urgency", "instructions": "How urgent is it?", "levels": [
        {"label": "can wait"}, {"label": "soon"}, {"label": "now", "description": "within the hour"}]},
)


def asked(question):
    """What stands behind the text, and the labels as the model would answer them."""
    if question["type"] == "predicate":
        return question["instructions"] + "\nAnswer with yes or no.", ["yes", "no"]
    if question["type"] == "choice":
        lines = [(str(each["value"]).lower() if isinstance(each["value"], bool) else each["value"], each.get("description"))
                 for each in question["choices"]]
        listed = [label + (f": {more}" if more else "") for label, more in lines]
        return "\n".join([question["instructions"], "Answer with one of these:", *listed]), [label for label, _ in lines]
    lines = [each["label"] + (f" ({each['description']})" if "description" in each else "") for each in question["levels"]]
    listed = [f"{i}: {line}" for i, line in enumerate(lines)]
    return ("\n".join([question["instructions"], "Answer with the number of the level that fits best:", *listed]),
            [str(i) for i in range(len(lines))])


def main():
    path, out = sys.argv[1:]
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    folder, name = os.path.split(os.path.abspath(path))
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=name)
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32).eval()

    @functools.lru_cache(maxsize=8)
    def rows(tokens):
        with torch.no_grad():
            return torch.log_softmax(model(torch.tensor([tokens]), use_cache=False).logits[0], dim=-1)

    def logprob(prompt, label):
        tokens = tokenizer(label, add_special_tokens=False)["input_ids"]
        of = rows(tuple(prompt + tokens[:-1]))  # the same for all labels of one token
        return sum(of[len(prompt) - 1 + i, token].item() for i, token in enumerate(tokens))

    def probabilities(text, question):
        behind, labels = asked(question)
        rendered = tokenizer.apply_chat_template([{"role": "user", "content": f"{text}\n\n{behind}"}],
                                                 tokenize=False, add_generation_prompt=True)
        prompt = tokenizer(rendered, add_special_tokens=False)["input_ids"]
        values = torch.tensor([logprob(prompt, label) for label in labels], dtype=torch.float64)
        return [round(each, 7) for each in torch.softmax(values, dim=0).tolist()]

    golden = [{"input": text, "questions": list(QUESTIONS), "probabilities": [probabilities(text, each) for each in QUESTIONS]}
              for text in TEXTS]
    with open(out, "w", encoding="utf-8") as file:
        file.write("[\n" + ",\n".join(json.dumps(each, ensure_ascii=False) for each in golden) + "\n]\n")


if __name__ == "__main__":
    main()
