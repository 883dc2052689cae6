// Server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html), from the body of a fetch. The
// browser's EventSource can neither POST nor send a key.

// Splits text that arrives in pieces into events {event, id, data}. Comments and fields without meaning are left out.
export class EventParser {
  #rest = '';
  #event = '';
  #id = '';
  #data = [];
  #hasReturns = false;

  // Returns the events that `text` completes.
  push(text) {
    const events = [];
    this.#rest += text;
    this.#hasReturns = this.#rest.includes('\r');
    let begin = 0;
    for (;;) {
      const end = this.#lineEnd(begin);
      if (end < 0) break;
      const line = this.#rest.slice(begin, end);
      begin = end + (this.#rest.startsWith('\r\n', end) ? 2 : 1);
      if (line !== '') {
        this.#field(line);
      } else if (this.#data.length > 0) {
        events.push({event: this.#event || 'message', id: this.#id, data: this.#data.join('\n')});
        this.#event = '';
        this.#data = [];
      } else {
        this.#event = '';
      }
    }
    this.#rest = this.#rest.slice(begin);
    return events;
  }

  // A carriage return at the very end may be the first half of a line end.
  #lineEnd(begin) {
    const newline = this.#rest.indexOf('\n', begin);
    const back = this.#hasReturns ? this.#rest.indexOf('\r', begin) : -1;
    if (back < 0 || (newline >= 0 && newline < back)) return newline;
    return back + 1 < this.#rest.length ? back : -1;
  }

  #field(line) {
    const colon = line.indexOf(':');
    if (colon === 0) return;
    const name = colon < 0 ? line : line.slice(0, colon);
    let value = colon < 0 ? '' : line.slice(colon + 1);
    if (value.startsWith(' ')) value = value.slice(1);
    if (name === 'data') this.#data.push(value);
    if (name === 'event') this.#event = value;
    if (name === 'id') this.#id = value;
  }
}

// A body that has arrived already would be read in one go, however long it is: the page does what else waits in between.
const TURN_MS = 20;
const otherTasks = () => new Promise((resolve) => { setTimeout(resolve); });

// Calls `onText(text, done)` with each piece of a response's body, and at its end. If `onText` throws, the rest is not fetched.
async function readText(response, onText) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let turnMs = performance.now();
  try {
    for (;;) {
      const {value, done} = await reader.read();
      onText(done ? '' : value, done);
      if (done) return;
      if (performance.now() - turnMs < TURN_MS) continue;
      await otherTasks();
      turnMs = performance.now();
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

// Calls `onEvent` for each event of a response's body. Resolves at the end of the body, rejects if the connection breaks.
export function readEvents(response, onEvent) {
  const parser = new EventParser();
  return readText(response, (text) => parser.push(text).forEach(onEvent));
}

// Calls `onLine` for each line of a response's body.
export function readLines(response, onLine) {
  let rest = '';
  return readText(response, (text, done) => {
    const lines = (rest + text).split('\n');
    rest = done ? '' : lines.pop();
    lines.forEach(onLine);
  });
}
