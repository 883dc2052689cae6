// What the engines do now, why requests wait, and where the time of one request went. For admins.
import {html, useEffect, useRef, useState} from '../lib/preact.js';
import {request} from '../lib/api.js';
import {bytes, count, duration} from '../lib/format.js';
import {LiveFeed, REASONS, histogramOf, quantile, sumOf, watch} from '../lib/live.js';
import {BarChart, BlockMap, LineChart, StepChart} from '../components/charts.js';
import {Field} from '../components/field.js';
import {Clients, Limits, Sessions as BusySessions, Workers} from '../components/live_lists.js';
import {RequestTrace} from '../components/request_trace.js';

const MOST_ROWS = 100;
const milliseconds = (value) => (value === null ? '–' : duration(value / 1000));
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

function Sequences({engine, onChoose}) {
  const rows = engine.sequences.slice(0, MOST_ROWS);
  if (rows.length === 0) return html`<p class="hint">Nothing runs and nothing waits.</p>`;
  const left = engine.sequences.length - rows.length + engine.sequences_left_out;
  return html`
    <div class="table-scroll" tabindex="0" role="region" aria-label=${`Sequences of ${engine.model}`}>
      <table>
        <thead><tr><th scope="col">Request</th><th scope="col">Phase</th><th scope="col" class="number">Prompt</th>
          <th scope="col" class="number">Output</th><th scope="col" class="number">Blocks</th><th scope="col" class="number">Age</th>
          <th scope="col">Waits for</th></tr></thead>
        <tbody>
          ${rows.map((each) => html`
            <tr key=${`${each.request} ${each.choice}`}>
              <td><button type="button" class="quiet small mono" onClick=${() => onChoose(each.request)}>${each.request}</button>
                ${each.tenant && html`<span class="hint">${each.tenant}</span>`}</td>
              <td><span class=${`badge ${each.phase === 'decode' ? 'good' : each.phase === 'prefill' ? '' : 'warn'}`}>${each.phase}</span></td>
              <td class="number">${each.prompt_tokens === undefined ? `${each.items} inputs`
                : `${count(Math.min(each.computed_tokens, each.prompt_tokens))} / ${count(each.prompt_tokens)}`}</td>
              <td class="number">${each.output_tokens ?? ''}${each.max_tokens ? ` / ${count(each.max_tokens)}` : ''}</td>
              <td class="number">${each.blocks ?? ''}</td>
              <td class="number">${milliseconds(each.age_ms)}</td>
              <td>${each.waits_for && html`${REASONS[each.waits_for] ?? each.waits_for} <span class="hint">${milliseconds(each.waited_ms)}</span>`}</td>
            </tr>`)}
        </tbody>
      </table>
      ${left > 0 && html`<p class="hint">${count(left)} more are not shown.</p>`}
    </div>`;
}

function Legend({entries}) {
  return html`
    <ul class="legend">
      ${entries.map(([name, className, value]) => html`<li><span class=${`swatch ${className}`}></span>${name}${value !== undefined && ` ${value}`}</li>`)}
    </ul>`;
}

function Engine({engine, steps, onChoose}) {
  const {kv} = engine;
  const waits = Object.entries(engine.waits ?? {});
  return html`
    <section class="card stack" aria-label=${`Engine of ${engine.model}`}>
      <div class="row"><h2>${engine.model}</h2><span class="badge">${engine.kind}</span>
        <span class="hint">${count(engine.running)}${engine.max_num_seqs ? ` of ${count(engine.max_num_seqs)}` : ''} run,
          ${' '}${count(engine.waiting)} wait, device busy ${share(engine.busy_share ?? 0, 1)}</span></div>
      ${waits.length > 0 && html`
        <div class="row">${waits.map(([reason, number]) => html`
          <span class="badge warn" title=${reason}>${number} × ${REASONS[reason] ?? reason}</span>`)}</div>`}
      ${kv && html`
        <div class="stack tight">
          <h3>KV cache: ${count(kv.blocks)} blocks of ${kv.block_tokens} tokens</h3>
          <${BlockMap} kv=${kv} label=${`${kv.used} used, ${kv.shared} shared, ${kv.cached} cached, ${kv.free} free blocks`} />
          <${Legend} entries=${[['used', 'used', count(kv.used)], ['shared', 'shared', count(kv.shared)], ['cached', 'cached', count(kv.cached)],
                                ['pinned', 'pinned', count(kv.pinned)], ['free', 'free', count(kv.free)]]} />
        </div>`}
      ${steps.length > 0 && html`
        <div class="stack tight">
          <h3>Last steps</h3>
          <${StepChart} steps=${steps} label=${`The last ${steps.length} steps of ${engine.model}`} />
          <${Legend} entries=${[['plan', 'plan'], ['compute', 'launch'], ['wait for the device', 'collect'], ['commit', 'commit'],
                                ['last one', 'none', milliseconds(steps.at(-1).plan_ms + steps.at(-1).launch_ms + steps.at(-1).collect_ms + steps.at(-1).commit_ms)]]} />
        </div>`}
      <${Sequences} engine=${engine} onChoose=${onChoose} />
    </section>`;
}

function Errors({errors}) {
  if (errors.length === 0) return html`<p class="hint">None since the start.</p>`;
  return html`
    <div class="table-scroll" tabindex="0" role="region" aria-label="Last errors">
      <table>
        <thead><tr><th scope="col">Time</th><th scope="col">Status</th><th scope="col">Route</th><th scope="col">Error</th></tr></thead>
        <tbody>${errors.slice(-20).reverse().map((error) => html`
          <tr><td>${new Date(error.unix_ms).toLocaleTimeString()}</td><td>${error.status}</td><td class="mono">${error.route}</td>
            <td><span class="mono">${error.code}</span> ${error.message ?? ''}</td></tr>`)}</tbody>
      </table>
    </div>`;
}

function Figures({state}) {
  const hit = sumOf(state, 'tutti_prefix_hit_tokens_total'), queried = sumOf(state, 'tutti_prefix_queried_tokens_total');
  const drafted = sumOf(state, 'tutti_spec_draft_tokens_total');
  // Other caches have lookups too. A request that joins an equal one in progress is not computed either.
  const lookups = (outcome) => sumOf(state, 'tutti_cache_lookups_total', {cache: 'exact', ...outcome});
  const hasCache = (state.metrics.tutti_cache_lookups_total ?? []).some(({labels}) => labels.cache === 'exact');
  const hits = lookups({outcome: 'hit'}) + lookups({outcome: 'join'});
  const rows = [
    ['Prefix cache', `${share(hit, queried)} of ${count(queried)} prompt tokens found`],
    ['Response cache', hasCache ? `${count(hits)} of ${count(lookups())} lookups found (${share(hits, lookups())})` : 'off'],
    ['Memory', `${bytes(sumOf(state, 'tutti_memory_resident_bytes'))} of ${bytes(sumOf(state, 'tutti_memory_limit_bytes'))}`],
    ['Preemptions', count(sumOf(state, 'tutti_preemptions_total'))],
    ['Speculation', drafted > 0 ? `${share(sumOf(state, 'tutti_spec_accepted_tokens_total'), drafted)} of ${count(drafted)} draft tokens accepted` : 'no draft tokens'],
    ['Jobs', `${count(sumOf(state, 'tutti_jobs', {state: 'running'}))} run, ${count(sumOf(state, 'tutti_jobs', {state: 'queued'}))} wait`],
    ['Batches', `${count(sumOf(state, 'tutti_batches_open'))} open`],
    ['Workers', state.engines_elsewhere ? count(sumOf(state, 'tutti_workers')) : 'none: this process computes'],
    ['Connections', `${count(state.connections)}, ${count(state.active_requests)} requests being answered`],
  ];
  return html`<dl class="facts">${rows.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

function Lookup({id, onChange}) {
  const [draft, setDraft] = useState(id);
  const [trace, setTrace] = useState(null);
  const [failure, setFailure] = useState(null);
  const heading = useRef(null);
  useEffect(() => {
    setDraft(id);
    if (id === '') return undefined;
    const stop = new AbortController();
    request(`admin/requests/${encodeURIComponent(id)}`, {signal: stop.signal}).then((found) => {
      if (stop.signal.aborted) return;
      setTrace(found);
      setFailure(null);
      heading.current.scrollIntoView({block: 'nearest'});
    }).catch((error) => {
      if (stop.signal.aborted) return;
      setTrace(null);
      setFailure(error);
    });
    return () => stop.abort();
  }, [id]);
  return html`
    <section class="card stack" aria-labelledby="lookup">
      <h2 id="lookup" ref=${heading}>Why is my request slow?</h2>
      <form class="row" onSubmit=${(event) => { event.preventDefault(); onChange(''); setTimeout(() => onChange(draft.trim())); }}>
        <div style=${{flex: 1}}><${Field} title="Request id" hidden>${(attributes) => html`
          <input ...${attributes} class="mono" value=${draft} placeholder="x-request-id of the response, or choose a request above"
                 onInput=${(event) => setDraft(event.target.value)} />`}<//></div>
        <button class="primary" disabled=${draft.trim() === ''}>Look up</button>
      </form>
      ${failure && html`<p class="notice bad" role="alert">${failure.message}</p>`}
      ${trace?.traces.map((each, i) => html`<${RequestTrace} key=${i} trace=${each} />`)}
    </section>`;
}

export function LiveView() {
  const [paused, setPaused] = useState(false);
  const [chosen, setChosen] = useState('');
  const {feed, state, lost, failure, refusal} = useLive(paused);
  const valuesOf = (field) => feed.history.map((point) => point[field]);
  return html`
    <div class="page"><div class="inner">
      <div class="page-head"><h1>Live</h1>
        <div class="row">
          ${lost && html`<span class="badge warn" role="status">connection lost</span>`}
          <button type="button" aria-pressed=${paused} onClick=${() => setPaused(!paused)}>${paused ? 'Continue' : 'Pause'}</button>
        </div></div>
      ${failure && html`<p class="notice bad" role="alert">${failure.message}</p>`}
      ${refusal && html`<p class="notice" role="status">Events are refused: ${refusal}. The state is fetched every 2 seconds instead.</p>`}
      ${state === null && !failure && html`<p class="empty">Waiting for the first state…</p>`}
      ${state !== null && html`
        <div class="cards">
          <div class="card"><${LineChart} title="Tokens per second" format=${(value) => value.toFixed(0)}
            series=${[{title: 'output', values: valuesOf('tokens'), className: 'first'}, {title: 'prompt', values: valuesOf('prompt'), className: 'second'}]} /></div>
          <div class="card"><${LineChart} title="Sequences" format=${count}
            series=${[{title: 'running', values: valuesOf('running'), className: 'first'}, {title: 'waiting', values: valuesOf('waiting'), className: 'second'}]} /></div>
          <div class="card"><${LineChart} title="KV cache in use" format=${(value) => `${Math.round(value * 100)} %`}
            series=${[{title: '', values: valuesOf('kv'), className: 'first'}]} /></div>
        </div>
        ${state.engines_elsewhere && html`<p class="notice">This server is a frontend: its workers have the engines. What each of them does is shown there.</p>`}
        ${state.engines.map((engine) => html`
          <${Engine} key=${`${engine.kind} ${engine.model}`} engine=${engine} steps=${feed.stepsOf(engine)} onChoose=${setChosen} />`)}
        ${state.model_waits.length > 0 && html`
          <section class="card stack"><h2>Requests that wait for a model</h2>
            ${state.model_waits.map((wait) => html`<p><span class="mono">${wait.request}</span> waits for ${wait.model}
              <span class="hint">${milliseconds(wait.waited_ms)}</span></p>`)}</section>`}
        <${Workers} state=${state} />
        <${BusySessions} state=${state} onChoose=${setChosen} />
        <${Clients} state=${state} />
        <${Limits} state=${state} />
        <${Lookup} id=${chosen} onChange=${setChosen} />
        <div class="cards">
          <section class="card stack"><h2>Latency since the start</h2>
            <${Histogram} state=${state} name="tutti_time_to_first_token_seconds" title="First token" />
            <${Histogram} state=${state} name="tutti_inter_token_latency_seconds" title="Between tokens" />
            ${sumOf(state, 'tutti_output_tokens_total') === 0 && html`<p class="hint">No token yet.</p>`}
          </section>
          <section class="card stack"><h2>Server</h2><${Figures} state=${state} /></section>
        </div>
        <section class="card stack"><h2>Last errors</h2><${Errors} errors=${state.errors} /></section>`}
    </div></div>`;
}
