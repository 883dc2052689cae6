// An answer by its tokens, with the probability of each and of what could have stood there instead.
import {html, useEffect, useLayoutEffect, useRef, useState} from '../lib/preact.js';

const MAX_SHOWN = 5000;  // tokens that are shown

// Classes of probability: the lowest one of each, and its words.
const CLASSES = [[0.9, 'from 90 %'], [0.5, '50 to 90 %'], [0.2, '20 to 50 %'], [0.05, '5 to 20 %'], [0, 'below 5 %']];
const classOf = (logprob) => CLASSES.findIndex(([least]) => Math.exp(logprob) >= least);

export function percent(logprob) {
  const value = Math.exp(logprob) * 100;
  return value >= 99.95 ? '100 %' : value >= 10 ? `${value.toFixed(1)} %` : value >= 0.01 ? `${value.toPrecision(2)} %` : 'below 0.01 %';
}

// White space as signs.
const visible = (text) => text.replaceAll('\n', '↵').replaceAll('\t', '⇥').replace(/^ +| +$/g, (spaces) => '␣'.repeat(spaces.length));

function Alternatives({token}) {
  const others = token.others.length > 0 ? token.others : [token];
  const listed = others.some((other) => other.text === token.text) ? others : [...others, token];
  return html`
    <table>
      <tbody>
        ${listed.map((other) => html`
          <tr class=${other.text === token.text ? 'chosen' : ''}>
            <th scope="row"><code>${visible(other.text)}</code></th>
            <td class="number">${percent(other.logprob)}</td>
            <td class="share" aria-hidden="true"><span style=${{width: `${Math.exp(other.logprob) * 100}%`}}></span></td>
          </tr>`)}
      </tbody>
    </table>`;
}

function TokenTable({tokens}) {
  return html`
    <div class="table-scroll" tabindex="0" role="group" aria-label="Table of tokens">
      <table>
        <thead><tr><th scope="col">Token</th><th scope="col" class="number">Probability</th><th scope="col">Most probable</th></tr></thead>
        <tbody>
          ${tokens.map((token) => html`
            <tr><td><code>${visible(token.text)}</code></td><td class="number">${percent(token.logprob)}</td>
              <td>${token.others.map((other, i) => html`${i > 0 && ', '}<code>${visible(other.text)}</code> ${percent(other.logprob)}`)}</td></tr>`)}
        </tbody>
      </table>
    </div>`;
}

let made = 0;

// `tokens`: as lib/answer.js makes them. One token is in the order of tabs; the arrow keys go to the others. Enter and Space hide
// and show the alternatives.
export function TokenText({tokens}) {
  const all = tokens.slice(0, MAX_SHOWN);
  const id = useRef(`tokens-${++made}`).current;
  const frame = useRef(null);
  const tip = useRef(null);
  const [current, setCurrent] = useState(0);
  const [open, setOpen] = useState(false);
  const [table, setTable] = useState(false);
  const perplexity = Math.exp(-tokens.reduce((sum, {logprob}) => sum + logprob, 0) / tokens.length);

  const show = (event) => {
    const index = event.target.closest?.('[data-token]')?.dataset.token;
    if (index === undefined) return;
    setCurrent(Number(index));
    setOpen(true);
  };
  const hide = () => setOpen(false);
  const onKeyDown = (event) => {
    const steps = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -all.length, End: all.length};
    if (event.key === 'Escape') return hide();
    if (event.key === 'Enter' || event.key === ' ') {
      event.preventDefault();
      return setOpen(!open);
    }
    if (!(event.key in steps) || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    const next = Math.min(Math.max(current + steps[event.key], 0), all.length - 1);
    frame.current.querySelector(`[data-token="${next}"]`).focus();
  };
  // Below its token, and within the frame.
  useLayoutEffect(() => {
    if (!open) return;
    const token = frame.current.querySelector(`[data-token="${current}"]`);
    const [box] = token.getClientRects(), around = frame.current.getBoundingClientRect();
    const {style, offsetWidth} = tip.current;
    style.left = `${Math.max(Math.min(box.left - around.left, around.width - offsetWidth), 0)}px`;
    style.top = `${box.bottom - around.top + 4}px`;
  }, [current, open]);
  useEffect(() => {
    if (!open) return undefined;
    const onKey = (event) => { if (event.key === 'Escape') hide(); };
    document.addEventListener('keydown', onKey);
    return () => document.removeEventListener('keydown', onKey);
  }, [open]);

  return html`
    <div class="stack token-view">
      <div class="tokens" ref=${frame} dir="auto" role="group" aria-label="Tokens and their probabilities"
           onMouseOver=${show} onMouseLeave=${hide} onfocusin=${show} onfocusout=${hide} onClick=${show} onKeyDown=${onKeyDown}>
        ${all.map((token, i) => html`
          <span class=${`token p${classOf(token.logprob)}`} data-token=${i} role="button" tabindex=${i === current ? 0 : -1}
                aria-label=${`${visible(token.text)}, ${percent(token.logprob)}`}
                aria-describedby=${open && i === current ? id : undefined}>${token.text === '\n' ? '↵\n' : token.text}</span>`)}
        ${open && html`<div class="token-tip" id=${id} role="tooltip" ref=${tip} dir="ltr"><${Alternatives} token=${all[current]} /></div>`}
      </div>
      ${tokens.length > all.length && html`<p class="hint">The first ${MAX_SHOWN} of ${tokens.length} tokens.</p>`}
      <ul class="legend" aria-label="Probability">
        ${CLASSES.map(([, words], i) => html`<li><span class=${`token p${i}`} aria-hidden="true">ab</span> ${words}</li>`)}
        <li>perplexity ${perplexity.toFixed(2)}</li>
      </ul>
      <details class="fold" onToggle=${(event) => setTable(event.target.open)}><summary>Table of tokens</summary>
        <div>${table && html`<${TokenTable} tokens=${all} />`}</div></details>
    </div>`;
}
