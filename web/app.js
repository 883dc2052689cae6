// The frame of the page: navigation, the view of the address, the key, notices.
import {Component, html, render, useEffect, useLayoutEffect, useRef, useState} from './lib/preact.js';
import {config, me, ownerOf, session, signOut} from './lib/api.js';
import {Dialog} from './components/dialog.js';
import {sentence} from './lib/format.js';
import {announcement, notify, notifyError} from './lib/notices.js';
import {applyTheme, forgetSettings, keepSettingsFor, preferences} from './lib/preferences.js';
import {addressOf, route} from './lib/route.js';
import {useStore} from './lib/store.js';
import {SignIn, SignInForm} from './components/sign_in.js';
import {Toasts} from './components/toasts.js';
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

function Failure({title, error, onRetry}) {
  return html`
    <div class="page"><div class="inner stack">
      <div class="page-head"><h1>${title}</h1></div>
      <p class="notice bad" role="alert">${sentence(error.message)}</p>
      <div class="row"><button type="button" onClick=${onRetry}>Try again</button></div>
    </div></div>`;
}

// A view that throws leaves the rest of the page. It is shown again on request, or with another argument.
class Boundary extends Component {
  state = {fault: null};

  componentDidCatch(fault) {
    console.error(fault);
    this.setState({fault});
  }

  componentDidUpdate({argument}) {
    if (this.state.fault !== null && argument !== this.props.argument) this.setState({fault: null});
  }

  render({children}, {fault}) {
    if (fault === null) return children;
    return html`<${Failure} title="This view has failed" error=${fault} onRetry=${() => this.setState({fault: null})} />`;
  }
}

const RETRY_MS = 5000;

// What the server says of itself and of the caller; `left`, `key`, `asksKey`: of the session.
function useCaller({key, needed, left}) {
  const [server, setServer] = useState(null);
  const [caller, setCaller] = useState(null);
  const [failure, setFailure] = useState(null);
  const [tries, setTries] = useState(0);
  const known = useRef(null);
  known.current = caller;
  const retry = () => {
    setFailure(null);
    setTries((number) => number + 1);
  };
  useEffect(() => { if (server === null) config().then(setServer).catch(setFailure); }, [tries]);
  const asksKey = needed || (server?.keys && key === '');
  // Before the form for the key is drawn: the next user finds nothing of the one who left.
  useLayoutEffect(() => {
    if (!left) return;
    setCaller(null);
    forgetSettings();
  }, [left]);
  useEffect(() => {
    if (server === null || asksKey) return undefined;
    // An answer for an earlier key must not replace a later one.
    let current = true, timer;
    me().then((found) => {
      if (!current) return;
      if (known.current !== null && ownerOf(found) !== ownerOf(known.current)) {
        notify('The new key belongs to another user: what waited for a key was not sent', 'bad');
      }
      keepSettingsFor(ownerOf(found));
      setCaller(found);
    }).catch((error) => {
      if (!current || error.status === 401) return;  // the form for the key says why
      if (known.current === null) return setFailure(error);
      notifyError(error);
      timer = setTimeout(retry, RETRY_MS);
    });
    return () => {
      current = false;
      clearTimeout(timer);
    };
  }, [server, asksKey, key, left, tries]);
  return {server, caller, asksKey, failure, retry};
}

function App() {
  const {view, argument} = useStore(route);
  const {key, needed, left, why} = useStore(session);
  const {server, caller, asksKey, failure, retry} = useCaller({key, needed, left});
  // A view outlives a key, and another key of the same owner takes over.
  const ends = needed && !left && caller !== null;
  const owner = caller === null ? '' : ownerOf(caller);
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
          : failure !== null ? html`<${Failure} title="The page could not be loaded" error=${failure} onRetry=${retry} />`
          : caller === null ? html`<p class="empty">Loading…</p>`
          : shut ? html`<p class="empty">This page is for administrators: it needs a key with the scope admin. Your key works with the API.</p>`
          : html`<${Boundary} key=${`${chosen.name} ${owner}`} argument=${argument}>
              <${chosen.component} argument=${argument} admin=${caller.admin} caller=${caller} /><//>`}
      </main>
      ${ends && html`
        <${Dialog} title="Sign in again" onClose=${() => { if (session.value.needed) signOut(); }}>
          <p>Your key no longer works. Sign in with another key to continue; what is shown stays.</p>
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
