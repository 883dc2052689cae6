// A modal dialog: the browser keeps the focus inside, and Escape closes it.
import {html, useEffect, useRef} from '../lib/preact.js';

let made = 0;

export function Dialog({title, onClose, children}) {
  const element = useRef(null);
  const id = useRef(`dialog-${++made}`);
  useEffect(() => {
    element.current.showModal();
  }, []);
  return html`
    <dialog ref=${element} aria-labelledby=${id.current} onClose=${onClose}
            onClick=${(event) => { if (event.target === element.current) element.current.close(); }}>
      <div class="stack"><h2 id=${id.current}>${title}</h2>${children}</div>
    </dialog>`;
}

// Asks before something that cannot be undone.
export function Confirm({title, text, action, onConfirm, onClose}) {
  return html`
    <${Dialog} title=${title} onClose=${onClose}>
      <p>${text}</p>
      <div class="row end">
        <button type="button" onClick=${onClose}>Cancel</button>
        <button type="button" class="danger" onClick=${() => { onClose(); onConfirm(); }}>${action}</button>
      </div>
    <//>`;
}
