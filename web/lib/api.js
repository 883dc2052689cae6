// The server's API, as the page uses it. All requests go through request() and stream(): they add the key and turn every
// failure into an ApiError.
import {readEvents} from './sse.js';
import {Store} from './store.js';

// The page may be served below any path, so that addresses are relative to this file: ROOT/web/lib/api.js.
const ROOT = new URL('../../', import.meta.url);
const KEY = 'tutti.key';

export class ApiError extends Error {
  // `status`: of HTTP, 0 if the server was not reached. `retryAfterS`: null unless the server gave it.
  constructor(status, code, message, {param = null, retryAfterS = null} = {}) {
    super(message);
    this.status = status;
    this.code = code;
    this.param = param;
    this.retryAfterS = retryAfterS;
  }
}

// {key, needed}: `needed` once the server has refused a request for want of a key.
export const session = new Store({key: sessionStorage.getItem(KEY) ?? '', needed: false, why: ''});

// Uses this key from now on. It stays in this page's memory, with `remember` in the session storage of this tab, and
// nowhere else.
export function signIn(key, remember) {
  if (remember) {
    sessionStorage.setItem(KEY, key);
  } else {
    sessionStorage.removeItem(KEY);
  }
  session.set({key, needed: false, why: ''});
}

export function signOut(why = '') {
  sessionStorage.removeItem(KEY);
  session.set({key: '', needed: true, why});
}

async function errorOf(response) {
  let code = '', message = '', param = null;
  try {
    const {error} = await response.json();
    if (typeof error === 'string') {
      message = error;
    } else {
      code = error.code ?? error.type ?? '';
      message = error.message;
      param = error.param ?? null;
    }
  } catch {
    message = `the server answered ${response.status}`;
  }
  const retry = Number(response.headers.get('Retry-After'));
  return new ApiError(response.status, code, message, {param, retryAfterS: retry > 0 ? retry : null});
}

async function send(path, {method = 'GET', body, headers = {}, signal} = {}) {
  const {key} = session.value;
  const all = new Headers(headers);
  if (key !== '') all.set('Authorization', `Bearer ${key}`);
  if (body !== undefined) all.set('Content-Type', 'application/json');
  let response;
  try {
    response = await fetch(new URL(path, ROOT), {
      method, headers: all, signal, cache: 'no-store', credentials: 'omit',
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new ApiError(0, 'not_reached', 'the server cannot be reached');
  }
  if (response.ok) return response;
  const failure = await errorOf(response);
  if (failure.status === 401) signOut(key === '' ? '' : failure.message);
  throw failure;
}

// The JSON of an answer; null for an empty one.
export async function request(path, options) {
  const response = await send(path, options);
  const text = await response.text();
  return text === '' ? null : JSON.parse(text);
}

// Calls `onEvent` with each event {event, id, data} of a stream. Resolves when the stream has ended, which may be early.
export async function stream(path, options, onEvent) {
  const response = await send(path, {...options, headers: {...options?.headers, Accept: 'text/event-stream'}});
  try {
    await readEvents(response, onEvent);
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new ApiError(0, 'not_reached', 'the connection was lost');
  }
}

// --- what the page may show ---

export const config = () => request('web/config');
// The caller of the key: what it may do, and what the server offers.
export const me = () => request('v1/me');
export const models = async () => (await request('v1/models')).data;

// --- conversations ---

export const conversations = {
  list: (after = '') => request(`v1/conversations?limit=50${after && `&after=${encodeURIComponent(after)}`}`),
  create: (metadata, items = []) =>
      request('v1/conversations', {method: 'POST', body: {metadata, ...(items.length > 0 && {items})}}),
  get: (id) => request(`v1/conversations/${encodeURIComponent(id)}`),
  update: (id, metadata) => request(`v1/conversations/${encodeURIComponent(id)}`, {method: 'POST', body: {metadata}}),
  remove: (id) => request(`v1/conversations/${encodeURIComponent(id)}`, {method: 'DELETE'}),
  // The newest items first; `after`: the id behind which the page begins.
  items: (id, after = '', limit = 100) =>
      request(`v1/conversations/${encodeURIComponent(id)}/items?order=desc&limit=${limit}` +
              (after && `&after=${encodeURIComponent(after)}`)),
  append: (id, items) => request(`v1/conversations/${encodeURIComponent(id)}/items`, {method: 'POST', body: {items}}),
  // A second conversation with what came before an item.
  forkBefore: (id, item, metadata) =>
      request(`v1/conversations/${encodeURIComponent(id)}/fork`, {method: 'POST', body: {before_item: item, metadata}}),
};

// --- responses ---

export const responses = {
  // `onEvent` gets the parsed events of the Responses API.
  create: (body, onEvent, signal) =>
      stream('v1/responses', {method: 'POST', body: {...body, stream: true}, signal}, (e) => onEvent(JSON.parse(e.data))),
  follow: (id, startingAfter, onEvent, signal) =>
      stream(`v1/responses/${encodeURIComponent(id)}?stream=true&starting_after=${startingAfter}`, {signal},
             (e) => onEvent(JSON.parse(e.data))),
  cancel: (id) => request(`v1/responses/${encodeURIComponent(id)}/cancel`, {method: 'POST'}),
};

// Calls `onLine` with each line of an answer that is JSON in lines (Ollama's routes).
export async function requestLines(path, options, onLine) {
  const response = await send(path, options);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const {value, done} = await reader.read();
    rest += value ?? '';
    const lines = rest.split('\n');
    rest = done ? '' : lines.pop();
    for (const line of lines) if (line.trim() !== '') onLine(JSON.parse(line));
    if (done) return;
  }
}
