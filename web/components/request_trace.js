// Where the time of one request went (docs/live.md).
import {html} from '../lib/preact.js';
import {count, milliseconds as ms} from '../lib/format.js';
import {REASONS} from '../lib/live.js';

const STAGES = {
  receive_ms: ['received', 'part-plan'], prepare_ms: ['prompt prepared', 'part-commit'], queue_ms: ['waited', 'part-wait'],
  prefill_ms: ['prompt read', 'part-collect'], decode_ms: ['answer written', 'part-launch'], write_ms: ['sent', 'part-commit'],
  other_ms: ['between these', 'part-wait'],
};

// Events in words; others are shown by their names.
function describe(event) {
  switch (event.event) {
    case 'accepted': return `accepted, prepared in ${ms(event.took_ms ?? 0)}`;
    case 'submitted': return `given to the engine with ${count(event.tokens ?? 0)} prompt tokens`;
    case 'waits': return `waits for ${REASONS[event.reason] ?? event.reason}`;
    case 'runs': return `runs${event.cached_tokens ? `, ${count(event.cached_tokens)} tokens were cached` : ''}`;
    case 'prefill': return `${count(event.tokens)} prompt tokens in step ${count(event.step)}, ${ms(event.took_ms)}`;
    case 'first_token': return 'first token';
    case 'ended': return `ended with ${count(event.tokens ?? 0)} tokens`;
    case 'written': return `answer sent, status ${event.status}`;
    default: return event.event.replaceAll('_', ' ');
  }
}

// How it ended, for a user who does not know the codes.
function outcome({state, end, status, in_engine: inEngine}) {
  if (state === 'running') return 'It still runs.';
  if (end === 'ok') return 'It ended normally.';
  if (end === 'cancelled') return 'It was cancelled: its client left or ended it.';
  if (end === 'failed') return `It was refused, or failed before an engine had it.${status > 0 ? ` It was answered with status ${status}.` : ''}`;
  if (end) return `It ended with an error: ${end}.`;
  const answered = status > 0 ? ` It was answered with status ${status}.` : '';
  return inEngine === false ? `It was not computed here: its answer was stored, it was refused, or a worker has it.${answered}` : `How it ended is not known.${answered}`;
}

export function RequestTrace({trace}) {
  const stages = Object.entries(STAGES).map(([field, [title, colour]]) => ({title, colour, value: trace.stages[field] ?? 0}));
  const total = Math.max(trace.stages.total_ms ?? 0, stages.reduce((sum, {value}) => sum + value, 0), 1e-6);
  const longest = stages.reduce((most, stage) => (stage.value > most.value ? stage : most));
  return html`
    <div class="stack">
      <p>${trace.model ? `Model ${trace.model}. ` : ''}${outcome(trace)}
        ${' '}${ms(total)} in all, of which ${ms(longest.value)} ${longest.title}.</p>
      <div class="stages" role="img" aria-label=${stages.map(({title, value}) => `${title} ${ms(value)}`).join(', ')}>
        ${stages.filter(({value}) => value > 0).map(({colour, value}) => html`<span class=${colour} style=${{flexGrow: value / total}}></span>`)}
      </div>
      <ul class="legend">${stages.map(({title, colour, value}) => html`<li><span class=${`swatch ${colour}`}></span>${title} ${ms(value)}</li>`)}</ul>
      ${trace.waits.length > 0 && html`
        <p>Waited for: ${trace.waits.map(({reason, ms: took, now}) => `${REASONS[reason] ?? reason} (${ms(took)}${now ? ', now' : ''})`).join('; ')}.</p>`}
      ${trace.steps?.count > 0 && html`
        <p class="hint">It took part in ${count(trace.steps.count)} steps of the engine; the longest gap between two tokens was ${ms(trace.steps.longest_gap_ms ?? 0)}.</p>`}
      <details class="fold"><summary>Events</summary><div>
        <table><thead><tr><th scope="col" class="number">After</th><th scope="col">Event</th></tr></thead>
          <tbody>${trace.events.map((event) => html`<tr><td class="number">${ms(event.at_ms)}</td><td>${describe(event)}</td></tr>`)}</tbody></table>
      </div></details>
    </div>`;
}
