// The settings of a benchmark, what it will ask for, and a warning where others may be affected.
import {html, useEffect, useState} from '../lib/preact.js';
import {BATCHES, LEVELS, MAX, MAX_HTTP_CLIENTS, defaultsFor, faultOf, planOf} from '../lib/bench.js';
import {count} from '../lib/format.js';
import {Check, Field} from './field.js';

// The scope that each kind of request needs.
const ROUTES = {generate: 'generate', embed: 'embed', rerank: 'embed'};
const KINDS = {generate: 'answers', embed: 'embeddings', rerank: 'scores'};

function Number_({title, value, onChange, hint, min = 1, max}) {
  return html`
    <${Field} title=${title} hint=${hint}>${(attributes) => html`
      <input ...${attributes} type="number" min=${min} max=${max} step="1" value=${value}
             onInput=${(event) => onChange(event.target.value === '' ? NaN : Number(event.target.value))} />`}<//>`;
}

function Choice({title, value, options, onChange, hint}) {
  return html`
    <${Field} title=${title} hint=${hint}>${(attributes) => html`
      <select ...${attributes} value=${value} onChange=${(event) => onChange(event.target.value)}>
        ${options.map(([each, name]) => html`<option value=${each}>${name}</option>`)}
      </select>`}<//>`;
}

// Only levels that a browser can reach.
export const levelsOf = ({kind, axis}) => (axis === 'batch' ? BATCHES : kind === 'generate' ? LEVELS : LEVELS.filter((n) => n <= MAX_HTTP_CLIENTS));

function Levels({settings, onChange}) {
  const {kind, axis, levels} = settings;
  const toggle = (level, on) => onChange({levels: on ? [...levels, level].sort((a, b) => a - b) : levels.filter((each) => each !== level)});
  return html`
    <fieldset class="levels">
      <legend>${axis === 'batch' ? 'Inputs in a request' : 'Clients at the same time'}</legend>
      <div class="row">${levelsOf(settings).map((level) => html`
        <${Check} key=${`${axis}${level}`} title=${level} checked=${levels.includes(level)} onChange=${(on) => toggle(level, on)} />`)}</div>
      ${axis === 'clients' && kind !== 'generate' && html`<p class="hint">A browser opens 6 connections to a server at most, and this kind of model
        is asked over HTTP: put several inputs into a request for more at the same time.</p>`}
    </fieldset>`;
}

// What can be measured: {model, kind} for each task of each model that the caller may use.
export const optionsOf = (all, routes) => all.flatMap((model) => Object.keys(KINDS)
    .filter((kind) => model.tasks?.includes(kind) && routes.includes(ROUTES[kind])).map((kind) => ({model, kind})));

// `options`: of optionsOf(), not empty; `warnings`: reasons why others may be affected; `onStart` gets the settings.
export function BenchForm({options, warnings, busy, onStart}) {
  const [chosen, setChosen] = useState(0);
  const [settings, setSettings] = useState(() => ({...defaultsFor(options[0].kind), model: options[0].model.id}));
  const [accepted, setAccepted] = useState(false);
  useEffect(() => { if (warnings.length === 0) setAccepted(false); }, [warnings.length]);
  const change = (changes) => setSettings({...settings, ...changes});
  const choose = (i) => {
    const {model, kind} = options[i];
    setChosen(i);
    setSettings(kind === settings.kind ? {...settings, model: model.id} : {...defaultsFor(kind), model: model.id});
  };
  const setAxis = (axis) => change({axis, fixed: 1, levels: levelsOf({...settings, axis})});
  const {kind, axis} = settings;
  const generates = kind === 'generate';
  const fault = faultOf(settings);
  const plan = fault === '' ? planOf(settings) : null;
  const unloaded = options[chosen].model.state !== 'ready';
  const submit = (event) => {
    event.preventDefault();
    if (fault === '' && !busy && (warnings.length === 0 || accepted)) onStart(settings);
  };
  return html`
    <section class="card stack" aria-labelledby="new-run">
      <h2 id="new-run">New run</h2>
      <form class="stack" onSubmit=${submit}>
        <fieldset class="stack" disabled=${busy}>
          <div class="form-grid">
            <div class="wide"><${Choice} title="Model" value=${chosen} onChange=${(value) => choose(Number(value))} hint=${unloaded ? 'Not loaded: the warm-up loads it.' : ''}
              options=${options.map((each, i) => [i, `${each.model.id} – ${KINDS[each.kind]}`])} /></div>
            ${!generates && html`
              <${Choice} title="Over" value=${axis} onChange=${setAxis} options=${[['batch', 'inputs in a request'], ['clients', 'clients']]} />
              <${Choice} title=${axis === 'batch' ? 'Clients' : 'Inputs in a request'} value=${settings.fixed} onChange=${(value) => change({fixed: Number(value)})}
                options=${levelsOf({kind, axis: axis === 'batch' ? 'clients' : 'batch'}).map((n) => [n, n])} />`}
          </div>
          <${Levels} settings=${settings} onChange=${change} />
          <div class="form-grid">
            <${Number_} title="Requests of each client" value=${settings.perClient} max=${MAX.perClient} onChange=${(perClient) => change({perClient})} hint="In each round." />
            <${Number_} title="Rounds" value=${settings.rounds} max=${MAX.rounds} onChange=${(rounds) => change({rounds})} hint="The median counts." />
            <${Number_} title=${generates ? 'Words of a prompt' : 'Words of an input'} value=${settings.promptWords} max=${MAX.promptWords}
              onChange=${(promptWords) => change({promptWords})} hint="Random words." />
            ${generates && html`
              <${Number_} title="Tokens of each answer" value=${settings.outputTokens} min=${16} max=${MAX.outputTokens}
                onChange=${(outputTokens) => change({outputTokens})} hint="Each answer has exactly this length." />`}
            <${Number_} title="Time limit (s)" value=${settings.limitS} min=${5} max=${MAX.seconds} onChange=${(limitS) => change({limitS})} hint="The run ends after it." />
          </div>
          ${fault === '' ? html`
            <p class="hint" role="status">Up to ${count(plan.requests)} requests, ${count(plan.units)} ${generates ? 'output tokens' : 'inputs'} and
              ${' '}${settings.limitS} s, with one request of each client to warm up.</p>`
            : html`<p class="error-text" role="alert">${fault}</p>`}
          ${warnings.length > 0 && html`
            <div class="notice warn stack tight">
              <strong>A benchmark slows others down</strong>
              <ul class="plain-list">${warnings.map((text) => html`<li>${text}</li>`)}</ul>
              <${Check} title="I may load this server; run it anyway" checked=${accepted} onChange=${setAccepted} />
            </div>`}
          <div class="row end"><button class="primary" disabled=${busy || fault !== '' || (warnings.length > 0 && !accepted)}>Run</button></div>
        </fieldset>
      </form>
    </section>`;
}
