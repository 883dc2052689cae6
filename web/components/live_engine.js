// One engine of the live state: what its requests do and wait for, the blocks of its cache, its last steps.
import {html} from '../lib/preact.js';
import {count, milliseconds} from '../lib/format.js';
import {REASONS} from '../lib/live.js';
import {BlockMap, StepChart} from './charts.js';
import {Table} from './table.js';

const MAX_ROWS = 100;
// What a sequence does: [colour, words].
const PHASES = {
  waiting: ['warn', 'waits'], prefill: ['', 'reads its prompt'], decode: ['good', 'writes'], paused: ['warn', 'is paused'],
};
const KINDS = {decoder: 'writes text', encoder: 'computes vectors'};
const PARTS = [['planning', 'plan', 'plan_ms'], ['computing', 'launch', 'launch_ms'], ['waiting for the device', 'collect', 'collect_ms'],
               ['sending', 'commit', 'commit_ms']];

function Legend({entries}) {
  return html`
    <ul class="legend">
      ${entries.map(([name, className, value]) => html`<li><span class=${`swatch ${className}`}></span>${name}${value !== undefined && ` ${value}`}</li>`)}
    </ul>`;
}

function Phase({phase}) {
  const [colour, words] = PHASES[phase] ?? ['', phase];
  return html`<span class=${`badge ${colour}`}>${words}</span>`;
}

const promptOf = (each) => (each.prompt_tokens === undefined ? `${count(each.items)} inputs`
  : `${count(Math.min(each.computed_tokens, each.prompt_tokens))} of ${count(each.prompt_tokens)}`);
const outputOf = (each) => (each.output_tokens === undefined ? ''
  : `${count(each.output_tokens)}${each.max_tokens ? ` of ${count(each.max_tokens)}` : ''}`);

// `onChoose` gets the id of a request, `onCancel` a sequence.
function Sequences({engine, onChoose, onCancel}) {
  const rows = engine.sequences.slice(0, MAX_ROWS);
  if (rows.length === 0) return html`<p class="hint">Nothing runs and nothing waits.</p>`;
  const left = engine.sequences.length - rows.length + engine.sequences_left_out;
  return html`
    <${Table} label=${`Sequences of ${engine.model}`}
      columns=${[{title: 'Request'}, {title: 'Now'}, {title: 'Prompt read', number: true}, {title: 'Written', number: true},
                 {title: 'Cache blocks', number: true}, {title: 'Age', number: true}, {title: 'Waits for', className: 'wide'}]}
      rows=${rows.map((each) => ({
        key: `${each.request} ${each.choice}`,
        cells: [
          html`<button type="button" class="link mono" title="Show where its time went" onClick=${() => onChoose(each.request)}>${each.request}</button>
            ${each.tenant && html`<span class="hint" dir="auto">${each.tenant}</span>`}`,
          html`<${Phase} phase=${each.phase} />`, promptOf(each), outputOf(each), each.blocks === undefined ? '' : count(each.blocks), milliseconds(each.age_ms),
          each.waits_for ? html`${REASONS[each.waits_for] ?? each.waits_for} <span class="hint">${milliseconds(each.waited_ms)}</span>` : ''],
        actions: html`<button type="button" class="small danger" aria-label=${`Cancel ${each.request}`} onClick=${() => onCancel(each)}>Cancel</button>`,
      }))} />
    ${left > 0 && html`<p class="hint">${count(left)} more are not shown.</p>`}`;
}

// The memory of the texts in work.
function Cache({kv}) {
  return html`
    <div class="stack tight">
      <h3>KV cache: ${count(kv.blocks)} blocks for ${kv.block_tokens} tokens each</h3>
      <p class="hint">The memory of the texts that are in work, or may be wanted again. A request that finds no free block waits.</p>
      <${BlockMap} kv=${kv} label=${`${kv.used} blocks are of one request, ${kv.shared} of several, ${kv.cached} are kept for later requests, ${kv.free} are free`} />
      <${Legend} entries=${[['of one request', 'used', count(kv.used)], ['shared by requests', 'shared', count(kv.shared)],
                            ['kept for later', 'cached', count(kv.cached)], ['pinned', 'pinned', count(kv.pinned)], ['free', 'free', count(kv.free)]]} />
    </div>`;
}

function Steps({engine, steps}) {
  const last = steps.at(-1);
  return html`
    <div class="stack tight">
      <h3>Last steps</h3>
      <p class="hint">${engine.kind === 'decoder' ? 'A step computes the next token of each running request, and parts of new prompts.' : 'A step computes one batch of texts.'}
        ${' '}Each bar is a step; a high one was slow.</p>
      <${StepChart} steps=${steps} label=${`The last ${steps.length} steps of ${engine.model}`} />
      <${Legend} entries=${[...PARTS.map(([name, part]) => [name, part]), ['the last one took', 'none', milliseconds(PARTS.reduce((sum, [, , field]) => sum + last[field], 0))]]} />
    </div>`;
}

export function Engine({engine, steps, onChoose, onCancel}) {
  const waits = Object.entries(engine.waits ?? {});
  return html`
    <section class="card stack" aria-label=${`Engine of ${engine.model}`}>
      <div class="row"><h2><bdi>${engine.model}</bdi></h2><span class="badge">${KINDS[engine.kind] ?? engine.kind}</span>
        <span class="hint">${count(engine.running)}${engine.max_num_seqs ? ` of ${count(engine.max_num_seqs)}` : ''} run,
          ${' '}${count(engine.waiting)} wait; the device computes ${Math.round((engine.busy_share ?? 0) * 100)} % of the time</span></div>
      ${waits.length > 0 && html`
        <div class="row">${waits.map(([reason, number]) => html`
          <span class="badge warn wrap" title=${reason}>${count(number)} ${number === 1 ? 'waits' : 'wait'} for ${REASONS[reason] ?? reason}</span>`)}</div>`}
      ${engine.kv && html`<${Cache} kv=${engine.kv} />`}
      ${steps.length > 0 && html`<${Steps} engine=${engine} steps=${steps} />`}
      <${Sequences} engine=${engine} onChoose=${onChoose} onCancel=${onCancel} />
    </section>`;
}
