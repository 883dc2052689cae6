// One entry of the thread: a message of the user with its files, or an answer with its reasoning, calls and text. The list that
// shows it has its element.
import {Component, html, useEffect, useRef, useState} from '../lib/preact.js';
import {isEnded, summaryOf} from '../lib/answer.js';
import {copy} from '../lib/copy.js';
import {bytes, count, sentence} from '../lib/format.js';
import {check} from '../lib/json_schema.js';
import {notifyError} from '../lib/notices.js';
import {addressOf} from '../lib/route.js';
import {joinFiles, splitFiles} from '../lib/text_files.js';
import {Field} from './field.js';
import {Markdown} from './markdown.js';
import {TokenText} from './tokens.js';

// JSON that is nested deeper is not read, and one that would have more characters with its indents is not indented.
const MAX_DEPTH = 100, MAX_INDENTED = 2000000;

function depthOf(text) {
  let depth = 0, most = 0;
  for (const [sign] of text.matchAll(/"(?:[^"\\]|\\.)*"|[[{\]}]/gs)) {
    if (sign === '[' || sign === '{') most = Math.max(most, ++depth);
    else if (sign === ']' || sign === '}') --depth;
  }
  return most;
}

// The value of a text that is JSON as a whole, as an answer to a schema is; undefined for other texts.
function jsonOf(text) {
  if (!/^\s*[[{]/.test(text)) return undefined;
  try {
    const depth = depthOf(text);
    return depth > MAX_DEPTH || depth * text.length > MAX_INDENTED ? undefined : JSON.parse(text);
  } catch {
    return undefined;
  }
}

function prettyJson(text) {
  const value = jsonOf(text);
  return value === undefined ? text : JSON.stringify(value, null, 2);
}

// An entry that cannot be shown leaves the others. It is tried again when it changes: `version` differs then.
export class EntryBoundary extends Component {
  state = {fault: null};

  componentDidCatch(fault) {
    console.error(fault);
    this.setState({fault});
  }

  componentDidUpdate({version}) {
    if (this.state.fault !== null && version !== this.props.version) this.setState({fault: null});
  }

  render({children}, {fault}) {
    if (fault === null) return children;
    return html`<div class="entry"><p class="notice bad row" role="alert"><span class="grow">This entry cannot be shown: ${fault.message}</span>
      <button type="button" onClick=${() => this.setState({fault: null})}>Try again</button></p></div>`;
  }
}

function JsonAnswer({value, schema}) {
  const {faults, unread, slow, isComplete} = schema ? check(value, schema) : {faults: [], unread: [], slow: [], isComplete: true};
  return html`
    <div class="stack">
      <pre class="block json" tabindex="0" role="group" aria-label="JSON">${JSON.stringify(value, null, 2)}</pre>
      ${schema && isComplete && faults.length === 0 && html`<p><span class="badge good">fits the schema</span></p>`}
      ${!isComplete && html`<p class="hint">Not checked against the schema: it refers to itself too often, or is invalid.</p>`}
      ${faults.map((fault) => html`<p class="error-text">${fault}</p>`)}
      ${unread.map((pattern) => html`<p class="hint">Pattern not checked, as this browser cannot read it: <code>${pattern}</code></p>`)}
      ${slow.map((pattern) => html`<p class="hint">Pattern not checked, as it may take too long here: <code>${pattern}</code></p>`)}
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

// `answer`: as summaryOf() makes it.
function statisticsOf({tokens, speed, afterMs}) {
  const parts = [];
  if (tokens) parts.push(`${count(tokens.prompt)} prompt`, `${count(tokens.output)} output tokens`);
  if (tokens?.cached > 0) parts.push(`${count(tokens.cached)} cached`);
  if (speed !== null) parts.push(`${speed.toFixed(1)} tokens/s`);
  if (afterMs !== null) parts.push(`first after ${count(afterMs)} ms`);
  return parts.join(' · ');
}

function Id({title, id, children}) {
  return html`<p><span>${title}</span> <code>${id}</code>
    <button type="button" class="quiet small" aria-label=${`Copy the id of the ${title.toLowerCase()}`} onClick=${() => copy(id)}>Copy</button>${children}</p>`;
}

// The figures of an answer, and its ids where it can be looked up. `admin`: the reader may see where the time went.
function Details({answer, admin}) {
  return html`
    <details class="about"><summary>${statisticsOf(answer) || 'Details'}</summary>
      ${answer.id !== '' && html`<${Id} title="Response" id=${answer.id} />`}
      ${answer.request && html`<${Id} title="Request" id=${answer.request}>
        ${admin && html`<a href=${addressOf('live', answer.request)}>Where its time went</a>`}<//>`}
    </details>`;
}

// A text in place of another one. `onSend(text)`; `action`: what the button says.
function EditForm({title, text, action, busy, onSend, onClose}) {
  const [draft, setDraft] = useState(text);
  const field = useRef(null);
  useEffect(() => { field.current.focus(); }, []);
  // The draft stays until the branch takes this entry's place, or the request failed and can be sent again.
  const submit = (event) => {
    event.preventDefault();
    if (!busy && draft.trim() !== '') onSend(draft);
  };
  return html`
    <form class="stack" onSubmit=${submit} onKeyDown=${(event) => { if (event.key === 'Escape') onClose(); }}>
      <${Field} title=${title} hidden>${(attributes) => html`
        <textarea ...${attributes} dir="auto" value=${draft} ref=${field} onInput=${(event) => setDraft(event.target.value)}></textarea>`}<//>
      <div class="row end">
        <button type="button" onClick=${onClose}>Cancel</button>
        <button class="primary" disabled=${busy || draft.trim() === ''}>${action}</button>
      </div>
    </form>`;
}

// Whether an entry is being changed. At the end the focus returns to `button`.
function useEditing() {
  const [editing, setEditing] = useState(false);
  const button = useRef(null);
  const close = () => {
    setEditing(false);
    requestAnimationFrame(() => button.current?.focus());
  };
  return {editing, button, begin: () => setEditing(true), close};
}

// `running`: the answer that grows, if the entry is one. `onRegenerate`, `onContinue`, `onEdit(text)`: null where that is not possible;
// `fetchTokens(id)` resolves with the tokens of a stored response.
export function AnswerEntry({items, running, reconnecting, busy, admin, onRegenerate, onContinue, onEdit, fetchTokens}) {
  const known = items.findLast((item) => item?.answer)?.answer;
  const answer = running ? summaryOf(running) : known;
  const shown = items.filter((item) => item !== undefined);
  const messages = shown.filter((item) => item.type === 'message');
  const text = messages.map((item) => item.text).join('\n\n');
  const [byTokens, setByTokens] = useState(false);
  const [fetched, setFetched] = useState(null);
  const {editing, button, begin, close} = useEditing();
  const hasTokens = !running && (known?.hasLogprobs || shown.some((item) => item.tokens?.length > 0));
  const withTokens = (item) => (item.tokens?.length > 0 ? item : {...item, tokens: fetched?.get(item.id) ?? []});
  const showTokens = async () => {
    setByTokens(!byTokens);
    if (byTokens || fetched !== null || messages.every((item) => item.tokens?.length > 0)) return;
    try {
      const ids = [...new Set(shown.map((item) => item.answer?.id).filter((id) => id))];
      setFetched(new Map((await Promise.all(ids.map(fetchTokens))).flatMap((each) => [...each])));
    } catch (error) {
      setByTokens(false);
      notifyError(error);
    }
  };
  return html`
    <div class="entry answer" aria-busy=${running ? 'true' : undefined}>
      <div class="entry-head">Answer</div>
      ${running && shown.length === 0 && html`<p class="hint" role="status">${WAITING[running.status] ?? ''}</p>`}
      ${shown.map((item, i) => (editing && item === messages.at(-1) ? html`
        <${EditForm} title="Changed answer" text=${item.text} action="Save as a branch" busy=${busy} onSend=${onEdit} onClose=${close} />` : html`
        <${Item} key=${item.id || i} item=${byTokens && hasTokens ? withTokens(item) : item} schema=${known?.schema} byTokens=${byTokens && hasTokens}
                 growing=${Boolean(running) && !isEnded(running) && !item.done} />`))}
      ${reconnecting && html`
        <p class="notice warn" role="status">${running.restarted ? 'The server is restarted. It goes on with the answer when it is back…'
            : 'The connection was lost. Trying to continue…'}</p>`}
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
              <button type="button" class="quiet small" aria-pressed=${byTokens ? 'true' : 'false'} onClick=${showTokens}>Tokens</button>`}
            ${onEdit && messages.length > 0 && !editing && html`
              <button type="button" ref=${button} class="quiet small" disabled=${busy} onClick=${begin}>Edit</button>`}
            ${onRegenerate && html`<button type="button" class="quiet small" disabled=${busy} onClick=${onRegenerate}>Regenerate</button>`}
            ${onContinue && html`<button type="button" class="quiet small" disabled=${busy} onClick=${onContinue}>Continue</button>`}
          </span>`}
        ${running && answer && html`<span>${statisticsOf(answer)}</span>`}
        ${!running && answer && html`<${Details} answer=${answer} admin=${admin} />`}
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

// Stands at the end of a branch whose first message was not sent.
export function BranchEnd({variants, onChoose}) {
  return html`
    <div class="entry"><p class="hint">This branch has no message yet.</p>
      <div class="entry-foot"><${BranchPicker} variants=${variants} onChoose=${onChoose} /></div></div>`;
}

function FileFold({file}) {
  return html`
    <details class="fold file"><summary><span class="chip-name">${file.name}</span>
        <span class="chip-size">${bytes(new Blob([file.text]).size)}</span></summary>
      <div><pre class="block" tabindex="0" role="group" aria-label=${file.name}>${file.text}</pre></div></details>`;
}

export function UserEntry({item, variants, onChoose, onEdit, busy}) {
  const {files, text} = splitFiles(item.text);
  const {editing, button, begin, close} = useEditing();
  return html`
    <div class="entry user">
      <div class="entry-head">You</div>
      ${files.map((file) => html`<${FileFold} file=${file} />`)}
      ${!editing ? html`<div class="bubble" dir="auto">${text}</div>` : html`
        <${EditForm} title="Changed message" text=${text} action="Send as a branch" busy=${busy}
                     onSend=${(draft) => onEdit(joinFiles(files, draft))} onClose=${close} />`}
      <div class="entry-foot">
        ${variants.ids.length > 1 && html`<${BranchPicker} variants=${variants} onChoose=${onChoose} />`}
        ${!editing && html`
          <span class="actions">
            <button type="button" class="quiet small" onClick=${() => copy(item.text)}>Copy</button>
            <button type="button" ref=${button} class="quiet small" disabled=${busy || item.id.startsWith('new-')}
                    onClick=${begin}>Edit</button>
          </span>`}
      </div>
    </div>`;
}

export function SystemEntry({item}) {
  return html`<div class="entry"><${Fold} title="System prompt"><div class="reasoning" dir="auto">${item.text}</div><//></div>`;
}

// Asks for the results of calls that the page cannot answer.
export function CallForm({calls, onSend}) {
  const [outputs, setOutputs] = useState(new Map());  // by the id of the call, which may be any text
  const submit = (event) => {
    event.preventDefault();
    onSend(calls.map(({callId}) => ({callId, output: outputs.get(callId) ?? ''})));
  };
  return html`
    <div class="entry"><form class="card stack" onSubmit=${submit}>
      <p><strong>The model waits for ${calls.length === 1 ? 'a result' : 'results'}</strong></p>
      ${calls.map((call) => html`
        <${Field} key=${call.callId} title=${`Result of ${call.name}`}>${(attributes) => html`
          <textarea ...${attributes} class="mono" value=${outputs.get(call.callId) ?? ''} placeholder='for example {"ok": true}'
                    onInput=${(event) => setOutputs(new Map(outputs).set(call.callId, event.target.value))}></textarea>`}<//>`)}
      <div class="row end"><button class="primary">Send</button></div>
    </form></div>`;
}

// A message that the server does not have, with what was said of its answer and the reason. `record`: of drafts.js.
export function UnsentEntry({record, disabled, onEdit, onRetry, onDiscard}) {
  const {input, said, message} = record;
  const own = input.at(-1).type === 'message' ? splitFiles(input.at(-1).content[0].text) : null;
  return html`
    <div class="unsent">
      ${own && html`
        <div class="entry user">
          <div class="entry-head">You <span class="badge bad">not sent</span></div>
          ${own.files.map((file) => html`<${FileFold} file=${file} />`)}
          <div class="bubble" dir="auto">${own.text}</div>
        </div>`}
      ${said.length > 0 && html`
        <div class="entry answer">
          <div class="entry-head">Answer</div>
          ${said.map((item, i) => html`<${Item} key=${i} item=${item} />`)}
          <p class="hint">The answer broke off here.</p>
        </div>`}
      <div class="notice bad row" role="alert"><span class="grow">${sentence(message)}</span>
        <span class="actions">
          ${own && html`<button type="button" onClick=${onEdit}>Edit</button>`}
          <button type="button" disabled=${disabled} onClick=${onRetry}>Try again</button>
          <button type="button" onClick=${onDiscard}>Discard</button>
        </span></div>
    </div>`;
}
