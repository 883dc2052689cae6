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

// {key, needed, left, why}: `needed` once the server has refused a request for want of a key; `left` if the user signed out.
export const session = new Store({key: sessionStorage.getItem(KEY) ?? '', needed: false, left: false, why: ''});

// Uses this key from now on. It stays in this page's memory, with `remember` in the session storage of this tab, and
// nowhere else.
export function signIn(key, remember) {
  if (remember) {
    sessionStorage.setItem(KEY, key);
  } else {
    sessionStorage.removeItem(KEY);
  }
  session.set({key, needed: false, left: false, why: ''});
}

export function signOut() {
  sessionStorage.removeItem(KEY);
  session.set({key: '', needed: true, left: true, why: ''});
}

// The key ends (expired, revoked). What is shown stays, and requests wait for another key.
export function askForKey(why) {
  sessionStorage.removeItem(KEY);
  session.set({key: '', needed: true, left: false, why});
}

// Resolves when there is a key.
function signedIn(signal) {
  return new Promise((resolve, reject) => {
    const stop = session.subscribe(({key, needed}) => {
      if (needed || key === '') return;
      stop();
      resolve();
    });
    signal?.addEventListener('abort', () => {
      stop();
      reject(signal.reason);
    }, {once: true});
  });
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

// `waits`: whether a request whose key has ended waits for another one; it was not carried out, so it is sent again.
async function send(path, {method = 'GET', body, headers = {}, signal, waits = true} = {}) {
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
  if (failure.status !== 401) throw failure;
  // Another request may have got a new key meanwhile.
  if (session.value.key === key) askForKey(key === '' ? '' : failure.message);
  if (key === '' || !waits) throw failure;
  if (session.value.needed) await signedIn(signal);
  return send(path, {method, body, headers, signal, waits});
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

// A WebSocket to a route. A browser cannot set its headers, so that the key is the first message.
export function openSocket(path) {
  const url = new URL(path, ROOT);
  url.protocol = url.protocol.replace('http', 'ws');
  const socket = new WebSocket(url);
  const {key} = session.value;
  if (key !== '') socket.addEventListener('open', () => socket.send(JSON.stringify({type: 'auth', token: key})));
  return socket;
}

// --- what the page may show ---

export const config = () => request('web/config');
// The caller of the key: what it may do, and what the server offers.
export const me = () => request('v1/me', {waits: false});
export const models = async () => (await request('v1/models')).data;

// --- conversations ---

export const conversations = {
  list: (after = '') => request(`v1/conversations?limit=50${after && `&after=${encodeURIComponent(after)}`}`),
  create: (metadata, items = []) =>
      request('v1/conversations', {method: 'POST', body: {metadata, ...(items.length > 0 && {items})}}),
  get: (id) => request(`v1/conversations/${encodeURIComponent(id)}`),
  update: (id, metadata) => request(`v1/conversations/${encodeURIComponent(id)}`, {method: 'POST', body: {metadata}}),
  remove: (id) => request(`v1/conversations/${encodeURIComponent(id)}`, {method: 'DELETE'}),
  // `order`: 'desc', the newest items first, or 'asc'; `after`: the id behind which the page begins.
  items: (id, {after = '', order = 'desc', limit = 100} = {}) =>
      request(`v1/conversations/${encodeURIComponent(id)}/items?order=${order}&limit=${limit}` +
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

// The number of tokens of a text; 0 if the server does not say.
export async function countTokens(model, text) {
  try {
    return (await request('tokenize', {method: 'POST', body: {model, prompt: text}})).count ?? 0;
  } catch {
    return 0;
  }
}

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
