// The models of the server: what is loaded, what it takes, loading and unloading, pulling with progress.
import {html, useEffect, useRef, useState} from '../lib/preact.js';
import {models as fetchModels, request} from '../lib/api.js';
import {bytes} from '../lib/format.js';
import {notifyError} from '../lib/notices.js';
import {cancelPull, pull, startPull} from '../lib/pull.js';
import {useStore} from '../lib/store.js';
import {Field} from '../components/field.js';

const REFRESH_MS = 3000;
const KINDS = {loaded: 'good', loading: 'warn', unloading: 'warn', failed: 'bad', unloaded: ''};

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
      <${Field} title="Name" hint="A repository of a hub. The files stay in the server's cache.">${(attributes) => html`
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

export function ModelsView() {
  const [all, setAll] = useState(null);
  const [failure, setFailure] = useState(null);
  const load = () => fetchModels().then((found) => { setAll(found); setFailure(null); }).catch(setFailure);
  useEffect(() => {
    load();
    const timer = setInterval(() => { if (!document.hidden) load(); }, REFRESH_MS);
    return () => clearInterval(timer);
  }, []);
  const change = async (model, action) => {
    try {
      await request(`v1/models/${action}`, {method: 'POST', body: {model: model.id}});
    } catch (error) {
      notifyError(error);
    }
    load();
  };
  return html`
    <div class="page"><div class="inner">
      <div class="page-head"><h1>Models</h1><p>What this server serves. Loading, unloading and pulling need the scope admin on a
        server with keys.</p></div>
      ${failure && html`<p class="notice bad" role="alert">${failure.message}</p>`}
      ${all === null && !failure && html`<p class="empty">Loading…</p>`}
      ${all?.length === 0 && html`<p class="empty">No model yet. Pull one below.</p>`}
      ${all?.length > 0 && html`
        <div class="card"><div class="table-scroll rows" tabindex="0" role="region" aria-label="Models">
          <table>
            <thead><tr><th scope="col">Model</th><th scope="col">State</th><th scope="col">Tasks</th><th scope="col" class="number">Context</th>
              <th scope="col" class="number">Memory</th><th scope="col"><span class="visually-hidden">Actions</span></th></tr></thead>
            <tbody>
              ${all.map((model) => {
                const state = model.status?.value ?? model.state ?? '';
                return html`
                  <tr key=${model.id}>
                    <th scope="row" class="mono">${model.id}${model.parent && html`<div class="hint">adapter of ${model.parent}</div>`}</th>
                    <td><span class=${`badge ${KINDS[state] ?? ''}`}>${state}</span></td>
                    <td>${(model.tasks ?? []).join(', ')}</td>
                    <td class="number">${model.max_model_len ?? ''}</td>
                    <td class="number">${model.status?.memory_bytes ? bytes(model.status.memory_bytes) : ''}</td>
                    <td><div class="actions">
                      ${state === 'loaded' && html`<button type="button" class="small" onClick=${() => change(model, 'unload')}
                          aria-label=${`Unload ${model.id}`}>Unload</button>`}
                      ${(state === 'unloaded' || state === 'failed') && html`<button type="button" class="small"
                          aria-label=${`Load ${model.id}`} onClick=${() => change(model, 'load')}>Load</button>`}
                    </div></td>
                  </tr>`;
              })}
            </tbody>
          </table>
        </div></div>`}
      <${Pull} onDone=${load} />
    </div></div>`;
}
