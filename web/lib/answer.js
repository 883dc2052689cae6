// The state of an answer of the Responses API while its events arrive, and how a stream is resumed. No elements, so that
// it is tested alone.
import {ApiError, responses} from './api.js';

const ENDS = new Set(['response.completed', 'response.incomplete', 'response.failed', 'response.cancelled']);

export function newAnswer() {
  return {
    id: '', request: '', followed: false, number: -1, status: 'waiting', items: [], usage: null, error: null, reason: '', restarted: false,
    beganMs: performance.now(), firstMs: 0, endedMs: 0, deltas: 0, droppedItems: 0,
  };
}

export const isEnded = (answer) => answer.endedMs > 0;

// Seconds from the first text to the last, and tokens per second in them; null where nothing can be said.
export function speedOf(answer) {
  const tokens = answer.usage?.output_tokens ?? answer.deltas;
  const seconds = ((answer.endedMs || performance.now()) - answer.firstMs) / 1000;
  if (answer.firstMs === 0 || tokens < 2 || seconds <= 0) return null;
  return (tokens - 1) / seconds;
}

// What of an answer is kept with its items: its end and its figures.
export function summaryOf(answer) {
  const {id, request, followed, status, reason, restarted, droppedItems, usage, beganMs, firstMs, items} = answer;
  // Events of an answer that is followed come faster than they were made.
  return {
    id, request, status, reason, restarted, droppedItems, speed: followed ? null : speedOf(answer),
    afterMs: followed || firstMs === 0 ? null : Math.round(firstMs - beganMs),
    tokens: usage && {prompt: usage.input_tokens, cached: usage.input_tokens_details?.cached_tokens ?? 0, output: usage.output_tokens},
    hasLogprobs: items.some((item) => item?.tokens?.length > 0),
  };
}

function changed(answer, index, change) {
  const items = answer.items.slice();
  items[index] = {...items[index], ...change};
  return items;
}

function appended(tokens, more) {
  tokens.push(...more.map(tokenOf));
  return tokens;
}

// A token of an answer: {text, logprob, others: [{text, logprob}]}.
const tokenOf = ({token, logprob, top_logprobs: others}) =>
    ({text: token, logprob, others: (others ?? []).map((other) => ({text: other.token, logprob: other.logprob}))});

// The answer after one more event. Events that were seen already change nothing, so that a stream may overlap.
export function applyEvent(answer, event, nowMs = performance.now()) {
  if (event.type === 'error') {
    return {...answer, status: 'failed', endedMs: nowMs, error: {code: event.code, message: event.message}};
  }
  if (event.sequence_number <= answer.number) return answer;
  const next = {...answer, number: event.sequence_number};
  const at = event.output_index;
  switch (event.type) {
    case 'response.created':
      return {...next, id: event.response.id};
    case 'response.queued':
      return {...next, status: 'queued'};
    case 'response.in_progress':
      return {...next, status: 'running'};
    case 'context.truncated':
      return {...next, droppedItems: event.dropped_items};
    case 'response.output_item.added':
      return {...next, items: changed(next, at, {
        type: event.item.type, id: event.item.id, text: '', name: event.item.name, callId: event.item.call_id, done: false,
        tokens: [],
      })};
    case 'response.output_text.delta':
      return {...next, deltas: next.deltas + 1, firstMs: next.firstMs || nowMs, items: changed(next, at, {
        text: next.items[at].text + event.delta,
        // Grown in place: a copy for each token would cost more and more.
        tokens: (event.logprobs ?? []).length === 0 ? next.items[at].tokens : appended(next.items[at].tokens, event.logprobs),
      })};
    case 'response.reasoning_text.delta':
    case 'response.function_call_arguments.delta':
      return {...next, deltas: next.deltas + 1, firstMs: next.firstMs || nowMs,
              items: changed(next, at, {text: next.items[at].text + event.delta})};
    case 'response.output_item.done':
      return {...next, items: changed(next, at, {...fromItem(event.item), done: true})};
    default:
      break;
  }
  if (!ENDS.has(event.type)) return next;
  const {response} = event;
  return {
    ...next, status: response.status, endedMs: nowMs, usage: response.usage, items: response.output.map(fromItem),
    reason: response.incomplete_details?.reason ?? '',
    error: response.error ?? null,
  };
}

const textOf = (parts) => (typeof parts === 'string' ? parts : (parts ?? []).map((part) => part.text ?? '').join('\n'));

// An item of a conversation or of an answer, as the page shows it.
export function fromItem(item) {
  const common = {id: item.id, type: item.type, done: true, incomplete: item.status === 'incomplete'};
  switch (item.type) {
    case 'function_call':
      return {...common, name: item.name, callId: item.call_id, text: item.arguments};
    case 'function_call_output':
      return {...common, callId: item.call_id, text: textOf(item.output)};
    case 'reasoning':
      return {...common, text: textOf(item.content)};
    default:
      return {...common, type: 'message', role: item.role, text: textOf(item.content), tokens: tokensOf(item.content)};
  }
}

// The tokens of a stored response's items, by their ids.
export async function fetchTokens(id) {
  const {output} = await responses.get(id);
  return new Map(output.map((item) => [item.id, fromItem(item).tokens ?? []]));
}

const tokensOf = (parts) =>
    (typeof parts === 'string' ? [] : (parts ?? []).flatMap((part) => (part.logprobs ?? []).map(tokenOf)));

// The same item as the API takes it, without what belongs to its conversation.
export function toInput(item) {
  switch (item.type) {
    case 'function_call':
      return {type: item.type, call_id: item.callId, name: item.name, arguments: item.text};
    case 'function_call_output':
      return {type: item.type, call_id: item.callId, output: item.text};
    case 'reasoning':
      return {type: item.type, content: [{type: 'reasoning_text', text: item.text}]};
    default:
      return {type: 'message', role: item.role ?? 'assistant',
              content: [{type: (item.role ?? 'assistant') === 'assistant' ? 'output_text' : 'input_text', text: item.text}]};
  }
}

const pause = (ms, signal) => new Promise((resolve, reject) => {
  const timer = setTimeout(resolve, ms);
  signal.addEventListener('abort', () => {
    clearTimeout(timer);
    reject(signal.reason);
  }, {once: true});
});

const FIRST_PAUSE_MS = 300, LONGEST_PAUSE_MS = 5000, PATIENCE_MS = 120000;

// Whether a request may succeed if it is sent again: nothing was reached, or the server starts, stops or is full.
const mayPass = (error) => error instanceof ApiError && (error.status === 0 || error.status === 503);

// Shows changes at once, but a growing text only when the page has rested from the last time for `REST` times as long as that
// took: a fast model on a slow machine would leave no time for anything else.
const REST = 3, LEAST_REST_MS = 50;

class Pace {
  #show;
  #timer = 0;
  #late = false;

  constructor(show) { this.#show = show; }

  grown() {
    if (this.#timer === 0) this.changed(); else this.#late = true;
  }

  changed() {
    this.stop();
    const beganMs = performance.now();
    this.#show();
    // Elements are drawn when this task ends.
    this.#timer = setTimeout(() => {
      this.#timer = setTimeout(() => {
        this.#timer = 0;
        if (this.#late) this.changed();
      }, Math.max(LEAST_REST_MS, REST * (performance.now() - beganMs)));
    });
  }

  stop() {
    clearTimeout(this.#timer);
    this.#timer = 0;
    this.#late = false;
  }
}

// Asks for an answer and calls `onChange(answer, reconnecting)` as it grows. A stream that breaks is resumed behind the
// last event that came; the server goes on meanwhile. Resolves with the ended answer. Rejects with ApiError if there is no
// answer, with AbortError if `signal` was raised. `id`: of an answer that runs already, which is followed from its beginning.
export async function runAnswer(body, onChange, signal, id = '') {
  let answer = {...newAnswer(), id, request: body.request_id, followed: id !== ''};
  let reconnecting = false;
  const pace = new Pace(() => onChange(answer, reconnecting));
  const onEvent = (event) => {
    answer = applyEvent(answer, event);
    reconnecting = false;
    if (event.type.endsWith('.delta')) pace.grown(); else pace.changed();
  };
  try {
    try {
      if (id === '') await responses.create({...body, store: true}, onEvent, signal);
      else await responses.follow(id, -1, onEvent, signal);
    } catch (error) {
      if (answer.id === '' || !mayPass(error)) throw error;
    }
    let lostMs = 0, wait = FIRST_PAUSE_MS;
    while (!isEnded(answer) || answer.error?.code === 'draining') {
      if (answer.id === '') throw new ApiError(0, 'not_reached', 'the connection was lost before the answer began');
      lostMs ||= performance.now();
      if (performance.now() - lostMs > PATIENCE_MS) throw new ApiError(0, 'not_reached', 'the server did not come back');
      // A server that stops says so; the next one goes on.
      if (isEnded(answer)) answer = {...answer, endedMs: 0, error: null, status: 'running', restarted: true};
      reconnecting = true;
      pace.changed();
      await pause(wait, signal);
      wait = Math.min(wait * 2, LONGEST_PAUSE_MS);
      const before = answer.number;
      try {
        await responses.follow(answer.id, answer.number, onEvent, signal);
      } catch (error) {
        if (error.status === 404) throw new ApiError(404, 'lost', 'the server was restarted and no longer has this answer');
        if (!mayPass(error)) throw error;
      }
      if (answer.number > before) {
        lostMs = 0;
        wait = FIRST_PAUSE_MS;
      }
    }
    return answer;
  } finally {
    pace.stop();
  }
}
