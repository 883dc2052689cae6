// Small charts. Each has a text with what it shows, for those who cannot see it.
import {html, useEffect, useLayoutEffect, useRef, useState} from '../lib/preact.js';

const WIDTH = 320, HEIGHT = 72;

// Lines over time: `series` are {title, values, className}, of equal length; from 0 to the largest value.
export function LineChart({title, series, format}) {
  const max = Math.max(...series.flatMap(({values}) => values), 1e-9);
  const pathOf = (values) => values.map((value, i) => {
    const x = values.length < 2 ? 0 : i / (values.length - 1) * WIDTH;
    return `${i === 0 ? 'M' : 'L'}${x.toFixed(1)} ${(HEIGHT - 4 - value / max * (HEIGHT - 10)).toFixed(1)}`;
  }).join('');
  const now = series.map(({title: name, values}) => `${name} ${format(values.at(-1) ?? 0)}`).join(', ');
  return html`
    <figure class="chart">
      <figcaption><span>${title}</span><strong>${now}</strong></figcaption>
      <svg viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label=${`${title}: ${now}, at most ${format(max)}`}>
        <path class="axis" d=${`M0 ${HEIGHT - 4}H${WIDTH}`} />
        ${series.map(({values, className}) => html`<path class=${`line ${className}`} d=${pathOf(values)} />`)}
      </svg>
    </figure>`;
}

// Counts by range: `bars` are {label, value}.
export function BarChart({title, bars, note}) {
  const max = Math.max(...bars.map(({value}) => value), 1);
  const width = WIDTH / Math.max(bars.length, 1);
  return html`
    <figure class="chart">
      <figcaption><span>${title}</span><strong>${note}</strong></figcaption>
      <svg viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label=${`${title}: ${note}`}>
        <path class="axis" d=${`M0 ${HEIGHT - 4}H${WIDTH}`} />
        ${bars.map(({label, value}, i) => html`
          <rect class="bar" x=${(i * width + 1).toFixed(1)} width=${Math.max(width - 2, 1).toFixed(1)}
                y=${(HEIGHT - 4 - value / max * (HEIGHT - 10)).toFixed(1)} height=${(value / max * (HEIGHT - 10)).toFixed(1)}>
            <title>${label}: ${value}</title></rect>`)}
      </svg>
      <div class="scale"><span>${bars[0]?.label ?? ''}</span><span>${bars.at(-1)?.label ?? ''}</span></div>
    </figure>`;
}

const PLOT_HEIGHT = 230, LEFT = 52, RIGHT = 14, TOP = 14, BOTTOM = 40;
export const MAX_SERIES = 4;

// 1, 2 or 5 times a power of ten: at most five steps up to `max`.
function stepOf(max) {
  const power = 10 ** Math.floor(Math.log10(max / 4 || 1));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => max / step <= 5);
}

// The series differ in colour, dashes and marks.
function Mark({x, y, kind, children}) {
  switch (kind) {
    case 1: return html`<rect class="mark series-1" x=${x - 4} y=${y - 4} width="8" height="8">${children}</rect>`;
    case 2: return html`<path class="mark series-2" d=${`M${x} ${y - 5}L${x + 5} ${y + 4}H${x - 5}Z`}>${children}</path>`;
    case 3: return html`<path class="mark series-3" d=${`M${x} ${y - 6}L${x + 6} ${y}L${x} ${y + 6}L${x - 6} ${y}Z`}>${children}</path>`;
    default: return html`<circle class="mark series-0" cx=${x} cy=${y} r="4.5">${children}</circle>`;
  }
}

export function SeriesLegend({series, notes = []}) {
  return html`
    <ul class="legend plot-legend">
      ${series.map(({title, kind, faint}) => html`
        <li><svg width="34" height="14" aria-hidden="true"><path class=${`plot-line series-${kind} ${faint ? 'faint' : ''}`} d="M0 7H34" />
          ${!faint && html`<${Mark} x=${17} y=${7} kind=${kind} />`}</svg><bdi>${title}</bdi></li>`)}
      ${notes.map((note) => html`<li>${note}</li>`)}
    </ul>`;
}

// Values over levels that stand at equal distances: `series` are {title, kind, faint, values, knee}, `values` in the order of
// `levels`, null where there is none; `knee`: the index of the point that gets a ring. A table with the figures must stand
// beside it.
export function PlotChart({title, xTitle, levels, series, format, label}) {
  const figure = useRef(null);
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const measure = () => setWidth(figure.current.clientWidth);
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(figure.current);
    return () => observer.disconnect();
  }, []);
  const max = Math.max(...series.flatMap(({values}) => values.map((value) => value ?? 0)), 1e-6);
  const step = stepOf(max), top = Math.ceil(max / step) * step;
  const ticks = Array.from({length: Math.round(top / step) + 1}, (_, i) => i * step);
  const xOf = (i) => LEFT + (levels.length < 2 ? 0.5 : (i + 0.35) / (levels.length - 0.3)) * (width - LEFT - RIGHT);
  const yOf = (value) => TOP + (1 - value / top) * (PLOT_HEIGHT - TOP - BOTTOM);
  const pathOf = (values) => {
    let pen = 'M';
    return values.map((value, i) => {
      if (value === null) return '';
      const piece = `${pen}${xOf(i).toFixed(1)} ${yOf(value).toFixed(1)}`;
      pen = 'L';
      return piece;
    }).join('');
  };
  return html`
    <figure class="plot" ref=${figure}>
      <figcaption>${title}</figcaption>
      ${width > 0 && html`
        <svg width=${width} height=${PLOT_HEIGHT} role="img" aria-label=${label}>
          ${ticks.map((value) => html`
            <path class="grid" d=${`M${LEFT} ${yOf(value).toFixed(1)}H${width - RIGHT}`} />
            <text x=${LEFT - 8} y=${yOf(value) + 4} text-anchor="end">${format(value)}</text>`)}
          ${levels.map((level, i) => html`<text x=${xOf(i)} y=${PLOT_HEIGHT - BOTTOM + 18} text-anchor="middle">${level}</text>`)}
          <text x=${(LEFT + width - RIGHT) / 2} y=${PLOT_HEIGHT - 5} text-anchor="middle">${xTitle}</text>
          ${series.map(({values, kind, faint}) => html`<path class=${`plot-line series-${kind} ${faint ? 'faint' : ''}`} d=${pathOf(values)} />`)}
          ${series.filter(({faint}) => !faint).map(({title: name, values, kind, knee}) => values.map((value, i) => value !== null && html`
            ${knee === i && html`<circle class="knee" cx=${xOf(i)} cy=${yOf(value)} r="10" />`}
            <${Mark} x=${xOf(i)} y=${yOf(value)} kind=${kind}><title>${`${name}, ${levels[i]}: ${format(value)}`}</title><//>`))}
        </svg>`}
    </figure>`;
}

function draw(canvas, height, paint) {
  const scale = window.devicePixelRatio || 1;
  const width = canvas.clientWidth;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  const context = canvas.getContext('2d');
  context.scale(scale, scale);
  // The value of a variable depends on the theme; only a property that uses it shows the colour that it comes to.
  const style = getComputedStyle(canvas);
  const colours = new Map();
  const colourOf = (name) => {
    if (!colours.has(name)) {
      canvas.style.color = `var(--${name})`;
      colours.set(name, style.color);
    }
    return colours.get(name);
  };
  paint(context, width, colourOf);
}

const CELL = 7, SMALL_CELL = 5, NARROW = 600;
const STATES = {u: 'block-used', s: 'block-shared', c: 'block-cached', p: 'block-pinned', '.': 'block-free'};

// The blocks of a KV cache, in the order of their numbers.
export function BlockMap({kv, label}) {
  const canvas = useRef(null);
  useEffect(() => {
    const cell = canvas.current.clientWidth < NARROW ? SMALL_CELL : CELL;
    const columns = Math.max(Math.floor(canvas.current.clientWidth / cell), 1);
    const rows = Math.ceil(kv.map.length / columns);
    canvas.current.style.height = `${rows * cell}px`;
    draw(canvas.current, rows * cell, (context, width, colour) => {
      for (let i = 0; i < kv.map.length; ++i) {
        context.fillStyle = colour(STATES[kv.map[i]] ?? 'block-free');
        context.fillRect(i % columns * cell, Math.floor(i / columns) * cell, cell - 1, cell - 1);
      }
    });
  });
  return html`<canvas class="blocks" ref=${canvas} role="img" aria-label=${label}></canvas>`;
}

const PARTS = {plan_ms: 'part-plan', launch_ms: 'part-launch', collect_ms: 'part-collect', commit_ms: 'part-commit'};
const STEP_HEIGHT = 90;

// The last steps as stacked bars of their parts, in milliseconds.
export function StepChart({steps, label}) {
  const canvas = useRef(null);
  const totalOf = (step) => Object.keys(PARTS).reduce((sum, part) => sum + (step[part] ?? 0), 0);
  const max = Math.max(...steps.map(totalOf), 0.1);
  useEffect(() => {
    draw(canvas.current, STEP_HEIGHT, (context, width, colour) => {
      const bar = width / 256;
      steps.forEach((step, i) => {
        let y = STEP_HEIGHT;
        for (const [part, name] of Object.entries(PARTS)) {
          const height = (step[part] ?? 0) / max * (STEP_HEIGHT - 4);
          context.fillStyle = colour(name);
          context.fillRect(i * bar, y - height, Math.max(bar - 0.5, 0.5), height);
          y -= height;
        }
      });
    });
  });
  return html`<canvas class="steps" ref=${canvas} role="img" aria-label=${`${label}; the longest took ${max.toFixed(1)} ms`}></canvas>`;
}
