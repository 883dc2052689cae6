// Short notices below the page, or below the contents of the topmost dialog: what lies outside a modal dialog is inert. They
// have a place of their own, so that they hide no control.
import {html} from '../lib/preact.js';
import {dismiss, notices} from '../lib/notices.js';
import {Store, useStore} from '../lib/store.js';

// The page, and the open dialogs by their ids, the topmost last.
export const layers = new Store(['page']);

export function Toasts({layer = 'page'}) {
  const shown = useStore(notices);
  const isTop = useStore(layers).at(-1) === layer;
  return html`
    <div class="toasts" role="status">
      ${isTop && shown.map((notice) => html`
        <div class=${`toast ${notice.kind}`} key=${notice.id}>
          <span dir="auto">${notice.text}</span>
          ${notice.count > 1 && html`<span class="badge" aria-label=${`${notice.count} times`} role="img">× ${notice.count}</span>`}
          <button type="button" class="quiet small" aria-label="Dismiss" onClick=${() => dismiss(notice.id)}>✕</button>
        </div>`)}
    </div>`;
}
