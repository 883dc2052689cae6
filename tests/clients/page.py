"""docs/clients.md: its columns, its text, and its tables from the results of a run."""

# The columns of the page, in its order.
COLUMNS = {
    "chat": "chat", "stream": "streamed", "tools": "tools", "tools_stream": "tools, streamed", "structured": "structured output",
    "completions": "completions", "embeddings": "embeddings", "responses": "Responses", "batches": "files, batches",
    "rerank": "rerank", "kserve_http": "KServe HTTP", "kserve_grpc": "KServe gRPC", "rpc": "tutti.v1", "mqtt": "MQTT",
    "websocket": "WebSocket", "run": "its own run"}
SECTIONS = {
    "apis": "Clients of one API", "frameworks": "Frameworks and agents", "programs": "Programs",
    "measuring": "Evaluation and load", "retrieval": "Vectors and ranking", "protocols": "HTTP, KServe, MQTT and WebSocket"}

HEAD = """# Clients

Stock clients that run against this server in `make test-clients`, which also writes this page. Each client is installed
from its package, pointed at the server's address and otherwise left as it is. `yes` means that a check passed:

- an answer is the server's own, word for word, or, where the client adds instructions, not empty; streamed, it comes in
  several pieces that add up to the same text;
- tools: the client offers a function, the model calls it with valid arguments, the client sends the result back and an
  answer comes;
- structured output satisfies the schema; vectors and scores are the server's own.

`-` is not checked, mostly because the client has no such feature. A number is a reason under the table: what the client does, shown by a
check that must fail with just that error. The model is SmolLM2-135M-Instruct, so the checks judge the protocol and not the words.
The code of each check is in [tests/clients](../tests/clients).
"""


def make(rows, missing):
    lines, reasons = [HEAD], []
    for section, title in SECTIONS.items():
        members = sorted((row for row in rows.values() if row["section"] == section), key=lambda row: row["client"].lower())
        if not members:
            continue
        columns = [column for column in COLUMNS if any(column in row["columns"] for row in members)]
        lines += [f"## {title}", "", "| client | version | " + " | ".join(COLUMNS[c] for c in columns) + " |",
                  "|---|---|" + "---|" * len(columns)]
        for row in members:
            lines.append(row_of(row, columns, reasons))
        lines.append("")
    lines += ["## What cannot, and why", ""]
    lines += [f"{number}. {reason}" for number, reason in enumerate(reasons, 1)] or ["Nothing."]
    if missing:
        lines += ["", "Not installed by `make test-clients`, which checks that the package still asks for what is named:", ""]
        lines += [f"- {name} {version}: {reason}" for name, version, reason in missing]
    cells = [cell for row in rows.values() for cell in row["cells"].values()]
    yes = sum(cell["state"] == "yes" for cell in cells)
    lines += ["", f"{len(rows)} clients; {yes} cells pass, {len(cells) - yes} have a reason.", ""]
    return "\n".join(lines)


def row_of(row, columns, reasons):
    shown = []
    for column in columns:
        cell = row["cells"].get(column)
        if cell is None:
            shown.append("-")
        elif cell["state"] == "yes":
            shown.append("yes")
        else:
            reason = f"{row['client']}: {cell['text']}"
            if reason not in reasons:
                reasons.append(reason)
            shown.append(f"{reasons.index(reason) + 1}")
    return f"| {row['client']} | {row['version']} | " + " | ".join(shown) + " |"


def compare(rows, page):
    """The rows of clients that ran and that differ from the page's. Numbers of reasons count as equal, because they
    depend on the other clients."""
    faults = []
    lines = page.read_text().splitlines() if page.exists() else []
    for row in rows.values():
        line = next((line for line in lines if line.startswith(f"| {row['client']} | {row['version']} |")), None)
        shown = [] if line is None else [cell.strip() for cell in line.strip("|").split("|")][2:]
        wanted = ["yes" if cell["state"] == "yes" else "#" for column, cell in sorted(
            row["cells"].items(), key=lambda item: row["columns"].index(item[0]))]
        if sorted("#" if cell.isdigit() else cell for cell in shown if cell != "-") != sorted(wanted):
            faults.append(f"{page.name} has another row for {row['client']} {row['version']}; `make test-clients` writes it")
    return faults
