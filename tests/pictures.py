"""The pictures of ARCHITECTURE.md as SVG: the folders of src/ by rank, and the threads that a message crosses.

ranks_test.py compares them with the files and writes them with --write.
"""
import math
from html import escape

# A column of the picture each: colour, name, width, folders that begin so. The last has no column.
AREAS = (
    ("#dbe9f6", "programs", 180, ("cli", "bench", "library", "app", "client")),
    ("#fbe3d0", "servers, protocols", 285, ("server", "protocol")),
    ("#e2efd9", "services, connections", 290, ("services", "store", "cluster", "broker", "redis", "curl", "mqtt", "telemetry")),
    ("#f4d9e6", "engine", 190, ("gateway", "api", "engine", "runner", "kv", "sampling", "kernels")),
    ("#fff2c9", "models and text", 240, ("model", "gguf", "safetensors", "packed", "quantize", "tensor", "files", "tokenizer", "chat_template", "grammar")),
    ("#eeeeee", "base", 0, ("base",)),
)

# The calls of a streamed chat over HTTP. Some go through an interface of a folder below both.
CHAT = ("server/http", "services/admission", "gateway", "engine", "runner", "model", "kernels")

BOX, GAP, LEFT, CHARACTER = 28, 10, 70, 6.6


def text(x, y, words, size=12, anchor="middle", **more):
    extra = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in more.items())
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-size="{size}"{extra}>{escape(words)}</text>'


def svg(width, height, lines):
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" font-family="sans-serif">'
    return "\n".join([head, f'<rect width="{width:g}" height="{height:g}" fill="white"/>', *lines, "</svg>"]) + "\n"


def arrow(begin, end, bend=None):
    """A line with a head at `end`, through a bend if there is one."""
    bend = bend or ((begin[0] + end[0]) / 2, (begin[1] + end[1]) / 2)
    angle = math.atan2(end[1] - bend[1], end[0] - bend[0])
    wings = [(end[0] - 9 * math.cos(angle + turn), end[1] - 9 * math.sin(angle + turn)) for turn in (0.4, -0.4)]
    corners = " ".join(f"{x:.1f},{y:.1f}" for x, y in (end, *wings))
    return (f'<path d="M {begin[0]:.1f} {begin[1]:.1f} Q {bend[0]:.1f} {bend[1]:.1f} {end[0]:.1f} {end[1]:.1f}" stroke="#b00020" '
            f'stroke-width="1.8" fill="none"/><polygon points="{corners}" fill="#b00020"/>')


def area_of(folder):
    return next(area for area in AREAS if folder.split("/")[0] in area[3])


def box_width(name):
    return CHARACTER * len(name) + 16


def modules(folders):
    """Each folder in the band of its rank and the column of its area, and the path of a streamed chat."""
    lines, places, y = [text(LEFT, 26, "The folders of src/: each may include only folders of lower bands", 16, "start")], {}, 66
    lefts, width = [], LEFT
    for area in AREAS:
        lefts.append(width)
        width += area[2] + 2 * GAP if area[2] else 0
    for left, (colour, name, _, _) in zip(lefts, AREAS[:-1]):
        lines.append(text(left, 54, name, 13, "start", fill="#444444"))
    for rank in sorted({folder["rank"] for folder in folders.values()}, reverse=True):
        deepest = 1
        for area, left in zip(AREAS, lefts if rank else [LEFT] * len(AREAS)):
            x, depth = left, 0
            names = [f["folder"] for f in folders.values() if f["rank"] == rank and area_of(f["folder"]) is area]
            for name in sorted(names, key=lambda name: (name not in CHAT, name)):
                wide = box_width(name) if area[2] else width - LEFT - 2 * GAP
                if x > left and x + wide > left + area[2]:
                    x, depth = left, depth + 1
                places[name] = (x, y + GAP + depth * (BOX + GAP), wide)
                x += wide + GAP
                deepest = max(deepest, depth + 1)
        height = deepest * (BOX + GAP) + 2 * GAP
        lines.append(text(20, y + GAP + 19, f"rank {rank}", 11, "start", fill="#666666"))
        lines.append(f'<line x1="20" y1="{y + height - 5}" x2="{width - GAP}" y2="{y + height - 5}" stroke="#cccccc"/>')
        y += height
    for name, (x, top, wide) in places.items():
        lines.append(f'<rect x="{x:g}" y="{top:g}" width="{wide:g}" height="{BOX}" rx="5" fill="{area_of(name)[0]}" stroke="#888888"/>')
        lines.append(text(x + wide / 2, top + 19, name))
    for begin, end in zip(CHAT, CHAT[1:]):
        (x1, y1, w1), (x2, y2, w2) = places[begin], places[end]
        begin_x, end_x = x1 + w1 / 2, x2 + w2 / 2
        if y1 == y2:  # an arc above the boxes between them
            begin_y, end_y, bend = y1, y2, ((begin_x + end_x) / 2, y1 - 3 * GAP)
        else:
            begin_y, end_y = (y1 + BOX, y2) if y2 > y1 else (y1, y2 + BOX)
            aside = 9 * GAP if y2 - y1 > 100 and abs(end_x - begin_x) < w1 else 0  # past what stands between them
            bend = ((begin_x + end_x) / 2 + aside, (begin_y + end_y) / 2)
        lines.append(arrow((begin_x, begin_y), (end_x, end_y), bend))
    lines.append(arrow((LEFT, y + 15), (LEFT + 30, y + 15)))
    lines.append(text(LEFT + 38, y + 20, "calls of a streamed chat over HTTP, some through api::Inference and engine::ModelRunner", 12, "start"))
    return svg(width, y + 36, lines)


def check_modules(folders):
    for name in CHAT:
        if name not in folders:
            yield f"pictures: {name} of the chat's path is no folder"
    for name in folders:
        if all(name.split("/")[0] not in area[3] for area in AREAS):
            yield f"pictures: no area of AREAS has {name}"


# The threads that a message crosses: title, then the thread of each step with what it does there. A step of the compute threads is
# no hand-over: the engine thread is one of them, and waits for the others.
PATHS = (
    ("a streamed chat over HTTP",
     (("tutti-http", "bytes, key, limits, JSON"),
      ("tutti-http", "template, tokens, Submit"),
      ("tutti-engine", "plan the step, reserve blocks"),
      ("tutti-compute", "forward pass, sampling"),
      ("tutti-engine", "commit, text, append events"),
      ("tutti-http", "render events, write the socket"))),
    ("a chat message over MQTT, while the store keeps it",
     (("tutti-mqtt", "packets, who may publish"),
      ("tutti-strand", "message, turn of its session"),
      ("tutti-strand", "template, tokens, Submit"),
      ("tutti-engine", "plan the step, reserve blocks"),
      ("tutti-compute", "forward pass, sampling"),
      ("tutti-engine", "commit, text, append events"),
      ("tutti-strand", "log of events, replies"),
      ("tutti-mqtt", "packets, write the socket"))),
)
INSIDE_A_STEP = "tutti-compute"


def hand_overs(steps):
    """How often a message goes from one thread to another."""
    names = [name for name, _ in steps if name != INSIDE_A_STEP]
    return sum(before != after for before, after in zip(names, names[1:]))


def threads():
    """A column for each thread, a row for each step, and an arrow for each hand-over."""
    column, wide, lines, y, most = 230, 206, [], 0, 0
    for title, steps in PATHS:
        names = list(dict.fromkeys(name for name, _ in steps))
        most = max(most, len(names))
        lines.append(text(20, y + 30, f"The threads of {title}: {hand_overs(steps)} hand-overs", 16, "start"))
        for at, name in enumerate(names):
            lines.append(text(20 + at * column + wide / 2, y + 60, name, 13, "middle", fill="#444444"))
            lines.append(f'<line x1="{20 + at * column + wide / 2:g}" y1="{y + 68}" x2="{20 + at * column + wide / 2:g}" '
                         f'y2="{y + 76 + 46 * len(steps)}" stroke="#cccccc"/>')
        y += 76
        for at, (name, what) in enumerate(steps):
            x = 20 + names.index(name) * column
            colour = AREAS[3][0] if name in ("tutti-engine", "tutti-compute") else AREAS[1][0]
            lines.append(f'<rect x="{x}" y="{y}" width="{wide}" height="{BOX}" rx="5" fill="{colour}" stroke="#888888"/>')
            lines.append(text(x + wide / 2, y + 19, what))
            if at + 1 < len(steps):
                after = 20 + names.index(steps[at + 1][0]) * column
                side = x + wide if after > x else x
                begin, bend = ((x + wide / 2, y + BOX), None) if after == x else ((side, y + BOX / 2), (after + wide / 2, y + BOX / 2))
                lines.append(arrow(begin, (after + wide / 2, y + 46), bend))
            y += 46
        y += 24
    return svg(40 + most * column, y, lines)


def check_threads(architecture):
    for title, steps in PATHS:
        for name, _ in steps:
            if f"| `{name}` |" not in architecture:
                yield f"pictures: {title} crosses {name}, which the table of threads does not have"
