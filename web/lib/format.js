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

export const count = (number) => Math.round(number).toLocaleString('en');

export function duration(seconds) {
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor(seconds % 3600 / 60)} min`;
}

export const dateTime = (unixS) => new Date(unixS * 1000).toLocaleString([], {dateStyle: 'medium', timeStyle: 'short'});
