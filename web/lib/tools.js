// Tools that run in the page, to try how a model calls functions. Others can be defined in the settings; their results are
// typed in by hand.

export const DEMO_TOOLS = [
  {
    type: 'function', name: 'get_time', description: 'The current date and time.',
    parameters: {type: 'object', properties: {}, additionalProperties: false},
    run: () => ({time: new Date().toString()}),
  },
  {
    type: 'function', name: 'calculate', description: 'The value of an arithmetic expression with + - * / ^ and brackets.',
    parameters: {
      type: 'object', properties: {expression: {type: 'string', description: 'for example (2+3)*4'}},
      required: ['expression'], additionalProperties: false,
    },
    run: ({expression}) => ({value: calculate(String(expression))}),
  },
  {
    type: 'function', name: 'roll_dice', description: 'Rolls dice.',
    parameters: {
      type: 'object', properties: {sides: {type: 'integer', minimum: 2, maximum: 100}, count: {type: 'integer', minimum: 1, maximum: 20}},
      required: ['sides'], additionalProperties: false,
    },
    run: ({sides, count = 1}) => ({
      rolls: Array.from({length: Math.min(Number(count), 20)}, () => 1 + Math.floor(Math.random() * Number(sides))),
    }),
  },
];

// As the API takes them.
export const definitionOf = ({run, ...definition}) => definition;

// The result of a call; null if no tool of the page has that name.
export function runTool(call) {
  const tool = DEMO_TOOLS.find((each) => each.name === call.name);
  if (tool === undefined) return null;
  let output;
  try {
    output = tool.run(JSON.parse(call.text || '{}'));
  } catch (error) {
    output = {error: error.message};
  }
  return {callId: call.callId, output: JSON.stringify(output)};
}

// A parser by descent: sum, product, power, sign, bracket, number.
export function calculate(expression) {
  const tokens = expression.match(/\d+(?:\.\d+)?(?:e[+-]?\d+)?|[-+*/^()]|\S/gi) ?? [];
  let at = 0;
  const take = (...wanted) => (wanted.includes(tokens[at]) ? tokens[at++] : null);
  const chain = (next, operators) => () => {
    let value = next();
    for (let operator = take(...Object.keys(operators)); operator !== null; operator = take(...Object.keys(operators))) {
      value = operators[operator](value, next());
    }
    return value;
  };
  const primary = () => {
    if (take('(') !== null) {
      const value = sum();
      if (take(')') === null) throw new Error('a bracket is not closed');
      return value;
    }
    const value = Number(tokens[at++]);
    if (Number.isNaN(value)) throw new Error(`"${tokens[at - 1] ?? 'the end'}" is not a number`);
    return value;
  };
  const power = () => {
    const base = primary();
    return take('^') === null ? base : base ** signed();
  };
  const signed = () => {
    if (take('-') !== null) return -signed();
    take('+');
    return power();
  };
  const product = chain(signed, {'*': (a, b) => a * b, '/': (a, b) => a / b});
  const sum = chain(product, {'+': (a, b) => a + b, '-': (a, b) => a - b});
  const value = sum();
  if (at < tokens.length) throw new Error(`"${tokens[at]}" is not expected`);
  return value;
}
