// Asks for the key of the API.
import {html, useState} from '../lib/preact.js';
import {signIn} from '../lib/api.js';
import {Check, Field} from './field.js';

export function SignInForm({why}) {
  const [key, setKey] = useState('');
  const [remember, setRemember] = useState(false);
  const submit = (event) => {
    event.preventDefault();
    if (key.trim() !== '') signIn(key.trim(), remember);
  };
  return html`
    <form class="stack" onSubmit=${submit}>
      ${why && html`<p class="notice bad" role="alert">${why}</p>`}
      <${Field} title="Key">${(attributes) => html`
        <input ...${attributes} type="password" autocomplete="off" spellcheck="false" value=${key} required
               onInput=${(event) => setKey(event.target.value)} />`}<//>
      <${Check} title="Keep it until this tab is closed" checked=${remember} onChange=${setRemember} />
      <p class="hint">Otherwise it is forgotten when the page is loaded again. It is never stored in a cookie.</p>
      <div class="row end"><button class="primary">Sign in</button></div>
    </form>`;
}

export function SignIn({why}) {
  return html`
    <div class="page"><div class="inner sign-in">
      <div class="card stack">
        <h1>Sign in</h1>
        <p>This server needs a key. The operator makes one with <code>tutti keys create NAME</code>.</p>
        <${SignInForm} why=${why} />
      </div>
    </div></div>`;
}
