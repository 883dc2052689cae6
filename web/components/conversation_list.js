// The conversations of the caller: choose, search, rename, delete.
import {html, useState} from '../lib/preact.js';
import {conversations} from '../lib/api.js';
import {chatsOf, familyOf} from '../lib/branches.js';
import {notifyError} from '../lib/notices.js';
import {addressOf} from '../lib/route.js';
import {Confirm} from './dialog.js';

export function ConversationList({listed, current, hasMore, onMore, onNew, onDeleted, open, onClose}) {
  const [search, setSearch] = useState('');
  const [leaving, setLeaving] = useState(null);
  const title = (each) => each.metadata.title || 'Untitled';
  const chats = chatsOf(listed).filter((each) => title(each).toLowerCase().includes(search.toLowerCase()));
  const currentRoot = listed.find((each) => each.id === current)?.metadata.root ?? current;

  const remove = async (chat) => {
    try {
      // Branches first: what a branch shares stays as long as it is needed.
      for (const each of familyOf(chat.id, listed).reverse()) await conversations.remove(each.id);
      onDeleted(familyOf(chat.id, listed).map((each) => each.id));
    } catch (error) {
      notifyError(error);
    }
  };
  return html`
    <aside class=${`side${open ? ' open' : ''}`} aria-label="Conversations">
      <div class="side-head">
        <div class="row">
          <button type="button" class="primary" onClick=${onNew}>New chat</button>
          <button type="button" class="only-narrow" onClick=${onClose}>Close</button>
        </div>
        <input type="search" placeholder="Search titles" aria-label="Search titles" value=${search}
               onInput=${(event) => setSearch(event.target.value)} />
      </div>
      ${chats.length === 0 && html`<p class="empty">${listed.length === 0 ? 'No conversations yet' : 'Nothing found'}</p>`}
      <ul>
        ${chats.map((chat) => html`
          <li key=${chat.metadata.root ?? chat.id}>
            <a href=${addressOf('chat', chat.id)} title=${title(chat)} dir="auto" onClick=${onClose}
               aria-current=${(chat.metadata.root ?? chat.id) === currentRoot ? 'true' : undefined}>${title(chat)}</a>
            <button type="button" class="quiet small" aria-label=${`Delete ${title(chat)}`} onClick=${() => setLeaving(chat)}>✕</button>
          </li>`)}
        ${hasMore && html`<li><button type="button" class="quiet" onClick=${onMore}>Show older ones</button></li>`}
      </ul>
      ${leaving && html`
        <${Confirm} title="Delete this conversation?" text=${`“${title(leaving)}” and all its branches are removed from the server.`}
                    action="Delete" onConfirm=${() => remove(leaving)} onClose=${() => setLeaving(null)} />`}
    </aside>`;
}
