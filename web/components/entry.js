// One entry of the thread: a message of the user with its files, or an answer with its reasoning, calls and text. The list that
// shows it has its element.
import {html, useEffect, useRef, useState} from '../lib/preact.js';
import {isEnded, speedOf} from '../lib/answer.js';
import {copy} from '../lib/copy.js';
import {bytes, count} from '../lib/format.js';
import {faultsOf} from '../lib/json_schema.js';
import {joinFiles, splitFiles} from '../lib/text_files.js';
import {Field} from './field.js';
import {Markdown} from './markdown.js';
import {TokenText} from './tokens.js';

function prettyJson(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

// The value of a text that is JSON as a whole, as an answer to a schema is; undefined for other texts.
function jsonOf(text) {
  if (!/^\s*[[{]/.test(text)) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function JsonAnswer({value, schema}) {
  const faults = schema ? faultsOf(value, schema) : [];
  return html`
    <div class="stack">
      <pre class="block json" tabindex="0" role="group" aria-label="JSON">${JSON.stringify(value, null, 2)}</pre>
      ${schema && faults.length === 0 && html`<p><span class="badge good">fits the schema</span></p>`}
      ${faults.map((fault) => html`<p class="error-text">${fault}</p>`)}
    </div>`;
}

function Fold({title, open = false, children}) {
  return html`<details class="fold" open=${open}><summary>${title}</summary><div>${children}</div></details>`;
}

function Item({item, growing, schema, byTokens}) {
  if (byTokens && item.tokens?.length > 0) return html`<${TokenText} tokens=${item.tokens} />`;
  const value = item.type === 'message' && !growing ? jsonOf(item.text) : undefined;
  if (value !== undefined) return html`<${JsonAnswer} value=${value} schema=${schema} />`;
  switch (item.type) {
    case 'reasoning':
      return html`<${Fold} title=${growing ? 'Reasoning…' : 'Reasoning'} open=${growing}>
        <div class="reasoning" dir="auto">${item.text}</div><//>`;
    case 'function_call':
      return html`<${Fold} title=${`Call of ${item.name}`} open=${growing}>
        <pre class="block" tabindex="0">${growing ? item.text : prettyJson(item.text)}</pre><//>`;
    case 'function_call_output':
      return html`<${Fold} title="Result"><pre class="block" tabindex="0">${prettyJson(item.text)}</pre><//>`;
    default:
      return html`<${Markdown} text=${item.text} growing=${growing} />`;
  }
}

const WAITING = {waiting: 'Sending…', queued: 'In the queue…', running: 'Reading the prompt…'};

function Statistics({answer}) {
  const speed = speedOf(answer);
  const {usage} = answer;
  const parts = [];
  if (usage) parts.push(`${count(usage.input_tokens)} prompt`, `${count(usage.output_tokens)} output tokens`);
  if (usage?.input_tokens_details?.cached_tokens > 0) parts.push(`${count(usage.input_tokens_details.cached_tokens)} cached`);
  if (speed !== null) parts.push(`${speed.toFixed(1)} tokens/s`);
  if (answer.firstMs > 0) parts.push(`first after ${Math.round(answer.firstMs - answer.beganMs)} ms`);
  return html`<span>${parts.join(' · ')}</span>`;
}

// `running`: the answer that grows, if the entry is one.
export function AnswerEntry({items, running, reconnecting, onRegenerate}) {
  const answer = running ?? items.find((item) => item.answer)?.answer;
  const text = items.filter((item) => item.type === 'message').map((item) => item.text).join('\n\n');
  const shown = items.filter((item) => item !== undefined);
  const [byTokens, setByTokens] = useState(false);
  const hasTokens = !running && items.some((item) => item.tokens?.length > 0);
  return html`
    <div class="entry answer" aria-busy=${running ? 'true' : undefined}>
      <div class="entry-head">Answer</div>
      ${running && shown.length === 0 && html`<p class="hint" role="status">${WAITING[running.status] ?? ''}</p>`}
      ${shown.map((item, i) => html`
        <${Item} key=${item.id || i} item=${item} schema=${answer?.schema} byTokens=${byTokens && hasTokens}
                 growing=${Boolean(running) && !isEnded(running) && !item.done} />`)}
      ${reconnecting && html`
        <p class="notice warn" role="status">${running.restarted ? 'The server is restarted. It goes on with the answer when it is back…'
            : 'The connection was lost. Trying to continue…'}</p>`}
      ${!running && answer?.status === 'lost' && html`<p class="hint">The answer broke off here.</p>`}
      ${!running && answer?.restarted && answer.status === 'completed' && html`<p class="hint">The server was restarted and went on with the answer.</p>`}
      ${answer?.droppedItems > 0 && html`
        <p class="hint">${count(answer.droppedItems)} earlier messages were left out: they did not fit into the model’s context.</p>`}
      ${!running && answer?.status === 'cancelled' && html`<p class="hint">Stopped.</p>`}
      ${!running && answer?.status === 'incomplete' && html`
        <p class="hint">The answer is cut: ${answer.reason === 'max_output_tokens' ? 'it reached its longest length' : answer.reason}.</p>`}
      ${!running && answer === undefined && items.some((item) => item.incomplete) && html`<p class="hint">The answer is cut.</p>`}
      <div class="entry-foot">
        ${!running && html`
          <span class="actions">
            <button type="button" class="quiet small" onClick=${() => copy(text)}>Copy</button>
            ${hasTokens && html`
              <button type="button" class="quiet small" aria-pressed=${byTokens ? 'true' : 'false'} onClick=${() => setByTokens(!byTokens)}>Tokens</button>`}
            ${onRegenerate && html`<button type="button" class="quiet small" onClick=${onRegenerate}>Regenerate</button>`}
          </span>`}
        ${answer && html`<${Statistics} answer=${answer} />`}
      </div>
    </div>`;
}

function BranchPicker({variants, onChoose}) {
  const {ids, current} = variants;
  return html`
    <span class="branch" role="group" aria-label="Branches">
      <button type="button" class="quiet small" aria-label="Previous branch" disabled=${current === 0}
              onClick=${() => onChoose(ids[current - 1])}>‹</button>
      <span>${current + 1} / ${ids.length}</span>
      <button type="button" class="quiet small" aria-label="Next branch" disabled=${current + 1 === ids.length}
              onClick=${() => onChoose(ids[current + 1])}>›</button>
    </span>`;
}

function FileFold({file}) {
  return html`
    <details class="fold file"><summary><span class="chip-name">${file.name}</span>
        <span class="chip-size">${bytes(new Blob([file.text]).size)}</span></summary>
      <div><pre class="block" tabindex="0" role="group" aria-label=${file.name}>${file.text}</pre></div></details>`;
}

export function UserEntry({item, variants, onChoose, onEdit, busy}) {
  const [draft, setDraft] = useState(null);
  const {files, text} = splitFiles(item.text);
  const field = useRef(null);
  const editButton = useRef(null);
  useEffect(() => { field.current?.focus(); }, [draft === null]);
  // The draft stays until the branch takes this entry's place, or the request failed and can be sent again.
  const submit = (event) => {
    event.preventDefault();
    if (!busy && draft.trim() !== '') onEdit(joinFiles(files, draft));
  };
  const cancel = () => {
    setDraft(null);
    requestAnimationFrame(() => editButton.current?.focus());
  };
  return html`
    <div class="entry user">
      <div class="entry-head">You</div>
      ${files.map((file) => html`<${FileFold} file=${file} />`)}
      ${draft === null ? html`<div class="bubble" dir="auto">${text}</div>` : html`
        <form class="stack" onSubmit=${submit} onKeyDown=${(event) => { if (event.key === 'Escape') cancel(); }}>
          <${Field} title="Changed message" hidden>${(attributes) => html`
            <textarea ...${attributes} dir="auto" value=${draft} ref=${field}
                      onInput=${(event) => setDraft(event.target.value)}></textarea>`}<//>
          <div class="row end">
            <button type="button" onClick=${cancel}>Cancel</button>
            <button class="primary" disabled=${busy}>Send as a branch</button>
          </div>
        </form>`}
      <div class="entry-foot">
        ${variants.ids.length > 1 && html`<${BranchPicker} variants=${variants} onChoose=${onChoose} />`}
        ${draft === null && html`
          <span class="actions">
            <button type="button" class="quiet small" onClick=${() => copy(item.text)}>Copy</button>
            <button type="button" ref=${editButton} class="quiet small" disabled=${busy || item.id.startsWith('new-')}
                    onClick=${() => setDraft(text)}>Edit</button>
          </span>`}
      </div>
    </div>`;
}

export function SystemEntry({item}) {
  return html`<div class="entry"><${Fold} title="System prompt"><div class="reasoning" dir="auto">${item.text}</div><//></div>`;
}

// Asks for the results of calls that the page cannot answer.
export function CallForm({calls, onSend}) {
  const [outputs, setOutputs] = useState({});
  const submit = (event) => {
    event.preventDefault();
    onSend(calls.map(({callId}) => ({callId, output: outputs[callId] ?? ''})));
  };
  return html`
    <div class="entry"><form class="card stack" onSubmit=${submit}>
      <p><strong>The model waits for ${calls.length === 1 ? 'a result' : 'results'}</strong></p>
      ${calls.map((call) => html`
        <${Field} key=${call.callId} title=${`Result of ${call.name}`}>${(attributes) => html`
          <textarea ...${attributes} class="mono" value=${outputs[call.callId] ?? ''} placeholder='for example {"ok": true}'
                    onInput=${(event) => setOutputs({...outputs, [call.callId]: event.target.value})}></textarea>`}<//>`)}
      <div class="row end"><button class="primary">Send</button></div>
    </form></div>`;
}

// Why the last turn failed.
export function FailureEntry({failure, disabled, onRetry}) {
  return html`
    <div class="notice bad row" role="alert"><span class="grow">${failure.message}</span>
      <button type="button" disabled=${disabled} onClick=${onRetry}>Try again</button></div>`;
}
