// Runs of benchmarks, kept in the browser's local storage: settings and figures, no texts. They are of one owner, as the settings
// are: the next one does not see them.
import {onOtherOwner} from './preferences.js';
import {Store} from './store.js';

const NAME = 'tutti.benchmarks';
export const MAX_RUNS = 50;

// Version 1 had other names for the bounds of the throughput.
function fromVersion1(run) {
  const points = run.points.map(({throughput, ...point}) => ({
    ...point, throughput: throughput && {median: throughput.median, min: throughput.least, max: throughput.most},
  }));
  return {...run, points};
}

const isText = (value) => typeof value === 'string';
const isNumber = (value) => Number.isFinite(value);
const hasNumbers = (value, ...names) => names.every((name) => isNumber(value?.[name]));
const orNone = (value, ...names) => value === null || value === undefined || hasNumbers(value, ...names);

const isPoint = (point) => hasNumbers(point, 'level', 'clients', 'batch', 'requests', 'failed', 'inFlight') && Array.isArray(point.rounds) &&
    typeof point.failures === 'object' && point.failures !== null && Object.values(point.failures).every(isNumber) &&
    orNone(point.throughput, 'median', 'min', 'max') && [point.ttft, point.itl, point.total].every((times) => orNone(times, 'p50', 'p95'));

// The storage may have anything: what is no run is left out.
const isRun = (run) => [run?.id, run?.name, run?.unit, run?.ended, run?.serverVersion].every(isText) && isNumber(run.at) &&
    [run.settings?.kind, run.settings?.axis, run.settings?.model].every(isText) && hasNumbers(run.settings, 'rounds') &&
    Array.isArray(run.settings.levels) && run.settings.levels.every(isNumber) && Array.isArray(run.points) && run.points.every(isPoint);

function read() {
  try {
    const {version, runs} = JSON.parse(localStorage.getItem(NAME) ?? '{}');
    if (!Array.isArray(runs)) return [];
    return (version === 1 ? runs.map(fromVersion1) : runs).filter(isRun);
  } catch {
    return [];
  }
}

// The newest first.
export const runs = new Store(read());
window.addEventListener('storage', ({key}) => { if (key === NAME) runs.set(read()); });

// False: the storage is full or forbidden, and nothing has changed.
function keep(next) {
  try {
    localStorage.setItem(NAME, JSON.stringify({version: 2, runs: next}));
  } catch {
    return false;
  }
  runs.set(next);
  return true;
}

// Other tabs may have changed them, so each change begins with what is stored.
export const addRun = (run) => read().length < MAX_RUNS && keep([run, ...read()]);
export const renameRun = (id, name) => keep(read().map((run) => (run.id === id ? {...run, name} : run)));
export const removeRuns = (ids) => keep(read().filter((run) => !ids.includes(run.id)));

onOtherOwner(() => {
  try {
    localStorage.removeItem(NAME);
  } catch {
    // There is none.
  }
  runs.set([]);
});

export const jsonOf = (chosen) => JSON.stringify({object: 'tutti.page.benchmarks', version: 2, runs: chosen}, null, 2);

// A table calculation would run what begins like a formula.
function cell(value) {
  const text = `${value ?? ''}`;
  const safe = typeof value === 'string' && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

// A line for each point of each run.
export function csvOf(chosen) {
  const head = ['run', 'at', 'server_version', 'model', 'kind', 'axis', 'level', 'clients', 'batch', 'rounds', 'requests', 'failed', 'prompt_tokens',
                'output_tokens', 'unit', 'throughput_median', 'throughput_min', 'throughput_max', 'ttft_p50_ms', 'ttft_p95_ms', 'itl_p50_ms',
                'itl_p95_ms', 'total_p50_ms', 'total_p95_ms', 'in_flight', 'ended', 'requests_of_others', 'tab_hidden'];
  const lines = chosen.flatMap((run) => run.points.map((point) => [
    run.name, new Date(run.at).toISOString(), run.serverVersion, run.settings.model, run.settings.kind, run.settings.axis, point.level, point.clients,
    point.batch, point.rounds.length, point.requests, point.failed, point.promptTokens, run.settings.outputTokens || '', run.unit,
    point.throughput?.median, point.throughput?.min, point.throughput?.max, point.ttft?.p50, point.ttft?.p95, point.itl?.p50, point.itl?.p95,
    point.total?.p50, point.total?.p95, point.inFlight, run.ended, run.others, run.hidden]));
  return [head, ...lines].map((line) => line.map(cell).join(',')).join('\r\n') + '\r\n';
}
