// Checks a value against a JSON schema (draft 2020-12), as far as the server constrains answers by it
// (docs/structured-output.md). Other keywords are not looked at, nor patterns that are no regular expressions of the browser.
// A schema may refer to itself and a pattern may take for ever, so that both are bounded.

const MAX_STEPS = 50000, MAX_DEPTH = 64, MAX_FAULTS = 20;
const MAX_PATTERN_STEPS = 1e6;
const MAX_NESTED = 16;  // characters that are checked against a pattern with a repeated group

const typeOf = (value) => {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  return typeof value === 'number' && Number.isInteger(value) ? 'integer' : typeof value;
};
const isType = (value, type) => typeOf(value) === type || (type === 'number' && typeOf(value) === 'integer');
const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

// {"$ref": "#/$defs/name"}
function resolve(root, reference) {
  return reference.replace(/^#\/?/, '').split('/').filter((part) => part !== '')
      .map((part) => part.replace(/~1/g, '/').replace(/~0/g, '~'))
      .reduce((at, name) => (typeof at === 'object' && at !== null && Object.hasOwn(at, name) ? at[name] : undefined), root);
}

// The server takes patterns that the browser does not, or only without its strict mode; null for such a one.
function regExpOf(pattern) {
  for (const flags of ['u', '']) {
    try {
      return new RegExp(pattern, flags);
    } catch {
      // The next flags, or none.
    }
  }
  return null;
}

// Whether a text of this length may take too long: each repetition may try every length, a repeated group every split.
function maySlow(pattern, length) {
  if (/\)(?:[*+]|\{)/.test(pattern)) return length > MAX_NESTED;
  const repetitions = (pattern.match(/[*+]|\{\d+,\d*\}/g) ?? []).length;
  return length ** repetitions > MAX_PATTERN_STEPS;
}

class TooMuchWork extends Error {}

// {faults, unread, slow, isComplete}: what is wrong, as lines "place: what"; the patterns that the browser cannot read, and those
// that were not checked, as they may take too long; `isComplete`: whether the whole answer was checked.
export function check(value, schema) {
  const result = {faults: [], unread: [], slow: [], isComplete: true};
  const work = {steps: 0, unread: new Set(), slow: new Set()};
  try {
    result.faults = faultsOf(value, schema, schema, 'the answer', 0, work).slice(0, MAX_FAULTS);
  } catch {
    result.isComplete = false;  // too much work, or the schema is none
  }
  return {...result, unread: [...work.unread], slow: [...work.slow]};
}

function fitsPattern(value, pattern, work) {
  const expression = regExpOf(pattern);
  if (expression === null) work.unread.add(pattern);
  else if (maySlow(pattern, value.length)) work.slow.add(pattern);
  else return expression.test(value);
  return true;
}

function faultsOf(value, schema, root, place, depth, work) {
  if (++work.steps > MAX_STEPS || depth > MAX_DEPTH) throw new TooMuchWork();
  if (schema === true) return [];
  if (schema === false || typeof schema !== 'object' || schema === null) return [`${place}: is not allowed`];
  const faults = [];
  const fail = (what) => faults.push(`${place}: ${what}`);
  const inner = (each, part, where = place) => faultsOf(each, part, root, where, depth + 1, work);
  if (schema.$ref !== undefined) faults.push(...inner(value, resolve(root, schema.$ref) ?? false));
  const types = [schema.type ?? []].flat();
  if (types.length > 0 && !types.some((type) => isType(value, type))) fail(`is ${typeOf(value)}, not ${types.join(' or ')}`);
  if (schema.enum !== undefined && !schema.enum.some((each) => same(each, value))) fail('is none of the listed values');
  if (schema.const !== undefined && !same(schema.const, value)) fail('is another value');
  for (const part of schema.allOf ?? []) faults.push(...inner(value, part));
  if (schema.anyOf !== undefined && !schema.anyOf.some((part) => inner(value, part).length === 0)) fail('fits no alternative');
  if (schema.oneOf !== undefined && schema.oneOf.filter((part) => inner(value, part).length === 0).length !== 1) {
    fail('does not fit exactly one alternative');
  }
  if (typeof value === 'string') {
    const length = [...value].length;
    if (length < (schema.minLength ?? 0) || length > (schema.maxLength ?? Infinity)) fail(`has ${length} characters`);
    if (schema.pattern !== undefined && !fitsPattern(value, schema.pattern, work)) fail('does not fit the pattern');
  }
  if (typeof value === 'number') {
    if (value < (schema.minimum ?? -Infinity) || value > (schema.maximum ?? Infinity) ||
        value <= (schema.exclusiveMinimum ?? -Infinity) || value >= (schema.exclusiveMaximum ?? Infinity)) fail('is out of its range');
  }
  if (Array.isArray(value)) {
    if (value.length < (schema.minItems ?? 0) || value.length > (schema.maxItems ?? Infinity)) fail(`has ${value.length} items`);
    const prefix = schema.prefixItems ?? [];
    value.forEach((each, i) => {
      const part = prefix[i] ?? schema.items;
      if (part !== undefined) faults.push(...inner(each, part, `${place}[${i}]`));
    });
  } else if (typeof value === 'object' && value !== null) {
    for (const name of schema.required ?? []) if (!Object.hasOwn(value, name)) fail(`lacks "${name}"`);
    for (const [name, each] of Object.entries(value)) {
      const part = Object.hasOwn(schema.properties ?? {}, name) ? schema.properties[name] : schema.additionalProperties;
      if (part !== undefined) faults.push(...inner(each, part, `${place}.${name}`));
    }
  }
  return faults;
}
