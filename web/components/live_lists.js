// Tables of the live state: clients, sessions, workers, limits.
import {html} from '../lib/preact.js';
import {count, duration, milliseconds} from '../lib/format.js';
import {limitName} from '../lib/words.js';
import {Named, TableCard} from './table.js';

const PROTOCOLS = {'mqtt3.1.1': 'MQTT 3.1.1', mqtt5: 'MQTT 5', websocket: 'WebSocket'};
const SUBJECTS = {tenant: 'a tenant', key: 'a key', model: 'a model of a tenant'};
// A worker says something each second.
const SILENT_MS = 3000;

export function Clients({state}) {
  return html`
    <${TableCard} title="Connected clients" left=${state.clients_left_out} empty="No client is connected over MQTT or /v1/ws."
      columns=${[{title: 'User'}, {title: 'Client id'}, {title: 'Protocol'}, {title: 'Connected for', number: true}, {title: 'Subscriptions', number: true},
                 {title: 'Busy sessions', number: true}]}
      rows=${state.clients.map((each, i) => ({
        key: `${each.protocol} ${each.client_id ?? i} ${each.user}`,
        cells: [html`<${Named} name=${each.user || '–'}>${each.tenant}<//>`, html`<bdi class="mono">${each.client_id ?? '–'}</bdi>`,
                html`<span class="nowrap">${PROTOCOLS[each.protocol] ?? each.protocol}</span>`, milliseconds(each.connected_ms), each.subscriptions ?? '–', each.sessions],
      }))} />`;
}

// `onChoose` gets the id of a running turn.
export function Sessions({state, onChoose}) {
  return html`
    <${TableCard} title="Sessions being answered" left=${state.sessions_left_out} empty="No session has a turn that runs or waits."
      columns=${[{title: 'Session'}, {title: 'User'}, {title: 'State'}, {title: 'Running', number: true}, {title: 'Waiting', number: true}, {title: 'Response'}]}
      rows=${state.sessions.map((each) => ({
        key: `${each.tenant} ${each.project} ${each.user} ${each.session}`,
        cells: [html`<${Named} name=${each.session} mono>${each.project}<//>`, html`<${Named} name=${each.user ?? '–'}>${each.tenant}<//>`,
                html`<span class=${`badge ${each.state === 'running' ? 'good' : 'warn'}`}>${each.state}</span>`, each.running, each.waiting,
                each.response && html`<button type="button" class="link mono" title="Show where its time went"
                  onClick=${() => onChoose(each.response)}>${each.response}</button>`],
      }))} />`;
}

export function Workers({state}) {
  return html`
    <${TableCard} title="Workers" left=${state.workers_left_out} empty=${state.engines_elsewhere ? 'No worker is attached: requests cannot be computed.' : ''}
      columns=${[{title: 'Worker'}, {title: 'State'}, {title: 'Models'}, {title: 'Requests', number: true}, {title: 'Running', number: true},
                 {title: 'Waiting', number: true}, {title: 'Last heard', number: true}]}
      rows=${state.workers.map((each) => ({
        key: each.name,
        cells: [html`<${Named} name=${each.name} mono />`,
                each.silent_ms > SILENT_MS ? html`<span class="badge bad">silent</span>`
                  : html`<span class=${`badge ${each.state === 'serving' ? 'good' : 'warn'}`}>${each.state}</span>`,
                html`${each.models.join(', ') || 'none loaded'}${each.models_left_out > 0 && `, ${count(each.models_left_out)} more`}`,
                count(each.in_flight), `${count(each.running)} of ${count(each.max_num_seqs)}`, count(each.waiting), `${milliseconds(each.silent_ms)} ago`],
      }))} />`;
}

export function Limits({state}) {
  const rows = state.limits.flatMap((subject) => subject.limits.map((limit) => ({subject, limit, used: limit.max - limit.remaining})));
  return html`
    <${TableCard} title="Limits in use"
      columns=${[{title: 'Who'}, {title: 'Limit'}, {title: 'Used', number: true}, {title: 'Share'}, {title: 'Free again in', number: true}]}
      rows=${rows.map(({subject, limit, used}) => ({
        key: `${subject.of} ${subject.name} ${limit.limit}`,
        cells: [html`<${Named} name=${subject.name}>${SUBJECTS[subject.of] ?? subject.of}<//>`, limitName(limit.limit), `${count(used)} of ${count(limit.max)}`,
                html`<meter aria-label=${`${subject.name}, ${limitName(limit.limit)}`} min="0" max=${Math.max(limit.max, 1)} high=${limit.max * 0.8} value=${used}></meter>`,
                limit.reset_s > 0 ? duration(limit.reset_s) : '–'],
      }))} />`;
}
