// Charts and a table of one run, or of several that are compared.
import {html, useState} from '../lib/preact.js';
import {kneeOf} from '../lib/bench.js';
import {count, milliseconds as ms} from '../lib/format.js';
import {PlotChart, SeriesLegend} from './charts.js';
import {Field} from './field.js';

const LATENCIES = {ttft: 'Time to the first token', itl: 'Between tokens', total: 'Whole answer'};

export const rate = (value) => (value === null || value === undefined ? '–' : value === 0 ? '0' : value >= 100 ? count(value) : value.toPrecision(3));
const ratio = (value, base) => (value > 0 && base > 0 ? `${(value / base).toFixed(2)} ×` : '–');
const axisTitle = ({axis}) => (axis === 'batch' ? 'inputs in a request' : 'clients at the same time');

// Runs that are compared have letters, as names may be long.
const letterOf = (i) => 'ABCD'[i];

// Runs of one kind share a chart.
export const comparable = (a, b) => a.settings.kind === b.settings.kind && a.settings.axis === b.settings.axis;

function kneeText(run) {
  const knee = kneeOf(run.points);
  if (knee === null) return 'No knee: it needs two levels without failures.';
  const {axis} = run.settings;
  return `Knee at ${knee.level} ${axis === 'batch' ? `input${knee.level === 1 ? '' : 's'} in a request` : `client${knee.level === 1 ? '' : 's'}`}, ` +
      `${rate(knee.throughput.median)} ${run.unit}.`;
}

function Failures({run, name}) {
  const sums = {};
  for (const point of run.points)
    for (const [code, number] of Object.entries(point.failures)) sums[code] = (sums[code] ?? 0) + number;
  const rows = Object.entries(sums);
  if (rows.length === 0) return null;
  return html`
    <p class="notice bad">${name}${rows.map(([code, number]) => `${number} × ${code}`).join(', ')}. Requests that failed have no
      latency and count in no throughput; levels with failures are left out of the knee.</p>`;
}

// What limits the trust in a run.
function doubts(run) {
  return [
    run.others > 0 && `Up to ${run.others === 1 ? 'one request' : `${count(run.others)} requests`} of others ran or waited during it.`,
    run.hidden && 'Its tab was hidden for a time, in which browsers slow pages down.',
    run.ended === 'stopped' && 'It was stopped: rounds that had not ended are missing.',
    run.ended === 'time' && 'It reached its time limit: rounds that had not ended are missing.',
    run.ended === 'failures' && 'It ended because too many requests failed.',
  ].filter(Boolean);
}

function FigureTable({runs, levels}) {
  const [first] = runs;
  const generates = first.settings.kind === 'generate';
  const several = runs.length > 1;
  const head = [several ? 'Run' : null, first.unit, several ? 'ratio' : null, 'min – max',
                ...(generates ? ['first token: half', '95 %', 'between tokens: half', '95 %'] : []), 'whole: half', '95 %', several ? 'ratio of halves' : null, 'in flight', 'answers', 'failed'];
  const rows = levels.flatMap((level) => {
    const base = first.points.find((point) => point.level === level);
    return runs.map((run, i) => ({level, run, i, base, point: run.points.find((each) => each.level === level)})).filter(({point}) => point);
  });
  return html`
    <div class="table-scroll" tabindex="0" role="region" aria-label="Figures of the runs">
      <table class="figures">
        <caption class="visually-hidden">Throughput and latency by ${axisTitle(first.settings)}</caption>
        <thead><tr><th scope="col">${first.settings.axis === 'batch' ? 'Batch' : 'Clients'}</th>
          ${head.filter((name) => name !== null).map((name) => html`<th scope="col" class=${name === 'Run' ? '' : 'number'}>${name}</th>`)}</tr></thead>
        <tbody>${rows.map(({level, run, i, base, point}) => {
          const knee = kneeOf(run.points)?.level === level;
          return html`
            <tr key=${`${level} ${run.id}`} class=${several && i > 0 ? 'same' : ''}>
              <th scope="row">${level}${knee && html`${' '}<span class="badge good">knee</span>`}</th>
              ${several && html`<td title=${run.name}>${letterOf(i)}</td>`}
              <td class="number"><strong>${rate(point.throughput?.median)}</strong></td>
              ${several && html`<td class="number">${i === 0 ? '1' : ratio(point.throughput?.median, base?.throughput?.median)}</td>`}
              <td class="number">${point.throughput ? `${rate(point.throughput.min)} – ${rate(point.throughput.max)}` : '–'}</td>
              ${generates && html`<td class="number">${ms(point.ttft?.p50)}</td><td class="number">${ms(point.ttft?.p95)}</td>
                <td class="number">${ms(point.itl?.p50)}</td><td class="number">${ms(point.itl?.p95)}</td>`}
              <td class="number">${ms(point.total?.p50)}</td><td class="number">${ms(point.total?.p95)}</td>
              ${several && html`<td class="number">${i === 0 ? '1' : ratio(point.total?.p50, base?.total?.p50)}</td>`}
              <td class="number">${point.inFlight.toFixed(1)}</td>
              <td class="number">${count(point.requests)}</td>
              <td class="number">${point.failed > 0 ? html`<span class="badge bad">${point.failed}</span>` : '0'}</td>
            </tr>`;
        })}</tbody>
      </table>
    </div>`;
}

// `runs`: one, or several that are comparable; ratios are to the first.
export function BenchResults({title, runs}) {
  const [first] = runs;
  const generates = first.settings.kind === 'generate';
  const [latency, setLatency] = useState(generates ? 'ttft' : 'total');
  const shown = generates ? latency : 'total';
  const levels = [...new Set(runs.flatMap((run) => run.points.map(({level}) => level)))].sort((a, b) => a - b);
  const at = (run, level) => run.points.find((point) => point.level === level);
  const kneeAt = (run) => levels.indexOf(kneeOf(run.points)?.level);
  const several = runs.length > 1;
  const nameOf = (i) => (several ? `${letterOf(i)}: ${runs[i].name}` : runs[i].name);
  const throughput = runs.map((run, kind) => ({
    title: nameOf(kind), kind, knee: kneeAt(run), values: levels.map((level) => at(run, level)?.throughput?.median ?? null),
  }));
  const times = runs.flatMap((run, kind) => [
    {title: `${nameOf(kind)}, half within`, kind, knee: -1, values: levels.map((level) => at(run, level)?.[shown]?.p50 ?? null)},
    {title: `${nameOf(kind)}, 95 % within`, kind, faint: true, knee: -1, values: levels.map((level) => at(run, level)?.[shown]?.p95 ?? null)},
  ]);
  const names = runs.map((_, i) => nameOf(i)).join(', ');
  return html`
    <section class="card stack" aria-label=${title}>
      <h2 dir="auto">${title}</h2>
      ${runs.map((run, i) => html`<${Failures} key=${run.id} run=${run} name=${several ? `${letterOf(i)}: ` : ''} />`)}
      ${runs.map((run, i) => [run, i, doubts(run)]).filter(([, , texts]) => texts.length > 0).map(([run, i, texts]) => html`
        <p class="notice warn" key=${run.id}>${several ? `${letterOf(i)}: ` : ''}${texts.join(' ')}</p>`)}
      <div class="plots">
        <div class="stack tight">
          <${PlotChart} title=${`Throughput, ${first.unit}`} xTitle=${axisTitle(first.settings)} levels=${levels} series=${throughput} format=${rate}
            label=${`Throughput of ${names} by ${axisTitle(first.settings)}. ${runs.map(kneeText).join(' ')} The table below has all figures.`} />
          <${SeriesLegend} series=${throughput} notes=${runs.some((run) => kneeOf(run.points)) ? ['ring: knee'] : []} />
        </div>
        <div class="stack tight">
          <${PlotChart} title=${`Latency: ${LATENCIES[shown].toLowerCase()}`} xTitle=${axisTitle(first.settings)} levels=${levels} series=${times} format=${ms}
            label=${`${LATENCIES[shown]} of ${names} by ${axisTitle(first.settings)}. The table below has all figures.`} />
          <${SeriesLegend} series=${!several ? times.map((each) => ({...each, title: each.faint ? '95 % within' : 'half within'})) : throughput}
            notes=${!several ? [] : ['line: half within', 'dotted: 95 % within']} />
          ${generates && html`
            <${Field} title="Latency shown">${(attributes) => html`
              <select ...${attributes} value=${shown} onChange=${(event) => setLatency(event.target.value)}>
                ${Object.entries(LATENCIES).map(([name, text]) => html`<option value=${name}>${text}</option>`)}
              </select>`}<//>`}
        </div>
      </div>
      ${runs.map((run, i) => html`<p key=${run.id}>${several ? `${letterOf(i)}: ` : ''}${kneeText(run)}</p>`)}
      <p class="hint">The knee is the lowest level within 3 % of the best throughput: beyond it requests take longer, and little is gained. Throughput
        is the median of the rounds. Times are of all requests of all rounds, in this browser: half of them took at most the time below “half”,
        95 % at most the one below “95 %”.</p>
      <${FigureTable} runs=${runs} levels=${levels} />
    </section>`;
}
