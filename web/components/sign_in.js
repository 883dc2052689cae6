// Asks for the key of the API.
import {html, useEffect, useRef, useState} from '../lib/preact.js';
import {signIn} from '../lib/api.js';
import {Check, Field} from './field.js';

export function SignInForm({why}) {
  const [key, setKey] = useState('');
  const [remember, setRemember] = useState(false);
  const field = useRef(null);
  // Also when a key was refused and the form comes back.
  useEffect(() => field.current.focus(), []);
  const submit = (event) => {
    event.preventDefault();
    if (key.trim() !== '') signIn(key.trim(), remember);
  };
  return html`
    <form class="stack" onSubmit=${submit}>
      ${why && html`<p class="notice bad" role="alert">${why}</p>`}
      <${Field} title="Key" hint="It begins with tutti-, unless the server has other credentials.">${(attributes) => html`
        <input ...${attributes} ref=${field} type="password" autocomplete="off" spellcheck="false" value=${key} required
               onInput=${(event) => setKey(event.target.value)} />`}<//>
      <${Check} title="Keep the key until this tab is closed" checked=${remember} onChange=${setRemember} />
      <p class="hint">Otherwise it is forgotten when the page is loaded again.</p>
      <div class="row end"><button class="primary">Sign in</button></div>
    </form>`;
}

export function SignIn({why}) {
  return html`
    <div class="page"><div class="inner sign-in">
      <div class="card stack">
        <h1>Sign in</h1>
        <p>This server needs a key. Ask the operator of the server for one.</p>
        <p class="hint">If you run it yourself: <code>tutti keys create NAME</code> in a terminal makes one.</p>
        <${SignInForm} why=${why} />
      </div>
    </div></div>`;
}
