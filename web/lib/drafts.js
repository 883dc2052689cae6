// What the reader has written and the server does not have, for each conversation and for the new chat (''): the text and the
// files of the next message, and messages that were not sent. In memory and in the session storage of the tab, of one owner.
import {onOtherOwner, preferences} from './preferences.js';
import {Store, useStore} from './store.js';

const NAME = 'tutti.drafts';
const MAX_KEPT = 50;   // conversations
const SAVE_MS = 300;   // the text changes with each key

// `files`: of text_files.js, with their `tokens`. `unsent`: [{key, input, said, message, status, id}]: the items that were to be sent,
// the items that the answer had until it broke off, the reason, and the id of the message if the server may have it.
const EMPTY = {text: '', files: [], unsent: []};

function read() {
  try {
    const kept = JSON.parse(sessionStorage.getItem(NAME) ?? '{}');
    return kept.owner === preferences.value.owner ? Object.fromEntries(kept.drafts) : {};
  } catch {
    return {};
  }
}

const drafts = new Store(read());

// A storage that is full keeps the drafts without their files.
function save() {
  const {owner} = preferences.value;
  const kept = Object.entries(drafts.value).slice(-MAX_KEPT);
  for (const part of [kept, kept.map(([id, draft]) => [id, {...draft, files: []}])]) {
    try {
      if (kept.length === 0) sessionStorage.removeItem(NAME);
      else sessionStorage.setItem(NAME, JSON.stringify({owner, drafts: part}));
      return;
    } catch {
      // Without the files, or in memory alone.
    }
  }
}

let timer = 0;
drafts.subscribe(() => {
  clearTimeout(timer);
  timer = setTimeout(save, SAVE_MS);
});
window.addEventListener('pagehide', save);

export const draftOf = (id) => drafts.value[id] ?? EMPTY;
export const useDraft = (id) => useStore(drafts)[id] ?? EMPTY;

// The message has been taken: the field is empty again.
export const clearField = (id) => setDraft(id, {text: '', files: []});

export function setDraft(id, changes) {
  const {[id]: before = EMPTY, ...others} = drafts.value;
  const draft = {...before, ...changes};
  const isEmpty = draft.text === '' && draft.files.length === 0 && draft.unsent.length === 0;
  drafts.set(isEmpty ? others : {...others, [id]: draft});
}

// The chat goes on in another conversation.
export function moveDraft(from, to) {
  const {[from]: draft, ...others} = drafts.value;
  if (from !== to && draft !== undefined) drafts.set({...others, [to]: draft});
}

export function forgetDrafts(ids) {
  drafts.set(Object.fromEntries(Object.entries(drafts.value).filter(([id]) => !ids.includes(id))));
}

let made = 0;

export function addUnsent(id, record) {
  setDraft(id, {unsent: [...draftOf(id).unsent, {...record, key: `unsent-${Date.now()}-${++made}`}]});
}

export function removeUnsent(id, key) {
  setDraft(id, {unsent: draftOf(id).unsent.filter((each) => each.key !== key)});
}

onOtherOwner(() => {
  drafts.set({});
  save();
});
