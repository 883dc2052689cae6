// Small charts. Each has a text with what it shows, for those who cannot see it.
import {html, useEffect, useRef} from '../lib/preact.js';

const WIDTH = 320, HEIGHT = 72;

// Lines over time: `series` are {title, values, className}, of equal length; from 0 to the largest value.
export function LineChart({title, series, format}) {
  const most = Math.max(...series.flatMap(({values}) => values), 1e-9);
  const pathOf = (values) => values.map((value, i) => {
    const x = values.length < 2 ? 0 : i / (values.length - 1) * WIDTH;
    return `${i === 0 ? 'M' : 'L'}${x.toFixed(1)} ${(HEIGHT - 4 - value / most * (HEIGHT - 10)).toFixed(1)}`;
  }).join('');
  const now = series.map(({title: name, values}) => `${name} ${format(values.at(-1) ?? 0)}`).join(', ');
  return html`
    <figure class="chart">
      <figcaption><span>${title}</span><strong>${now}</strong></figcaption>
      <svg viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label=${`${title}: ${now}, at most ${format(most)}`}>
        <path class="axis" d=${`M0 ${HEIGHT - 4}H${WIDTH}`} />
        ${series.map(({values, className}) => html`<path class=${`line ${className}`} d=${pathOf(values)} />`)}
      </svg>
    </figure>`;
}

// Counts by range: `bars` are {label, value}.
export function BarChart({title, bars, note}) {
  const most = Math.max(...bars.map(({value}) => value), 1);
  const width = WIDTH / Math.max(bars.length, 1);
  return html`
    <figure class="chart">
      <figcaption><span>${title}</span><strong>${note}</strong></figcaption>
      <svg viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label=${`${title}: ${note}`}>
        <path class="axis" d=${`M0 ${HEIGHT - 4}H${WIDTH}`} />
        ${bars.map(({label, value}, i) => html`
          <rect class="bar" x=${(i * width + 1).toFixed(1)} width=${Math.max(width - 2, 1).toFixed(1)}
                y=${(HEIGHT - 4 - value / most * (HEIGHT - 10)).toFixed(1)} height=${(value / most * (HEIGHT - 10)).toFixed(1)}>
            <title>${label}: ${value}</title></rect>`)}
      </svg>
      <div class="scale"><span>${bars[0]?.label ?? ''}</span><span>${bars.at(-1)?.label ?? ''}</span></div>
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
  const most = Math.max(...steps.map(totalOf), 0.1);
  useEffect(() => {
    draw(canvas.current, STEP_HEIGHT, (context, width, colour) => {
      const bar = width / 256;
      steps.forEach((step, i) => {
        let y = STEP_HEIGHT;
        for (const [part, name] of Object.entries(PARTS)) {
          const height = (step[part] ?? 0) / most * (STEP_HEIGHT - 4);
          context.fillStyle = colour(name);
          context.fillRect(i * bar, y - height, Math.max(bar - 0.5, 0.5), height);
          y -= height;
        }
      });
    });
  });
  return html`<canvas class="steps" ref=${canvas} role="img" aria-label=${`${label}; the longest took ${most.toFixed(1)} ms`}></canvas>`;
}
