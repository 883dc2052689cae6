// Chat with the models of the server. Conversations are the server's; this view shows one of them.
import {html, useEffect, useLayoutEffect, useMemo, useRef, useState} from '../lib/preact.js';
import {conversations, models as fetchModels} from '../lib/api.js';
import {variantsOf} from '../lib/branches.js';
import {ChatSession} from '../lib/chat_session.js';
import {readSettings} from '../lib/chat_settings.js';
import {notifyError} from '../lib/notices.js';
import {preferences} from '../lib/preferences.js';
import {go} from '../lib/route.js';
import {useStore} from '../lib/store.js';
import {download} from '../components/copy.js';
import {ChatSettings} from '../components/chat_settings.js';
import {ConversationList} from '../components/conversation_list.js';
import {AnswerEntry, CallForm, SystemEntry, UserEntry} from '../components/entry.js';

// Entries that are shown at once; earlier ones come when the reader reaches the first.
const SHOWN = 60;

function useConversations() {
  const [listed, setListed] = useState([]);
  const [hasMore, setHasMore] = useState(false);
  const load = async (after = '') => {
    try {
      const page = await conversations.list(after);
      setListed((before) => (after === '' ? page.data : [...before, ...page.data]));
      setHasMore(page.has_more);
    } catch (error) {
      notifyError(error);
    }
  };
  useEffect(() => { load(); }, []);
  return {listed, hasMore, load, forget: (ids) => setListed((all) => all.filter((each) => !ids.includes(each.id)))};
}

function useModels() {
  const [all, setAll] = useState(null);
  useEffect(() => { fetchModels().then(setAll).catch((error) => { notifyError(error); setAll([]); }); }, []);
  return all?.filter((model) => model.tasks?.includes('generate')) ?? null;
}

// Keeps the end in view while the reader is there, and leaves the place alone otherwise.
function useFollowEnd(element, parts) {
  const follows = useRef(true);
  useLayoutEffect(() => {
    if (follows.current) element.current.scrollTop = element.current.scrollHeight;
  }, parts);
  return {
    onScroll: () => {
      const {scrollTop, scrollHeight, clientHeight} = element.current;
      follows.current = scrollHeight - scrollTop - clientHeight < 60;
    },
    toEnd: () => { follows.current = true; },
  };
}

function Composer({disabled, running, onSend, onStop, hint}) {
  const [text, setText] = useState('');
  const field = useRef(null);
  const submit = (event) => {
    event.preventDefault();
    if (text.trim() === '' || disabled || running) return;
    onSend(text);
    setText('');
  };
  const onKeyDown = (event) => {
    // Enter ends the input of many scripts first.
    if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) submit(event);
  };
  useEffect(() => { field.current.focus(); }, []);
  return html`
    <div class="composer">
      <form onSubmit=${submit}>
        <label class="visually-hidden" for="message">Message</label>
        <textarea id="message" ref=${field} rows="1" dir="auto" placeholder="Message" value=${text}
                  onInput=${(event) => setText(event.target.value)} onKeyDown=${onKeyDown}></textarea>
        ${running
          ? html`<button type="button" onClick=${onStop}>Stop</button>`
          : html`<button class="primary" disabled=${disabled || text.trim() === ''}>Send</button>`}
      </form>
      <p class="hint"><span>Enter sends, Shift+Enter begins a line</span><span>${hint}</span></p>
    </div>`;
}

export function ChatView({argument}) {
  const {listed, hasMore, load, forget} = useConversations();
  const served = useModels();
  const settings = useStore(preferences);
  const session = useMemo(() => new ChatSession((made) => {
    if (made !== '') go('chat', made, true);
    load();
  }), []);
  const chat = useStore(session.state);
  const [shown, setShown] = useState(SHOWN);
  const [sideOpen, setSideOpen] = useState(false);
  const [settingsOpen, setSettingsOpen] = useState(false);
  const thread = useRef(null);
  const {onScroll, toEnd} = useFollowEnd(thread, [chat.entries, chat.running, chat.failure]);

  useEffect(() => {
    setShown(SHOWN);
    session.open(argument);
  }, [argument]);
  useEffect(() => () => session.close(), []);

  const model = served?.find((each) => each.id === settings.model) ?? served?.find((each) => each.status?.value === 'loaded') ??
      served?.[0];
  const read = readSettings(settings, model?.max_model_len);
  const invalid = Object.keys(read.errors).length > 0;
  const busy = chat.running !== null;
  const send = (text) => {
    toEnd();
    session.send(text, model.id, read);
  };
  const branch = async (entry, text) => {
    toEnd();
    await session.branch(entry, text, model.id, read, listed);
  };
  // The message that an answer belongs to.
  const messageBefore = (index) => chat.entries.slice(0, index).findLast((entry) => entry.kind === 'user');
  const first = Math.max(chat.entries.length - shown, 0);
  const showEarlier = async () => {
    if (first === 0) await session.loadEarlier();
    setShown((before) => before + SHOWN);
  };
  const fresh = () => {
    setSideOpen(false);
    if (argument === '') session.close();
    go('chat');
  };
  const onDeleted = (ids) => {
    forget(ids);
    if (ids.includes(chat.id)) go('chat', '', true);
  };
  const exportChat = () => download(`${chat.metadata.title || 'chat'}.json`, JSON.stringify(
      {version: 1, title: chat.metadata.title, items: chat.entries.flatMap((entry) => entry.items ?? [entry.item])
          .map(({answer, done, ...item}) => item)}, null, 2));

  return html`
    <div class="chat">
      <${ConversationList} listed=${listed} current=${chat.id} hasMore=${hasMore} onMore=${() => load(listed.at(-1).id)}
                           onNew=${fresh} onDeleted=${onDeleted} open=${sideOpen} onClose=${() => setSideOpen(false)} />
      <section class="thread-pane" aria-label="Conversation">
        <div class="thread-head">
          <button type="button" class="only-narrow" aria-expanded=${sideOpen} onClick=${() => setSideOpen(!sideOpen)}>Chats</button>
          <select aria-label="Model" value=${model?.id ?? ''} disabled=${!served?.length}
                  onChange=${(event) => preferences.merge({model: event.target.value})}>
            ${served?.length === 0 && html`<option value="">No model that generates</option>`}
            ${(served ?? []).map((each) => html`<option value=${each.id}>${each.id}</option>`)}
          </select>
          <span class="spacer"></span>
          ${chat.entries.length > 0 && html`<button type="button" onClick=${exportChat}>Export</button>`}
          <button type="button" aria-expanded=${settingsOpen} onClick=${() => setSettingsOpen(!settingsOpen)}>
            Settings${invalid ? ' (!)' : ''}</button>
        </div>
        <div class="thread" ref=${thread} onScroll=${onScroll} tabindex="0" role="log" aria-live="off" aria-label="Messages">
          ${chat.loadError && html`<p class="notice bad" role="alert">${chat.loadError.message}</p>`}
          ${chat.entries.length === 0 && !busy && !chat.loading && !chat.loadError && html`
            <div class="empty"><h1>${served?.length === 0 ? 'No model generates text here' : 'What would you like to know?'}</h1>
              <p>${served?.length === 0 ? 'Load or pull one in the view Models.' : model && `Answers come from ${model.id}.`}</p></div>`}
          <ol>
            ${(first > 0 || chat.hasEarlier) && html`
              <li><button type="button" disabled=${chat.loading} onClick=${showEarlier}>Show earlier messages</button></li>`}
            ${chat.entries.slice(first).map((entry, offset) => {
              const index = first + offset;
              if (entry.kind === 'system') return html`<${SystemEntry} key=${entry.key} item=${entry.item} />`;
              if (entry.kind === 'user') {
                return html`<${UserEntry} key=${entry.key} item=${entry.item} busy=${busy || invalid || !model}
                              variants=${variantsOf(chat.id, entry.item.id, listed)}
                              onChoose=${(id) => go('chat', id)} onEdit=${(text) => branch(entry, text)} />`;
              }
              const message = messageBefore(index);
              return html`<${AnswerEntry} key=${entry.key} items=${entry.items}
                            onRegenerate=${message && !busy && !invalid && model && !message.item.id.startsWith('new-')
                                ? () => branch(message, message.item.text) : null} />`;
            })}
            ${busy && html`<${AnswerEntry} key="running" items=${chat.running.items} running=${chat.running} reconnecting=${chat.reconnecting} />`}
            ${!busy && chat.openCalls.length > 0 && html`
              <${CallForm} calls=${chat.openCalls} onSend=${(results) => session.sendResults(results, model.id, read)} />`}
            ${chat.failure && html`<li><p class="notice bad" role="alert">${chat.failure.message}</p></li>`}
          </ol>
        </div>
        <${Composer} disabled=${!model || invalid} running=${busy} onSend=${send} onStop=${() => session.stop()}
                     hint=${invalid ? 'A setting is out of its range' : ''} />
      </section>
      ${settingsOpen && html`
        <${ChatSettings} settings=${settings} errors=${read.errors} model=${model} onClose=${() => setSettingsOpen(false)} />`}
    </div>`;
}
