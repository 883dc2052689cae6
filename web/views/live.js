// What the engines do now, why requests wait, and where the time of one request went. For admins.
import {html, useEffect, useRef, useState} from '../lib/preact.js';
import {request} from '../lib/api.js';
import {bytes, count, duration, milliseconds, plural, sentence} from '../lib/format.js';
import {LiveFeed, histogramOf, quantile, sumOf, watch} from '../lib/live.js';
import {notify, notifyError} from '../lib/notices.js';
import {BarChart, LineChart} from '../components/charts.js';
import {Confirm} from '../components/dialog.js';
import {Field} from '../components/field.js';
import {Engine} from '../components/live_engine.js';
import {Clients, Limits, Sessions as BusySessions, Workers} from '../components/live_lists.js';
import {RequestTrace} from '../components/request_trace.js';
import {TableCard} from '../components/table.js';

const seconds = (value) => (value === null ? '–' : duration(value));
const share = (part, whole) => (whole > 0 ? `${Math.round(part / whole * 100)} %` : '–');

// `feed` grows while `state` is replaced; while the tab is hidden nothing is asked for.
function useLive(paused) {
  const feed = useRef(new LiveFeed()).current;
  const [state, setState] = useState(null);
  const [lost, setLost] = useState(false);
  const [failure, setFailure] = useState(null);
  const [refusal, setRefusal] = useState('');
  const [hidden, setHidden] = useState(document.hidden);
  useEffect(() => {
    const onChange = () => setHidden(document.hidden);
    document.addEventListener('visibilitychange', onChange);
    return () => document.removeEventListener('visibilitychange', onChange);
  }, []);
  useEffect(() => {
    if (paused || hidden) return undefined;
    const stop = new AbortController();
    watch((next, refused = '') => {
      feed.add(next);
      setState(next);
      setRefusal(refused);
      setLost(false);
      setFailure(null);
    }, () => setLost(true), stop.signal).catch(setFailure);
    return () => stop.abort();
  }, [paused, hidden]);
  return {feed, state, lost, failure, refusal};
}

function Histogram({state, name, title}) {
  const histogram = histogramOf(state, name);
  if (histogram === null || histogram.count === 0) return null;
  const bars = histogram.le.map((bound, i) => ({label: `up to ${seconds(bound)}`, value: histogram.at_most[i] - (histogram.at_most[i - 1] ?? 0)}));
  // The empty ranges at both ends say nothing.
  const first = bars.findIndex(({value}) => value > 0), last = bars.findLastIndex(({value}) => value > 0);
  return html`
    <${BarChart} title=${title} bars=${bars.slice(Math.max(first, 0), last + 1)}
                 note=${`half within ${seconds(quantile(histogram, 0.5))}, 95 % within ${seconds(quantile(histogram, 0.95))}`} />`;
}

function Errors({errors}) {
  return html`
    <${TableCard} title="Last errors" about="Requests that the server refused or failed to answer, the newest first."
      empty="None since the start." columns=${[{title: 'Route'}, {title: 'Time'}, {title: 'Status'}, {title: 'Error', className: 'wide'}]}
      rows=${errors.slice(-20).reverse().map((error) => ({
        key: `${error.unix_ms} ${error.request}`,
        cells: [html`<span class="mono">${error.route}</span>`, new Date(error.unix_ms).toLocaleTimeString(), error.status,
                html`<span class="mono">${error.code}</span> ${error.message ?? ''}`],
      }))} />`;
}

function Figures({state}) {
  const hit = sumOf(state, 'tutti_prefix_hit_tokens_total'), queried = sumOf(state, 'tutti_prefix_queried_tokens_total');
  const drafted = sumOf(state, 'tutti_spec_draft_tokens_total');
  // Other caches have lookups too. A request that joins an equal one in progress is not computed either.
  const lookups = (outcome) => sumOf(state, 'tutti_cache_lookups_total', {cache: 'exact', ...outcome});
  const hasCache = (state.metrics.tutti_cache_lookups_total ?? []).some(({labels}) => labels.cache === 'exact');
  const hits = lookups({outcome: 'hit'}) + lookups({outcome: 'join'});
  // [name, value, what it is]
  const rows = [
    ['Prefix cache', `${share(hit, queried)} of ${count(queried)} prompt tokens found`, 'beginnings of prompts that were read before'],
    ['Response cache', hasCache ? `${count(hits)} of ${count(lookups())} lookups found (${share(hits, lookups())})` : 'off', 'answers to equal requests'],
    ['Memory', `${bytes(sumOf(state, 'tutti_memory_resident_bytes'))} of ${bytes(sumOf(state, 'tutti_memory_limit_bytes'))}`, 'of the process'],
    ['Preemptions', count(sumOf(state, 'tutti_preemptions_total')), 'requests that were interrupted to make room for others'],
    ['Speculation', drafted > 0 ? `${share(sumOf(state, 'tutti_spec_accepted_tokens_total'), drafted)} of ${count(drafted)} draft tokens accepted` : 'no draft tokens', 'tokens that were guessed, then checked'],
    ['Jobs', `${count(sumOf(state, 'tutti_jobs', {state: 'running'}))} run, ${count(sumOf(state, 'tutti_jobs', {state: 'queued'}))} wait`],
    ['Batches', `${count(sumOf(state, 'tutti_batches_open'))} open`],
    ['Workers', state.engines_elsewhere ? count(sumOf(state, 'tutti_workers')) : 'none: this process computes'],
    ['Connections', `${count(state.connections)} open, ${plural(state.active_requests, 'request')} being answered`],
  ];
  return html`
    <dl class="facts">${rows.map(([name, value, about]) => html`
      <div><dt><span>${name}</span>${about && html`<span class="hint">${about}</span>`}</dt><dd>${value}</dd></div>`)}</dl>`;
}

const TRACE_MS = 1000;

// `chosen`: {id, jump}; a new object looks again. `jump`: the result is far from what was chosen, so the view and the focus
// move to it.
function Lookup({chosen, onChange}) {
  const [draft, setDraft] = useState(chosen.id);
  const [trace, setTrace] = useState(null);
  const [failure, setFailure] = useState(null);
  const heading = useRef(null);
  useEffect(() => {
    const {id} = chosen;
    setDraft(id);
    if (id === '') return undefined;
    const stop = new AbortController();
    let timer, {jump} = chosen;
    const show = (found, error) => {
      if (stop.signal.aborted) return;
      setTrace(found);
      setFailure(error);
      if (found?.traces.some(({state}) => state === 'running')) timer = setTimeout(look, TRACE_MS);
      if (!jump) return;
      jump = false;
      heading.current.focus({preventScroll: true});
      // scrollIntoView() would move the frame of the page too.
      const page = heading.current.closest('.page');
      page.scrollTop += heading.current.getBoundingClientRect().top - page.getBoundingClientRect().top - 16;
    };
    const look = () => request(`admin/requests/${encodeURIComponent(id)}`, {signal: stop.signal}).then((found) => show(found, null), (error) => show(null, error));
    look();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [chosen]);
  return html`
    <section class="card stack" aria-labelledby="lookup">
      <h2 id="lookup" tabindex="-1" ref=${heading}>Why is my request slow?</h2>
      <p class="hint">Choose a request in a table of this view, or give the id that its answer had (x-request-id).</p>
      <form class="row" onSubmit=${(event) => { event.preventDefault(); onChange({id: draft.trim(), jump: false}); }}>
        <div style=${{flex: 1}}><${Field} title="Request id" hidden>${(attributes) => html`
          <input ...${attributes} class="mono" value=${draft} placeholder="req-…" onInput=${(event) => setDraft(event.target.value)} />`}<//></div>
        <button class="primary" disabled=${draft.trim() === ''}>Look up</button>
      </form>
      ${failure && html`<p class="notice bad" role="alert">${sentence(failure.message)}</p>`}
      ${trace?.traces.map((each, i) => html`<${RequestTrace} key=${i} trace=${each} />`)}
    </section>`;
}

const ENDED = new Set(['completed', 'incomplete', 'failed']);

// The route that ends a request. A job would be tried again, and a stored response is ended as its owner ends it.
function cancelRoute({request: id, tenant}, caller) {
  const kind = id.startsWith('job_') ? 'admin/jobs' : id.startsWith('resp_') && (tenant ?? caller.tenant) === caller.tenant ? 'v1/responses' : 'admin/requests';
  return `${kind}/${encodeURIComponent(id)}/cancel`;
}

// `argument`: the id of a request to look up, as the chat links to it.
export function LiveView({caller, argument = ''}) {
  const [paused, setPaused] = useState(false);
  const [chosen, setChosen] = useState({id: argument, jump: argument !== ''});
  const [cancelling, setCancelling] = useState(null);  // {id, path}
  const {feed, state, lost, failure, refusal} = useLive(paused);
  useEffect(() => { if (argument !== '') setChosen({id: argument, jump: true}); }, [argument]);
  const valuesOf = (field) => feed.history.map((point) => point[field]);
  const choose = (id) => setChosen({id, jump: true});
  const onCancel = (sequence) => setCancelling({id: sequence.request, path: cancelRoute(sequence, caller)});
  const cancel = async ({id, path}) => {
    try {
      // A response that has ended is answered as it is.
      const {status} = await request(path, {method: 'POST'});
      notify(`${id} ${ENDED.has(status) ? 'had ended before' : 'is cancelled'}`);
    } catch (error) {
      if (error.code === 'already_finished') notify(`${id} had ended before`); else notifyError(error);
    }
  };
  return html`
    <div class="page"><div class="inner">
      <div class="page-head"><h1>Live</h1>
        <div class="row">
          ${lost && html`<span class="badge warn" role="status">connection lost, trying again</span>`}
          <button type="button" aria-pressed=${paused} onClick=${() => setPaused(!paused)}>${paused ? 'Continue' : 'Pause'}</button>
        </div>
        <p>What the server does now, and why requests wait.</p></div>
      ${failure && html`<p class="notice bad" role="alert">The state could not be fetched: ${failure.message}.</p>`}
      ${refusal && html`<p class="notice" role="status">The server refuses another live view (${refusal}). The state is fetched every 2 seconds instead.</p>`}
      ${state === null && !failure && html`<p class="empty">Loading…</p>`}
      ${state !== null && html`
        <div class="cards">
          <div class="card"><${LineChart} title="Tokens per second" format=${(value) => value.toFixed(0)}
            series=${[{title: 'written', values: valuesOf('tokens'), className: 'first'}, {title: 'read', values: valuesOf('prompt'), className: 'second'}]} /></div>
          <div class="card"><${LineChart} title="Requests" format=${count}
            series=${[{title: 'running', values: valuesOf('running'), className: 'first'}, {title: 'waiting', values: valuesOf('waiting'), className: 'second'}]} /></div>
          <div class="card"><${LineChart} title="KV cache in use" format=${(value) => `${Math.round(value * 100)} %`}
            series=${[{title: '', values: valuesOf('kv'), className: 'first'}]} /></div>
        </div>
        ${state.engines_elsewhere && html`<p class="notice">This server passes requests on to its workers, which compute. Their own live views show what
          each of them does.</p>`}
        ${state.engines.map((engine) => html`
          <${Engine} key=${`${engine.kind} ${engine.model}`} engine=${engine} steps=${feed.stepsOf(engine)} onChoose=${choose} onCancel=${onCancel} />`)}
        ${state.model_waits.length > 0 && html`
          <section class="card stack"><h2>Requests that wait for a model to be loaded</h2>
            ${state.model_waits.map((wait) => html`<p key=${wait.request}><span class="mono">${wait.request}</span> waits for <bdi>${wait.model}</bdi>
              <span class="hint"> ${milliseconds(wait.waited_ms)}</span></p>`)}</section>`}
        <${Workers} state=${state} />
        <${BusySessions} state=${state} onChoose=${choose} />
        <${Clients} state=${state} />
        <${Limits} state=${state} />
        <${Lookup} chosen=${chosen} onChange=${setChosen} />
        <div class="cards">
          <section class="card stack"><h2>Latency since the start</h2>
            <p class="hint">How long requests waited for their first token (TTFT), and for each further one (ITL). A token is a word or a part of one.</p>
            <${Histogram} state=${state} name="tutti_time_to_first_token_seconds" title="First token" />
            <${Histogram} state=${state} name="tutti_inter_token_latency_seconds" title="Between tokens" />
            ${sumOf(state, 'tutti_output_tokens_total') === 0 && html`<p class="hint">No token yet.</p>`}
          </section>
          <section class="card stack"><h2>Server</h2><${Figures} state=${state} /></section>
        </div>
        <${Errors} errors=${state.errors} />`}
      ${cancelling && html`
        <${Confirm} title="Cancel the request?" action="End the request" onClose=${() => setCancelling(null)} onConfirm=${() => cancel(cancelling)}
          text=${`${cancelling.id} ends with what it has written so far.`} />`}
    </div></div>`;
}
