// Which answer runs in which conversation, as far as this browser has asked for it: after a reload, in another tab or on the
// way back to a conversation the answer is followed further. Ids alone, kept in the local storage.
import {onOtherOwner} from './preferences.js';

const NAME = 'tutti.running';
const MAX_KEPT = 50;

function read() {
  try {
    const value = JSON.parse(localStorage.getItem(NAME) ?? '[]');
    return Array.isArray(value) ? value.filter((pair) => Array.isArray(pair) && pair.every((id) => typeof id === 'string')) : [];
  } catch {
    return [];
  }
}

function write(pairs) {
  try {
    localStorage.setItem(NAME, JSON.stringify(pairs.slice(-MAX_KEPT)));
  } catch {
    // A full or forbidden storage: the answer is found once it has ended.
  }
}

const without = (conversation) => read().filter(([id]) => id !== conversation);

// The response that runs in a conversation and the id of its request; both '' if none is known.
export function runningIn(conversation) {
  const [, response = '', request = ''] = read().find(([id]) => id === conversation) ?? [];
  return {response, request};
}

export function noteRunning(conversation, response, request) {
  if (runningIn(conversation).response !== response) write([...without(conversation), [conversation, response, request]]);
}

export function forgetRunning(conversation, response) {
  if (runningIn(conversation).response === response) write(without(conversation));
}

onOtherOwner(() => write([]));
