// The items of a conversation that are here, in their order. No requests and no elements, so that it is tested alone.
//
// Of a long conversation only parts are here: the newest items, and, if the reader went to its beginning, the oldest ones. A
// gap between them is filled from the side that the reader comes from. Pages are those of the Conversations API.
import {fromItem} from './answer.js';
import {readRecords} from './answer_records.js';

// An item that gets another id when it is stored keeps its key, and with it its place.
const keyOf = (item) => item.key ?? item.id;

// Items as entries of the thread: {kind: 'user', item}, {kind: 'system', item} or {kind: 'answer', items}.
function entriesOf(items) {
  const entries = [];
  for (const item of items) {
    if (item.type === 'message' && item.role !== undefined && item.role !== 'assistant') {
      entries.push({kind: item.role === 'user' ? 'user' : 'system', key: keyOf(item), item});
      continue;
    }
    const last = entries.at(-1);
    if (last?.kind === 'answer') {
      last.items.push(item);
    } else {
      entries.push({kind: 'answer', key: keyOf(item), items: [item]});
    }
  }
  return entries;
}

// The items of a page as they are shown, with what this browser knows of their answers.
function fromPage(data) {
  const records = readRecords();
  return data.map((item) => ({...fromItem(item), answer: records.get(item.id)}));
}

let made = 0;  // items that were not stored when they were added; no two chats have the same id of one

const SYSTEM = 'system';  // the id of a system prompt until the items are read
const isLocal = ({id}) => id === SYSTEM || id.startsWith('new-');

export class ChatItems {
  #start = [];   // the oldest items, if there is a gap behind them
  newest = [];   // oldest first
  hasGap = false;

  get hasStart() {
    return this.#start.length > 0;
  }

  get count() {
    return this.#start.length + this.newest.length;
  }

  get entries() {
    return [...entriesOf(this.#start), ...(this.hasGap ? [{kind: 'gap', key: 'gap'}] : []), ...entriesOf(this.newest)];
  }

  // Calls without a result.
  get openCalls() {
    const calls = new Map();
    for (const item of this.newest) {
      if (item.type === 'function_call') calls.set(item.callId, item);
      if (item.type === 'function_call_output') calls.delete(item.callId);
    }
    return [...calls.values()];
  }

  // The newest page of a conversation.
  begin(page) {
    this.newest = fromPage(page.data.reverse());
    this.hasGap = page.has_more;
  }

  // The id of the item in front of this one: '' at the beginning, undefined if it is not here or not stored.
  idBefore(id) {
    const items = this.#start.some((item) => item.id === id) ? this.#start : this.newest;
    const at = items.findIndex((item) => item.id === id);
    if (at === 0) return items === this.newest && this.hasGap ? undefined : '';
    const before = items[at - 1];
    return before === undefined || isLocal(before) ? undefined : before.id;
  }

  // What to ask for to fill the gap in front of the newest items, or, with `fromStart`, behind the oldest ones.
  nextPage(fromStart) {
    return fromStart ? {after: this.#start.at(-1)?.id ?? '', order: 'asc'} : {after: this.newest[0]?.id ?? '', order: 'desc'};
  }

  // The page that nextPage() asked for.
  fill(page, fromStart) {
    let meets;
    if (fromStart) {
      const fresh = fromPage(page.data);
      const known = fresh.findIndex((item) => item.id === this.newest[0]?.id);
      meets = known >= 0;
      this.#start = [...this.#start, ...(meets ? fresh.slice(0, known) : fresh)];
    } else {
      const fresh = fromPage(page.data.reverse());
      const known = fresh.findLastIndex((item) => item.id === this.#start.at(-1)?.id);
      meets = known >= 0;
      this.newest = [...fresh.slice(known + 1), ...this.newest];
    }
    if (!meets && page.has_more) return;
    this.newest = [...this.#start, ...this.newest];
    this.#start = [];
    this.hasGap = false;
  }

  add(items) {
    this.newest.push(...items);
  }

  // Adds items as the API takes them, which the server has not stored yet. Returns their ids.
  addLocal(input) {
    const items = input.map((item) => ({...fromItem(item), id: `new-${++made}`}));
    this.add(items);
    return items.map(({id}) => id);
  }

  remove(ids) {
    this.newest = this.newest.filter(({id}) => !ids.includes(id));
  }

  addSystem(input) {
    this.add(input.map((item) => ({...fromItem(item), id: SYSTEM})));
  }

  // The newest items by their ids, for replaceNewest().
  snapshot() {
    return new Map(this.newest.map((item) => [item.id, item]));
  }

  // Takes over the newest page, which was asked for when the items were `known`. What only the page knows of an answer stays,
  // and so does what was added since.
  replaceNewest(page, known) {
    const local = [...known.values()].filter(isLocal);
    const fresh = fromPage(page.data.reverse()).map((item) => {
      const before = known.get(item.id);
      if (before?.answer) return {...item, key: before.key, answer: before.answer, tokens: before.tokens};
      const sent = before ?? local.find((each) => each.type === item.type && each.role === item.role && each.text === item.text);
      return sent === undefined ? item : {...item, key: keyOf(sent)};
    });
    const first = this.newest.findIndex((item) => item.id === fresh[0]?.id);
    const read = new Set(fresh.map((item) => item.id));
    const added = this.newest.slice(this.newest.findLastIndex((item) => known.has(item.id)) + 1);
    this.newest = [...this.newest.slice(0, Math.max(first, 0)), ...fresh, ...added.filter((item) => !read.has(item.id))];
    if (first >= 0) return;
    if (!page.has_more) this.#start = [];
    this.hasGap = page.has_more;
  }
}
