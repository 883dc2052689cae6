// Keys of the server: made with scopes and limits, shown once, changed, rotated, revoked. For admins.
import {html, useEffect, useState} from '../lib/preact.js';
import {request} from '../lib/api.js';
import {copy} from '../lib/copy.js';
import {age, dateTime} from '../lib/format.js';
import {notify, notifyError} from '../lib/notices.js';
import {useModels, usePolled} from '../lib/poll.js';
import {LIMITS, limitName} from '../lib/words.js';
import {Confirm, Dialog} from '../components/dialog.js';
import {Check, Field} from '../components/field.js';
import {Named, Table} from '../components/table.js';

const ROUTES = {
  generate: 'generate text', embed: 'embed and rank texts', tokenize: 'count tokens', models: 'list models', metrics: 'read metrics', admin: 'administer the server',
};
// What a key without a list of routes may do.
const USUAL_ROUTES = ['generate', 'embed', 'tokenize', 'models', 'metrics'];
const KEY_LIMITS = ['requests_per_minute', 'tokens_per_minute', 'concurrency', 'queued_tokens', 'daily_tokens'];
const DAY_S = 86400;

const routesOf = (key) => key.scopes?.routes ?? USUAL_ROUTES;
const namesOf = (text) => text.split(',').map((name) => name.trim()).filter((name) => name !== '');

// What a key may do, for a new key and for one that is changed.
function Grant({routes, models, limits, onChange}) {
  const {value: all} = useModels();
  return html`
    <fieldset><legend>May</legend><div class="row">
      ${Object.entries(ROUTES).map(([route, title]) => html`
        <${Check} title=${title} checked=${routes.includes(route)}
                  onChange=${(on) => onChange({routes: on ? [...routes, route] : routes.filter((each) => each !== route)})} />`)}
    </div>
    ${routes.includes('admin') && html`<p class="hint">An administrator sees and changes everything, also keys.</p>`}</fieldset>
    <${Field} title="Models" hint=${`Names with commas between them. Empty: all models.${all?.length > 0 ? ` Here: ${all.map(({id}) => id).join(', ')}.` : ''}`}>${(attributes) => html`
      <input ...${attributes} value=${models} spellcheck="false" placeholder="all models" onInput=${(event) => onChange({models: event.target.value})} />`}<//>
    <details class="fold" open=${Object.values(limits).some((value) => value !== '')}><summary>Limits</summary><div class="stack">
      <p class="hint">Empty: what the server gives every key. Requests above a limit are refused.</p>
      ${KEY_LIMITS.map((limit) => html`
        <${Field} title=${LIMITS[limit][1]}>${(attributes) => html`
          <input ...${attributes} type="number" min="1" step="1" value=${limits[limit] ?? ''} placeholder="server default"
                 onInput=${(event) => onChange({limits: {...limits, [limit]: event.target.value}})} />`}<//>`)}
    </div></details>`;
}

function NewKey({onMade, onClose}) {
  const [name, setName] = useState('');
  const [tenant, setTenant] = useState('');
  const [days, setDays] = useState('');
  const [grant, setGrant] = useState({routes: USUAL_ROUTES.filter((route) => route !== 'metrics'), models: '', limits: {}});
  const submit = async (event) => {
    event.preventDefault();
    const given = Object.fromEntries(Object.entries(grant.limits).filter(([, value]) => value !== '').map(([key, value]) => [key, Number(value)]));
    const models = namesOf(grant.models);
    try {
      onMade(await request('admin/keys', {method: 'POST', body: {
        name: name.trim(), scopes: {routes: grant.routes, ...(models.length > 0 && {models})}, ...(tenant.trim() !== '' && {tenant: tenant.trim()}),
        ...(Object.keys(given).length > 0 && {limits: given}), ...(days !== '' && {expires_in_s: Math.round(Number(days) * DAY_S)}),
      }}));
    } catch (error) {
      notifyError(error);
    }
  };
  return html`
    <${Dialog} title="New key" onClose=${onClose}>
      <form class="stack" onSubmit=${submit}>
        <${Field} title="Name" hint="Who or what uses it.">${(attributes) => html`
          <input ...${attributes} value=${name} required maxlength="64" spellcheck="false" onInput=${(event) => setName(event.target.value)} />`}<//>
        <${Field} title="Tenant" hint="A group of keys that share limits and see each other's conversations. Empty: the group default.">${(attributes) => html`
          <input ...${attributes} value=${tenant} spellcheck="false" onInput=${(event) => setTenant(event.target.value)} />`}<//>
        <${Grant} ...${grant} onChange=${(changes) => setGrant({...grant, ...changes})} />
        <${Field} title="Ends after (days)" hint="Empty: never.">${(attributes) => html`
          <input ...${attributes} type="number" min="0.001" step="any" value=${days} onInput=${(event) => setDays(event.target.value)} />`}<//>
        <div class="row end"><button type="button" onClick=${onClose}>Cancel</button>
          <button class="primary" disabled=${grant.routes.length === 0}>Create</button></div>
      </form>
    <//>`;
}

function ChangeKey({keyOf: key, onChanged, onClose}) {
  const [grant, setGrant] = useState({
    routes: routesOf(key), models: (key.scopes?.models ?? []).join(', '),
    limits: Object.fromEntries(KEY_LIMITS.map((limit) => [limit, key.limits?.[limit] ? `${key.limits[limit]}` : ''])),
  });
  const submit = async (event) => {
    event.preventDefault();
    const models = namesOf(grant.models);
    try {
      // null stands for the default.
      await request(`admin/keys/${encodeURIComponent(key.id)}`, {method: 'POST', body: {
        scopes: {routes: grant.routes, models: models.length > 0 ? models : null},
        limits: Object.fromEntries(Object.entries(grant.limits).map(([limit, value]) => [limit, value === '' ? null : Number(value)])),
      }});
      onChanged();
    } catch (error) {
      notifyError(error);
    }
  };
  return html`
    <${Dialog} title=${html`Change <bdi>${key.name}</bdi>`} onClose=${onClose}>
      <form class="stack" onSubmit=${submit}>
        <${Grant} ...${grant} onChange=${(changes) => setGrant({...grant, ...changes})} />
        <p class="hint">A change holds from the next request on. Name, tenant and end of a key cannot be changed: make another key, then revoke this one.</p>
        <div class="row end"><button type="button" onClick=${onClose}>Cancel</button>
          <button class="primary" disabled=${grant.routes.length === 0}>Save</button></div>
      </form>
    <//>`;
}

// It stays until the user says that the key is stored: nothing can show it again.
function Secret({made, onClose}) {
  const [refused, setRefused] = useState(false);
  useEffect(() => {
    const onLeave = (event) => event.preventDefault();
    window.addEventListener('beforeunload', onLeave);
    return () => window.removeEventListener('beforeunload', onLeave);
  }, []);
  return html`
    <${Dialog} title=${html`The key of <bdi>${made.key.name}</bdi>`} onRefuse=${() => setRefused(true)}>
      <p>Copy it now and store it where only its user finds it. The server keeps no copy and cannot show it again.</p>
      <pre class="block wrap" tabindex="0">${made.secret}</pre>
      ${refused && html`<p class="error-text" role="alert">Is it stored? Then choose “I have stored it”: nothing can show the key again.</p>`}
      <div class="row end"><button type="button" onClick=${() => copy(made.secret)}>Copy</button>
        <button type="button" class="primary" onClick=${onClose}>I have stored it</button></div>
    <//>`;
}

const limitsOf = (key) => Object.entries(key.limits ?? {}).filter(([, value]) => typeof value === 'number' && value > 0)
    .map(([limit, value]) => `${value.toLocaleString('en')} ${limitName(limit)}`).join(', ');

export function KeysView({caller}) {
  const {value: keys, failure, refresh} = usePolled(async (signal) => (await request('admin/keys', {signal})).keys);
  const [dialog, setDialog] = useState(null);  // {kind: 'new'}, {kind: 'secret', made}, or {kind: 'change', 'rotate' or 'revoke', key}
  const close = () => setDialog(null);
  const change = async (path, options) => {
    try {
      const done = await request(path, options);
      refresh();
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
    const done = await change(`admin/keys/${encodeURIComponent(key.id)}`, {method: 'DELETE'});
    if (done === null) return;
    // A server whose disk is full revokes in memory and tries to write it again.
    if (done.written === false) notify(`${key.name} is revoked, but this is not written yet: a restart of the server now would undo it`, 'bad');
    else notify(`${key.name} is revoked`);
  };
  const button = (kind, title, key, className, hint) => html`
    <button type="button" class=${`small ${className}`} aria-label=${`${title} ${key.name}`} title=${hint} onClick=${() => setDialog({kind, key})}>${title}</button>`;
  return html`
    <div class="page"><div class="inner">
      <div class="page-head"><h1>Keys</h1>
        <button type="button" class="primary" disabled=${failure !== null} onClick=${() => setDialog({kind: 'new'})}>New key</button>
        <p>Who may use this server, for what and how much. A key is like a password: it is shown once, when it is made.</p></div>
      ${failure && html`<p class="notice bad" role="alert">The list could not be fetched: ${failure.message}.</p>`}
      ${keys === null && !failure && html`<p class="empty">Loading…</p>`}
      ${keys?.length === 0 && html`<p class="empty">No keys.</p>`}
      ${keys?.length > 0 && html`
        <div class="card"><${Table} label="Keys"
          columns=${[{title: 'Name'}, {title: 'Tenant'}, {title: 'State'}, {title: 'May', className: 'wide'}, {title: 'Limits'}, {title: 'Last used'}, {title: 'Ends'}]}
          rows=${keys.map((key) => ({
            key: key.id,
            cells: [html`<${Named} name=${key.name}><span class="mono">${key.id}</span>${key.id === caller.id && html` <strong>your key</strong>`}<//>`, html`<bdi>${key.tenant}</bdi>`,
                    html`<span class=${`badge ${key.state === 'active' ? 'good' : 'bad'}`}>${key.state}</span>`,
                    html`${routesOf(key).map((route) => ROUTES[route] ?? route).join(', ')}
                      ${key.scopes?.models && html`<span class="hint">only with ${key.scopes.models.join(', ')}</span>`}`,
                    limitsOf(key) || 'server defaults', key.used_s ? age(key.used_s * 1000) : 'never', key.expires_s ? dateTime(key.expires_s) : 'never'],
            actions: key.state !== 'active' ? '' : [
              button('change', 'Change', key, '', 'What it may do, its models and limits'), button('rotate', 'Rotate', key, '', 'Make a second key in its place'),
              button('revoke', 'Revoke', key, 'danger', 'End it now')],
          }))} /></div>`}
      ${dialog?.kind === 'new' && html`
        <${NewKey} onClose=${close} onMade=${(made) => { setDialog({kind: 'secret', made}); refresh(); }} />`}
      ${dialog?.kind === 'secret' && html`<${Secret} made=${dialog.made} onClose=${close} />`}
      ${dialog?.kind === 'change' && html`
        <${ChangeKey} keyOf=${dialog.key} onClose=${close} onChanged=${() => { notify(`${dialog.key.name} is changed`); close(); refresh(); }} />`}
      ${dialog?.kind === 'rotate' && html`
        <${Confirm} title=${html`Make a new key for <bdi>${dialog.key.name}</bdi>?`} action="Make a new key" danger=${false} onConfirm=${() => rotate(dialog.key)} onClose=${close}
                    text="It may do the same. The key of now works for seven days more, so that its users have time to take the new one." />`}
      ${dialog?.kind === 'revoke' && html`
        <${Confirm} title=${html`Revoke <bdi>${dialog.key.name}</bdi>?`} action="Revoke" onConfirm=${() => revoke(dialog.key)} onClose=${close}
                    text=${`${dialog.key.id === caller.id ? 'It is the key that you are signed in with. ' : ''}Whoever uses it is refused within a second, and what it began ends. This cannot be undone.`} />`}
    </div></div>`;
}
