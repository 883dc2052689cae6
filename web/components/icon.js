// A picture next to a text, or in a button with a label.
import {html} from '../lib/preact.js';

export const Icon = ({path}) => html`<svg viewBox="0 0 24 24" width="20" height="20" aria-hidden="true"><path d=${path} /></svg>`;
