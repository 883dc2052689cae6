// The pull of a model: it goes on while the reader looks at other views. It ends with the sign-out.
import {requestLines, session} from './api.js';
import {notify, notifyError} from './notices.js';
import {Store} from './store.js';

// {name, status, completed, total} of the pull in progress; null without one.
export const pull = new Store(null);
let stop = null;

export const cancelPull = () => stop?.abort();
session.subscribe(({left}) => { if (left) cancelPull(); });

// Resolves when the pull has ended, which a notice tells.
export async function startPull(name) {
  if (pull.value !== null) return;
  stop = new AbortController();
  const {signal} = stop;
  pull.set({name, status: 'asking', completed: 0, total: 0});
  try {
    let failure = null, done = false;
    await requestLines('api/pull', {method: 'POST', body: {model: name}, signal}, (line) => {
      failure ??= line.error ?? null;
      done ||= line.status === 'success';
      pull.merge({status: line.status ?? '', completed: line.completed ?? 0, total: line.total ?? 0});
    });
    if (!done) failure ??= `The pull of ${name} ended early; try again`;
    notify(failure ?? `${name} is ready`, failure === null ? '' : 'bad');
  } catch (error) {
    if (signal.aborted) {
      // The user ended it.
    } else if (error.status === 0) {
      notify(`The pull of ${name} broke off: ${error.message}. Pull it again to go on`, 'bad');
    } else {
      notifyError(error);
    }
  }
  pull.set(null);
}
