// One chat: the conversation that the server stores, its turns as they are shown, and the answer that runs. The view reads
// `state` and calls the methods. Which items are here, and in which order, is the matter of chat_items.js.
import {askForKey, conversations, responses} from './api.js';
import {fromItem, runAnswer, summaryOf, toInput} from './answer.js';
import {addRecord} from './answer_records.js';
import {newBranch} from './branches.js';
import {ChatItems} from './chat_items.js';
import {addUnsent, clearField, draftOf, moveDraft, removeUnsent, setDraft} from './drafts.js';
import {forgetRunning, noteRunning, runningIn} from './running.js';
import {splitFiles} from './text_files.js';
import {Announcer, notifyError} from './notices.js';
import {preferences} from './preferences.js';
import {Store} from './store.js';
import {runTool} from './tools.js';

const PAGE = 100;            // items that are fetched at once
const MAX_AT_ONCE = 20;     // items that the server takes at once
const MAX_TOOL_ROUNDS = 8;  // requests of one turn whose calls the page answers by itself
const STOP_PATIENCE_MS = 3000;  // after it a stopped answer ends in the page, whether or not the server has confirmed
const TITLE_CHARACTERS = 60;
const REREAD_PAUSE_MS = 2000, LONGEST_REREAD_PAUSE_MS = 30000;  // between readings while the server cannot be reached
const STOPPED = 'Stopped before the answer began';
const CONTINUE = 'Continue where you stopped.';

const EMPTY = {
  id: '', metadata: {}, entries: [], loading: false, loadError: null,
  hasGap: false,  // items that are not here; an entry of the kind 'gap' stands for them
  sending: false, // a message is on its way to the server: the conversation or its branch is being made
  running: null,  // the answer that grows
  reconnecting: false, openCalls: [],
};

// A new id for a message or a request; random, so that no other page chooses the same.
const newId = () => `page-${[...crypto.getRandomValues(new Uint8Array(12))].map((byte) => byte.toString(16).padStart(2, '0')).join('')}`;

function titleOf(message) {
  const {files, text} = splitFiles(message);
  const line = text.trim().split('\n')[0] || files[0]?.name || '';
  return line.length > TITLE_CHARACTERS ? `${line.slice(0, TITLE_CHARACTERS - 1)}…` : line;
}

const inputOf = (results) => results.map(({callId, output}) => ({type: 'function_call_output', call_id: callId, output}));
const userItem = (text) => ({type: 'message', role: 'user', content: [{type: 'input_text', text}]});

// Tells other tabs of this browser that a conversation has changed.
const tabs = typeof BroadcastChannel === 'undefined' ? null : new BroadcastChannel('tutti.conversations');

const UNFINISHED = ' (import not finished)';
const MAX_METADATA = 512;  // characters that the server keeps of a value

// Stores a conversation with all these items, which are as the API takes them. Until it is whole its title says so, because the
// tab may be closed meanwhile. `onProgress`: how many are stored.
export async function storeConversation(title, items, onProgress = () => {}) {
  const isWhole = items.length <= MAX_AT_ONCE;
  const begun = isWhole ? title : `${title.slice(0, MAX_METADATA - UNFINISHED.length)}${UNFINISHED}`;
  const made = await conversations.create({title: begun}, items.slice(0, MAX_AT_ONCE));
  try {
    for (let at = MAX_AT_ONCE; at < items.length; at += MAX_AT_ONCE) {
      onProgress(at);
      await conversations.append(made.id, items.slice(at, at + MAX_AT_ONCE));
    }
    if (!isWhole) await conversations.update(made.id, {title});
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

  // A conversation was made for this chat.
  #made(id) {
    this.#onListChanged(id);
    this.notifyTabs(id);
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
    const {response, request} = runningIn(id);
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
      const ended = await this.#runOnce({conversation: id, input, request_id: request}, signal, response);
      if (!signal.aborted) await this.#finishTurn(id, signal, ended !== null);
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
    await this.#run([userItem(text)], model, settings);
  }

  // Asks for the rest of an answer that was cut.
  continueAnswer(model, settings) {
    return this.send(CONTINUE, model, settings);
  }

  // Sends results of calls: [{callId, output}].
  async sendResults(results, model, settings) {
    if (!await this.#prepare(async () => {})) return;
    await this.#run(inputOf(results), model, settings);
  }

  // Sends a message that was not sent, or results of calls.
  async retry(record, model, settings) {
    const ready = await this.#prepare(async (signal) => {
      if (record.status === 404) await this.#storeAnew(signal);
    });
    if (!ready) return;
    removeUnsent(this.state.value.id, record.key);
    await this.#run(record.input, model, settings, record.id || newId());
  }

  // Puts a message that was not sent back into the field, in front of what is there.
  takeBack(record) {
    const {id} = this.state.value;
    const draft = draftOf(id);
    const {files, text} = splitFiles(record.input.at(-1).content[0].text);
    const fresh = files.filter((file) => draft.files.every((other) => other.name !== file.name));
    setDraft(id, {
      text: [text, draft.text].filter((each) => each.trim() !== '').join('\n\n'),
      files: [...fresh.map((file) => ({...file, bytes: new Blob([file.text]).size, tokens: 0})), ...draft.files],
    });
    removeUnsent(id, record.key);
  }

  discard(record) {
    removeUnsent(this.state.value.id, record.key);
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
    const made = await storeConversation(title, this.#items.newest.map(toInput));
    this.#adopt(made.id, {title}, signal);
  }

  // A conversation that was made for this chat. It is removed if the reader has left meanwhile.
  #adopt(id, metadata, signal) {
    if (signal.aborted) conversations.remove(id).catch(() => {});
    signal.throwIfAborted();
    moveDraft(this.state.value.id, id);
    this.#set({id, metadata});
    this.#made(id);
  }

  // What was said of an answer that broke off is stored before the next message, so that the model goes on from there.
  async #settle(signal) {
    const {unsent} = draftOf(this.state.value.id);
    if (unsent.some(({status}) => status === 404)) await this.#storeAnew(signal);
    const {id} = this.state.value;
    let stored = false;
    for (const {key, input, said} of unsent) {
      const kept = said.filter((item) => item.type === 'message' && item.text !== '');
      if (kept.length === 0) continue;
      await conversations.append(id, [...input, ...kept.map(toInput)]);
      removeUnsent(id, key);
      stored = true;
      signal.throwIfAborted();
    }
    if (stored) await this.#reread(id, signal);
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

  // `message`: the id of the input; the server recognises a repeated message by it.
  async #run(input, model, settings, message = newId()) {
    const {signal} = this.#cancel;
    const {id} = this.state.value;
    let next = input, changed = false;
    for (let round = 0; round < MAX_TOOL_ROUNDS && next.length > 0; ++round) {
      const body = {truncation: 'auto', ...settings.body, model, conversation: id, input: next, request_id: newId(),
                    id: round === 0 ? message : newId()};
      // A call that was required has been made.
      if (round > 0 && body.tool_choice !== undefined && body.tool_choice !== 'none') delete body.tool_choice;
      const ended = await this.#runOnce(body, signal);
      changed ||= ended !== null;
      if (ended?.status !== 'completed') break;
      const calls = ended.items.filter((item) => item.type === 'function_call');
      const results = settings.demoTools ? calls.map(runTool).filter((result) => result !== null) : [];
      // The rest is asked of the user.
      next = calls.length > 0 && results.length === calls.length ? inputOf(results) : [];
    }
    if (!signal.aborted) await this.#finishTurn(id, signal, changed);
  }

  // `changed`: whether the server has more of the conversation than before; a turn that failed leaves nothing there.
  async #finishTurn(id, signal, changed) {
    if (changed) await this.#reread(id, signal);
    if (signal.aborted) return;
    this.#show();
    this.#changed(id);
  }

  // One request and its answer; null if nothing of it is stored or the reader has left. `response`: the id of an answer that runs already.
  async #runOnce(body, signal, response = '') {
    const announcer = new Announcer();
    const said = (answer) => answer.items.filter((item) => item?.type === 'message').map((item) => item.text).join('\n');
    const turn = {controller: new AbortController(), id: response, stopped: false, cancelled: false};
    const {owner} = preferences.value;
    // An answer without an id could not be followed further: its id or the refusal is waited for.
    const leave = () => { if (turn.id !== '') turn.controller.abort(); };
    signal.addEventListener('abort', leave, {once: true});
    this.#turn = turn;
    const local = this.#items.addLocal(body.input);
    try {
      this.#set({running: {items: [], status: 'waiting'}, reconnecting: false});
      this.#show();
      const ended = await runAnswer(body, (running, reconnecting) => {
        turn.id = running.id;
        if (running.id !== '') noteRunning(body.conversation, running.id, body.request_id);
        if (signal.aborted) return leave();
        this.#set({running, reconnecting});
        announcer.grow(said(running));
        if (turn.stopped && running.id !== '') this.#cancelAnswer(turn, running.id);
      }, turn.controller.signal, response);
      forgetRunning(body.conversation, ended.id);
      if (signal.aborted) return null;
      announcer.end(said(ended));
      if (ended.status === 'failed') {
        if (ended.error.code === 'key_revoked') askForKey(ended.error.message);
        this.#fail(body, local, ended.items, ended.error);
        return null;
      }
      const items = ended.status === 'cancelled' && ended.items.length === 0 ? await this.#itemsOfStopped(body, signal) : ended.items;
      if (signal.aborted) return null;
      if (items === null) {
        this.#fail(body, local, [], {message: STOPPED});
        return null;
      }
      const summary = {...summaryOf(ended), schema: body.text?.format?.schema};
      addRecord(items.map((item) => item.id), summary);
      this.#items.add(items.map((item) => ({...item, answer: summary})));
      // Both at once, so that the answer is never missing.
      this.#set({running: null, reconnecting: false});
      this.#show();
      return ended;
    } catch (error) {
      const {status = 0} = error;
      const message = turn.stopped ? 'Stopped, but the server did not confirm it and may still complete the answer' : error.message;
      const failure = {message, status, isUnknown: status === 0};
      if (signal.aborted) {
        if (error.name !== 'AbortError' && preferences.value.owner === owner) this.#noteUnsent(body, [], failure);
      } else if (error.name === 'AbortError' && !turn.stopped) {
        // The reader has signed out, and what was not sent is dropped.
        this.#set({running: null, reconnecting: false});
      } else {
        this.#fail(body, local, this.state.value.running?.items ?? [], failure);
      }
      return null;
    } finally {
      signal.removeEventListener('abort', leave);
      if (this.#turn === turn) this.#turn = null;
    }
  }

  // The message stays the reader's, with the text so far. `local`: ids of the items that show it.
  #fail(body, local, items, failure) {
    this.#items.remove(local);
    this.#noteUnsent(body, items, failure);
    this.#set({running: null, reconnecting: false});
    this.#show();
  }

  // If it is not known whether the server has the message, it is sent again by the same id, so that it is answered once.
  #noteUnsent({conversation, input, id = ''}, items, {message, status = 0, isUnknown = false}) {
    const said = items.filter((item) => item?.text).map(({type, text, name, callId}) => ({type, text, name, callId, done: true}));
    addUnsent(conversation, {input, said, message, status, id: isUnknown ? id : ''});
  }

  // The answer of a turn that was stopped before its first token, as the conversation has it: empty. Resolves with null if the turn
  // waited for another one: then it has left nothing.
  async #itemsOfStopped({conversation, input}, signal) {
    const known = this.#items.snapshot();
    const {data} = await conversations.items(conversation, {limit: PAGE});
    signal.throwIfAborted();
    const sent = fromItem(input.at(-1));
    const at = data.findIndex((item) => !known.has(item.id) && fromItem(item).text === sent.text && item.type === sent.type);
    return at > 0 ? [fromItem(data[at - 1])] : null;
  }

  // What another tab or device has added or renamed.
  async refresh() {
    const {id, running, sending, loading, loadError} = this.state.value;
    if (id === '' || running !== null || sending || loading || loadError !== null) return;
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

  // Reads the newest items as the server has them. While it cannot be reached, as during a restart, they are read again later:
  // an item whose id is not known can be neither edited nor answered again.
  async #reread(id, signal, pauseMs = REREAD_PAUSE_MS) {
    const mine = ++this.#reads;
    try {
      const known = this.#items.snapshot();
      const page = await conversations.items(id, {limit: PAGE});
      if (signal.aborted || mine !== this.#reads) return;
      this.#items.replaceNewest(page, known);
      this.#show();
    } catch (error) {
      if (signal.aborted) return;
      if (pauseMs === REREAD_PAUSE_MS) notifyError(error);
      if (error.status !== 0 && error.status !== 503) return;
      setTimeout(() => {
        const {running, sending} = this.state.value;
        // A turn reads them at its end.
        if (signal.aborted || mine !== this.#reads || running !== null || sending) return;
        this.#reread(id, signal, Math.min(pauseMs * 2, LONGEST_REREAD_PAUSE_MS));
      }, pauseMs);
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

  // Answers the message of `entry` again, or another text in its place, in a branch: the first one stays. `onTaken` as of send().
  async branch(entry, text, model, settings, onTaken = () => {}) {
    if (await this.#fork(entry, [])) await this.send(text, model, settings, onTaken);
  }

  // Puts another text in the place of an answer's last one, in a branch. `items`: the answer's; `entry`: its message.
  async editAnswer(entry, items, text, onTaken = () => {}) {
    const last = items.findLast((item) => item.type === 'message');
    const changed = [entry.item, ...items].map((item) => toInput(item === last ? {...item, text} : item));
    if (await this.#fork(entry, changed)) onTaken();
  }

  // Shows a fork that ends before the message of `entry`, with `added` items. Resolves with false if that failed. The fork says
  // from the beginning which place it has: the reader may leave, or be refused, before it has a message.
  async #fork(entry, added) {
    const {id, metadata} = this.state.value;
    const before = entry.item.id;
    let fork = null, page = null;
    const ready = await this.#prepare(async (signal) => {
      const after = this.#items.idBefore(before) ?? (await conversations.items(id, {after: before, limit: 1})).data[0]?.id ?? '';
      signal.throwIfAborted();
      fork = await conversations.forkBefore(id, before, newBranch(id, metadata, after));
      try {
        for (let at = 0; at < added.length; at += MAX_AT_ONCE) {
          await conversations.append(fork.id, added.slice(at, at + MAX_AT_ONCE));
        }
        page = await conversations.items(fork.id, {limit: PAGE});
        signal.throwIfAborted();
      } catch (error) {
        conversations.remove(fork.id).catch(() => {});
        throw error;
      }
    });
    if (!ready) return false;
    this.close();
    const {text, files} = draftOf(id);
    clearField(id);
    setDraft(fork.id, {text, files});
    this.#begin(fork.id, fork.metadata, page);
    this.#made(fork.id);
    return true;
  }

  // The list has changed the title of these conversations.
  renamed(ids, title) {
    const {id, metadata} = this.state.value;
    if (ids.includes(id)) this.#set({metadata: {...metadata, title}});
    for (const each of ids) this.#changed(each);
  }
}
