// Short notices at the lower edge, and what a screen reader is told.
import {reached} from './api.js';
import {sentence} from './format.js';
import {Store} from './store.js';

const SHOWN_MS = 8000;
const MIN_SHOWN_MS = 3000;  // even if the cause has gone
const MAX_SHOWN = 3;

// {id, text, kind, count, lost, sinceMs}: `count`: how often it came; `lost`: it lasts until the server is reached again.
export const notices = new Store([]);
const timers = new Map();
let last = 0;

function dismissLater(id, ms) {
  clearTimeout(timers.get(id));
  timers.set(id, setTimeout(() => dismiss(id), ms));
}

// A text that is shown already is counted there.
export function notify(text, kind = '', lost = false) {
  const known = notices.value.find((notice) => notice.text === text && notice.kind === kind);
  const id = known?.id ?? ++last;
  dismissLater(id, SHOWN_MS);
  if (known !== undefined) {
    notices.set(notices.value.map((notice) => (notice === known ? {...notice, count: notice.count + 1} : notice)));
  } else {
    notices.set([...notices.value.slice(1 - MAX_SHOWN), {id, text, kind, lost, count: 1, sinceMs: performance.now()}]);
  }
}

export function dismiss(id) {
  clearTimeout(timers.get(id));
  timers.delete(id);
  notices.set(notices.value.filter((notice) => notice.id !== id));
}

reached.subscribe((yes) => {
  if (!yes) return;
  for (const {id, lost, sinceMs} of notices.value) if (lost) dismissLater(id, Math.max(0, MIN_SHOWN_MS - (performance.now() - sinceMs)));
});

// Shows a failed request; an aborted one was meant to end.
export function notifyError(error) {
  if (error?.name === 'AbortError') return;
  const wait = error.retryAfterS ? ` Try again in ${error.retryAfterS} s.` : '';
  notify(sentence(error.message) + wait, 'bad', error.code === 'not_reached');
}

// Said politely by a screen reader. Text of an answer comes in pieces of several seconds (Announcer), for each change of a
// live region interrupts or delays what is read.
export const announcement = new Store('');

const PIECE_MS = 2500;
const LOOK_MS = 500;  // for the end of a sentence

// Announces a text that grows by its whole sentences, seldom enough to be read.
export class Announcer {
  #said = 0;
  #lastMs = 0;
  #lookedMs = 0;

  grow(text, nowMs = performance.now()) {
    if (nowMs - this.#lastMs < PIECE_MS || nowMs - this.#lookedMs < LOOK_MS) return;
    this.#lookedMs = nowMs;
    const fresh = text.slice(this.#said);
    const end = Math.max(fresh.lastIndexOf('. '), fresh.lastIndexOf('\n'), fresh.lastIndexOf('? '), fresh.lastIndexOf('! '));
    if (end < 0) return;
    this.#say(fresh.slice(0, end + 1), nowMs);
  }

  end(text) {
    if (this.#said < text.length) this.#say(text.slice(this.#said), performance.now());
  }

  #say(piece, nowMs) {
    announcement.set(piece);
    this.#said += piece.length;
    this.#lastMs = nowMs;
  }
}
