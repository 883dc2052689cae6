// The server's API, as the page uses it. All requests go through request() and stream(): they add the key and turn every
// failure into an ApiError.
import {readEvents, readLines} from './sse.js';
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

// The session storage of this tab; a browser may forbid it, and then the key is not kept.
function storedKey() {
  try {
    return sessionStorage.getItem(KEY) ?? '';
  } catch {
    return '';
  }
}

function storeKey(key) {
  try {
    if (key === '') {
      sessionStorage.removeItem(KEY);
    } else {
      sessionStorage.setItem(KEY, key);
    }
  } catch {
    // The key stays in memory.
  }
}

// Whether the last request reached the server.
export const reached = new Store(true);

// {key, needed, left, why}: `needed` once the server has refused a request for want of a key; `left` if the user signed out.
export const session = new Store({key: storedKey(), needed: false, left: false, why: ''});

// The key that GET /v1/me accepted last, and its owner. The requests of a view are sent with keys of one owner only.
let accepted = {key: null, owner: null};

// Keys of a tenant see the same; other callers have an id of their own.
export const ownerOf = ({tenant, kind, id}) => `${tenant} ${kind === 'key' ? '' : id}`;

// Uses this key from now on. It stays in this page's memory, with `remember` in the session storage of this tab, and
// nowhere else.
export function signIn(key, remember) {
  storeKey(remember ? key : '');
  session.set({key, needed: false, left: false, why: ''});
}

// Requests that wait for a key are rejected.
export function signOut() {
  storeKey('');
  accepted = {key: null, owner: null};
  session.set({key: '', needed: true, left: true, why: ''});
}

// The key ends (expired, revoked). What is shown stays, and requests wait for another key.
export function askForKey(why) {
  storeKey('');
  session.set({key: '', needed: true, left: false, why});
}

// Resolves when there is a key. Rejects with AbortError if the user signs out instead, or if `signal` is raised.
function signedIn(signal) {
  return new Promise((resolve, reject) => {
    let stop = () => {};
    const onAbort = () => {
      stop();
      reject(signal.reason);
    };
    const look = ({needed, left}) => {
      if (needed && !left) return;
      stop();
      signal?.removeEventListener('abort', onAbort);
      if (left) reject(new DOMException('signed out', 'AbortError')); else resolve();
    };
    if (signal?.aborted) return onAbort();
    signal?.addEventListener('abort', onAbort);
    stop = session.subscribe(look);
    return look(session.value);
  });
}

// Resolves when there is a key that may send requests of `owner`, who is null before the first key was accepted. Rejects with
// AbortError if the next key is another owner's; the frame of the page says so.
async function ready(owner, signal) {
  for (;;) {
    if (session.value.needed) await signedIn(signal);
    if (owner === null) return;
    if (accepted.key !== session.value.key) {
      try {
        await me();
      } catch (error) {
        if (error.status !== 401) throw error;
      }
      continue;
    }
    if (accepted.owner === owner) return;
    throw new DOMException('the new key belongs to another user', 'AbortError');
  }
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

// Why the server refused the key, for a user who does not know its API. The server has one code for keys that are wrong and
// keys that have expired.
function keyFault({code, message}) {
  if (code === 'key_revoked') return 'This key was revoked. Ask the operator of the server for a new one.';
  if (/expired/.test(message)) return 'This key has expired. Ask the operator of the server for a new one.';
  return 'This key is not valid here. Check that it was copied as a whole, and that it is of this server.';
}

// `waits`: whether a request whose key has ended waits for another one of the same owner; it was not carried out, so it is
// sent again.
async function send(path, options = {}) {
  const {signal, waits = true} = options;
  const {owner} = accepted;
  for (;;) {
    if (waits) await ready(owner, signal);
    const {key} = session.value;
    try {
      return await sendOnce(path, key, options);
    } catch (failure) {
      if (failure.status !== 401) throw failure;
      // Another request may have got a new key meanwhile.
      if (session.value.key === key && !session.value.left) askForKey(key === '' ? '' : keyFault(failure));
      if (!waits) throw failure;
    }
  }
}

async function sendOnce(path, key, {method = 'GET', body, headers = {}, signal}) {
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
    reached.set(false);
    throw new ApiError(0, 'not_reached', 'the server cannot be reached');
  }
  reached.set(true);
  if (response.ok) return response;
  throw await errorOf(response);
}

// The JSON of an answer; null for an empty one.
export async function request(path, options) {
  const response = await send(path, options);
  const text = await response.text();
  return text === '' ? null : JSON.parse(text);
}

// Calls `read` with `use`. Errors of `use` are rejected as they are, others as a lost connection.
async function reading(read, use) {
  let fault = null;
  try {
    await read((value) => {
      try {
        use(value);
      } catch (error) {
        fault = error;
        throw error;
      }
    });
  } catch (error) {
    if (error === fault || error.name === 'AbortError') throw error;
    reached.set(false);
    throw new ApiError(0, 'not_reached', 'the connection was lost');
  }
}

// Calls `onEvent` with each event {event, id, data} of a stream. Resolves when the stream has ended, which may be early.
export async function stream(path, options, onEvent) {
  const response = await send(path, {...options, headers: {...options?.headers, Accept: 'text/event-stream'}});
  await reading((use) => readEvents(response, use), onEvent);
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

export const config = () => request('web/config', {waits: false});

let asked = {key: null, answer: null};  // a GET /v1/me in flight

// The caller of the key: what it may do, and what the server offers.
export function me() {
  const {key} = session.value;
  if (asked.key === key) return asked.answer;
  const mine = {key, answer: request('v1/me', {waits: false})};
  asked = mine;
  mine.answer.then((caller) => {
    if (session.value.key === key && !session.value.needed) accepted = {key, owner: ownerOf(caller)};
  }, () => {}).finally(() => { if (asked === mine) asked = {key: null, answer: null}; });
  return mine.answer;
}

export const models = async (options) => (await request('v1/models', options)).data;

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
  // `startingAfter`: the number of the last event that came; below 0: all events.
  follow: (id, startingAfter, onEvent, signal) =>
      stream(`v1/responses/${encodeURIComponent(id)}?stream=true` + (startingAfter < 0 ? '' : `&starting_after=${startingAfter}`),
             {signal}, (e) => onEvent(JSON.parse(e.data))),
  get: (id) => request(`v1/responses/${encodeURIComponent(id)}`),
  inputItems: (id) => request(`v1/responses/${encodeURIComponent(id)}/input_items?order=asc&limit=100`),
  // Its conversation keeps the message and the text so far.
  cancel: (id) => request(`v1/responses/${encodeURIComponent(id)}/cancel?keep_output=true`, {method: 'POST'}),
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
  await reading((use) => readLines(response, use), (line) => { if (line.trim() !== '') onLine(JSON.parse(line)); });
}
