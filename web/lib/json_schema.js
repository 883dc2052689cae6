// Checks a value against a JSON schema (draft 2020-12), as far as the server constrains answers by it
// (docs/structured-output.md). Other keywords are not looked at, nor patterns that are no regular expressions of the browser.

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
      .reduce((at, part) => at?.[part.replace(/~1/g, '/').replace(/~0/g, '~')], root);
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

// The patterns of a schema that the browser cannot check.
export function uncheckedPatterns(schema) {
  if (typeof schema !== 'object' || schema === null) return [];
  const own = typeof schema.pattern === 'string' && regExpOf(schema.pattern) === null ? [schema.pattern] : [];
  return [...new Set([...own, ...Object.values(schema).flatMap(uncheckedPatterns)])];
}

// What is wrong, as lines "place: what"; empty if nothing is.
export function faultsOf(value, schema, root = schema, place = 'the answer', depth = 0) {
  if (schema === true || depth > 64) return [];
  if (schema === false || typeof schema !== 'object' || schema === null) return [`${place}: is not allowed`];
  const faults = [];
  const fail = (what) => faults.push(`${place}: ${what}`);
  const inner = (each, part, where = place) => faultsOf(each, part, root, where, depth + 1);
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
    if (schema.pattern !== undefined && regExpOf(schema.pattern)?.test(value) === false) fail('does not fit the pattern');
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
