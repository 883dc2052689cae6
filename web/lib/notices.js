// Short notices in a corner, and what a screen reader is told.
import {Store} from './store.js';

const SHOWN_MS = 8000;

export const notices = new Store([]);
let last = 0;

export function notify(text, kind = '') {
  const id = ++last;
  notices.set([...notices.value.slice(-3), {id, text, kind}]);
  setTimeout(() => dismiss(id), SHOWN_MS);
}

export function dismiss(id) {
  notices.set(notices.value.filter((notice) => notice.id !== id));
}

// Shows a failed request; an aborted one was meant to end.
export function notifyError(error) {
  if (error?.name === 'AbortError') return;
  const wait = error.retryAfterS ? ` Try again in ${error.retryAfterS} s.` : '';
  notify(`${error.message}.${wait}`.replace(/\.\./, '.'), 'bad');
}

// Said politely by a screen reader. Text of an answer comes in pieces of several seconds (Announcer), for each change of a
// live region interrupts or delays what is read.
export const announcement = new Store('');

const PIECE_MS = 2500;

// Announces a text that grows by its whole sentences, seldom enough to be read.
export class Announcer {
  #said = 0;
  #lastMs = 0;

  grow(text, nowMs = performance.now()) {
    if (nowMs - this.#lastMs < PIECE_MS) return;
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
