// A labelled control with a hint or an error below it. The hint describes the control and is no part of its name.
import {html, useRef} from '../lib/preact.js';

let made = 0;

// `children`: a function of the attributes that the control must have; `inline`: the label stands beside the control.
export function Field({title, hint = '', error = '', hidden = false, inline = false, children}) {
  const id = useRef(`field-${++made}`).current;
  const about = `${id}-about`;
  return html`
    <div class=${`field ${inline ? 'inline' : ''}`}>
      <label for=${id} class=${hidden ? 'visually-hidden' : ''}>${title}</label>
      ${children({id, 'aria-describedby': hint || error ? about : undefined, 'aria-invalid': error ? 'true' : undefined})}
      ${error ? html`<p id=${about} class="error-text" role="alert">${error}</p>` : hint && html`<p id=${about} class="hint">${hint}</p>`}
    </div>`;
}

export function Check({title, checked, onChange}) {
  return html`
    <label class="check"><input type="checkbox" checked=${checked} onChange=${(event) => onChange(event.target.checked)} />
      <span>${title}</span></label>`;
}
