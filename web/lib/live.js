// The live state of the server (docs/live.md) as it arrives, and a short history of it.
import {ApiError, request, stream} from './api.js';

const HISTORY = 240;              // points of the charts: two minutes
const STEPS = 256;                // of each engine
const FIRST_PAUSE_MS = 500, LONGEST_PAUSE_MS = 10000;
const POLL_MS = 2000, POLLS = 3;    // while the server has too many watchers, before the stream is tried again

// What a sequence waits for (docs/live.md has the remedies).
export const REASONS = {
  next_step: 'the next step',
  max_num_seqs: 'a free place: as many run as may (--max-num-seqs)',
  kv_blocks: 'free blocks of the KV cache: its text does not fit',
  behind: 'an earlier request, which needs blocks of the KV cache',
  fair_share: 'its turn: other tenants have used less',
  priority: 'more urgent requests',
  preempted: 'a free place, after it made room for another request',
  sibling: 'another answer to the same request',
  same_prompt: 'a request that reads the same beginning',
  prefix_load: 'the beginning of its prompt, which is read from disk',
  reader: 'its client, which reads too slowly',
  grant: 'permission for its next token',
  failed_step: 'the repetition of a failed step',
  batch_window: 'more requests for its batch',
};

// The sum of a metric over the series with these labels.
export function sumOf(state, name, labels = {}) {
  return (state.metrics[name] ?? []).filter((series) => Object.entries(labels).every(([key, value]) => series.labels[key] === value))
      .reduce((sum, series) => sum + (series.value ?? series.sum), 0);
}

// Series of a histogram added up: {count, sum, le, at_most}; null if there is none.
export function histogramOf(state, name) {
  const all = state.metrics[name] ?? [];
  if (all.length === 0) return null;
  return all.slice(1).reduce((sum, series) => ({
    count: sum.count + series.count, sum: sum.sum + series.sum, le: sum.le,
    at_most: sum.at_most.map((value, i) => value + series.at_most[i]),
  }), all[0]);
}

// An estimate of a quantile: linear within the bucket, as Prometheus has it. Null for an empty histogram.
export function quantile({count, le, at_most: atMost}, q) {
  if (count === 0) return null;
  const rank = q * count;
  const i = atMost.findIndex((value) => value >= rank);
  if (i < 0) return le.at(-1);
  const below = i === 0 ? 0 : atMost[i - 1], from = i === 0 ? 0 : le[i - 1];
  return from + (le[i] - from) * (rank - below) / Math.max(atMost[i] - below, 1);
}

// How many requests run or wait at a model; null if the workers of this server know it. For admins.
export async function requestsOf(model, signal) {
  const state = await request('admin/state', {signal});
  if (state.engines_elsewhere) return state.workers.some((worker) => worker.in_flight > 0) ? null : 0;
  return state.model_waits.filter((wait) => wait.model === model).length + state.engines.filter((engine) => engine.model === model)
      .reduce((sum, {running, waiting, paused = 0, preparing = 0}) => sum + running + waiting + paused + preparing, 0);
}

function pointOf(state) {
  const sum = (field) => state.engines.reduce((total, engine) => total + (engine[field] ?? 0), 0);
  const blocks = state.engines.reduce((total, engine) => total + (engine.kv?.blocks ?? 0), 0);
  const busy = state.engines.reduce((total, {kv}) => total + (kv ? kv.used + kv.shared : 0), 0);
  return {
    at: state.unix_ms, tokens: sum('output_tokens_per_s'), prompt: sum('prompt_tokens_per_s'), running: sum('running'),
    waiting: sum('waiting'), kv: blocks > 0 ? busy / blocks : 0,
  };
}

const keyOf = (engine) => `${engine.kind} ${engine.model}`;

export class LiveFeed {
  history = [];
  steps = new Map();  // engine -> its last steps
  #numbers = new Map();

  add(state) {
    this.history = [...this.history.slice(1 - HISTORY), pointOf(state)];
    for (const engine of state.engines) {
      const key = keyOf(engine);
      // An engine that was loaded again counts from the beginning.
      const known = (this.#numbers.get(key) ?? 0) <= engine.steps_total ? this.steps.get(key) ?? [] : [];
      const fresh = engine.steps.filter((step) => step.step > (known.at(-1)?.step ?? -1));
      this.steps.set(key, [...known, ...fresh].slice(-STEPS));
      this.#numbers.set(key, engine.steps_total);
    }
  }

  stepsOf(engine) {
    return this.steps.get(keyOf(engine)) ?? [];
  }
}

const pause = (ms, signal) => new Promise((resolve) => {
  const timer = setTimeout(resolve, ms);
  signal.addEventListener('abort', () => { clearTimeout(timer); resolve(); }, {once: true});
});

// Calls `onState` until `signal` is raised, over lost connections. While the server has too many watchers, its state is
// fetched instead, and `onState` gets the server's message as well. Rejects with ApiError if the caller may not watch.
export async function watch(onState, onLost, signal) {
  let wait = FIRST_PAUSE_MS, refusal = null;
  for (;;) {
    try {
      if (refusal !== null) {
        for (let i = 0; i < POLLS && !signal.aborted; ++i) {
          onState(await request('admin/state', {signal}), refusal);
          await pause(POLL_MS, signal);
        }
        if (signal.aborted) return;
        refusal = null;
      }
      await stream('admin/events?interval_ms=500', {signal}, ({event, data}) => {
        if (event !== 'state') return;
        wait = FIRST_PAUSE_MS;
        onState(JSON.parse(data));
      });
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof ApiError) || (error.status !== 0 && error.status < 500)) throw error;
      if (refusal === null && error.code === 'overloaded') {
        refusal = error.message;
        continue;
      }
    }
    if (signal.aborted) return;
    onLost();
    await pause(wait, signal);
    wait = Math.min(wait * 2, LONGEST_PAUSE_MS);
  }
}
