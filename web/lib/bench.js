// Benchmarks: what a study asks for, its bounds, how it runs and what comes out. No elements and no requests of its own, so
// that it is tested alone; `load` sends the requests (bench_load.js).

export const LEVELS = [1, 2, 4, 8];
export const BATCHES = [1, 2, 4, 8, 16, 32, 64];
// A browser opens at most 6 connections to a host over HTTP/1.1, and other tabs need some of them.
export const MAX_HTTP_CLIENTS = 4;
// Bounds of one study.
export const MAX = {requests: 2000, units: 200000, seconds: 900, perClient: 200, rounds: 9, promptWords: 1000, outputTokens: 1024};
// The knee is the lowest level within 3 % of the best throughput, as `tutti bench knee` has it.
const KNEE_SHARE = 0.97;
// Beyond so many failed requests a study ends.
const MAX_FAILURES = 10;
const FAILURE_PAUSE_MS = 250;
const SETTLE_MS = 150;

export const UNITS = {generate: 'tokens/s', embed: 'inputs/s', rerank: 'inputs/s'};

export function defaultsFor(kind) {
  return kind === 'generate'
    ? {kind, axis: 'clients', levels: LEVELS, fixed: 1, perClient: 2, rounds: 3, promptWords: 50, outputTokens: 64, limitS: 180}
    : {kind, axis: 'batch', levels: BATCHES, fixed: 1, perClient: 10, rounds: 3, promptWords: 12, outputTokens: 0, limitS: 180};
}

// The points of a study in the order of their levels, and how much it asks for: {points, requests, units}. One more request of
// each client warms up.
export function planOf({kind, axis, levels, fixed, perClient, rounds, outputTokens}) {
  const points = [...levels].sort((a, b) => a - b).map((level) =>
    (axis === 'clients' ? {level, clients: level, batch: fixed} : {level, clients: fixed, batch: level}));
  const each = perClient * rounds + 1;
  const requests = points.reduce((sum, {clients}) => sum + clients * each, 0);
  const units = points.reduce((sum, {clients, batch}) => sum + clients * each * (kind === 'generate' ? outputTokens : batch), 0);
  return {points, requests, units};
}

// Why a study cannot run with these settings; '' if it can.
export function faultOf(settings) {
  const {kind, axis, levels} = settings;
  const ranges = [['perClient', 'Requests of each client', 1, MAX.perClient], ['rounds', 'Rounds', 1, MAX.rounds],
                  ['promptWords', 'Words', 1, MAX.promptWords], ['limitS', 'Time limit', 5, MAX.seconds]];
  if (kind === 'generate') ranges.push(['outputTokens', 'Tokens of each answer', 16, MAX.outputTokens]);
  for (const [name, title, min, max] of ranges) {
    if (!Number.isInteger(settings[name]) || settings[name] < min || settings[name] > max) return `${title}: ${min} to ${max}.`;
  }
  if (levels.length === 0) return axis === 'batch' ? 'Choose a batch size.' : 'Choose a number of clients.';
  const {requests, units} = planOf(settings);
  if (requests > MAX.requests) return `${requests} requests, at most ${MAX.requests}: choose fewer levels, rounds or requests.`;
  if (units > MAX.units)
    return `${units} ${kind === 'generate' ? 'tokens' : 'inputs'}, at most ${MAX.units}: choose fewer or shorter requests.`;
  return '';
}

// By linear interpolation between the closest ranks. Null without values.
export function percentile(values, q) {
  if (values.length === 0) return null;
  const sorted = [...values].sort((a, b) => a - b);
  const rank = q * (sorted.length - 1), below = Math.floor(rank);
  return sorted[below] + (sorted[Math.min(below + 1, sorted.length - 1)] - sorted[below]) * (rank - below);
}

const spread = (values) => (values.length === 0 ? null : {p50: percentile(values, 0.5), p95: percentile(values, 0.95)});

// The point at the knee; null if fewer than two points ran without failures.
export function kneeOf(points) {
  const clean = points.filter((point) => point.throughput !== null && point.failed === 0);
  if (clean.length < 2) return null;
  const best = Math.max(...clean.map(({throughput}) => throughput.median));
  return clean.find(({throughput}) => throughput.median >= KNEE_SHARE * best);
}

// --- a run ---

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// Clients that each send one request after the other. A request that fails is no answer: it has no latency and no units.
async function closedLoop(load, {clients, batch}, perClient, signal, onEnd) {
  const answers = [], failures = [];
  await Promise.all(Array.from({length: clients}, async (_, client) => {
    for (let i = 0; i < perClient && !signal.aborted; ++i) {
      try {
        answers.push(await load.ask(client, batch, signal));
      } catch (error) {
        if (signal.aborted) return;
        failures.push(error.code || `status_${error.status ?? 0}`);
        onEnd(error);
        await pause(FAILURE_PAUSE_MS);
        continue;
      }
      onEnd(null);
    }
  }));
  return {answers, failures};
}

// `answers`: {beginMs, endMs, units} of the requests of one round.
function roundOf({answers, failures}) {
  if (answers.length === 0) return {throughput: null, seconds: 0, requests: 0, failed: failures.length, inFlight: 0};
  const seconds = (Math.max(...answers.map(({endMs}) => endMs)) - Math.min(...answers.map(({beginMs}) => beginMs))) / 1000;
  return {
    throughput: answers.reduce((sum, {units}) => sum + units, 0) / seconds,
    seconds, requests: answers.length, failed: failures.length,
    // By Little's law: the clients, unless the browser or the page held requests back.
    inFlight: answers.reduce((sum, {beginMs, endMs}) => sum + endMs - beginMs, 0) / 1000 / seconds,
  };
}

function pointOf({level, clients, batch}, rounds) {
  const measured = rounds.map(roundOf);
  const answers = rounds.flatMap((round) => round.answers);
  const rates = measured.map(({throughput}) => throughput).filter((rate) => rate !== null);
  const failures = {};
  for (const code of rounds.flatMap((round) => round.failures)) failures[code] = (failures[code] ?? 0) + 1;
  const gaps = answers.flatMap((answer) => answer.gapsMs ?? []);
  return {
    level, clients, batch, rounds: measured,
    throughput: rates.length === 0 ? null : {median: percentile(rates, 0.5), min: Math.min(...rates), max: Math.max(...rates)},
    ttft: spread(answers.filter(({firstMs}) => firstMs !== undefined).map(({beginMs, firstMs}) => firstMs - beginMs)),
    itl: spread(gaps), total: spread(answers.map(({beginMs, endMs}) => endMs - beginMs)),
    requests: answers.length, failed: rounds.reduce((sum, round) => sum + round.failures.length, 0), failures,
    inFlight: answers.length === 0 ? 0 : percentile(measured.filter(({requests}) => requests > 0).map(({inFlight}) => inFlight), 0.5),
    promptTokens: answers.length === 0 ? 0 : Math.round(answers.reduce((sum, each) => sum + (each.promptTokens ?? 0), 0) / answers.length),
  };
}

// Runs a study: a warm-up, then rounds over all levels, up and down in turns, so that a machine that becomes slower all the
// time favours no level. Resolves to {points, ended, seconds, others}; `ended` is 'complete', 'stopped' (`signal`), 'time' or
// 'failures'. A round that was cut off is left out. `othersRunning(signal)` resolves to the number of requests
// of others, or null.
export async function runStudy(settings, load, {signal, onProgress = () => {}, othersRunning = async () => null}) {
  const {points, requests} = planOf(settings);
  const stop = new AbortController();
  let ended = 'complete';
  const end = (why) => {
    if (stop.signal.aborted) return;
    ended = why;
    stop.abort();
  };
  const onStop = () => end('stopped');
  if (signal.aborted) onStop();
  signal.addEventListener('abort', onStop);
  const timer = setTimeout(() => end('time'), settings.limitS * 1000);
  const rounds = new Map(points.map((point) => [point, []]));
  const warmUpFailures = [];
  const beganMs = performance.now();
  let done = 0, failed = 0, others = 0, at = null, round = 0;
  const progress = () => onProgress({done, requests, failed, at, round});
  const onEnd = (error) => {
    ++done;
    if (error !== null && ++failed >= MAX_FAILURES) end('failures');
    progress();
  };
  const foreign = async () => {
    const found = await othersRunning(stop.signal).catch(() => null);
    if (!found) return found;
    await pause(SETTLE_MS);  // requests of the last round may be counted for a moment yet
    return othersRunning(stop.signal).catch(() => null);
  };
  const measure = async (point, count) => {
    at = point;
    progress();
    others = Math.max(others, await foreign() ?? 0);
    if (stop.signal.aborted) return null;
    const result = await closedLoop(load, point, count, stop.signal, onEnd);
    // Failures are shown even of a round that they cut off.
    return stop.signal.aborted && ended !== 'failures' ? null : result;
  };
  try {
    await load.open(stop.signal);
    for (const point of points) {
      if (stop.signal.aborted) break;
      const result = await measure(point, 1);
      if (result !== null) warmUpFailures.push([point, result.failures]);
    }
    for (round = 1; round <= settings.rounds; ++round) {
      for (const point of round % 2 === 1 ? points : [...points].reverse()) {
        if (stop.signal.aborted) break;
        const result = await measure(point, settings.perClient);
        if (result !== null) rounds.get(point).push(result);
      }
    }
  } catch (error) {
    if (!stop.signal.aborted) throw error;
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', onStop);
    load.close();
  }
  // A warm-up is not measured, but its failures count.
  for (const [point, failures] of warmUpFailures) if (failures.length > 0) rounds.get(point).push({answers: [], failures});
  return {points: points.map((point) => pointOf(point, rounds.get(point))), ended, seconds: (performance.now() - beganMs) / 1000, others};
}
