// Durable jobs and batches: their states and progress; cancel and replay. Admins see those of all tenants, others their own.
import {html, useState} from '../lib/preact.js';
import {request} from '../lib/api.js';
import {age, count, dateTime, duration, plural} from '../lib/format.js';
import {notify, notifyError} from '../lib/notices.js';
import {usePolled} from '../lib/poll.js';
import {kindName} from '../lib/words.js';
import {Field} from '../components/field.js';
import {Named, TableCard} from '../components/table.js';

const REFRESH_MS = 2000;
const MAX_LISTED = 50;
const COLOURS = {completed: 'good', failed: 'bad', cancelled: 'bad', expired: 'bad', in_progress: 'warn', running: 'warn', finalizing: 'warn'};
const ENDED = new Set(['completed', 'failed', 'cancelled', 'expired']);
// The states of jobs, and what they mean.
const STATES = {
  queued: 'waits for its turn', running: 'is being computed', completed: 'has its answer', failed: 'gave an error',
  cancelled: 'was ended by someone', expired: 'its time ran out',
};

// Jobs in one form: those of an admin's list and those of the owner's differ.
const jobOf = (job) => ({
  id: job.id, tenant: job.tenant, kind: job.kind, status: job.status, attempt: job.attempt, position: job.position, error: job.error,
  tokens: job.progress_tokens ?? job.progress?.tokens ?? 0, createdMs: job.created_ms ?? job.created_at * 1000,
  startedMs: job.started_ms ?? (job.started_at ?? 0) * 1000, finishedMs: job.finished_ms ?? (job.finished_at ?? 0) * 1000,
});

const batchOf = (entry) => (entry.batch ? {...entry.batch, tenant: entry.tenant} : entry);

const Badge = ({status}) => html`<span class=${`badge ${COLOURS[status] ?? ''}`} title=${STATES[status]}>${status.replaceAll('_', ' ')}</span>`;

function Age({ms}) {
  return html`<time datetime=${new Date(ms).toISOString()} title=${dateTime(ms / 1000)}>${age(ms)}</time>`;
}

// How far a job is, and why it failed.
function Progress({job}) {
  const began = job.startedMs > 0 ? (job.finishedMs > 0 ? job.finishedMs : Date.now()) - job.startedMs : 0;
  return html`
    ${job.tokens > 0 && html`<span>${plural(job.tokens, 'token')}</span>`}
    ${job.status === 'queued' && job.position !== undefined && html`<span>${plural(job.position, 'job')} before it</span>`}
    ${began > 0 && html`<span class="hint">${ENDED.has(job.status) ? 'took' : 'for'} ${duration(began / 1000)}</span>`}
    ${job.attempt > 1 && html`<span class="hint">attempt ${job.attempt}</span>`}
    ${job.error && html`<span class="error-text" dir="auto">${job.error.message ?? job.error.code}</span>`}`;
}

function BatchProgress({batch}) {
  const {total = 0, completed = 0, failed = 0} = batch.request_counts ?? {};
  const fault = batch.errors?.data?.[0]?.message;
  return html`
    <progress max=${total || 1} value=${completed + failed} aria-label=${`Progress of ${batch.id}`}></progress>
    <span class="hint">${count(completed)} of ${count(total)}${failed > 0 ? `, ${count(failed)} failed` : ''}</span>
    ${fault && html`<span class="error-text" dir="auto">${fault}</span>`}`;
}

export function JobsView({admin}) {
  const base = admin ? 'admin' : 'v1';
  const [status, setStatus] = useState('');
  const {value, failure, refresh} = usePolled(async (signal) => {
    const [jobs, batches] = await Promise.all([
      request(`${base}/jobs?limit=${MAX_LISTED}${status && `&status=${status}`}`, {signal}), request(`${base}/batches?limit=${MAX_LISTED}`, {signal})]);
    return {status, jobs: (jobs.jobs ?? jobs.data).map(jobOf), more: jobs.more ?? jobs.has_more, batches: (batches.batches ?? batches.data).map(batchOf)};
  }, REFRESH_MS, [base, status]);
  const act = async (kind, id, action, done) => {
    try {
      await request(`${base}/${kind}/${encodeURIComponent(id)}/${action}`, {method: 'POST'});
      notify(done);
    } catch (error) {
      notifyError(error);
    }
    refresh();
  };
  const button = (kind, id, action, title, done, hint) => html`
    <button type="button" class="small" aria-label=${`${title} ${id}`} title=${hint} onClick=${() => act(kind, id, action, done)}>${title}</button>`;
  const owner = admin ? [{title: 'Tenant'}] : [];
  const ownerOf = (each) => (admin ? [html`<bdi>${each.tenant}</bdi>`] : []);
  const actionsOf = ({id, status: state}) => {
    if (!ENDED.has(state)) return button('jobs', id, 'cancel', 'Cancel', 'The job is cancelled', 'End the job now');
    return state === 'failed' ? button('jobs', id, 'replay', 'Replay', 'The job begins again', 'Begin the job again, with the same request') : '';
  };
  return html`
    <div class="page"><div class="inner">
      <div class="page-head"><h1>Jobs</h1><p>Requests that the server answers later, also after a restart${admin ? '; those of all tenants' : ''}. Programs
        make them over the API; this view shows, cancels and repeats them.</p></div>
      ${failure && html`<p class="notice bad" role="alert">The list could not be fetched: ${failure.message}.</p>`}
      ${value === null && !failure && html`<p class="empty">Loading…</p>`}
      ${value !== null && html`
        <${TableCard} title="Durable jobs" about="A durable job is one request that was sent with Prefer: respond-async."
          tools=${html`<${Field} title="State" inline>${(attributes) => html`
            <select ...${attributes} value=${status} onChange=${(event) => setStatus(event.target.value)}>
              <option value="">all states</option>
              ${Object.entries(STATES).map(([name, means]) => html`<option value=${name}>${name} (${means})</option>`)}
            </select>`}<//>`}
          columns=${[{title: 'Job'}, ...owner, {title: 'State'}, {title: 'Progress', className: 'wide'}, {title: 'Made', number: true}]}
          rows=${value.jobs.map((job) => ({
            key: job.id, actions: actionsOf(job),
            cells: [html`<${Named} name=${kindName(job.kind)}><span class="mono">${job.id}</span><//>`, ...ownerOf(job), html`<${Badge} status=${job.status} />`,
                    html`<${Progress} job=${job} />`, html`<${Age} ms=${job.createdMs} />`],
          }))} empty=${value.status === '' ? 'No jobs.' : `No job is ${value.status}.`} />
        ${value.more && html`<p class="hint">These are the newest ${MAX_LISTED}. Choose a state to see others.</p>`}
        <${TableCard} title="Batches" about="A batch is a file with many requests." columns=${[{title: 'Batch'}, ...owner, {title: 'State'},
            {title: 'Progress', className: 'wide'}, {title: 'Made', number: true}]}
          rows=${value.batches.map((batch) => ({
            key: batch.id,
            actions: ENDED.has(batch.status) || batch.status === 'cancelling' ? ''
              : button('batches', batch.id, 'cancel', 'Cancel', 'The batch is being cancelled', 'Requests that have not run are left out'),
            cells: [html`<${Named} name=${batch.endpoint ?? 'Batch'} mono><span class="mono">${batch.id}</span><//>`, ...ownerOf(batch),
                    html`<${Badge} status=${batch.status} />`, html`<${BatchProgress} batch=${batch} />`,
                    batch.created_at ? html`<${Age} ms=${batch.created_at * 1000} />` : ''],
          }))} empty="No batches." />`}
    </div></div>`;
}
