// A modal dialog: the browser keeps the focus inside, and Escape and a click outside close it. At its end the focus returns to
// where it was.
import {html, useLayoutEffect, useRef} from '../lib/preact.js';
import {Toasts, layers} from './toasts.js';

let made = 0;

// Where the focus was last outside of all dialogs: one dialog may follow another one.
let lastOutside = null;
document.addEventListener('focusin', ({target}) => { if (target.closest('dialog') === null) lastOutside = target; });

// Whether the pointer is on the backdrop, which belongs to the dialog as its padding does.
function isOutside({target, currentTarget, clientX: x, clientY: y}) {
  const {left, right, top, bottom} = currentTarget.getBoundingClientRect();
  return target === currentTarget && (x < left || x > right || y < top || y > bottom);
}

// `onRefuse`: the dialog stays until its owner removes it, and this is called when the user tries to close it.
export function Dialog({title, onClose = () => {}, onRefuse = null, children}) {
  const element = useRef(null);
  const id = useRef(`dialog-${++made}`).current;
  const pressedOutside = useRef(false);
  const gone = useRef(false);
  useLayoutEffect(() => {
    const dialog = element.current;
    dialog.showModal();
    layers.set([...layers.value, id]);
    return () => {
      gone.current = true;
      layers.set(layers.value.filter((each) => each !== id));
      // An element that is only removed leaves the focus nowhere.
      dialog.close();
      // Later, because the next dialog may be about to open.
      setTimeout(() => {
        if (layers.value.length > 0 || document.activeElement !== document.body) return;
        (lastOutside?.isConnected ? lastOutside : document.getElementById('main'))?.focus();
      });
    };
  }, []);
  // A selection of text may end outside, and is no click there.
  const onClick = (event) => {
    if (!pressedOutside.current || !isOutside(event)) return;
    if (onRefuse === null) element.current.close(); else onRefuse();
  };
  const refuse = (event) => {
    if (onRefuse === null) return;
    event.preventDefault();
    onRefuse();
  };
  // A browser may close a dialog that refused once, without asking again.
  const onClosed = () => {
    if (gone.current) return;
    if (onRefuse === null) return onClose();
    element.current.showModal();
    onRefuse();
  };
  return html`
    <dialog ref=${element} aria-labelledby=${id} onClose=${onClosed} onCancel=${refuse} onKeyDown=${(event) => { if (event.key === 'Escape') refuse(event); }}
            onPointerDown=${(event) => { pressedOutside.current = isOutside(event); }} onClick=${onClick}>
      <div class="stack"><h2 id=${id} dir="auto">${title}</h2>${children}</div>
      <${Toasts} layer=${id} />
    </dialog>`;
}

// Asks before something with consequences; `danger`: it cannot be undone; `busy`: what will happen is not known yet.
export function Confirm({title, text, action, danger = true, busy = false, onConfirm, onClose}) {
  return html`
    <${Dialog} title=${title} onClose=${onClose}>
      <p dir="auto">${text}</p>
      <div class="row end">
        <button type="button" onClick=${onClose}>Cancel</button>
        <button type="button" class=${danger ? 'danger' : 'primary'} disabled=${busy} onClick=${() => { onClose(); onConfirm(); }}>${action}</button>
      </div>
    <//>`;
}
