// The conversations of the caller: choose, search, rename, delete. `listed`: those that are here, the last used one first;
// `onAll()` resolves with all of them.
import {html, useState} from '../lib/preact.js';
import {conversations} from '../lib/api.js';
import {chatsOf, familyOf, rootOf} from '../lib/branches.js';
import {count} from '../lib/format.js';
import {notifyError} from '../lib/notices.js';
import {addressOf} from '../lib/route.js';
import {Confirm, Dialog} from './dialog.js';
import {Field} from './field.js';
import {FileButton} from './file_button.js';

const MAX_TITLE = 500;  // characters that the server keeps of a title
const SHOWN = 100;      // chats that are elements at first

function Rename({chat, onRename, onClose}) {
  const [title, setTitle] = useState(chat.metadata.title ?? '');
  const submit = (event) => {
    event.preventDefault();
    onClose();
    onRename(title.trim());
  };
  return html`
    <${Dialog} title="Rename this conversation" onClose=${onClose}>
      <form class="stack" onSubmit=${submit}>
        <${Field} title="Title">${(attributes) => html`
          <input ...${attributes} dir="auto" required maxlength=${MAX_TITLE} value=${title}
                 onInput=${(event) => setTitle(event.target.value)} />`}<//>
        <div class="row end"><button type="button" onClick=${onClose}>Cancel</button>
          <button class="primary" disabled=${title.trim() === ''}>Rename</button></div>
      </form>
    <//>`;
}

export function ConversationList({listed, current, hasMore, onMore, onAll, onNew, onDeleted, onRenamed, onImport, importing, open, onClose}) {
  const [shown, setShown] = useState(SHOWN);
  const [search, setSearch] = useState('');
  const [leaving, setLeaving] = useState(null);
  const [renaming, setRenaming] = useState(null);
  const title = (each) => each.metadata.title || 'Untitled';
  const chats = chatsOf(listed).filter((each) => title(each).toLowerCase().includes(search.toLowerCase()));
  const currentRoot = rootOf(current, listed);

  // `leaving`: {chat, family}; the family is null until all conversations are here.
  const askToRemove = async (chat) => {
    setLeaving({chat, family: null});
    try {
      const family = familyOf(chat.id, await onAll());
      setLeaving((now) => (now?.chat === chat ? {chat, family} : now));
    } catch (error) {
      setLeaving(null);
      notifyError(error);
    }
  };
  const remove = async (family) => {
    const removed = [];
    try {
      // Branches first: what a branch shares stays as long as it is needed.
      for (const {id} of family.reverse()) {
        await conversations.remove(id);
        removed.push(id);
      }
    } catch (error) {
      notifyError(error);
    }
    onDeleted(removed);
  };
  const textOf = ({chat, family}) => {
    const name = html`“<bdi>${title(chat)}</bdi>”`;
    if (family === null) return html`Looking for the branches of ${name}…`;
    return family.length < 2 ? html`${name} is removed from the server.`
        : html`${name} and ${family.length === 2 ? 'its branch' : `its ${count(family.length - 1)} branches`} are removed from the server.`;
  };
  const showOlder = () => {
    setShown(shown + SHOWN);
    if (hasMore && chats.length < shown + SHOWN) onMore();
  };
  const rename = async (chat, to) => {
    try {
      const family = familyOf(chat.id, await onAll());
      for (const {id} of family) {
        const {metadata} = await conversations.get(id);  // the list's may be old
        await conversations.update(id, {...metadata, title: to});
      }
      onRenamed(family.map(({id}) => id), to);
    } catch (error) {
      notifyError(error);
    }
  };
  return html`
    <aside class=${`side${open ? ' open' : ''}`} aria-label="Conversations">
      <div class="side-head">
        <div class="row">
          <button type="button" class="primary grow" onClick=${onNew}>New chat</button>
          <${FileButton} accept=".json,application/json" disabled=${importing !== ''} onFiles=${onImport} label="Import a conversation">Import<//>
          <button type="button" class="only-narrow" onClick=${onClose}>Close</button>
        </div>
        ${importing && html`<p class="hint" role="status">${importing}</p>`}
        <input type="search" placeholder="Search titles" aria-label="Search titles" value=${search}
               onInput=${(event) => setSearch(event.target.value)} />
      </div>
      ${chats.length === 0 && html`<p class="empty">${listed.length === 0 ? 'No conversations yet' : 'Nothing found'}</p>`}
      <ul>
        ${chats.slice(0, shown).map((chat) => html`
          <li key=${chat.root}>
            <a href=${addressOf('chat', chat.id)} title=${title(chat)} dir="auto" onClick=${onClose}
               aria-current=${chat.root === currentRoot ? 'true' : undefined}><bdi>${title(chat)}</bdi></a>
            <span class="actions"><button type="button" class="quiet small" aria-label=${`Rename ${title(chat)}`} onClick=${() => setRenaming(chat)}>✎</button>
            <button type="button" class="quiet small" aria-label=${`Delete ${title(chat)}`} onClick=${() => askToRemove(chat)}>✕</button></span>
          </li>`)}
        ${(hasMore || chats.length > shown) && html`<li><button type="button" class="quiet" onClick=${showOlder}>Show older ones</button></li>`}
      </ul>
      ${renaming && html`
        <${Rename} chat=${renaming} onRename=${(to) => rename(renaming, to)} onClose=${() => setRenaming(null)} />`}
      ${leaving && html`
        <${Confirm} title="Delete this conversation?" text=${textOf(leaving)} busy=${leaving.family === null}
                    action="Delete" onConfirm=${() => remove(leaving.family)} onClose=${() => setLeaving(null)} />`}
    </aside>`;
}
