// The frame of the page: navigation, the view of the address, the key, notices.
import {html, render, useEffect, useState} from './lib/preact.js';
import {config, me, session, signOut} from './lib/api.js';
import {Dialog} from './components/dialog.js';
import {announcement, dismiss, notices, notifyError} from './lib/notices.js';
import {applyTheme, preferences} from './lib/preferences.js';
import {addressOf, route} from './lib/route.js';
import {useStore} from './lib/store.js';
import {SignIn, SignInForm} from './components/sign_in.js';
import {BenchmarksView} from './views/benchmarks.js';
import {ChatView} from './views/chat.js';
import {JobsView} from './views/jobs.js';
import {KeysView} from './views/keys.js';
import {LiveView} from './views/live.js';
import {ModelsView} from './views/models.js';
import {PlaygroundView} from './views/playground.js';

// `may`: whether the caller sees the view; the server decides what it gets there.
const VIEWS = [
  {name: 'chat', title: 'Chat', component: ChatView, may: () => true},
  {name: 'playground', title: 'Playground', component: PlaygroundView, may: () => true},
  {name: 'models', title: 'Models', component: ModelsView, may: () => true},
  {name: 'jobs', title: 'Jobs', component: JobsView, may: ({server}) => server.services.jobs},
  {name: 'benchmarks', title: 'Benchmarks', component: BenchmarksView, may: ({scopes}) => ['generate', 'embed'].some((each) => scopes.routes.includes(each))},
  {name: 'live', title: 'Live', component: LiveView, may: ({admin}) => admin},
  {name: 'keys', title: 'Keys', component: KeysView, may: ({admin, keys}) => admin && keys},
];

const THEMES = {auto: 'System theme', light: 'Light theme', dark: 'Dark theme'};

function ThemePicker() {
  const chosen = useStore(preferences);
  return html`
    <select aria-label="Theme" value=${chosen.theme} onChange=${(event) => preferences.merge({theme: event.target.value})}>
      ${Object.entries(THEMES).map(([value, title]) => html`<option value=${value}>${title}</option>`)}
    </select>`;
}

function Toasts() {
  return html`
    <div class="toasts" role="status">
      ${useStore(notices).map((notice) => html`
        <div class=${`toast ${notice.kind}`} key=${notice.id}>
          <span>${notice.text}</span>
          <button type="button" class="quiet small" aria-label="Dismiss" onClick=${() => dismiss(notice.id)}>✕</button>
        </div>`)}
    </div>`;
}

function App() {
  const {view, argument} = useStore(route);
  const {key, needed, left, why} = useStore(session);
  const [server, setServer] = useState(null);
  const [caller, setCaller] = useState(null);
  useEffect(() => { config().then(setServer).catch(notifyError); }, []);
  const asksKey = needed || (server?.keys && key === '');
  useEffect(() => {
    if (left) setCaller(null);
    if (server !== null && !asksKey) me().then(setCaller).catch(notifyError);
  }, [server, asksKey, key, left]);
  // A view outlives a key, and another key of the same owner takes over.
  const ends = needed && !left && caller !== null;
  const owner = caller === null ? '' : `${caller.tenant} ${caller.kind === 'key' ? '' : caller.id}`;
  const views = caller === null ? [] : VIEWS.filter((each) => each.may(caller));
  const chosen = views.find((each) => each.name === view) ?? VIEWS[0];
  useEffect(() => {
    document.title = `${chosen.title} – Tutti`;
    document.querySelector('nav [aria-current]')?.scrollIntoView({inline: 'center', block: 'nearest'});
  }, [chosen, caller]);
  const shut = server?.mode === 'admin-only' && caller !== null && !caller.admin;
  return html`
    <div class="shell">
      <header class="top">
        <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.getElementById('main').focus(); }}>
          Skip to content</a>
        <a class="brand" href=${addressOf('chat')}><img src="web/icon.svg" alt="" />Tutti</a>
        <nav aria-label="Views">
          ${(shut ? [] : views).map((each) => html`
            <a href=${addressOf(each.name)} aria-current=${each === chosen ? 'page' : undefined}>${each.title}</a>`)}
        </nav>
        <div class="tools">
          <${ThemePicker} />
          ${key !== '' && html`<button type="button" onClick=${() => signOut()}>Sign out</button>`}
        </div>
      </header>
      <main id="main" tabindex="-1">
        ${server !== null && asksKey && !ends ? html`<${SignIn} why=${why} />`
          : caller === null ? html`<p class="empty">Loading…</p>`
          : shut ? html`<p class="empty">This page is for administrators: it needs a key with the scope admin. The API works with yours.</p>`
          : html`<${chosen.component} key=${`${chosen.name} ${owner}`} argument=${argument} admin=${caller.admin} caller=${caller} />`}
      </main>
      ${ends && html`
        <${Dialog} title="Sign in again" onClose=${() => { if (session.value.needed) signOut(); }}>
          <p>The key has ended. What is shown stays, and goes on with another key.</p>
          <${SignInForm} why=${why} />
        <//>`}
      <${Toasts} />
      <div class="visually-hidden" role="status" aria-live="polite">${useStore(announcement)}</div>
    </div>`;
}

applyTheme(preferences.value);
preferences.subscribe(applyTheme);
const root = document.getElementById('app');
root.replaceChildren();
render(html`<${App} />`, root);
