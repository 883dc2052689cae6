// A table that scrolls inside itself. On narrow screens each row is a card, so that no action lies outside the screen.
import {html, useLayoutEffect, useRef} from '../lib/preact.js';
import {count} from '../lib/format.js';

const isBlank = (content) => content === '' || content === null || content === undefined || content === false;

// `columns`: {title, number, className}; `rows`: {key, cells, actions}, a cell for each column, of which the first is the head
// of its row. Roles are given because browsers do not treat the cards as a table. If what has the focus is removed from a row,
// perhaps a button whose action was carried out, the focus goes to the head of the row.
export function Table({label, columns, rows}) {
  const region = useRef(null);
  const focused = useRef(null);
  useLayoutEffect(() => {
    const {element, key} = focused.current ?? {};
    if (element === undefined || element.isConnected) return;
    focused.current = null;
    if (document.activeElement !== document.body) return;
    const row = [...region.current.querySelectorAll('tr[data-key]')].find((each) => each.dataset.key === key);
    (row?.querySelector('th') ?? region.current).focus({preventScroll: true});
  });
  const onFocus = ({target}) => {
    const row = target.closest('tr[data-key]');
    focused.current = row === null ? null : {element: target, key: row.dataset.key};
  };
  const acts = rows.some(({actions}) => actions !== undefined);
  const classOf = ({number, className = ''}, content) => `${number ? 'number' : ''} ${className} ${isBlank(content) ? 'blank' : ''}`;
  return html`
    <div class="table-scroll rows" tabindex="0" role="region" aria-label=${label} ref=${region} onFocusCapture=${onFocus}>
      <table role="table">
        <thead role="rowgroup"><tr role="row">
          ${columns.map((column) => html`<th role="columnheader" scope="col" class=${column.number ? 'number' : ''}>${column.title}</th>`)}
          ${acts && html`<th role="columnheader" scope="col"><span class="visually-hidden">Actions</span></th>`}</tr></thead>
        <tbody role="rowgroup">
          ${rows.map(({key, cells, actions}) => html`
            <tr role="row" key=${key} data-key=${key}>
              <th role="rowheader" scope="row" tabindex="-1" class=${columns[0].className ?? ''}>${cells[0]}</th>
              ${columns.slice(1).map((column, i) => html`
                <td role="cell" class=${classOf(column, cells[i + 1])} data-title=${column.title}>
                  <div class="cell">${cells[i + 1]}</div></td>`)}
              ${acts && html`<td role="cell" class=${`acts ${isBlank(actions) ? 'blank' : ''}`}><div class="actions">${actions}</div></td>`}
            </tr>`)}
        </tbody>
      </table>
    </div>`;
}

// A card with a heading and a table. Nothing is shown without rows unless `empty` says something; `left`: how many rows the
// server did not send.
export function TableCard({title, label = `Table: ${title}`, about = '', tools = null, columns, rows, left = 0, empty = ''}) {
  if (rows.length === 0 && empty === '') return null;
  return html`
    <section class="card stack" aria-label=${title}>
      <div class="row between"><h2>${title}</h2>${tools}</div>
      ${about && html`<p class="hint">${about}</p>`}
      ${rows.length === 0 ? html`<p class="hint">${empty}</p>` : html`<${Table} label=${label} columns=${columns} rows=${rows} />`}
      ${left > 0 && html`<p class="hint">${count(left)} more are not shown.</p>`}
    </section>`;
}

// A name and what belongs to it, in a smaller line below.
export const Named = ({name, mono = false, children}) => html`
  <bdi class=${mono ? 'mono' : ''}>${name}</bdi>${!isBlank(children) && html`<span class="hint" dir="auto">${children}</span>`}`;
