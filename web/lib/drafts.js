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

const isText = (value) => typeof value === 'string';
const isFile = (value) => isText(value?.name) && isText(value.text) && Number.isFinite(value.bytes) && Number.isFinite(value.tokens);

// Items of the API that the page sends: messages, and results of calls.
const isInput = (item) => (item?.type === 'function_call_output' ? isText(item.call_id) && isText(item.output)
    : item?.type === 'message' && Array.isArray(item.content) && isText(item.content[0]?.text));

const isUnsent = (value) => [value?.key, value?.message, value?.id].every(isText) && Array.isArray(value.input) && value.input.length > 0 &&
    value.input.every(isInput) && Array.isArray(value.said) && value.said.every((item) => isText(item?.type) && isText(item.text));

const listOf = (value, isRight) => (Array.isArray(value) ? value.filter(isRight) : []);

// The storage may have anything. By the ids of conversations, which come from addresses.
function read() {
  try {
    const kept = JSON.parse(sessionStorage.getItem(NAME) ?? '{}');
    if (kept.owner !== preferences.value.owner) return new Map();
    return new Map(listOf(kept.drafts, (pair) => isText(pair?.[0])).map(([id, draft]) => [id, {
      text: isText(draft?.text) ? draft.text : '', files: listOf(draft?.files, isFile), unsent: listOf(draft?.unsent, isUnsent),
    }]));
  } catch {
    return new Map();
  }
}

const drafts = new Store(read());

// A storage that is full keeps the drafts without their files.
function save() {
  const {owner} = preferences.value;
  const kept = [...drafts.value].slice(-MAX_KEPT);
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

export const draftOf = (id) => drafts.value.get(id) ?? EMPTY;
export const useDraft = (id) => useStore(drafts).get(id) ?? EMPTY;

// The message has been taken: the field is empty again.
export const clearField = (id) => setDraft(id, {text: '', files: []});

export function setDraft(id, changes) {
  const next = new Map(drafts.value);
  const draft = {...draftOf(id), ...changes};
  next.delete(id);  // the one that changed last stands at the end
  if (draft.text !== '' || draft.files.length > 0 || draft.unsent.length > 0) next.set(id, draft);
  drafts.set(next);
}

// The chat goes on in another conversation.
export function moveDraft(from, to) {
  const draft = drafts.value.get(from);
  if (from === to || draft === undefined) return;
  const next = new Map(drafts.value);
  next.delete(from);
  drafts.set(next.set(to, draft));
}

export function forgetDrafts(ids) {
  drafts.set(new Map([...drafts.value].filter(([id]) => !ids.includes(id))));
}

let made = 0;

export function addUnsent(id, record) {
  setDraft(id, {unsent: [...draftOf(id).unsent, {...record, key: `unsent-${Date.now()}-${++made}`}]});
}

export function removeUnsent(id, key) {
  setDraft(id, {unsent: draftOf(id).unsent.filter((each) => each.key !== key)});
}

onOtherOwner(() => {
  drafts.set(new Map());
  save();
});
