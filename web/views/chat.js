// Chat with the models of the server. Conversations are the server's; this view shows one of them.
import {html, useEffect, useMemo, useRef, useState} from '../lib/preact.js';
import {conversations, models as fetchModels} from '../lib/api.js';
import {variantsOf} from '../lib/branches.js';
import {MOST_BYTES, exportOf, readExport} from '../lib/chat_files.js';
import {ChatSession, storeConversation} from '../lib/chat_session.js';
import {readSettings} from '../lib/chat_settings.js';
import {notify, notifyError} from '../lib/notices.js';
import {preferences} from '../lib/preferences.js';
import {go} from '../lib/route.js';
import {useStore} from '../lib/store.js';
import {download} from '../components/copy.js';
import {ChatSettings} from '../components/chat_settings.js';
import {Composer, useFiles} from '../components/composer.js';
import {ConversationList} from '../components/conversation_list.js';
import {AnswerEntry, CallForm, FailureEntry, SystemEntry, UserEntry} from '../components/entry.js';
import {Icon} from '../components/icon.js';
import {VirtualList} from '../components/virtual_list.js';

function useConversations() {
  const [listed, setListed] = useState([]);
  const [hasMore, setHasMore] = useState(false);
  const last = useRef(0);  // request whose answer counts
  const load = async (after = '') => {
    const mine = ++last.current;
    try {
      const page = await conversations.list(after);
      if (mine !== last.current) return;
      setListed((before) => (after === '' ? page.data : [...before, ...page.data]));
      setHasMore(page.has_more);
    } catch (error) {
      notifyError(error);
    }
  };
  useEffect(() => { load(); }, []);
  const forget = (ids) => {
    setListed((all) => all.filter((each) => !ids.includes(each.id)));
    load();
  };
  return {listed, hasMore, load, forget};
}

function useModels() {
  const [all, setAll] = useState(null);
  useEffect(() => { fetchModels().then(setAll).catch((error) => { notifyError(error); setAll([]); }); }, []);
  return all?.filter((model) => model.tasks?.includes('generate')) ?? null;
}

const FAR = 1500;  // pixels from the beginning of the thread, from which on a button leads there

// Stands for messages that are not here. When it comes near the view they are fetched, on the side that the reader sees.
function Gap({session, loaded, first}) {
  const element = useRef(null);
  useEffect(() => {
    const thread = element.current.closest('.thread');
    const observer = new IntersectionObserver(([seen]) => {
      if (!seen.isIntersecting) return;
      const middle = ({top, bottom}) => (top + bottom) / 2;
      session.loadMore(!first && middle(seen.rootBounds) < middle(seen.boundingClientRect));
    }, {root: thread, rootMargin: '800px 0px'});
    observer.observe(element.current);
    return () => observer.disconnect();
  }, [loaded]);
  return html`<div class="gap" ref=${element}><p role="status">Loading messages…</p></div>`;
}

// The rows of the thread: entries, the answer that grows, and what is asked of the user.
function rowsOf(chat) {
  const rows = chat.entries.map((entry, index) => ({key: entry.key, floats: entry.kind === 'gap', entry, index}));
  if (chat.running !== null) {
    // The key that its entry will have, so that the list keeps its height and place when it ends.
    rows.push({key: chat.running.items[0]?.id ?? 'running', kind: 'running'});
  } else if (chat.openCalls.length > 0) {
    rows.push({key: 'calls', kind: 'calls'});
  }
  if (chat.failure !== null) rows.push({key: 'failure', kind: 'failure'});
  return rows;
}

// The message that an answer belongs to.
function messageBefore(entries, index) {
  for (let at = index - 1; at >= 0 && entries[at].kind !== 'gap'; --at) if (entries[at].kind === 'user') return entries[at];
  return undefined;
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
  const [place, setPlace] = useState({atEnd: true, above: 0});
  const [sideOpen, setSideOpen] = useState(false);
  const [settingsOpen, setSettingsOpen] = useState(false);
  const [importing, setImporting] = useState('');
  const [drops, setDrops] = useState(false);
  const list = useRef(null);

  useEffect(() => {
    session.open(argument).then(() => list.current?.toEnd());
  }, [argument]);
  useEffect(() => {
    const onShow = () => { if (!document.hidden) session.refresh(); };
    document.addEventListener('visibilitychange', onShow);
    return () => {
      document.removeEventListener('visibilitychange', onShow);
      session.dispose();
    };
  }, []);

  const model = served?.find((each) => each.id === settings.model) ?? served?.find((each) => each.status?.value === 'loaded') ??
      served?.[0];
  const read = readSettings(settings, model?.max_model_len);
  const invalid = Object.keys(read.errors).length > 0;
  const busy = chat.running !== null;
  const attached = useFiles(model);
  const toEnd = () => list.current.toEnd();
  const send = (text) => {
    toEnd();
    session.send(text, model.id, read);
  };
  const branch = async (entry, text) => {
    toEnd();
    await session.branch(entry, text, model.id, read, listed);
  };
  const toStart = async () => {
    await session.loadStart();
    list.current.toStart();
    list.current.focus();
  };
  const fresh = () => {
    setSideOpen(false);
    if (argument === '') session.close();
    go('chat');
  };
  const onDeleted = (ids) => {
    forget(ids);
    session.tellTabs();
    if (ids.includes(chat.id)) go('chat', '', true);
  };
  const exportChat = async () => {
    const {title = ''} = chat.metadata;
    download(`${title || 'chat'}.json`, exportOf(title, await session.allItems()));
  };
  const importChat = async ([file]) => {
    try {
      if (file.size > MOST_BYTES) throw new Error('The file has more than 8 MiB');
      const {title, items} = readExport(await file.text());
      setImporting('Importing…');
      const made = await storeConversation({title}, items, (stored) => setImporting(`Importing: ${stored} of ${items.length}`));
      await load();
      go('chat', made.id);
      notify('Imported');
    } catch (error) {
      notify(`${error.message}. Nothing was imported.`.replace('..', '.'), 'bad');
    }
    setImporting('');
  };
  const onDrop = (event) => {
    event.preventDefault();
    setDrops(false);
    attached.add([...event.dataTransfer.files]);
  };
  const rows = rowsOf(chat);
  const count = rows.length;
  // How many are missing is not known.
  const attributes = (row, index) => (chat.hasGap ? {'aria-setsize': -1} : {'aria-setsize': count, 'aria-posinset': index + 1});
  const show = ({kind, entry, index}) => {
    switch (kind ?? entry.kind) {
      case 'gap':
        return html`<${Gap} session=${session} loaded=${chat.entries.length} first=${index === 0} />`;
      case 'system':
        return html`<${SystemEntry} item=${entry.item} />`;
      case 'user':
        return html`
          <${UserEntry} item=${entry.item} busy=${busy || invalid || !model} variants=${variantsOf(chat.id, entry.item.id, listed)}
                        onChoose=${(id) => go('chat', id)} onEdit=${(text) => branch(entry, text)} />`;
      case 'running':
        return html`<${AnswerEntry} items=${chat.running.items} running=${chat.running} reconnecting=${chat.reconnecting} />`;
      case 'calls':
        return html`<${CallForm} calls=${chat.openCalls} onSend=${(results) => session.sendResults(results, model.id, read)} />`;
      case 'failure':
        return html`<${FailureEntry} failure=${chat.failure} disabled=${!model || invalid} onRetry=${() => { toEnd(); session.retry(model.id, read); }} />`;
      default: {
        const message = messageBefore(chat.entries, index);
        return html`
          <${AnswerEntry} items=${entry.items}
              onRegenerate=${message && !busy && !invalid && model && !message.item.id.startsWith('new-')
                  ? () => branch(message, message.item.text) : null} />`;
      }
    }
  };

  return html`
    <div class="chat">
      <${ConversationList} listed=${listed} current=${chat.id} hasMore=${hasMore} onMore=${() => load(listed.at(-1).id)}
                           onNew=${fresh} onDeleted=${onDeleted} open=${sideOpen} onClose=${() => setSideOpen(false)}
                           onRenamed=${(id, title) => session.renamed(id, title)} onImport=${importChat} importing=${importing} />
      <section class="thread-pane" aria-label="Conversation" onDrop=${onDrop}
               onDragOver=${(event) => { if (event.dataTransfer.types.includes('Files')) { event.preventDefault(); setDrops(true); } }}
               onDragLeave=${(event) => { if (!event.currentTarget.contains(event.relatedTarget)) setDrops(false); }}>
        ${count > 0 && html`<h1 class="visually-hidden">${chat.metadata.title || 'Chat'}</h1>`}
        <div class="thread-head">
          <button type="button" class="only-narrow" aria-expanded=${sideOpen} onClick=${() => setSideOpen(!sideOpen)}>
            <${Icon} path="M4 6h16M4 12h16M4 18h10" /><span>Chats</span></button>
          <select aria-label="Model" value=${model?.id ?? ''} disabled=${!served?.length}
                  onChange=${(event) => preferences.merge({model: event.target.value})}>
            ${served?.length === 0 && html`<option value="">No model that generates</option>`}
            ${(served ?? []).map((each) => html`<option value=${each.id}>${each.id}</option>`)}
          </select>
          <span class="spacer"></span>
          ${chat.entries.length > 0 && html`<button type="button" onClick=${exportChat}>
            <${Icon} path="M12 4v11m-4-4 4 4 4-4M5 20h14" /><span>Export</span></button>`}
          <button type="button" aria-expanded=${settingsOpen} onClick=${() => setSettingsOpen(!settingsOpen)}>
            <${Icon} path="M4 7h9m5 0h2M4 17h2m5 0h9M13 7a2.5 2.5 0 1 0 5 0 2.5 2.5 0 1 0-5 0M6 17a2.5 2.5 0 1 0 5 0 2.5 2.5 0 1 0-5 0" />
            <span>Settings${invalid ? ' (!)' : ''}</span></button>
        </div>
        <div class="thread-place">
          <${VirtualList} rows=${rows} label="Messages" control=${list} attributes=${attributes} onHome=${toStart} before=${html`
              ${chat.loadError && html`<p class="notice bad" role="alert">${chat.loadError.message}</p>`}
              ${count === 0 && chat.loading && html`<p class="empty">Loading…</p>`}
              ${count === 0 && !chat.loading && !chat.loadError && html`
                <div class="empty"><h1>${served?.length === 0 ? 'No model generates text here' : 'What would you like to know?'}</h1>
                  <p>${served?.length === 0 ? 'Load or pull one in the view Models.' : model && `Answers come from ${model.id}.`}</p></div>`}`}
              onPlace=${(now) => { if (now.atEnd !== place.atEnd || (now.above > FAR) !== (place.above > FAR)) setPlace(now); }}>${show}<//>
          <div class="jumps">
            ${(place.above > FAR) && html`<button type="button" class="small" onClick=${toStart}>↑ First message</button>`}
            ${!place.atEnd && html`<button type="button" class="small" onClick=${() => { toEnd(); list.current.focus(); }}>↓ Newest message</button>`}
          </div>
          ${drops && html`<div class="drop" aria-hidden="true">Drop text files to ask about them</div>`}
        </div>
        <${Composer} disabled=${!model || invalid} running=${busy} attached=${attached} onSend=${send} onStop=${() => session.stop()}
                     hint=${invalid ? 'A setting is out of its range' : ''} />
      </section>
      ${settingsOpen && html`
        <${ChatSettings} settings=${settings} errors=${read.errors} model=${model} onClose=${() => setSettingsOpen(false)} />`}
    </div>`;
}
