// Which answer runs in which conversation, as far as this browser has asked for it: after a reload, in another tab or on the
// way back to a conversation the answer is followed further. Ids alone, kept in the local storage.
const NAME = 'tutti.running';
const MAX_KEPT = 50;

function read() {
  try {
    const value = JSON.parse(localStorage.getItem(NAME) ?? '[]');
    return Array.isArray(value) ? value.filter((pair) => Array.isArray(pair)) : [];
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

// The id of the response that runs in a conversation; '' if none is known.
export const runningIn = (conversation) => read().find(([id]) => id === conversation)?.[1] ?? '';

export function noteRunning(conversation, response) {
  if (runningIn(conversation) !== response) write([...without(conversation), [conversation, response]]);
}

export function forgetRunning(conversation, response) {
  if (runningIn(conversation) === response) write(without(conversation));
}
