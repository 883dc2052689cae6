// A list that scrolls, of which only the rows near the view are elements. Rows have any heights, which are measured when a row
// is shown and guessed before. While rows change or grow, the row at the top of the view keeps its place, or, if the reader is
// at the end, the end stays in view.
import {html, useEffect, useLayoutEffect, useRef, useState} from '../lib/preact.js';

const FEW = 60;     // so many rows are all elements: the browser's search finds their text
const AROUND = 12;  // rows on either side of the view
const GUESS_PX = 140, END_PX = 60;

// The last row that begins at or before `y`.
function rowAt(tops, y) {
  let low = 0, high = tops.length - 2;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (tops[middle] <= y) low = middle; else high = middle - 1;
  }
  return low;
}

// `rows`: [{key, floats}]; a row that `floats` stands for others: the place is held by the row in front of it or behind it, whichever
// is nearer. `label`: of the list. `control`: a ref that gets
// {toEnd, toStart, toRow, focus}. `onPlace({atEnd, above})` after each change of the place; `above`: pixels above the view.
// `onHome`: the key for the beginning.
// `attributes(row, i)`: further attributes of a row's element. `children(row, i)`: its content.
export function VirtualList({rows, label, control, onPlace, onHome, attributes = () => ({}), children, before}) {
  const thread = useRef(null);
  const list = useRef(null);
  const [, redraw] = useState(0);
  const at = useRef({
    heights: new Map(), follows: true, anchor: null, top: 0, height: 800, mean: GUESS_PX, scrolled: 0, scrollHeight: 0, rows: [],
  }).current;
  at.rows = rows;
  const again = () => redraw((count) => count + 1);

  const tops = new Float64Array(rows.length + 1);
  for (let i = 0; i < rows.length; ++i) tops[i + 1] = tops[i] + (at.heights.get(rows[i].key) ?? at.mean);
  const total = tops[rows.length];

  if (at.toStart && rows.length > 0) {
    at.toStart = false;
    at.follows = false;
    at.anchor = {key: rows[0].key, offset: -(list.current?.offsetTop ?? 0)};
  }
  // The top of the view, in the list.
  const anchorAt = at.anchor === null ? -1 : rows.findIndex((row) => row.key === at.anchor.key);
  const place = at.follows ? Math.max(total - at.height, 0)
      : anchorAt >= 0 ? tops[anchorAt] + at.anchor.offset : Math.min(at.top, Math.max(total - at.height, 0));
  const shown = [];
  if (rows.length <= FEW) {
    for (let i = 0; i < rows.length; ++i) shown.push(i);
  } else {
    const first = Math.max(rowAt(tops, place) - AROUND, 0);
    const last = Math.min(rowAt(tops, place + at.height) + AROUND, rows.length - 1);
    for (let i = first; i <= last; ++i) shown.push(i);
    // What has the focus stays an element.
    const focused = list.current?.contains(document.activeElement) ? document.activeElement.closest('[data-row]')?.dataset.row : undefined;
    const index = focused === undefined ? -1 : rows.findIndex((row) => row.key === focused);
    if (index >= 0 && index < first) shown.unshift(index);
    if (index > last) shown.push(index);
  }

  const measure = () => {
    let changed = false;
    for (const element of list.current?.children ?? []) {
      const {height} = element.getBoundingClientRect();
      const before = at.heights.get(element.dataset.row);
      if (height === 0 || (before !== undefined && Math.abs(before - height) < 0.5)) continue;
      at.heights.set(element.dataset.row, height);
      changed = true;
    }
    if (!changed) return false;
    // Heights of rows that have left, as those of another conversation, are dropped from time to time.
    if (at.heights.size > 2 * at.rows.length + 200) {
      at.heights = new Map(at.rows.filter(({key}) => at.heights.has(key)).map(({key}) => [key, at.heights.get(key)]));
    }
    // A guess that changes seldom: each change moves the scrollbar.
    const known = at.rows.filter(({key, floats}) => !floats && at.heights.has(key)).map(({key}) => at.heights.get(key));
    const mean = known.reduce((sum, height) => sum + height, 0) / Math.max(known.length, 1) || GUESS_PX;
    if (Math.abs(mean - at.mean) > at.mean / 4) at.mean = mean;
    return true;
  };

  // Where the reader is.
  const note = () => {
    const {scrollTop, clientHeight} = thread.current;
    at.top = scrollTop - list.current.offsetTop;
    at.height = clientHeight;
    let first = rowAt(tops, Math.max(at.top, 0));
    if (rows[first]?.floats) {
      const upper = at.top + at.height / 2 < (tops[first] + tops[first + 1]) / 2;
      first += upper && first > 0 || first + 1 === rows.length ? -1 : 1;
    }
    at.anchor = rows[first] === undefined ? null : {key: rows[first].key, offset: at.top - tops[first]};
  };
  const tell = () => onPlace?.({atEnd: at.follows, above: thread.current.scrollTop});

  useLayoutEffect(() => {
    if (measure()) return again();
    const element = thread.current;
    at.height = element.clientHeight;
    const wanted = at.follows ? element.scrollHeight - element.clientHeight : place + list.current.offsetTop;
    if (Math.abs(element.scrollTop - wanted) > 1 && (at.follows || anchorAt >= 0)) element.scrollTop = wanted;
    at.scrolled = element.scrollTop;
    at.scrollHeight = element.scrollHeight;
    if (at.anchor === null || anchorAt < 0) note();
    tell();
  });

  // Rows grow while an answer streams, a part is unfolded or the window changes.
  const observer = useRef(null);
  useEffect(() => {
    observer.current = new ResizeObserver(() => { if (measure() || thread.current.clientHeight !== at.height) again(); });
    observer.current.observe(thread.current);
    observer.current.observe(list.current);
    return () => observer.current.disconnect();
  }, []);

  const onScroll = () => {
    const {scrollTop, scrollHeight, clientHeight} = thread.current;
    const below = scrollHeight - scrollTop - clientHeight;
    // Who moves up, however little, leaves the end. The browser moves the view up too if a list shrinks; that is no place of the
    // reader's.
    const up = scrollTop < at.scrolled - 1, shrunk = scrollHeight < at.scrollHeight - 1;
    at.scrolled = scrollTop;
    at.scrollHeight = scrollHeight;
    if (up && shrunk) return again();
    if (up) at.follows = false; else if (below < END_PX) at.follows = true;
    if (!at.follows) note();
    const near = rows.length <= FEW ? '' : `${rowAt(tops, at.top)} ${rowAt(tops, at.top + at.height)}`;
    if (near === at.near) return tell();
    at.near = near;
    again();
  };

  const toRow = (index, offset = 0) => {
    if (rows.length === 0) return;
    at.follows = false;
    at.anchor = {key: rows[Math.min(Math.max(index, 0), rows.length - 1)].key, offset};
    again();
  };
  const toEnd = () => {
    at.follows = true;
    again();
  };
  const toStart = () => {  // of the rows that the next drawing has
    at.toStart = true;
    again();
  };
  if (control) control.current = {toEnd, toStart, toRow, focus: () => thread.current.focus()};

  // Home and End go to the ends; Alt with an arrow to the next message.
  const onKeyDown = (event) => {
    const typing = event.target.closest('input, textarea, select') !== null;
    if (rows.length > 0 && !typing && event.altKey && (event.key === 'ArrowUp' || event.key === 'ArrowDown')) {
      event.preventDefault();
      const focused = document.activeElement.closest?.('[data-row]')?.dataset.row;
      const from = focused === undefined ? anchorAt : rows.findIndex((row) => row.key === focused);
      let next = from + (focused === undefined && event.key === 'ArrowDown' ? 0 : event.key === 'ArrowDown' ? 1 : -1);
      next = Math.min(Math.max(next, 0), rows.length - 1);
      toRow(next, -list.current.offsetTop);
      requestAnimationFrame(() => list.current.querySelector(`[data-row="${CSS.escape(rows[next].key)}"]`)?.focus({preventScroll: true}));
    } else if (event.target === thread.current && (event.key === 'Home' || event.key === 'End')) {
      event.preventDefault();
      if (event.key === 'Home') onHome(); else toEnd();
    }
  };

  let end = 0;
  const elements = shown.map((index) => {
    const row = rows[index];
    // The rows that are no elements are a margin.
    const margin = tops[index] - tops[end];
    end = index + 1;
    return html`
      <li class="list-row" key=${row.key} data-row=${row.key} tabindex="-1" style=${{marginTop: margin > 0 ? `${margin}px` : ''}}
          ...${attributes(row, index)}>${children(row, index)}</li>`;
  });
  return html`
    <div class="thread" ref=${thread} onScroll=${onScroll} onKeyDown=${onKeyDown} tabindex="0" role="log" aria-live="off" aria-label=${label}>
      ${before}
      <ol ref=${list} role="list" style=${{paddingBottom: total > tops[end] ? `${total - tops[end]}px` : ''}}>${elements}</ol>
    </div>`;
}
