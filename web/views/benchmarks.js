// Benchmarks of this server from the page: throughput and latency over clients or batch sizes, kept and compared.
import {html, useEffect, useRef, useState} from '../lib/preact.js';
import {request} from '../lib/api.js';
import {UNITS, kneeOf, runStudy} from '../lib/bench.js';
import {loadFor} from '../lib/bench_load.js';
import {MAX_RUNS, addRun, csvOf, jsonOf, removeRuns, renameRun, runs as kept} from '../lib/bench_runs.js';
import {download} from '../lib/copy.js';
import {count, dateTime, duration} from '../lib/format.js';
import {announcement, notify, notifyError} from '../lib/notices.js';
import {useModels, usePolled} from '../lib/poll.js';
import {useStore} from '../lib/store.js';
import {BenchForm, optionsOf} from '../components/bench_form.js';
import {BenchResults, comparable, rate} from '../components/bench_results.js';
import {MAX_SERIES} from '../components/charts.js';
import {Confirm, Dialog} from '../components/dialog.js';
import {Field} from '../components/field.js';
import {Table} from '../components/table.js';

const LOOPBACK = /^(localhost|127(\.\d+){3}|\[::1\])$/;
const DRAW_MS = 250;
const LOOK_MS = 3000;

// The number of requests that run or wait; null if the caller may not know it.
async function runningNow({admin, scopes}, signal) {
  if (scopes.routes.includes('metrics')) {
    const {running, waiting} = await request('load', {signal});
    return running + waiting;
  }
  if (!admin) return null;
  const {engines} = await request('admin/state', {signal});
  return engines.reduce((sum, {running, waiting}) => sum + running + waiting, 0);
}

// Why a benchmark may disturb others.
function useWarnings(caller, busy) {
  // While a study runs, its own requests would be counted.
  const running = usePolled((signal) => (busy ? null : runningNow(caller, signal)), LOOK_MS, [caller, busy]).value ?? 0;
  return [
    !LOOPBACK.test(location.hostname) && `This server is not on this machine: ${location.hostname}.`,
    caller.keys && 'This server has keys, so that others may use it. The requests count against the limits of yours.',
    !busy && running > 0 && `${count(running)} ${running === 1 ? 'request is' : 'requests are'} running or waiting now.`,
  ].filter(Boolean);
}

function Progress({progress, beganMs, limitS, axis, onStop}) {
  const {done, requests, failed, at, round, rounds} = progress;
  return html`
    <section class="card stack" aria-label="Running">
      <div class="row"><h2>Running</h2>
        <span class="hint">${at === null ? 'connecting' : round === 0 ? 'warm-up' : `round ${round} of ${rounds}`}${at !== null &&
          `, ${at.level} ${axis === 'batch' ? 'inputs in a request' : `client${at.level === 1 ? '' : 's'}`}`}</span></div>
      <progress aria-label="Requests" max=${requests} value=${done}></progress>
      <div class="row between">
        <span>${count(done)} of ${count(requests)} requests, ${duration((performance.now() - beganMs) / 1000)} of at most ${duration(limitS)}
          ${failed > 0 && html`${' '}<span class="badge bad">${failed} failed</span>`}</span>
        <button type="button" class="danger" onClick=${onStop}>Stop</button>
      </div>
    </section>`;
}

function Rename({run, onClose}) {
  const [name, setName] = useState(run.name);
  const submit = (event) => {
    event.preventDefault();
    if (name.trim() === '') return;
    if (!renameRun(run.id, name.trim())) notify('The run was not renamed: the storage of the browser is full', 'bad');
    onClose();
  };
  return html`
    <${Dialog} title="Rename the run" onClose=${onClose}>
      <form class="stack" onSubmit=${submit}>
        <${Field} title="Name">${(attributes) => html`
          <input ...${attributes} maxlength="80" dir="auto" value=${name} onFocus=${(event) => event.target.select()}
                 onInput=${(event) => setName(event.target.value)} />`}<//>
        <div class="row end"><button type="button" onClick=${onClose}>Cancel</button><button class="primary" disabled=${name.trim() === ''}>Rename</button></div>
      </form>
    <//>`;
}

const describe = ({settings}) => `${settings.levels.join(', ')} ${settings.axis === 'batch' ? 'inputs' : 'clients'}` +
    (settings.kind === 'generate' ? `, ${settings.outputTokens} tokens` : '') + `, ${settings.rounds} round${settings.rounds === 1 ? '' : 's'}`;

const ENDS = {time: 'time limit', stopped: 'stopped', failures: 'too many failures'};

function Runs({all, chosen, onChoose}) {
  const [renaming, setRenaming] = useState(null);
  const [removing, setRemoving] = useState(null);
  const toggle = (id, on) => onChoose(on ? [...chosen, id] : chosen.filter((each) => each !== id));
  const picked = all.filter(({id}) => chosen.includes(id));
  const base = picked.find(({id}) => id === chosen[0]);
  const stamp = new Date().toISOString().slice(0, 10);
  return html`
    <section class="card stack" aria-label="Kept runs">
      <div class="row between"><h2>Kept runs</h2>
        <div class="actions">
          <button type="button" class="small" disabled=${picked.length === 0} onClick=${() => download(`benchmarks-${stamp}.json`, jsonOf(picked))}>Export JSON</button>
          <button type="button" class="small" disabled=${picked.length === 0} onClick=${() => download(`benchmarks-${stamp}.csv`, csvOf(picked), 'text/csv')}>Export CSV</button>
          <button type="button" class="small danger" disabled=${picked.length === 0} onClick=${() => setRemoving(picked)}>Delete</button>
        </div></div>
      ${all.length === 0 ? html`<p class="hint">None. A run is kept in this browser, without texts, when it ends.</p>` : html`
        <p class="hint">Choose up to ${MAX_SERIES} runs to show or compare; ratios are to the first one chosen.</p>
        <${Table} label="Table: Kept runs"
          columns=${[{title: 'Run', className: 'run-name'}, {title: 'Measured', className: 'wide'}, {title: 'Best', number: true}, {title: 'Knee', number: true}, {title: 'State'}]}
          rows=${all.map((run) => {
            const best = Math.max(...run.points.map(({throughput}) => throughput?.median ?? 0));
            const on = chosen.includes(run.id);
            const failed = run.points.reduce((sum, point) => sum + point.failed, 0);
            const fits = on || (chosen.length < MAX_SERIES && (base === undefined || comparable(base, run)));
            return {
              key: run.id,
              cells: [
                html`<label class="check" title=${fits ? undefined : 'Runs of different kinds do not fit into one chart'}>
                  <input type="checkbox" aria-label=${`Show ${run.name}`} checked=${on} disabled=${!fits} onChange=${(event) => toggle(run.id, event.target.checked)} />
                  <span dir="auto"><bdi>${run.name}</bdi><span class="hint">${run.settings.model}</span></span></label>`,
                html`${describe(run)}<span class="hint">${dateTime(run.at / 1000)}, version ${run.serverVersion}</span>`,
                best > 0 ? `${rate(best)} ${run.unit}` : '–', kneeOf(run.points)?.level ?? '–',
                html`${run.ended === 'complete' ? html`<span class="badge good">complete</span>` : html`<span class="badge warn">${ENDS[run.ended] ?? run.ended}</span>`}
                  ${failed > 0 && html`${' '}<span class="badge bad">${failed} failed</span>`}`],
              actions: [
                html`<button type="button" class="small" aria-label=${`Rename ${run.name}`} onClick=${() => setRenaming(run)}>Rename</button>`,
                html`<button type="button" class="small" aria-label=${`Delete ${run.name}`} onClick=${() => setRemoving([run])}>Delete</button>`],
            };
          })} />`}
      ${renaming && html`<${Rename} run=${renaming} onClose=${() => setRenaming(null)} />`}
      ${removing && html`<${Confirm} title=${removing.length === 1 ? 'Delete the run?' : `Delete ${removing.length} runs?`} action="Delete"
        text=${html`${removing.map(({name}, i) => html`${i > 0 && ', '}<bdi>${name}</bdi>`)}: this cannot be undone.`} onClose=${() => setRemoving(null)}
        onConfirm=${() => {
          const ids = removing.map(({id}) => id);
          onChoose(chosen.filter((id) => !ids.includes(id)));
          if (!removeRuns(ids)) notify('The browser does not let this page change what it keeps', 'bad');
        }} />`}
    </section>`;
}

export function BenchmarksView({caller}) {
  const {value: all, failure} = useModels();
  const [progress, setProgress] = useState(null);  // of the run in progress
  const [unkept, setUnkept] = useState(null);      // a run that the storage did not take
  const [chosen, setChosen] = useState([]);
  const stop = useRef(null);
  const runs = useStore(kept);
  const busy = progress !== null;
  const warnings = useWarnings(caller, busy);
  useEffect(() => () => stop.current?.abort(), []);

  const start = async (settings) => {
    const beganUnixMs = Date.now(), beganMs = performance.now();
    const abort = new AbortController();
    stop.current = abort;
    let drawnMs = 0, hidden = document.hidden, last = {done: 0, requests: 1, failed: 0, at: null, round: 0};
    const draw = () => setProgress({...last, rounds: settings.rounds, settings, beganMs});
    const onHide = () => { hidden ||= document.hidden; };
    document.addEventListener('visibilitychange', onHide);
    draw();
    // The clock goes on while nothing ends.
    const timer = setInterval(draw, 1000);
    try {
      const result = await runStudy(settings, loadFor(settings), {
        signal: abort.signal, othersRunning: (raised) => runningNow(caller, raised),
        // Drawing costs the browser time that the measurement needs.
        onProgress: (next) => {
          if (next.at !== last.at || next.round !== last.round) announcement.set(next.round === 0 ? 'Warm-up' : `Round ${next.round}, level ${next.at.level}`);
          last = next;
          if (performance.now() - drawnMs < DRAW_MS) return;
          drawnMs = performance.now();
          draw();
        },
      });
      if (!result.points.some((point) => point.requests + point.failed > 0)) {
        notify('The run ended before its first round', 'bad');
        return;
      }
      const run = {
        id: `${beganUnixMs.toString(36)}-${Math.random().toString(36).slice(2, 8)}`, name: `${settings.model}, ${dateTime(beganUnixMs / 1000)}`,
        at: beganUnixMs, serverVersion: caller.server.version, unit: UNITS[settings.kind], settings, hidden, ...result,
      };
      announcement.set('The run has ended');
      if (addRun(run)) {
        setUnkept(null);
        setChosen([run.id]);
      } else {
        setUnkept(run);
        notify(`The run was not saved: ${MAX_RUNS} runs are the limit, or the storage of the browser is full. Delete some runs`, 'bad');
      }
    } catch (error) {
      notifyError(error);
    } finally {
      clearInterval(timer);
      document.removeEventListener('visibilitychange', onHide);
      stop.current = null;
      setProgress(null);
    }
  };

  const options = optionsOf(all ?? [], caller.scopes.routes);
  const shown = chosen.map((id) => runs.find((run) => run.id === id)).filter(Boolean);
  return html`
    <div class="page"><div class="inner">
      <div class="page-head"><h1>Benchmarks</h1><p>How many tokens or inputs a second this server computes, and how long each request takes, with
        more and more clients or inputs at the same time. Measured by this browser.</p></div>
      ${failure && html`<p class="notice bad" role="alert">The models could not be fetched: ${failure.message}.</p>`}
      ${all === null && !failure && html`<p class="empty">Loading…</p>`}
      ${all !== null && options.length === 0 && html`<p class="empty">No model here can be measured.</p>`}
      ${options.length > 0 && html`<${BenchForm} options=${options} warnings=${warnings} busy=${busy} onStart=${start} />`}
      ${busy && html`<${Progress} progress=${progress} beganMs=${progress.beganMs} limitS=${progress.settings.limitS} axis=${progress.settings.axis}
        onStop=${() => stop.current?.abort()} />`}
      ${unkept !== null && html`<${BenchResults} title=${`${unkept.name} (not saved)`} runs=${[unkept]} />`}
      ${shown.length > 0 && html`<${BenchResults} title=${shown.length === 1 ? shown[0].name : `Comparison of ${shown.length} runs`} runs=${shown} />`}
      <${Runs} all=${runs} chosen=${chosen} onChoose=${setChosen} />
    </div></div>`;
}
