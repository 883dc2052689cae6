// Tables of the live state: clients, sessions, workers, limits.
import {html} from '../lib/preact.js';
import {count, duration} from '../lib/format.js';

const PROTOCOLS = {'mqtt3.1.1': 'MQTT 3.1.1', mqtt5: 'MQTT 5', websocket: 'WebSocket'};
const LIMITS = {
  requests_per_minute: 'requests a minute', tokens_per_minute: 'tokens a minute', concurrency: 'requests at the same time',
  queued_tokens: 'waiting tokens', daily_tokens: 'tokens a day', window: 'requests in a window',
};
// A worker says something each second.
const SILENT_MS = 3000;
const age = (milliseconds) => duration(milliseconds / 1000);

// `columns`: [title, isNumber]. Nothing is shown without rows unless `empty` says something.
function List({title, columns, rows, left = 0, empty = ''}) {
  if (rows.length === 0 && empty === '') return null;
  return html`
    <section class="card stack" aria-label=${title}>
      <h2>${title}</h2>
      ${rows.length === 0 ? html`<p class="hint">${empty}</p>` : html`
        <div class="table-scroll rows" tabindex="0" role="region" aria-label=${`Table: ${title}`}>
          <table>
            <thead><tr>${columns.map(([name, number]) => html`<th scope="col" class=${number ? 'number' : ''}>${name}</th>`)}</tr></thead>
            <tbody>${rows}</tbody>
          </table>
        </div>`}
      ${left > 0 && html`<p class="hint">${count(left)} more are not shown.</p>`}
    </section>`;
}

export function Clients({state}) {
  return html`
    <${List} title="Connected clients" left=${state.clients_left_out} empty="No client is connected over MQTT or /v1/ws."
      columns=${[['User'], ['Client id'], ['Protocol'], ['Connected', true], ['Subscriptions', true], ['Busy sessions', true]]}
      rows=${state.clients.map((each, i) => html`
        <tr key=${`${each.protocol} ${each.client_id ?? i} ${each.user}`}>
          <th scope="row" class="plain-head">${each.user || '–'}${each.tenant && html`<span class="hint">${each.tenant}</span>`}</th>
          <td class="mono">${each.client_id ?? '–'}</td><td style=${{whiteSpace: 'nowrap'}}>${PROTOCOLS[each.protocol] ?? each.protocol}</td>
          <td class="number">${age(each.connected_ms)}</td><td class="number">${each.subscriptions ?? '–'}</td><td class="number">${each.sessions}</td>
        </tr>`)} />`;
}

// `onChoose` gets the id of a running turn.
export function Sessions({state, onChoose}) {
  return html`
    <${List} title="Sessions being answered" left=${state.sessions_left_out} empty="No session has a turn that runs or waits."
      columns=${[['Session'], ['User'], ['State'], ['Running', true], ['Waiting', true], ['Response']]}
      rows=${state.sessions.map((each) => html`
        <tr key=${`${each.tenant} ${each.project} ${each.user} ${each.session}`}>
          <th scope="row" class="plain-head mono">${each.session}${each.project && html`<span class="hint">${each.project}</span>`}</th>
          <td>${each.user ?? '–'}${each.tenant && html`<span class="hint">${each.tenant}</span>`}</td>
          <td><span class=${`badge ${each.state === 'running' ? 'good' : 'warn'}`}>${each.state}</span></td>
          <td class="number">${each.running}</td><td class="number">${each.waiting}</td>
          <td>${each.response && html`<button type="button" class="quiet small mono" onClick=${() => onChoose(each.response)}>${each.response}</button>`}</td>
        </tr>`)} />`;
}

export function Workers({state}) {
  return html`
    <${List} title="Workers" left=${state.workers_left_out} empty=${state.engines_elsewhere ? 'No worker is attached: requests cannot be computed.' : ''}
      columns=${[['Worker'], ['State'], ['Models'], ['Requests', true], ['Running', true], ['Waiting', true], ['Last heard', true]]}
      rows=${state.workers.map((each) => html`
        <tr key=${each.name}>
          <th scope="row" class="plain-head mono">${each.name}</th>
          <td>${each.silent_ms > SILENT_MS ? html`<span class="badge bad">silent</span>`
            : html`<span class=${`badge ${each.state === 'serving' ? 'good' : 'warn'}`}>${each.state}</span>`}</td>
          <td>${each.models.join(', ') || 'none loaded'}${each.models_left_out > 0 && `, ${count(each.models_left_out)} more`}</td>
          <td class="number">${count(each.in_flight)}</td>
          <td class="number">${count(each.running)} of ${count(each.max_num_seqs)}</td><td class="number">${count(each.waiting)}</td>
          <td class="number">${age(each.silent_ms)} ago</td>
        </tr>`)} />`;
}

export function Limits({state}) {
  const rows = state.limits.flatMap((subject) => subject.limits.map((limit) => ({subject, limit, used: limit.max - limit.remaining})));
  return html`
    <${List} title="Limits in use" columns=${[['Of'], ['Limit'], ['Used', true], ['Share'], ['Full again', true]]}
      rows=${rows.map(({subject, limit, used}) => html`
        <tr key=${`${subject.of} ${subject.name} ${limit.limit}`}>
          <th scope="row" class="plain-head">${subject.name}<span class="hint">${subject.of}</span></th>
          <td>${LIMITS[limit.limit] ?? limit.limit}</td>
          <td class="number">${count(used)} of ${count(limit.max)}</td>
          <td><meter aria-label=${`${subject.name}, ${LIMITS[limit.limit] ?? limit.limit}`} min="0" max=${Math.max(limit.max, 1)}
                     high=${limit.max * 0.8} value=${used}></meter></td>
          <td class="number">${limit.reset_s > 0 ? duration(limit.reset_s) : '–'}</td>
        </tr>`)} />`;
}
