// One chat: the conversation that the server stores, its turns as they are shown, and the answer that runs. The view reads
// `state` and calls the methods.
//
// Of a long conversation only parts are here: the newest items, and, if the reader went to its beginning, the oldest ones. A
// gap between them is filled from the side that the reader comes from.
import {askForKey, conversations, responses} from './api.js';
import {fromItem, runAnswer, toInput} from './answer.js';
import {newBranch} from './branches.js';
import {splitFiles} from './text_files.js';
import {Announcer, notifyError} from './notices.js';
import {Store} from './store.js';
import {runTool} from './tools.js';

const PAGE = 100;            // items that are fetched at once
const MOST_AT_ONCE = 20;     // items that the server takes at once
const MOST_TOOL_ROUNDS = 8;  // requests of one turn whose calls the page answers by itself
const TITLE_CHARACTERS = 60;

const EMPTY = {
  id: '', metadata: {}, entries: [], loading: false, loadError: null,
  hasGap: false,  // items that are not here; an entry of the kind 'gap' stands for them
  running: null,  // the answer that grows
  reconnecting: false, openCalls: [],
  failure: null,  // why the last turn failed; its message is shown and not stored
};

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

function titleOf(message) {
  const {files, text} = splitFiles(message);
  const line = text.trim().split('\n')[0] || files[0]?.name || '';
  return line.length > TITLE_CHARACTERS ? `${line.slice(0, TITLE_CHARACTERS - 1)}…` : line;
}

const userItem = (text) => ({type: 'message', role: 'user', content: [{type: 'input_text', text}]});

// Tells other tabs of this browser that a conversation has changed.
const tabs = typeof BroadcastChannel === 'undefined' ? null : new BroadcastChannel('tutti.conversations');

// Stores a conversation with all these items, which are as the API takes them. `onProgress`: how many are stored.
export async function storeConversation(metadata, items, onProgress = () => {}) {
  const made = await conversations.create(metadata, items.slice(0, MOST_AT_ONCE));
  try {
    for (let at = MOST_AT_ONCE; at < items.length; at += MOST_AT_ONCE) {
      onProgress(at);
      await conversations.append(made.id, items.slice(at, at + MOST_AT_ONCE));
    }
  } catch (error) {
    await conversations.remove(made.id).catch(() => {});
    throw error;
  }
  return made;
}

export class ChatSession {
  state = new Store(EMPTY);
  #head = [];          // the oldest items, if there is a gap behind them
  #items = [];         // the newest ones, oldest first
  #fetching = false;   // a page for the gap
  #made = 0;           // items that the server has not stored yet
  #cancel = null;      // AbortController of the requests of this conversation
  #onListChanged;

  // `onListChanged`: a conversation was made or renamed.
  constructor(onListChanged) {
    this.#onListChanged = onListChanged;
    this.onTabs = ({data}) => {
      this.#onListChanged('');
      if (data.id === this.state.value.id) this.refresh();
    };
    tabs?.addEventListener('message', this.onTabs);
  }

  // Nothing is called any more.
  dispose() {
    tabs?.removeEventListener('message', this.onTabs);
    this.close();
  }

  #set(changes) {
    this.state.merge(changes);
  }

  tellTabs(id = '') {
    tabs?.postMessage({id});
  }

  #changed(id) {
    this.#onListChanged('');
    this.tellTabs(id);
  }

  // Leaves the conversation; an answer that runs goes on in the server.
  close() {
    this.#cancel?.abort();
    this.#cancel = null;
    this.#head = [];
    this.#items = [];
    this.#fetching = false;
    this.state.set(EMPTY);
  }

  async open(id) {
    if (id === this.state.value.id) return;
    this.close();
    if (id === '') return;
    this.#cancel = new AbortController();
    const {signal} = this.#cancel;
    this.#set({id, loading: true});
    try {
      const [conversation, page] = await Promise.all([conversations.get(id), conversations.items(id, {limit: PAGE})]);
      if (signal.aborted) return;
      this.#items = page.data.reverse().map(fromItem);
      this.#set({metadata: conversation.metadata, hasGap: page.has_more, loading: false});
      this.#show();
    } catch (error) {
      if (!signal.aborted) this.#set({loading: false, loadError: error});
    }
  }

  // Fetches a page of what is missing: in front of the newest items, or, with `fromStart`, behind the oldest ones.
  async loadMore(fromStart = false) {
    const {id, hasGap, loading} = this.state.value;
    if (!hasGap || loading || this.#fetching) return;
    const {signal} = this.#cancel;
    this.#fetching = true;
    try {
      if (fromStart) {
        await this.#fetchBehindHead(id, signal);
      } else {
        await this.#fetchBeforeItems(id, signal);
      }
    } catch (error) {
      if (!signal.aborted) notifyError(error);
    }
    if (signal.aborted) return;
    this.#fetching = false;
    this.#show();
  }

  async #fetchBeforeItems(id, signal) {
    const page = await conversations.items(id, {after: this.#items[0]?.id ?? '', limit: PAGE});
    if (signal.aborted) return;
    const fresh = page.data.reverse().map(fromItem);
    const known = fresh.findLastIndex((item) => item.id === this.#head.at(-1)?.id);
    this.#items = [...fresh.slice(known + 1), ...this.#items];
    if (known >= 0 || !page.has_more) this.#closeGap();
  }

  async #fetchBehindHead(id, signal) {
    const page = await conversations.items(id, {after: this.#head.at(-1)?.id ?? '', order: 'asc', limit: PAGE});
    if (signal.aborted) return;
    const fresh = page.data.map(fromItem);
    const known = fresh.findIndex((item) => item.id === this.#items[0]?.id);
    this.#head = [...this.#head, ...(known < 0 ? fresh : fresh.slice(0, known))];
    if (known >= 0 || !page.has_more) this.#closeGap();
  }

  #closeGap() {
    this.#items = [...this.#head, ...this.#items];
    this.#head = [];
    this.#set({hasGap: false});
  }

  // The beginning of the conversation.
  async loadStart() {
    if (this.#head.length === 0) await this.loadMore(true);
  }

  async loadAll() {
    const {signal} = this.#cancel;
    for (let before = -1; this.state.value.hasGap && this.#items.length !== before && !signal.aborted;) {
      before = this.#items.length;
      await this.loadMore();
    }
  }

  // All items, as the API takes them.
  async allItems() {
    await this.loadAll();
    return this.#items.map(toInput);
  }

  #show() {
    const calls = new Map();
    for (const item of this.#items) {
      if (item.type === 'function_call') calls.set(item.callId, item);
      if (item.type === 'function_call_output') calls.delete(item.callId);
    }
    const gap = this.state.value.hasGap ? [{kind: 'gap', key: 'gap'}] : [];
    this.#set({entries: [...entriesOf(this.#head), ...gap, ...entriesOf(this.#items)], openCalls: [...calls.values()]});
  }

  #addLocal(input) {
    this.#items.push(...input.map((item) => ({...fromItem(item), id: `new-${++this.#made}`})));
  }

  // Sends a message. `settings`: preferences of the chat; `model`: its id.
  async send(text, model, settings) {
    if (this.state.value.running !== null) return;
    try {
      await this.#settle();
      await this.#ensureConversation(text, settings);
    } catch (error) {
      notifyError(error);
      return;
    }
    this.#addLocal([userItem(text)]);
    await this.#run([userItem(text)], model, settings);
  }

  // Sends results of calls: [{callId, output}].
  async sendResults(results, model, settings) {
    if (this.state.value.running !== null) return;
    await this.#run(this.#addResults(results), model, settings);
  }

  // Sends what the last, failed turn sent.
  async retry(model, settings) {
    const {failure, running} = this.state.value;
    if (running !== null || failure === null) return;
    this.#items = this.#items.filter((item) => !item.id.startsWith('new-') && item.answer?.status !== 'lost');
    try {
      if (failure.status === 404) await this.#storeAnew();
    } catch (error) {
      notifyError(error);
      return;
    }
    this.#addLocal(failure.input);
    await this.#run(failure.input, model, settings);
  }

  // The server has lost the conversation, and this page has it.
  async #storeAnew() {
    const {id, metadata, hasGap} = this.state.value;
    try {
      await conversations.get(id);
      return;
    } catch (error) {
      if (error.status !== 404 || hasGap) throw error;
    }
    const {title = ''} = metadata;
    const made = await storeConversation({title}, this.#items.map(toInput));
    this.#cancel = new AbortController();
    this.#set({id: made.id, metadata: {title}});
    this.#onListChanged(made.id);
  }

  // What a failed turn has said is stored before the next message; without an answer its message is dropped.
  async #settle() {
    const {failure, id} = this.state.value;
    if (failure === null) return;
    const kept = this.#items.filter((item) => item.answer?.status === 'lost' && item.type === 'message' && item.text !== '');
    if (kept.length > 0 && failure.status !== 404) {
      await conversations.append(id, [...failure.input, ...kept.map(toInput)]);
      await this.#reread(id, this.#cancel.signal);
    } else {
      this.#items = this.#items.filter((item) => !item.id.startsWith('new-') && item.answer?.status !== 'lost');
    }
    if (failure.status === 404) await this.#storeAnew();
    this.#set({failure: null});
  }

  #addResults(results) {
    const input = results.map(({callId, output}) => ({type: 'function_call_output', call_id: callId, output}));
    this.#addLocal(input);
    return input;
  }

  async #ensureConversation(text, {system}) {
    if (this.state.value.id !== '') return;
    const first = system.trim() === '' ? []
        : [{type: 'message', role: 'system', content: [{type: 'input_text', text: system}]}];
    const metadata = {title: titleOf(text)};
    const made = await conversations.create(metadata, first);
    this.#cancel = new AbortController();
    this.#items = first.map((item) => ({...fromItem(item), id: 'system'}));
    this.#set({id: made.id, metadata});
    this.#onListChanged(made.id);
  }

  async #run(input, model, settings) {
    const {signal} = this.#cancel;
    const {id} = this.state.value;
    this.#set({failure: null});
    this.#show();
    let next = input;
    for (let round = 0; round < MOST_TOOL_ROUNDS && next.length > 0; ++round) {
      const body = {truncation: 'auto', ...settings.body, model, conversation: id, input: next};
      const ended = await this.#runOnce(body, signal);
      if (ended === null) break;
      const calls = ended.items.filter((item) => item.type === 'function_call');
      const results = settings.demoTools ? calls.map(runTool).filter((result) => result !== null) : [];
      // The rest is asked of the user.
      next = calls.length > 0 && results.length === calls.length ? this.#addResults(results) : [];
      this.#show();
    }
    if (signal.aborted) return;
    // A failed turn leaves nothing in the conversation; the page keeps what it shows.
    if (this.state.value.failure === null) await this.#reread(id, signal);
    this.#show();
    this.#changed(id);
  }

  // One request and its answer; null if it failed.
  async #runOnce(body, signal) {
    const announcer = new Announcer();
    const said = (answer) => answer.items.filter((item) => item?.type === 'message').map((item) => item.text).join('\n');
    try {
      this.#set({running: {items: [], status: 'waiting'}, reconnecting: false});
      const ended = await runAnswer(body, (running, reconnecting) => {
        this.#set({running, reconnecting});
        announcer.grow(said(running));
      }, signal);
      const answer = {...ended, schema: body.text?.format?.schema};
      announcer.end(said(answer));
      if (answer.status === 'failed') {
        if (answer.error.code === 'key_revoked') askForKey(answer.error.message);
        this.#fail(answer, {...answer.error, input: body.input});
        return null;
      }
      this.#items.push(...answer.items.map((item) => ({...item, answer})));
      if (answer.status === 'cancelled') await this.#keepStopped(body.conversation, body.input, answer);
      // Both at once, so that the answer is never missing.
      this.#set({running: null, reconnecting: false});
      this.#show();
      return answer.status === 'completed' ? answer : null;
    } catch (error) {
      if (signal.aborted) return null;
      this.#fail(this.state.value.running, {status: error.status, message: error.message, input: body.input});
      return null;
    }
  }

  // Keeps the text so far.
  #fail(running, failure) {
    const answer = {...running, status: 'lost'};
    const said = (running?.items ?? []).filter((item) => item?.text);
    this.#items.push(...said.map((item) => ({...item, done: true, answer})));
    this.#set({running: null, reconnecting: false, failure});
    this.#show();
  }

  // A turn that was cancelled leaves nothing in the conversation; the reader wants to see, and to go on from, what was said.
  async #keepStopped(id, input, answer) {
    const said = answer.items.filter((item) => item.type === 'message' && item.text !== '');
    const kept = await conversations.append(id, [...input, ...said.map(toInput)]);
    const shown = this.#items.filter((item) => item.answer === answer && item.type === 'message' && item.text !== '');
    shown.forEach((item, i) => {
      item.key = keyOf(item);
      item.id = kept.data[input.length + i]?.id ?? item.id;
    });
  }

  // What another tab or device has added.
  async refresh() {
    const {id, running, failure, loading} = this.state.value;
    if (id === '' || running !== null || failure !== null || loading) return;
    await this.#reread(id, this.#cancel.signal);
  }

  // The items as the server has them, with their ids; what only the page knows of an answer stays.
  async #reread(id, signal) {
    try {
      const known = new Map(this.#items.map((item) => [item.id, item]));
      const local = this.#items.filter((item) => item.id.startsWith('new-'));
      const page = await conversations.items(id, {limit: PAGE});
      if (signal.aborted) return;
      const fresh = page.data.reverse().map(fromItem).map((item) => {
        const before = known.get(item.id);
        if (before?.answer) return {...item, key: before.key, answer: before.answer, tokens: before.tokens};
        const sent = before ?? local.find((each) => each.type === item.type && each.role === item.role && each.text === item.text);
        return sent === undefined ? item : {...item, key: keyOf(sent)};
      });
      const first = this.#items.findIndex((item) => item.id === fresh[0]?.id);
      this.#items = [...this.#items.slice(0, Math.max(first, 0)), ...fresh];
      if (first < 0) {
        if (!page.has_more) this.#head = [];
        this.#set({hasGap: page.has_more});
      }
      this.#show();
    } catch (error) {
      if (!signal.aborted) notifyError(error);
    }
  }

  async stop() {
    const {running} = this.state.value;
    if (!running?.id) return;
    try {
      await responses.cancel(running.id);
    } catch (error) {
      notifyError(error);
    }
  }

  // Answers the message of `entry` again, or another text in its place, in a branch: the first one stays. `listed`: all
  // conversations. Returns the id of the branch, or '' if that failed.
  async branch(entry, text, model, settings, listed) {
    const {id, metadata} = this.state.value;
    try {
      const fork = await conversations.forkBefore(id, entry.item.id, newBranch(id, metadata, entry.item.id, listed));
      await this.open(fork.id);
      this.#onListChanged(fork.id);
      await this.send(text, model, settings);
      await this.#noteFirstItem(fork);
      return fork.id;
    } catch (error) {
      notifyError(error);
      return '';
    }
  }

  // Which message of a branch stands in the place of the other one.
  async #noteFirstItem(fork) {
    const {id, entries} = this.state.value;
    const own = entries.findLast((entry) => entry.kind === 'user');
    if (id !== fork.id || own === undefined || own.item.id.startsWith('new-')) return;
    const metadata = {...fork.metadata, item: own.item.id};
    await conversations.update(fork.id, metadata);
    this.#set({metadata});
    this.#onListChanged('');
  }

  // The list has changed the title.
  renamed(id, title) {
    if (id === this.state.value.id) this.#set({metadata: {...this.state.value.metadata, title}});
    this.#changed(id);
  }
}
