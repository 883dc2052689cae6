// Durable jobs and batches: their states and progress; cancel and replay. Admins see those of all tenants, others their own.
import {html, useEffect, useState} from '../lib/preact.js';
import {request} from '../lib/api.js';
import {count, dateTime} from '../lib/format.js';
import {notifyError} from '../lib/notices.js';

const REFRESH_MS = 2000;
const KINDS = {completed: 'good', succeeded: 'good', failed: 'bad', cancelled: 'bad', expired: 'bad', in_progress: 'warn', running: 'warn'};
const ENDED = new Set(['completed', 'succeeded', 'failed', 'cancelled', 'expired']);

function Table({title, head, rows, empty}) {
  return html`
    <section class="card stack" aria-label=${title}>
      <h2>${title}</h2>
      ${rows.length === 0 ? html`<p class="hint">${empty}</p>` : html`
        <div class="table-scroll rows" tabindex="0" role="region" aria-label=${`Table: ${title}`}>
          <table><thead><tr>${head.map((name) => html`<th scope="col">${name}</th>`)}
            <th scope="col"><span class="visually-hidden">Actions</span></th></tr></thead><tbody>${rows}</tbody></table>
        </div>`}
    </section>`;
}

export function JobsView({admin}) {
  const [jobs, setJobs] = useState(null);
  const [batches, setBatches] = useState(null);
  const [failure, setFailure] = useState(null);
  const base = admin ? 'admin' : 'v1';
  const load = async () => {
    try {
      const [one, two] = await Promise.all([request(`${base}/jobs?limit=50`), request(`${base}/batches?limit=50`)]);
      setJobs((one.jobs ?? one.data).map((job) => ({...job, created: job.created_ms ? job.created_ms / 1000 : job.created_at})));
      setBatches((two.batches ?? two.data).map((each) => (each.batch ? {...each.batch, tenant: each.tenant} : each)));
      setFailure(null);
    } catch (error) {
      setFailure(error);
    }
  };
  useEffect(() => {
    load();
    const timer = setInterval(() => { if (!document.hidden) load(); }, REFRESH_MS);
    return () => clearInterval(timer);
  }, []);
  const act = async (kind, id, action) => {
    try {
      await request(`${base}/${kind}/${encodeURIComponent(id)}/${action}`, {method: 'POST'});
    } catch (error) {
      notifyError(error);
    }
    load();
  };
  const badge = (status) => html`<span class=${`badge ${KINDS[status] ?? ''}`}>${status}</span>`;
  const button = (kind, id, action, title) => html`
    <button type="button" class="small" aria-label=${`${title} ${id}`} onClick=${() => act(kind, id, action)}>${title}</button>`;
  return html`
    <div class="page"><div class="inner">
      <div class="page-head"><h1>Jobs</h1><p>Durable jobs and batches${admin ? ' of all tenants' : ''}.</p></div>
      ${failure && html`<p class="notice bad" role="alert">${failure.message}</p>`}
      ${jobs !== null && html`
        <${Table} title="Durable jobs" head=${['Job', ...(admin ? ['Tenant'] : []), 'State', 'Progress', 'Created']} empty="No jobs."
          rows=${jobs.map((job) => html`
            <tr key=${job.id}><th scope="row" class="mono">${job.id}</th>${admin && html`<td>${job.tenant}</td>`}
              <td>${badge(job.status)}</td><td>${job.progress_tokens ? `${count(job.progress_tokens)} tokens` : ''}
                ${job.attempt > 1 && html`<span class="hint">attempt ${job.attempt}</span>`}</td>
              <td>${job.created ? dateTime(job.created) : ''}</td>
              <td><div class="actions">${!ENDED.has(job.status) && button('jobs', job.id, 'cancel', 'Cancel')}
                ${job.status === 'failed' && button('jobs', job.id, 'replay', 'Replay')}</div></td></tr>`)} />`}
      ${batches !== null && html`
        <${Table} title="Batches" head=${['Batch', ...(admin ? ['Tenant'] : []), 'State', 'Progress', 'Created']} empty="No batches."
          rows=${batches.map((batch) => {
            const {total = 0, completed = 0, failed = 0} = batch.request_counts ?? {};
            return html`
              <tr key=${batch.id}><th scope="row" class="mono">${batch.id}</th>${admin && html`<td>${batch.tenant}</td>`}
                <td>${badge(batch.status)}</td>
                <td><progress max=${total || 1} value=${completed + failed} aria-label=${`Progress of ${batch.id}`}></progress>
                  <span class="hint">${count(completed)} of ${count(total)}${failed > 0 ? `, ${count(failed)} failed` : ''}</span></td>
                <td>${batch.created_at ? dateTime(batch.created_at) : ''}</td>
                <td><div class="actions">${!ENDED.has(batch.status) && batch.status !== 'cancelling' && button('batches', batch.id, 'cancel', 'Cancel')}</div></td></tr>`;
          })} />`}
    </div></div>`;
}
