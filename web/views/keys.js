// Keys of the server: create with scopes and limits, show once, rotate, revoke. For admins.
import {html, useEffect, useState} from '../lib/preact.js';
import {request} from '../lib/api.js';
import {copy} from '../lib/copy.js';
import {dateTime} from '../lib/format.js';
import {notify, notifyError} from '../lib/notices.js';
import {Confirm, Dialog} from '../components/dialog.js';
import {Check, Field} from '../components/field.js';

const ROUTES = {generate: 'generate text', embed: 'embed and rank', tokenize: 'tokenize', models: 'list models', metrics: 'read metrics', admin: 'administer'};
const LIMITS = {
  requests_per_minute: 'Requests per minute', tokens_per_minute: 'Tokens per minute', concurrency: 'Concurrent requests',
  queued_tokens: 'Queued tokens', daily_tokens: 'Tokens per day',
};
const DAY_S = 86400;

function NewKey({onMade, onClose}) {
  const [name, setName] = useState('');
  const [tenant, setTenant] = useState('');
  const [routes, setRoutes] = useState(['generate', 'embed', 'tokenize', 'models']);
  const [days, setDays] = useState('');
  const [limits, setLimits] = useState({});
  const submit = async (event) => {
    event.preventDefault();
    const given = Object.fromEntries(Object.entries(limits).filter(([, value]) => value !== '').map(([key, value]) => [key, Number(value)]));
    try {
      onMade(await request('admin/keys', {method: 'POST', body: {
        name: name.trim(), scopes: {routes}, ...(tenant.trim() !== '' && {tenant: tenant.trim()}),
        ...(Object.keys(given).length > 0 && {limits: given}), ...(days !== '' && {expires_in_s: Math.round(Number(days) * DAY_S)}),
      }}));
    } catch (error) {
      notifyError(error);
    }
  };
  return html`
    <${Dialog} title="New key" onClose=${onClose}>
      <form class="stack" onSubmit=${submit}>
        <${Field} title="Name">${(attributes) => html`
          <input ...${attributes} value=${name} required maxlength="64" spellcheck="false" onInput=${(event) => setName(event.target.value)} />`}<//>
        <${Field} title="Tenant" hint="Keys of a tenant share its limits and see its conversations. Empty: the tenant default.">${(attributes) => html`
          <input ...${attributes} value=${tenant} spellcheck="false" onInput=${(event) => setTenant(event.target.value)} />`}<//>
        <fieldset><legend>Scopes</legend><div class="row">
          ${Object.entries(ROUTES).map(([route, title]) => html`
            <${Check} title=${title} checked=${routes.includes(route)}
                      onChange=${(on) => setRoutes(on ? [...routes, route] : routes.filter((each) => each !== route))} />`)}
        </div></fieldset>
        <${Field} title="Ends after (days)" hint="Empty: never.">${(attributes) => html`
          <input ...${attributes} type="number" min="0.001" step="any" value=${days} onInput=${(event) => setDays(event.target.value)} />`}<//>
        <details class="fold"><summary>Limits</summary><div class="stack">
          ${Object.entries(LIMITS).map(([limit, title]) => html`
            <${Field} title=${title}>${(attributes) => html`
              <input ...${attributes} type="number" min="1" step="1" value=${limits[limit] ?? ''} placeholder="server default"
                     onInput=${(event) => setLimits({...limits, [limit]: event.target.value})} />`}<//>`)}
        </div></details>
        <div class="row end"><button type="button" onClick=${onClose}>Cancel</button>
          <button class="primary" disabled=${routes.length === 0}>Create</button></div>
      </form>
    <//>`;
}

function Secret({made, onClose}) {
  return html`
    <${Dialog} title="The new key" stays onClose=${onClose}>
      <p>Copy it now: the server keeps only a hash of it and cannot show it again.</p>
      <pre class="block" tabindex="0">${made.secret}</pre>
      <div class="row end"><button type="button" class="primary" onClick=${() => copy(made.secret)}>Copy</button>
        <button type="button" onClick=${onClose}>Done</button></div>
    <//>`;
}

const limitsOf = (key) => Object.entries(key.limits ?? {}).filter(([, value]) => typeof value === 'number' && value > 0)
    .map(([limit, value]) => `${LIMITS[limit] ?? limit} ${value}`).join(', ');

export function KeysView() {
  const [keys, setKeys] = useState(null);
  const [failure, setFailure] = useState(null);
  const [dialog, setDialog] = useState(null);  // {kind: 'new'}, {kind: 'secret', made} or {kind: 'revoke', key}
  const load = () => request('admin/keys').then((found) => { setKeys(found.keys); setFailure(null); }).catch(setFailure);
  useEffect(() => { load(); }, []);
  const change = async (path, options) => {
    try {
      const done = await request(path, options);
      load();
      return done;
    } catch (error) {
      notifyError(error);
      return null;
    }
  };
  const rotate = async (key) => {
    const made = await change(`admin/keys/${encodeURIComponent(key.name)}/rotate`, {method: 'POST', body: {}});
    if (made !== null) setDialog({kind: 'secret', made});
  };
  const revoke = async (key) => {
    if (await change(`admin/keys/${encodeURIComponent(key.id)}`, {method: 'DELETE'}) !== null) notify(`${key.name} is revoked`);
  };
  return html`
    <div class="page"><div class="inner">
      <div class="page-head"><h1>Keys</h1>
        <button type="button" class="primary" disabled=${failure !== null} onClick=${() => setDialog({kind: 'new'})}>New key</button>
        <p>Who may call this server. A secret is shown once.</p></div>
      ${failure && html`<p class="notice bad" role="alert">${failure.message}</p>`}
      ${keys === null && !failure && html`<p class="empty">Loading…</p>`}
      ${keys?.length === 0 && html`<p class="empty">No keys.</p>`}
      ${keys?.length > 0 && html`
        <div class="card"><div class="table-scroll rows" tabindex="0" role="region" aria-label="Keys">
          <table>
            <thead><tr><th scope="col">Name</th><th scope="col">Tenant</th><th scope="col">State</th><th scope="col">Scopes</th><th scope="col">Limits</th>
              <th scope="col">Ends</th><th scope="col"><span class="visually-hidden">Actions</span></th></tr></thead>
            <tbody>
              ${keys.map((key) => html`
                <tr key=${key.id}>
                  <th scope="row">${key.name}<div class="hint mono">${key.id}</div></th>
                  <td>${key.tenant}</td>
                  <td><span class=${`badge ${key.state === 'active' ? 'good' : 'bad'}`}>${key.state}</span></td>
                  <td>${(key.scopes?.routes ?? ['all but admin']).join(', ')}</td>
                  <td>${limitsOf(key) || 'server defaults'}</td>
                  <td>${key.expires_s ? dateTime(key.expires_s) : 'never'}</td>
                  <td>${key.state === 'active' && html`<div class="actions">
                    <button type="button" class="small" aria-label=${`Rotate ${key.name}`} onClick=${() => rotate(key)}>Rotate</button>
                    <button type="button" class="small danger" aria-label=${`Revoke ${key.name}`}
                            onClick=${() => setDialog({kind: 'revoke', key})}>Revoke</button></div>`}</td>
                </tr>`)}
            </tbody>
          </table>
        </div></div>`}
      ${dialog?.kind === 'new' && html`
        <${NewKey} onClose=${() => setDialog(null)} onMade=${(made) => { setDialog({kind: 'secret', made}); load(); }} />`}
      ${dialog?.kind === 'secret' && html`<${Secret} made=${dialog.made} onClose=${() => setDialog(null)} />`}
      ${dialog?.kind === 'revoke' && html`
        <${Confirm} title=${`Revoke ${dialog.key.name}?`} text="Its clients are refused within a second, and their streams end." action="Revoke"
                    onConfirm=${() => revoke(dialog.key)} onClose=${() => setDialog(null)} />`}
    </div></div>`;
}
