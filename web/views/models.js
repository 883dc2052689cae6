// The models of the server: what is loaded, what it takes, loading and unloading, pulling with progress.
import {html, useEffect, useRef, useState} from '../lib/preact.js';
import {request} from '../lib/api.js';
import {bytes, count, plural} from '../lib/format.js';
import {requestsOf} from '../lib/live.js';
import {notify, notifyError} from '../lib/notices.js';
import {useModels} from '../lib/poll.js';
import {cancelPull, pull, startPull} from '../lib/pull.js';
import {useStore} from '../lib/store.js';
import {taskName} from '../lib/words.js';
import {Confirm} from '../components/dialog.js';
import {Field} from '../components/field.js';
import {Named, Table} from '../components/table.js';

const REFRESH_MS = 3000;
const COLOURS = {loaded: 'good', loading: 'warn', unloading: 'warn', failed: 'bad', unloaded: ''};
const STATES = {loaded: 'ready to answer', unloaded: 'the first request for it loads it', failed: 'it could not be loaded'};

function Pull({onDone}) {
  const progress = useStore(pull);
  const [name, setName] = useState(pull.value?.name ?? '');
  const begun = useRef(progress !== null);
  const submit = (event) => {
    event.preventDefault();
    startPull(name.trim());
  };
  // It may have begun before this view.
  useEffect(() => {
    if (begun.current && progress === null) onDone();
    begun.current = progress !== null;
  }, [progress === null]);
  return html`
    <form class="card stack" onSubmit=${submit}>
      <h2>Pull a model</h2>
      <p class="hint">The server fetches the files from a hub (huggingface.co) and keeps them in its cache. Then the model is in the list above.</p>
      <${Field} title="Name" hint="The owner and name of the repository, then a colon and the kind of quantization.">${(attributes) => html`
        <input ...${attributes} value=${name} required spellcheck="false" placeholder="hf.co/OWNER/MODEL-GGUF:Q4_K_M"
               disabled=${progress !== null} onInput=${(event) => setName(event.target.value)} />`}<//>
      ${progress !== null && html`
        <div class="stack" role="status">
          <progress aria-label="Progress" max=${progress.total || 1} value=${progress.total ? progress.completed : undefined}></progress>
          <p class="hint">${progress.status}${progress.total > 0 && ` – ${bytes(progress.completed)} of ${bytes(progress.total)}`}</p>
        </div>`}
      <div class="row end">
        ${progress === null ? html`<button class="primary">Pull</button>`
          : html`<button type="button" onClick=${cancelPull}>Cancel</button>`}
      </div>
    </form>`;
}

const NoPull = () => html`
  <section class="card stack" aria-label="Pull a model">
    <h2>Pull a model</h2>
    <p>This server fetches no models from the internet. To allow it, start it with <code>--pull on-demand</code>; or fetch one in a terminal with
      ${' '}<code>tutti pull NAME</code> and start the server with it.</p>
  </section>`;

function Memory({model, state}) {
  const taken = model.status?.memory_bytes;
  if (!taken) return '';
  return state === 'loaded' || state === 'unloading' ? bytes(taken) : html`<span class="muted">needs ${bytes(taken)}</span>`;
}

const stateOf = (model) => model.status?.value ?? model.state ?? '';

export function ModelsView({admin, caller}) {
  const {value: all, failure, refresh} = useModels(REFRESH_MS);
  const [asked, setAsked] = useState(null);  // {model, running}: an unload to be confirmed; `running`: null if it is not known
  const {services} = caller.server;
  const controls = admin && services.model_control;
  const change = async (model, action, done) => {
    try {
      await request(`v1/models/${action}`, {method: 'POST', body: {model: model.id}});
      notify(`${model.id} is ${done}`);
    } catch (error) {
      notifyError(error);
    }
    refresh();
  };
  const unload = async (model) => {
    const running = await requestsOf(model.id).catch(() => null);
    if (running === 0) change(model, 'unload', 'unloaded'); else setAsked({model, running});
  };
  const actionsOf = (model, state) => {
    if (state === 'loaded') return html`<button key="unload" type="button" class="small" aria-label=${`Unload ${model.id}`} onClick=${() => unload(model)}>Unload</button>`;
    if (state !== 'unloaded' && state !== 'failed') return '';
    return html`<button key="load" type="button" class="small" aria-label=${`Load ${model.id}`} onClick=${() => change(model, 'load', 'loaded')}>Load</button>`;
  };
  const loaded = (all ?? []).filter((model) => stateOf(model) === 'loaded');
  const used = loaded.reduce((sum, model) => sum + (model.parent ? 0 : model.status?.memory_bytes ?? 0), 0);
  return html`
    <div class="page"><div class="inner">
      <div class="page-head"><h1>Models</h1><p>What this server can answer with.
        ${all?.length > 0 && ` Loaded: ${count(loaded.length)} of ${count(all.length)}${used > 0 ? `, with ${bytes(used)} of memory` : ''}.`}
        ${!admin && ' Your key may use them. Loading, unloading and pulling need a key for administrators.'}</p></div>
      ${failure && html`<p class="notice bad" role="alert">The list could not be fetched: ${failure.message}.</p>`}
      ${all === null && !failure && html`<p class="empty">Loading…</p>`}
      ${all?.length === 0 && html`<p class="empty">No model yet.${admin && services.pull ? ' Pull one below.' : ''}</p>`}
      ${all?.length > 0 && html`
        <div class="card"><${Table} label="Models"
          columns=${[{title: 'Model'}, {title: 'State'}, {title: 'Can'}, {title: 'Longest text (tokens)', number: true}, {title: 'Memory', number: true}]}
          rows=${all.map((model) => {
            const state = stateOf(model);
            return {
              key: model.id, actions: controls ? actionsOf(model, state) : undefined,
              cells: [html`<${Named} name=${model.id} mono>${model.parent && `an adapter of ${model.parent}`}<//>`,
                      html`<span class=${`badge ${COLOURS[state] ?? ''}`} title=${STATES[state]}>${state}</span>
                        ${model.status?.failure && html`<span class="error-text">${model.status.failure}</span>`}`,
                      (model.tasks ?? []).map(taskName).join(', '), model.max_model_len ? count(model.max_model_len) : '',
                      html`<${Memory} model=${model} state=${state} />`],
            };
          })} /></div>`}
      ${admin && services.library && (services.pull ? html`<${Pull} onDone=${refresh} />` : html`<${NoPull} />`)}
      ${asked && html`
        <${Confirm} title=${`Unload ${asked.model.id}?`} action="Unload" onClose=${() => setAsked(null)} onConfirm=${() => change(asked.model, 'unload', 'unloaded')}
          text=${`${asked.running === null ? 'The server does not say whether requests use it.'
            : `${plural(asked.running, 'request')} ${asked.running === 1 ? 'uses' : 'use'} it or ${asked.running === 1 ? 'waits' : 'wait'} for it.`}
            They may end within the time that the server allows for it; what takes longer fails. The next request for the model loads it again.`} />`}
    </div></div>`;
}
