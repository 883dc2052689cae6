// The settings of a chat as fields of a request. Errors are given by the name of the setting.
import {DEMO_TOOLS, definitionOf} from './tools.js';

// Ranges of the server (docs/http.md).
export const RANGES = {
  temperature: {min: 0, max: 2, step: 0.1, field: 'temperature', title: 'Temperature'},
  topP: {min: 0, max: 1, step: 0.05, field: 'top_p', title: 'Top p'},
  maxTokens: {min: 16, max: 1 << 20, step: 1, field: 'max_output_tokens', title: 'Longest answer (tokens)'},
  thinkingTokens: {min: 0, max: 1 << 20, step: 1, field: 'thinking_token_budget', title: 'Longest reasoning (tokens)'},
  seed: {min: 0, max: Number.MAX_SAFE_INTEGER, step: 1, field: 'seed', title: 'Seed'},
};

const readJson = (text, errors, name, isRight, what) => {
  if (text.trim() === '') return null;
  try {
    const value = JSON.parse(text);
    if (isRight(value)) return value;
    errors[name] = `This must be ${what}.`;
  } catch (error) {
    errors[name] = `Invalid JSON: ${error.message}`;
  }
  return null;
};

// {body, errors, system, demoTools}; `contextTokens`: the model's, limits prompt and answer.
export function readSettings(settings, contextTokens = Infinity) {
  const errors = {}, body = {};
  if (Number.isFinite(contextTokens)) body.max_prompt_tokens = contextTokens;
  for (const [name, range] of Object.entries(RANGES)) {
    if (settings[name] === '') continue;
    const value = Number(settings[name]);
    const max = name === 'maxTokens' ? Math.min(range.max, contextTokens) : range.max;
    if (!(value >= range.min && value <= max) || (range.step === 1 && !Number.isInteger(value))) {
      errors[name] = `${range.title}: ${range.min} to ${max}`;
    } else {
      body[range.field] = value;
    }
  }
  if (settings.effort !== '') body.reasoning = {effort: settings.effort};
  if (settings.logprobs !== '') {
    body.include = ['message.output_text.logprobs'];
    body.top_logprobs = Number(settings.logprobs);
  }
  const schema = readJson(settings.schema, errors, 'schema',
                          (value) => typeof value === 'object' && value !== null && !Array.isArray(value), 'a JSON object');
  if (schema !== null) body.text = {format: {type: 'json_schema', name: 'answer', schema, strict: true}};
  const own = readJson(settings.ownTools, errors, 'ownTools', Array.isArray, 'a list of functions') ?? [];
  const tools = [...(settings.demoTools ? DEMO_TOOLS.map(definitionOf) : []), ...own];
  if (tools.length > 0) body.tools = tools;
  return {body, errors, schema, system: settings.system, demoTools: settings.demoTools};
}
