// The requests of benchmarks. Texts are made up of a list of words and differ from each other in their beginnings, so that no
// cache has an answer or a prefix of them.
import {ApiError, openSocket, request} from './api.js';

const OPEN_MS = 10000;
const WORDS = ('time river stone light garden window music paper water table winter bridge letter mountain silver morning road ' +
               'teacher ocean clock forest market story village engine cloud number bread island metal signal harbour field').split(' ');

// Texts of `words` words.
function textMaker(words) {
  const begun = Math.random().toString(36).slice(2, 8);
  let made = 0;
  return () => {
    let state = ++made * 2654435761 % 4294967296;
    const text = [`${begun}${made}`];
    while (text.length < words) {
      state = (state * 1664525 + 1013904223) % 4294967296;
      text.push(WORDS[Math.floor(state / 4294967296 * WORDS.length)]);
    }
    return text.join(' ');
  };
}

const failure = (code) => new ApiError(0, code, code);

// Answers of exactly `outputTokens` tokens over one WebSocket, a channel for each client: over HTTP/1.1 a browser has only 6
// connections to a host.
export class GenerationLoad {
  #settings;
  #text;
  #socket = null;
  #waiting = new Map();  // stream_id -> {onEvent, fail}

  constructor(settings) {
    this.#settings = settings;
    this.#text = textMaker(settings.promptWords);
  }

  open(signal) {
    return new Promise((resolve, reject) => {
      const socket = openSocket('v1/responses');
      this.#socket = socket;
      const late = setTimeout(() => { socket.close(); reject(failure('not_reached')); }, OPEN_MS);
      socket.addEventListener('open', () => { clearTimeout(late); resolve(); });
      socket.addEventListener('message', ({data}) => this.#onEvent(JSON.parse(data), performance.now()));
      socket.addEventListener('close', ({code}) => {
        clearTimeout(late);
        const lost = failure(code === 4401 ? 'invalid_api_key' : 'connection_lost');
        reject(lost);
        for (const {fail} of [...this.#waiting.values()]) fail(lost);
      });
      signal.addEventListener('abort', () => socket.close());
    });
  }

  #onEvent(event, nowMs) {
    const waiting = this.#waiting.get(event.stream_id);
    if (waiting !== undefined) {
      waiting.onEvent(event, nowMs);
    } else if (event.type === 'error') {
      for (const {fail} of [...this.#waiting.values()]) fail(failure(event.error?.code ?? 'error'));
    }
  }

  ask(client) {
    const {model, outputTokens} = this.#settings;
    const id = `client-${client}`;
    return new Promise((resolve, reject) => {
      if (this.#socket.readyState !== WebSocket.OPEN) return reject(failure('connection_lost'));
      const answer = {beginMs: performance.now(), gapsMs: []};
      let lastMs = null;
      const end = (settle, value) => {
        this.#waiting.delete(id);
        settle(value);
      };
      const fail = (error) => end(reject, error);
      const onEvent = (event, nowMs) => {
        if (event.type.endsWith('.delta')) {
          if (lastMs === null) answer.firstMs = nowMs; else answer.gapsMs.push(nowMs - lastMs);
          lastMs = nowMs;
        } else if (event.type === 'error') {
          fail(failure(event.error?.code ?? 'error'));
        } else if (event.type === 'response.failed' || event.type === 'response.cancelled') {
          fail(failure(event.response.error?.code ?? 'cancelled'));
        } else if (event.type === 'response.completed' || event.type === 'response.incomplete') {
          const {usage} = event.response;
          // Otherwise an answer that ended early would count as a fast one.
          if (usage?.output_tokens !== outputTokens || lastMs === null) return fail(failure('ended_early'));
          end(resolve, {...answer, endMs: nowMs, units: usage.output_tokens, promptTokens: usage.input_tokens});
        }
      };
      this.#waiting.set(id, {onEvent, fail});
      this.#socket.send(JSON.stringify({
        type: 'response.create', stream_id: id, model, input: this.#text(), max_output_tokens: outputTokens, ignore_eos: true,
        temperature: 0, store: false, cache: 'bypass',
      }));
      return undefined;
    });
  }

  close() {
    this.#socket?.close();
  }
}

// Whether base64 of a vector is one: finite values, not all of them zero.
function isVector(text) {
  if (typeof text !== 'string') return false;
  const bytes = Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
  const values = new Float32Array(bytes.buffer, 0, Math.floor(bytes.length / 4));
  return values.length > 0 && values.every(Number.isFinite) && values.some((value) => value !== 0);
}

// Batches of texts to vectors, or to scores for a query, over HTTP: encoders have no route over WebSocket.
export class EncodingLoad {
  #settings;
  #text;

  constructor(settings) {
    this.#settings = settings;
    this.#text = textMaker(settings.promptWords);
  }

  async open() {}

  async ask(client, batch, signal) {
    const {model, kind} = this.#settings;
    const texts = Array.from({length: batch}, this.#text);
    const [path, body] = kind === 'embed' ? ['v1/embeddings', {model, input: texts, encoding_format: 'base64'}]
      : ['v1/rerank', {model, query: this.#text(), documents: texts}];
    const beginMs = performance.now();
    const answer = await request(path, {method: 'POST', body, signal});
    const endMs = performance.now();
    const good = kind === 'embed' ? answer.data.length === batch && answer.data.every(({embedding}) => isVector(embedding))
      : answer.results.length === batch && answer.results.every((each) => Number.isFinite(each.relevance_score));
    if (!good) throw failure('wrong_answer');
    return {beginMs, endMs, units: batch, promptTokens: answer.usage?.prompt_tokens ?? answer.usage?.total_tokens};
  }

  close() {}
}

export const loadFor = (settings) => (settings.kind === 'generate' ? new GenerationLoad(settings) : new EncodingLoad(settings));
