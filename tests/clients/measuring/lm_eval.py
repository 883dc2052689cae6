"""EleutherAI's harness: log-likelihoods by completions with echo, and answers by chat."""
import json
import pathlib
import subprocess
import sys

from checks import MODEL, V1, Client

client = Client("lm-eval", section="measuring", distribution="lm_eval")
FACTS = [{"question": "The capital of France is", "choices": ["Paris", "bicycle"], "answer": 0},
         {"question": "The opposite of hot is", "choices": ["window", "cold"], "answer": 1}]
CHOICE = """task: facts
dataset_path: json
dataset_kwargs: {data_files: {test: facts.jsonl}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{question}}"
doc_to_choice: "{{choices}}"
doc_to_target: answer
metric_list: [{metric: acc}]
"""
SAID = """task: said
dataset_path: json
dataset_kwargs: {data_files: {test: facts.jsonl}}
test_split: test
output_type: generate_until
doc_to_text: "{{question}}"
doc_to_target: "{{choices[answer]}}"
generation_kwargs: {until: ["\\n\\n\\n"], max_gen_toks: 24, temperature: 0}
filter_list: [{name: all, filter: [{function: take_first}]}]
metric_list: [{metric: exact_match}]
"""


def evaluate(model, task, arguments, *options):
    folder = pathlib.Path("tasks")
    folder.mkdir(exist_ok=True)
    pathlib.Path("facts.jsonl").write_text("".join(json.dumps(fact) + "\n" for fact in FACTS))
    (folder / "facts.yaml").write_text(CHOICE)
    (folder / "said.yaml").write_text(SAID)
    done = subprocess.run([str(pathlib.Path(sys.executable).with_name("lm_eval")), "--model", model, "--model_args", arguments,
                           "--tasks", task, "--include_path", str(folder), "--output_path", "results", "--log_samples", *options],
                          capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr[-3000:]
    samples, = pathlib.Path("results").rglob(f"samples_{task}_*.jsonl")
    results, = pathlib.Path("results").rglob("results_*.json")
    value = json.loads(results.read_text())["results"][task]
    results.unlink()
    return value, [json.loads(line) for line in samples.read_text().splitlines()]


@client.check("completions")
def completions():
    results, samples = evaluate("local-completions", "facts",
                                f"model={MODEL},base_url={V1}/completions,tokenizer_backend=remote,num_concurrent=2,max_retries=1")
    assert results["acc,none"] == 1.0 and len(samples) == len(FACTS), results


@client.check("chat")
def chat():
    _, samples = evaluate("local-chat-completions", "said",
                          f"model={MODEL},base_url={V1}/chat/completions,num_concurrent=2,max_retries=1", "--apply_chat_template")
    assert len(samples) == len(FACTS) and all(sample["resps"][0][0].strip() for sample in samples), samples
