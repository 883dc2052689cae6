// Numbers, sizes and times as text.
const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

export function bytes(count) {
  let value = count, unit = 0;
  while (value >= 1024 && unit + 1 < UNITS.length) {
    value /= 1024;
    ++unit;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${UNITS[unit]}`;
}

const NUMBERS = new Intl.NumberFormat('en');
export const count = (number) => NUMBERS.format(Math.round(number));

export function duration(seconds) {
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor(seconds % 3600 / 60)} min`;
}

// '–' where there is no time.
export function milliseconds(value) {
  if (value === null || value === undefined) return '–';
  if (value === 0) return '0 ms';
  if (value < 99.95) return `${value.toFixed(value < 9.995 ? 2 : 1)} ms`;
  if (value < 999.5) return `${Math.round(value)} ms`;
  return value < 60000 ? `${(value / 1000).toPrecision(3)} s` : duration(value / 1000);
}

// The time since then, by its largest unit: how old something is, is read at a glance.
export function age(unixMs, nowMs = Date.now()) {
  const seconds = Math.max(0, (nowMs - unixMs) / 1000);
  for (const [unit, name] of [[86400, 'd'], [3600, 'h'], [60, 'min']]) {
    if (seconds >= unit) return `${Math.floor(seconds / unit)} ${name} ago`;
  }
  return seconds < 5 ? 'now' : `${Math.floor(seconds)} s ago`;
}

// "1 request", "2 requests"; `many` for words that do not take an s.
export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

// Messages of the API begin in small letters and lack a point.
export const sentence = (text) => `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?…]$/.test(text) ? '' : '.'}`;

export const dateTime = (unixS) => new Date(unixS * 1000).toLocaleString([], {dateStyle: 'medium', timeStyle: 'short'});
