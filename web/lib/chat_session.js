// One chat: the conversation that the server stores, its turns as they are shown, and the answer that runs. The view reads
// `state` and calls the methods. Which items are here, and in which order, is the matter of chat_items.js.
import {askForKey, conversations, responses} from './api.js';
import {fromItem, runAnswer, toInput} from './answer.js';
import {newBranch} from './branches.js';
import {ChatItems} from './chat_items.js';
import {forgetRunning, noteRunning, runningIn} from './running.js';
import {splitFiles} from './text_files.js';
import {Announcer, notifyError} from './notices.js';
import {Store} from './store.js';
import {runTool} from './tools.js';

const PAGE = 100;            // items that are fetched at once
const MAX_AT_ONCE = 20;     // items that the server takes at once
const MAX_TOOL_ROUNDS = 8;  // requests of one turn whose calls the page answers by itself
const STOP_PATIENCE_MS = 3000;  // after it a stopped answer ends in the page, whether or not the server has confirmed
const TITLE_CHARACTERS = 60;

const EMPTY = {
  id: '', metadata: {}, entries: [], loading: false, loadError: null,
  hasGap: false,  // items that are not here; an entry of the kind 'gap' stands for them
  sending: false, // a message is on its way to the server: the conversation or its branch is being made
  running: null,  // the answer that grows
  reconnecting: false, openCalls: [],
  failure: null,  // why the last turn failed; its message is shown and not stored
};

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
  const made = await conversations.create(metadata, items.slice(0, MAX_AT_ONCE));
  try {
    for (let at = MAX_AT_ONCE; at < items.length; at += MAX_AT_ONCE) {
      onProgress(at);
      await conversations.append(made.id, items.slice(at, at + MAX_AT_ONCE));
    }
  } catch (error) {
    await conversations.remove(made.id).catch(() => {});
    throw error;
  }
  return made;
}

export class ChatSession {
  state = new Store(EMPTY);
  #items = new ChatItems();
  #fetching = null;    // the promise of a page for the gap
  #opening = null;     // the promise of the first page
  #reads = 0;          // counts readings of the newest items: only the last one's result is used
  #turn = null;        // the running request: {controller, stopped, cancelled}
  #cancel = new AbortController();  // ends when the reader leaves this conversation; checked after each wait
  #onListChanged;

  // `onListChanged(id, removed)`: conversations have changed: one was made for this chat, unless `id` is '', and these removed.
  constructor(onListChanged) {
    this.#onListChanged = onListChanged;
    this.onTabs = ({data}) => {
      this.#onListChanged('', data.removed);
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

  notifyTabs(id = '', removed = []) {
    tabs?.postMessage({id, removed});
  }

  #changed(id) {
    this.#onListChanged('');
    this.notifyTabs(id);
  }

  // Leaves the conversation; an answer that runs goes on in the server.
  close() {
    this.#cancel.abort();
    this.#cancel = new AbortController();
    this.#items = new ChatItems();
    this.#fetching = null;
    this.#opening = null;
    this.#turn = null;
    this.state.set(EMPTY);
  }

  async open(id) {
    if (id === this.state.value.id && this.state.value.loadError === null) return;
    this.close();
    if (id === '') return;
    const {signal} = this.#cancel;
    this.#set({id, loading: true});
    this.#opening = this.#load(id, signal);
    await this.#opening;
  }

  async #load(id, signal) {
    try {
      const [conversation, page] = await Promise.all([conversations.get(id), conversations.items(id, {limit: PAGE})]);
      if (signal.aborted) return;
      this.#begin(id, conversation.metadata, page);
      this.#resume(id, signal);
    } catch (error) {
      if (!signal.aborted) this.#set({loading: false, loadError: error});
    }
  }

  // Follows an answer that was asked for before this page was opened, or in another tab.
  async #resume(id, signal) {
    const response = runningIn(id);
    if (response === '' || this.state.value.running !== null) return;
    try {
      const [{status}, {data}] = await Promise.all([responses.get(response), responses.inputItems(response)]);
      if (signal.aborted || this.state.value.running !== null || this.state.value.sending) return;
      if (status !== 'queued' && status !== 'in_progress') {
        forgetRunning(id, response);
        await this.#reread(id, signal);
        return;
      }
      const input = data.map(fromItem).map(toInput);
      this.#items.addLocal(input);
      this.#show();
      await this.#runOnce({conversation: id, input}, signal, response);
      if (!signal.aborted) await this.#finishTurn(id, signal);
    } catch (error) {
      if (error.status === 404) forgetRunning(id, response);
      else if (!signal.aborted) notifyError(error);
    }
  }

  // Shows a conversation with its newest page of items.
  #begin(id, metadata, page) {
    this.#items.begin(page);
    this.#set({id, metadata, loading: false});
    this.#show();
  }

  // Fetches a page of what is missing: in front of the newest items, or, with `fromStart`, behind the oldest ones.
  async loadMore(fromStart = false) {
    if (!this.#items.hasGap || this.state.value.loading || this.#fetching !== null) return;
    const {signal} = this.#cancel;
    try {
      await this.#fetchPage(fromStart);
    } catch (error) {
      if (!signal.aborted) notifyError(error);
    }
    if (!signal.aborted) this.#show();
  }

  // One page at a time: a second call waits for the page that is being fetched.
  async #fetchPage(fromStart) {
    const {signal} = this.#cancel;
    this.#fetching ??= this.#fetch(fromStart, signal);
    try {
      await this.#fetching;
    } finally {
      if (!signal.aborted) this.#fetching = null;
    }
  }

  async #fetch(fromStart, signal) {
    const page = await conversations.items(this.state.value.id, {...this.#items.nextPage(fromStart), limit: PAGE});
    if (!signal.aborted) this.#items.fill(page, fromStart);
  }

  // The beginning of the conversation.
  async loadStart() {
    await this.#fetching?.catch(() => {});  // shown by its own caller
    if (!this.#items.hasStart) await this.loadMore(true);
  }

  // All items, as the API takes them. Rejects if one of the pages fails or the reader leaves.
  async allItems() {
    const {signal} = this.#cancel;
    while (this.#items.hasGap) {
      const before = this.#items.count;
      await this.#fetchPage(false);
      signal.throwIfAborted();
      if (this.#items.hasGap && this.#items.count === before) {
        throw new Error('The server returned an empty page of the conversation');
      }
    }
    this.#show();
    return this.#items.newest.map(toInput);
  }

  #show() {
    const {hasGap, entries, openCalls} = this.#items;
    this.#set({hasGap, entries, openCalls});
  }

  // Prepares a turn, one at a time. Resolves with false if a turn runs, the preparation failed or the reader has left. `work`
  // gets a signal that is raised when the reader leaves.
  async #prepare(work) {
    const {running, sending} = this.state.value;
    if (running !== null || sending) return false;
    const {signal} = this.#cancel;
    this.#set({sending: true});
    try {
      await this.#opening;
      signal.throwIfAborted();
      if (this.state.value.loadError !== null) throw this.state.value.loadError;
      await work(signal);
      signal.throwIfAborted();
      return true;
    } catch (error) {
      if (!signal.aborted) notifyError(error);
      return false;
    } finally {
      if (!signal.aborted) this.#set({sending: false});
    }
  }

  // Sends a message. `settings`: preferences of the chat; `model`: its id. `onTaken` is called once the thread has the message;
  // without that call the message is still the caller's.
  async send(text, model, settings, onTaken = () => {}) {
    const ready = await this.#prepare(async (signal) => {
      await this.#settle(signal);
      await this.#ensureConversation(text, settings, signal);
    });
    if (!ready) return;
    onTaken();
    this.#items.addLocal([userItem(text)]);
    await this.#run([userItem(text)], model, settings);
  }

  // Sends results of calls: [{callId, output}].
  async sendResults(results, model, settings) {
    if (!await this.#prepare(async () => {})) return;
    await this.#run(this.#addResults(results), model, settings);
  }

  // Sends what the last, failed turn sent.
  async retry(model, settings) {
    const {failure} = this.state.value;
    if (failure === null) return;
    const ready = await this.#prepare(async (signal) => {
      this.#items.dropFailed();
      if (failure.status === 404) await this.#storeAnew(signal);
    });
    if (!ready) return;
    this.#items.addLocal(failure.input);
    await this.#run(failure.input, model, settings);
  }

  // The server has lost the conversation, and this page has it.
  async #storeAnew(signal) {
    const {id, metadata} = this.state.value;
    try {
      await conversations.get(id);
      return;
    } catch (error) {
      if (error.status !== 404 || this.#items.hasGap) throw error;
    }
    signal.throwIfAborted();
    const {title = ''} = metadata;
    const made = await storeConversation({title}, this.#items.newest.map(toInput));
    this.#adopt(made.id, {title}, signal);
  }

  // A conversation that was made for this chat. It is removed if the reader has left meanwhile.
  #adopt(id, metadata, signal) {
    if (signal.aborted) conversations.remove(id).catch(() => {});
    signal.throwIfAborted();
    this.#set({id, metadata});
    this.#onListChanged(id);
  }

  // What a failed turn has said is stored before the next message; without an answer its message is dropped.
  async #settle(signal) {
    const {failure, id} = this.state.value;
    if (failure === null) return;
    const kept = this.#items.newest.filter((item) => item.answer?.status === 'lost' && item.type === 'message' && item.text !== '');
    if (kept.length > 0 && failure.status !== 404) {
      await conversations.append(id, [...failure.input, ...kept.map(toInput)]);
      signal.throwIfAborted();
      await this.#reread(id, signal);
    } else {
      this.#items.dropFailed();
    }
    if (failure.status === 404) await this.#storeAnew(signal);
    if (!signal.aborted) this.#set({failure: null});
  }

  #addResults(results) {
    const input = results.map(({callId, output}) => ({type: 'function_call_output', call_id: callId, output}));
    this.#items.addLocal(input);
    return input;
  }

  async #ensureConversation(text, {system}, signal) {
    if (this.state.value.id !== '') return;
    const first = system.trim() === '' ? []
        : [{type: 'message', role: 'system', content: [{type: 'input_text', text: system}]}];
    const metadata = {title: titleOf(text)};
    const made = await conversations.create(metadata, first);
    this.#adopt(made.id, metadata, signal);
    this.#items.addSystem(first);
  }

  async #run(input, model, settings) {
    const {signal} = this.#cancel;
    const {id} = this.state.value;
    this.#set({failure: null});
    this.#show();
    let next = input;
    for (let round = 0; round < MAX_TOOL_ROUNDS && next.length > 0; ++round) {
      const body = {truncation: 'auto', ...settings.body, model, conversation: id, input: next};
      const ended = await this.#runOnce(body, signal);
      if (ended === null) break;
      const calls = ended.items.filter((item) => item.type === 'function_call');
      const results = settings.demoTools ? calls.map(runTool).filter((result) => result !== null) : [];
      // The rest is asked of the user.
      next = calls.length > 0 && results.length === calls.length ? this.#addResults(results) : [];
      this.#show();
    }
    if (!signal.aborted) await this.#finishTurn(id, signal);
  }

  async #finishTurn(id, signal) {
    // A failed turn leaves nothing in the conversation; the page keeps what it shows.
    if (this.state.value.failure === null) await this.#reread(id, signal);
    if (signal.aborted) return;
    this.#show();
    this.#changed(id);
  }

  // One request and its answer; null if it failed or the reader has left. `response`: the id of an answer that runs already.
  async #runOnce(body, signal, response = '') {
    const announcer = new Announcer();
    const said = (answer) => answer.items.filter((item) => item?.type === 'message').map((item) => item.text).join('\n');
    const turn = {controller: new AbortController(), stopped: false, cancelled: false};
    const leave = () => turn.controller.abort();
    signal.addEventListener('abort', leave, {once: true});
    this.#turn = turn;
    try {
      this.#set({running: {items: [], status: 'waiting'}, reconnecting: false});
      const ended = await runAnswer(body, (running, reconnecting) => {
        if (signal.aborted) return;
        this.#set({running, reconnecting});
        if (running.id !== '') noteRunning(body.conversation, running.id);
        announcer.grow(said(running));
        if (turn.stopped && running.id !== '') this.#cancelAnswer(turn, running.id);
      }, turn.controller.signal, response);
      forgetRunning(body.conversation, ended.id);
      if (signal.aborted) return null;
      const answer = {...ended, schema: body.text?.format?.schema};
      announcer.end(said(answer));
      if (answer.status === 'failed') {
        if (answer.error.code === 'key_revoked') askForKey(answer.error.message);
        this.#fail(answer, {...answer.error, input: body.input});
        return null;
      }
      const items = answer.items.map((item) => ({...item, answer}));
      // Where another tab has stopped the answer, that tab stores it.
      const stopped = answer.status === 'cancelled' && turn.stopped;
      if (stopped && !await this.#keepStopped(body, answer, items, signal)) return null;
      this.#items.add(items);
      // Both at once, so that the answer is never missing.
      this.#set({running: null, reconnecting: false});
      this.#show();
      return answer.status === 'completed' ? answer : null;
    } catch (error) {
      if (signal.aborted) return null;
      const message = turn.stopped ? 'Stopped, but the server did not confirm it and may still complete the answer' : error.message;
      this.#fail(this.state.value.running, {status: error.status ?? 0, message, input: body.input});
      return null;
    } finally {
      signal.removeEventListener('abort', leave);
      if (this.#turn === turn) this.#turn = null;
    }
  }

  // Keeps the text so far.
  #fail(running, failure) {
    const answer = {...running, status: 'lost'};
    const said = (running?.items ?? []).filter((item) => item?.text);
    this.#items.add(said.map((item) => ({...item, done: true, answer})));
    this.#set({running: null, reconnecting: false, failure});
    this.#show();
  }

  // A turn that was cancelled leaves nothing in the conversation; the reader wants to see, and to go on from, what was said.
  // Stores it and gives `items`, which show it, the ids of the stored ones. Resolves with false if that failed: then the next
  // message stores it.
  async #keepStopped(body, answer, items, signal) {
    const said = items.filter((item) => item.type === 'message' && item.text !== '');
    try {
      const kept = await conversations.append(body.conversation, [...body.input, ...said.map(toInput)]);
      said.forEach((item, i) => {
        item.key = item.key ?? item.id;
        item.id = kept.data[body.input.length + i]?.id ?? item.id;
      });
    } catch (error) {
      if (!signal.aborted) {
        this.#fail(answer, {status: error.status, message: `The stopped answer is not stored: ${error.message}`, input: body.input});
      }
      return false;
    }
    return !signal.aborted;
  }

  // What another tab or device has added or renamed.
  async refresh() {
    const {id, running, sending, failure, loading, loadError} = this.state.value;
    if (id === '' || running !== null || sending || failure !== null || loading || loadError !== null) return;
    const {signal} = this.#cancel;
    try {
      const {metadata} = await conversations.get(id);
      if (signal.aborted) return;
      this.#set({metadata});
    } catch (error) {
      if (!signal.aborted) notifyError(error);
      return;
    }
    await this.#reread(id, signal);
  }

  // Reads the newest items as the server has them.
  async #reread(id, signal) {
    const mine = ++this.#reads;
    try {
      const known = this.#items.snapshot();
      const page = await conversations.items(id, {limit: PAGE});
      if (signal.aborted || mine !== this.#reads) return;
      this.#items.replaceNewest(page, known);
      this.#show();
    } catch (error) {
      if (!signal.aborted) notifyError(error);
    }
  }

  // Ends the running answer. If the server does not confirm that in time, the page stops to wait for it.
  stop() {
    const turn = this.#turn;
    if (turn === null || turn.stopped) return;
    turn.stopped = true;
    setTimeout(() => turn.controller.abort(), STOP_PATIENCE_MS);
    const {running} = this.state.value;
    if (running?.id) this.#cancelAnswer(turn, running.id);  // else once the server has named it
  }

  async #cancelAnswer(turn, id) {
    if (turn.cancelled) return;
    turn.cancelled = true;
    try {
      await responses.cancel(id);
    } catch (error) {
      if (error.status === 0 || error.status === 503) turn.controller.abort();
      else notifyError(error);
    }
  }

  // Answers the message of `entry` again, or another text in its place, in a branch: the first one stays. `listed`: all
  // conversations. `onTaken` as of send().
  async branch(entry, text, model, settings, listed, onTaken = () => {}) {
    const {id, metadata} = this.state.value;
    let fork = null, page = null;
    const ready = await this.#prepare(async (signal) => {
      fork = await conversations.forkBefore(id, entry.item.id, newBranch(id, metadata, entry.item.id, listed));
      try {
        page = await conversations.items(fork.id, {limit: PAGE});
        signal.throwIfAborted();
      } catch (error) {
        conversations.remove(fork.id).catch(() => {});
        throw error;
      }
    });
    if (!ready) return;
    this.close();
    this.#begin(fork.id, fork.metadata, page);
    this.#onListChanged(fork.id);
    const {signal} = this.#cancel;
    await this.send(text, model, settings, onTaken);
    try {
      if (!signal.aborted) await this.#noteFirstItem(fork.id, signal);
    } catch (error) {
      if (!signal.aborted) notifyError(error);
    }
  }

  // Which message of a branch stands in the place of the other one.
  async #noteFirstItem(id, signal) {
    const own = this.state.value.entries.findLast((entry) => entry.kind === 'user');
    if (own === undefined || own.item.id.startsWith('new-')) return;
    const current = await conversations.get(id);  // the title may have changed meanwhile
    const metadata = {...current.metadata, item: own.item.id};
    await conversations.update(id, metadata);
    if (signal.aborted) return;
    this.#set({metadata});
    this.#onListChanged('');
  }

  // The list has changed the title of these conversations.
  renamed(ids, title) {
    const {id, metadata} = this.state.value;
    if (ids.includes(id)) this.#set({metadata: {...metadata, title}});
    for (const each of ids) this.#changed(each);
  }
}
