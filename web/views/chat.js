// Chat with the models of the server. Conversations are the server's; this view shows one of them.
import {html, useEffect, useMemo, useRef, useState} from '../lib/preact.js';
import {conversations, models as fetchModels} from '../lib/api.js';
import {fetchTokens} from '../lib/answer.js';
import {isBranch, variantsOf} from '../lib/branches.js';
import {MAX_BYTES, exportOf, readExport} from '../lib/chat_files.js';
import {ChatSession, storeConversation} from '../lib/chat_session.js';
import {readSettings} from '../lib/chat_settings.js';
import {download} from '../lib/copy.js';
import {clearField, forgetDrafts, useDraft} from '../lib/drafts.js';
import {sentence} from '../lib/format.js';
import {notify, notifyError} from '../lib/notices.js';
import {preferences} from '../lib/preferences.js';
import {go, route} from '../lib/route.js';
import {useStore} from '../lib/store.js';
import {ChatSettings} from '../components/chat_settings.js';
import {Composer, useFiles} from '../components/composer.js';
import {ConversationList} from '../components/conversation_list.js';
import {AnswerEntry, BranchEnd, CallForm, EntryBoundary, SystemEntry, UnsentEntry, UserEntry} from '../components/entry.js';
import {Icon} from '../components/icon.js';
import {VirtualList} from '../components/virtual_list.js';

const EAGER = 1000;  // conversations that are listed without being asked for, so that branches and titles are found

// The conversations of the caller, the last used one first.
function useConversations() {
  const [shown, setShown] = useState({listed: [], hasMore: false});
  // `cursor`: the conversation behind which the next page begins; `reads`: only the last reading of the newest page counts.
  const held = useRef({listed: [], hasMore: true, cursor: '', reads: 0, older: Promise.resolve(), gone: false}).current;
  const set = (listed, hasMore) => {
    Object.assign(held, {listed, hasMore});
    setShown({listed, hasMore});
  };
  // Reads the newest page: what was used since comes to the front, and older ones stay.
  const load = async () => {
    const mine = ++held.reads;
    try {
      const page = await conversations.list();
      if (mine !== held.reads || held.gone) return;
      const fresh = new Set(page.data.map(({id}) => id));
      if (held.cursor === '') held.cursor = page.data.at(-1)?.id ?? '';
      set([...page.data, ...held.listed.filter(({id}) => page.has_more && !fresh.has(id))], held.hasMore && page.has_more);
    } catch (error) {
      notifyError(error);
    }
  };
  const loadPages = async (max) => {
    while (held.hasMore && held.listed.length < max && !held.gone) {
      const page = await conversations.list(held.cursor);
      const known = new Set(held.listed.map(({id}) => id));
      held.cursor = page.data.at(-1)?.id ?? held.cursor;
      set([...held.listed, ...page.data.filter(({id}) => !known.has(id))], page.has_more);
    }
    return held.listed;
  };
  // Reads older pages, one call after the other, until `max` conversations are here. Resolves with all that are here.
  const loadOlder = (max = Infinity) => {
    held.older = held.older.catch(() => {}).then(() => loadPages(max));
    return held.older;
  };
  const showOlder = () => loadOlder(held.listed.length + 1).catch(notifyError);
  useEffect(() => {
    load().then(() => loadOlder(EAGER)).catch(notifyError);
    return () => { held.gone = true; };
  }, []);
  const forget = (ids) => {
    const rest = held.listed.filter(({id}) => !ids.includes(id));
    if (ids.includes(held.cursor)) held.cursor = rest.at(-1)?.id ?? '';
    set(rest, held.hasMore);
    load();
  };
  return {...shown, load, loadOlder, showOlder, forget};
}

const RETRY_MS = 3000;

// The models that generate; null until the server has said so. While it cannot be reached, as during a restart, it is asked again.
function useModels() {
  const [all, setAll] = useState(null);
  useEffect(() => {
    let timer, gone = false;
    const ask = async (isFirst) => {
      try {
        const found = await fetchModels();
        if (!gone) setAll(found);
      } catch (error) {
        if (gone || error.name === 'AbortError') return;
        if (isFirst) notifyError(error);
        timer = setTimeout(() => ask(false), RETRY_MS);
      }
    };
    ask(true);
    return () => {
      gone = true;
      clearTimeout(timer);
    };
  }, []);
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

// The rows of the thread: entries, the answer that grows, and what is asked of the user. `isBare`: the branch has no message of its own.
function rowsOf(chat, unsent, isBare) {
  const rows = chat.entries.map((entry, index) => ({key: entry.key, floats: entry.kind === 'gap', entry, index}));
  if (chat.running !== null) {
    // The key that its entry will have, so that the list keeps its height and place when it ends.
    rows.push({key: chat.running.items[0]?.id ?? 'running', kind: 'running'});
  } else if (chat.openCalls.length > 0 && !isAnswered(chat.openCalls, unsent)) {
    rows.push({key: 'calls', kind: 'calls'});
  }
  if (isBare && chat.running === null && !chat.sending && !chat.loading) rows.push({key: 'branch', kind: 'branch'});
  if (!chat.loading) rows.push(...unsent.map((record) => ({key: record.key, kind: 'unsent', record})));
  return rows;
}

// The id of the item in front of the entry at `index`: '' at the beginning, null if it is not here.
function idBefore(entries, index) {
  const before = entries[index - 1];
  if (before === undefined) return '';
  return before.kind === 'gap' ? null : (before.items?.at(-1) ?? before.item).id;
}

// The message that an answer belongs to.
function messageBefore(entries, index) {
  for (let at = index - 1; at >= 0 && entries[at].kind !== 'gap'; --at) if (entries[at].kind === 'user') return entries[at];
  return undefined;
}

// The results of calls that stand in `unsent` are not asked for again.
const isAnswered = (calls, unsent) =>
    calls.every(({callId}) => unsent.some(({input}) => input.some((item) => item.call_id === callId)));

export function ChatView({argument, admin}) {
  const {listed, hasMore, load, loadOlder, showOlder, forget} = useConversations();
  const served = useModels();
  const settings = useStore(preferences);
  const session = useMemo(() => new ChatSession((made, removed = []) => {
    if (made !== '') go('chat', made, true);
    forget(removed);
  }), []);
  const chat = useStore(session.state);
  const [place, setPlace] = useState({atEnd: true, above: 0});
  const [sideOpen, setSideOpen] = useState(false);
  const [settingsOpen, setSettingsOpen] = useState(false);
  const [importing, setImporting] = useState('');
  const [exporting, setExporting] = useState(false);
  const [drops, setDrops] = useState(false);
  const list = useRef(null);
  const settingsButton = useRef(null);

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
  const busy = chat.running !== null || chat.sending;
  const blocked = busy || invalid || !model;
  const {unsent} = useDraft(chat.id);
  const attached = useFiles(model, chat.id);
  const branches = useMemo(() => listed.filter(isBranch), [listed]);
  const toEnd = () => list.current.toEnd();
  const send = (text) => {
    toEnd();
    session.send(text, model.id, read, () => clearField(session.state.value.id));
  };
  const branch = (entry, text) => {
    toEnd();
    // The element that had the focus goes.
    session.branch(entry, text, model.id, read, () => list.current?.focus());
  };
  const editAnswer = (message, entry, text) => session.editAnswer(message, entry.items, text, () => list.current?.focus());
  const takeBack = (record) => {
    session.takeBack(record);
    document.getElementById('message').focus();
  };
  const discard = (record) => {
    session.discard(record);
    list.current.focus();
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
    forgetDrafts(ids);
    session.notifyTabs('', ids);
    if (ids.includes(chat.id)) go('chat', '', true);
  };
  const exportChat = async () => {
    const {title = ''} = chat.metadata;
    setExporting(true);
    try {
      download(`${title || 'chat'}.json`, exportOf(title, await session.allItems()));
    } catch (error) {
      if (error.name !== 'AbortError') notify(`${error.message}. Nothing was exported.`.replace('..', '.'), 'bad');
    }
    setExporting(false);
  };
  const importChat = async ([file]) => {
    const from = route.value;
    try {
      if (file.size > MAX_BYTES) throw new Error('The file is larger than 8 MiB');
      const {title, items} = readExport(await file.text());
      setImporting('Importing…');
      const made = await storeConversation(title, items, (stored) => setImporting(`Importing: ${stored} of ${items.length}`));
      await load();
      session.notifyTabs();
      if (route.value === from) go('chat', made.id);  // else the reader has gone elsewhere
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
  const last = idBefore(chat.entries, chat.entries.length);
  const rows = rowsOf(chat, unsent, branches.some(({id, metadata}) => id === chat.id && metadata.after === last));
  const count = rows.length;
  // How many are missing is not known.
  const attributes = (row, index) => (chat.hasGap ? {'aria-setsize': -1} : {'aria-setsize': count, 'aria-posinset': index + 1});
  const show = ({kind, entry, index, record}) => {
    switch (kind ?? entry.kind) {
      case 'gap':
        return html`<${Gap} session=${session} loaded=${chat.entries.length} first=${index === 0} />`;
      case 'system':
        return html`<${SystemEntry} item=${entry.item} />`;
      case 'user':
        return html`
          <${UserEntry} item=${entry.item} busy=${blocked} variants=${variantsOf(chat.id, idBefore(chat.entries, index), branches)}
                        onChoose=${(id) => go('chat', id)} onEdit=${(text) => branch(entry, text)} />`;
      case 'running':
        return html`<${AnswerEntry} items=${chat.running.items} running=${chat.running} reconnecting=${chat.reconnecting} />`;
      case 'branch':
        return html`<${BranchEnd} variants=${variantsOf(chat.id, last, branches)} onChoose=${(id) => go('chat', id)} />`;
      case 'calls':
        return html`<${CallForm} calls=${chat.openCalls} onSend=${(results) => session.sendResults(results, model.id, read)} />`;
      case 'unsent':
        return html`
          <${UnsentEntry} record=${record} disabled=${blocked} onEdit=${() => takeBack(record)} onDiscard=${() => discard(record)}
                          onRetry=${() => { toEnd(); session.retry(record, model.id, read); }} />`;
      default: {
        const message = messageBefore(chat.entries, index);
        const mayBranch = message && !message.item.id.startsWith('new-');
        // What was stopped or cut can go on, if nothing follows it.
        const isCut = index + 1 === chat.entries.length && entry.items.at(-1).incomplete && !read.schema;
        return html`
          <${AnswerEntry} items=${entry.items} busy=${blocked} admin=${admin} fetchTokens=${fetchTokens}
              onContinue=${isCut ? () => { toEnd(); session.continueAnswer(model.id, read); } : null}
              onEdit=${mayBranch ? (text) => editAnswer(message, entry, text) : null}
              onRegenerate=${mayBranch ? () => branch(message, message.item.text) : null} />`;
      }
    }
  };
  const showRow = (row) => html`<${EntryBoundary} version=${row.entry?.items ?? row.entry?.item ?? row.record}>${show(row)}<//>`;

  return html`
    <div class="chat">
      <${ConversationList} listed=${listed} current=${chat.id} hasMore=${hasMore} onMore=${showOlder} onAll=${() => loadOlder()}
                           onNew=${fresh} onDeleted=${onDeleted} open=${sideOpen} onClose=${() => setSideOpen(false)}
                           onRenamed=${(ids, title) => session.renamed(ids, title)} onImport=${importChat} importing=${importing} />
      <section class="thread-pane" aria-label="Conversation" onDrop=${onDrop}
               onDragOver=${(event) => { if (event.dataTransfer.types.includes('Files')) { event.preventDefault(); setDrops(true); } }}
               onDragLeave=${(event) => { if (!event.currentTarget.contains(event.relatedTarget)) setDrops(false); }}>
        ${(count > 0 || chat.loading || chat.loadError) && html`<h1 class="visually-hidden">${chat.metadata.title || 'Chat'}</h1>`}
        <div class="thread-head">
          <button type="button" class="only-narrow" aria-expanded=${sideOpen} onClick=${() => setSideOpen(!sideOpen)}>
            <${Icon} path="M4 6h16M4 12h16M4 18h10" /><span>Chats</span></button>
          <select aria-label="Model" value=${model?.id ?? ''} disabled=${!served?.length}
                  onChange=${(event) => preferences.merge({model: event.target.value})}>
            ${served?.length === 0 && html`<option value="">No model that generates</option>`}
            ${(served ?? []).map((each) => html`<option value=${each.id}>${each.id}</option>`)}
          </select>
          <span class="spacer"></span>
          ${chat.entries.length > 0 && html`<button type="button" disabled=${exporting} onClick=${exportChat}>
            <${Icon} path="M12 4v11m-4-4 4 4 4-4M5 20h14" /><span>Export</span></button>`}
          <button type="button" ref=${settingsButton} aria-expanded=${settingsOpen} onClick=${() => setSettingsOpen(!settingsOpen)}>
            <${Icon} path="M4 7h9m5 0h2M4 17h2m5 0h9M13 7a2.5 2.5 0 1 0 5 0 2.5 2.5 0 1 0-5 0M6 17a2.5 2.5 0 1 0 5 0 2.5 2.5 0 1 0-5 0" />
            <span>Settings${invalid ? ' (!)' : ''}</span></button>
        </div>
        <div class="thread-place">
          <${VirtualList} rows=${rows} label="Messages" control=${list} attributes=${attributes} onHome=${toStart} before=${html`
              ${chat.loadError && html`
                <div class="notice bad row" role="alert"><span class="grow">${sentence(chat.loadError.message)}</span>
                  <button type="button" onClick=${() => session.open(chat.id)}>Try again</button></div>`}
              ${count === 0 && chat.loading && html`<p class="empty">Loading…</p>`}
              ${count === 0 && !chat.loading && !chat.loadError && html`
                <div class="empty"><h1>${served?.length === 0 ? 'No model generates text here' : 'What would you like to know?'}</h1>
                  <p>${served?.length === 0 ? 'Load or pull one in the view Models.' : model && `Answers come from ${model.id}.`}</p></div>`}`}
              onPlace=${(now) => { if (now.atEnd !== place.atEnd || (now.above > FAR) !== (place.above > FAR)) setPlace(now); }}>${showRow}<//>
          ${drops && html`<div class="drop" aria-hidden="true">Drop text files to ask about them</div>`}
        </div>
        <div class="jumps">
          ${(place.above > FAR) && html`<button type="button" class="small" onClick=${toStart}>↑ First message</button>`}
          ${!place.atEnd && html`<button type="button" class="small" onClick=${() => { toEnd(); list.current.focus(); }}>↓ Newest message</button>`}
        </div>
        <${Composer} chat=${chat.id} disabled=${!model || invalid} running=${chat.running !== null} sending=${chat.sending}
                     attached=${attached} onSend=${send} onStop=${() => session.stop()} hint=${invalid ? 'A setting is invalid' : ''} />
      </section>
      ${settingsOpen && html`
        <${ChatSettings} settings=${settings} errors=${read.errors} model=${model} onClose=${() => {
          setSettingsOpen(false);
          settingsButton.current.focus();
        }} />`}
    </div>`;
}
