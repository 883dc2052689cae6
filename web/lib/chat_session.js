// One chat: the conversation that the server stores, its turns as they are shown, and the answer that runs. The view reads
// `state` and calls the methods.
import {conversations, responses} from './api.js';
import {fromItem, runAnswer} from './answer.js';
import {newBranch} from './branches.js';
import {Announcer, notifyError} from './notices.js';
import {Store} from './store.js';
import {runTool} from './tools.js';

const PAGE = 100;            // items that are fetched at once
const MOST_TOOL_ROUNDS = 8;  // requests of one turn whose calls the page answers by itself
const TITLE_CHARACTERS = 60;

const EMPTY = {
  id: '', metadata: {}, entries: [], hasEarlier: false, loading: false, loadError: null,
  running: null,  // the answer that grows
  reconnecting: false, failure: null, openCalls: [],
};

// Items as entries of the thread: {kind: 'user', item}, {kind: 'system', item} or {kind: 'answer', items}.
function entriesOf(items) {
  const entries = [];
  for (const item of items) {
    if (item.type === 'message' && item.role !== 'assistant') {
      entries.push({kind: item.role === 'user' ? 'user' : 'system', key: item.id, item});
      continue;
    }
    const last = entries.at(-1);
    if (last?.kind === 'answer') {
      last.items.push(item);
    } else {
      entries.push({kind: 'answer', key: item.id, items: [item]});
    }
  }
  return entries;
}

function titleOf(text) {
  const line = text.trim().split('\n')[0];
  return line.length > TITLE_CHARACTERS ? `${line.slice(0, TITLE_CHARACTERS - 1)}…` : line;
}

const userItem = (text) => ({type: 'message', role: 'user', content: [{type: 'input_text', text}]});

export class ChatSession {
  state = new Store(EMPTY);
  #items = [];         // of the server, oldest first
  #cancel = null;      // AbortController of the requests of this conversation
  #onListChanged;

  // `onListChanged`: a conversation was made or renamed.
  constructor(onListChanged) {
    this.#onListChanged = onListChanged;
  }

  #set(changes) {
    this.state.merge(changes);
  }

  // Leaves the conversation; an answer that runs goes on in the server.
  close() {
    this.#cancel?.abort();
    this.#cancel = null;
    this.#items = [];
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
      const [conversation, page] = await Promise.all([conversations.get(id), conversations.items(id, '', PAGE)]);
      if (signal.aborted) return;
      this.#items = page.data.reverse().map(fromItem);
      this.#set({metadata: conversation.metadata, hasEarlier: page.has_more, loading: false});
      this.#show();
    } catch (error) {
      if (!signal.aborted) this.#set({loading: false, loadError: error});
    }
  }

  async loadEarlier() {
    const {id, hasEarlier, loading} = this.state.value;
    if (!hasEarlier || loading || this.#items.length === 0) return;
    this.#set({loading: true});
    try {
      const page = await conversations.items(id, this.#items[0].id, PAGE);
      if (this.state.value.id !== id) return;
      this.#items = [...page.data.reverse().map(fromItem), ...this.#items];
      this.#set({hasEarlier: page.has_more, loading: false});
      this.#show();
    } catch (error) {
      this.#set({loading: false});
      notifyError(error);
    }
  }

  #show() {
    const calls = new Map();
    for (const item of this.#items) {
      if (item.type === 'function_call') calls.set(item.callId, item);
      if (item.type === 'function_call_output') calls.delete(item.callId);
    }
    this.#set({entries: entriesOf(this.#items), openCalls: [...calls.values()]});
  }

  // Sends a message. `settings`: preferences of the chat; `model`: its id.
  async send(text, model, settings) {
    if (this.state.value.running !== null) return;
    try {
      await this.#ensureConversation(text, settings);
    } catch (error) {
      notifyError(error);
      return;
    }
    this.#items.push({...fromItem(userItem(text)), id: `new-${this.#items.length}`});
    await this.#run([userItem(text)], model, settings);
  }

  // Sends results of calls: [{callId, output}].
  async sendResults(results, model, settings) {
    if (this.state.value.running !== null) return;
    await this.#run(this.#addResults(results), model, settings);
  }

  #addResults(results) {
    const input = results.map(({callId, output}) => ({type: 'function_call_output', call_id: callId, output}));
    this.#items.push(...input.map((item, i) => ({...fromItem(item), id: `new-${this.#items.length + i}`})));
    return input;
  }

  async #ensureConversation(text, {system}) {
    if (this.state.value.id !== '') return;
    const first = system.trim() === '' ? []
        : [{type: 'message', role: 'system', content: [{type: 'input_text', text: system}]}];
    const metadata = {title: titleOf(text)};
    const made = await conversations.create(metadata, first);
    this.#cancel = new AbortController();
    this.#items = first.map((item) => ({...fromItem(item), id: 'new-system'}));
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
      const ended = await this.#runOnce({...settings.body, model, conversation: id, input: next}, signal);
      if (ended === null) break;
      const calls = ended.items.filter((item) => item.type === 'function_call');
      const results = settings.demoTools ? calls.map(runTool).filter((result) => result !== null) : [];
      // The rest is asked of the user.
      next = calls.length > 0 && results.length === calls.length ? this.#addResults(results) : [];
      this.#show();
    }
    if (signal.aborted) return;
    await this.#reread(id, signal);
    this.#onListChanged('');
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
      this.#items.push(...answer.items.map((item) => ({...item, answer})));
      if (answer.status === 'cancelled') await this.#keepStopped(body.conversation, body.input, answer);
      this.#set({running: null, reconnecting: false, failure: answer.status === 'failed' ? answer.error : null});
      return answer.status === 'completed' ? answer : null;
    } catch (error) {
      if (signal.aborted) return null;
      this.#set({running: null, reconnecting: false, failure: error});
      return null;
    }
  }

  // A turn that was cancelled leaves nothing in the conversation; the reader wants to see, and to go on from, what was said.
  async #keepStopped(id, input, answer) {
    const said = answer.items.filter((item) => item.type === 'message' && item.text !== '');
    const kept = await conversations.append(id, [
      ...input, ...said.map(({text}) => ({type: 'message', role: 'assistant', content: [{type: 'output_text', text}]})),
    ]);
    const shown = this.#items.filter((item) => item.answer === answer && item.type === 'message' && item.text !== '');
    shown.forEach((item, i) => { item.id = kept.data[input.length + i]?.id ?? item.id; });
  }

  // The items as the server has them, with their ids; what only the page knows of an answer stays.
  async #reread(id, signal) {
    try {
      const known = new Map(this.#items.filter((item) => item.answer).map((item) => [item.id, item.answer]));
      const page = await conversations.items(id, '', PAGE);
      if (signal.aborted) return;
      const fresh = page.data.reverse().map(fromItem).map((item) => ({...item, answer: known.get(item.id)}));
      const first = this.#items.findIndex((item) => item.id === fresh[0]?.id);
      this.#items = [...this.#items.slice(0, Math.max(first, 0)), ...fresh];
      this.#set({hasEarlier: first > 0 ? this.state.value.hasEarlier : page.has_more});
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

  async rename(title) {
    const {id, metadata} = this.state.value;
    const changed = {...metadata, title};
    await conversations.update(id, changed);
    this.#set({metadata: changed});
    this.#onListChanged('');
  }
}
