// The settings of a chat as fields of a request. Errors are given by the name of the setting.
import {DEMO_TOOLS, definitionOf} from './tools.js';

// Ranges of the server (docs/http.md). `usual`: what it takes if neither the request nor the model says; `above`: the least value
// is not allowed itself.
export const RANGES = {
  temperature: {min: 0, max: 2, step: 0.1, field: 'temperature', title: 'Temperature', usual: '1'},
  topP: {min: 0, max: 1, step: 0.05, field: 'top_p', title: 'Top p', usual: '1'},
  maxTokens: {min: 16, max: 1 << 20, step: 1, field: 'max_output_tokens', title: 'Longest answer (tokens)', usual: 'context'},
  thinkingTokens: {min: 0, max: 1 << 20, step: 1, field: 'thinking_token_budget', title: 'Longest reasoning (tokens)', usual: 'no limit'},
  seed: {min: 0, max: Number.MAX_SAFE_INTEGER, step: 1, field: 'seed', title: 'Seed', usual: 'random'},
};
export const MORE_RANGES = {
  topK: {min: -1, max: 2 ** 31 - 1, step: 1, field: 'top_k', title: 'Top k', usual: 'off'},
  minP: {min: 0, max: 1, step: 0.01, field: 'min_p', title: 'Min p', usual: '0'},
  presencePenalty: {min: -2, max: 2, step: 0.1, field: 'presence_penalty', title: 'Presence penalty', usual: '0'},
  frequencyPenalty: {min: -2, max: 2, step: 0.1, field: 'frequency_penalty', title: 'Frequency penalty', usual: '0'},
  repetitionPenalty: {min: 0, max: 10, step: 0.05, above: true, field: 'repetition_penalty', title: 'Repetition penalty', usual: '1'},
};
export const MORE = [...Object.keys(MORE_RANGES), 'stop'];
const MAX_STOPS = 16, MAX_STOP_BYTES = 256;
const ESCAPES = {'\\n': '\n', '\\t': '\t', '\\\\': '\\'};

export const maxOf = (name, range, contextTokens) => (name === 'maxTokens' ? Math.min(range.max, contextTokens) : range.max);

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

// One text in each line.
function readStops(text, errors) {
  const stops = text.split('\n').filter((line) => line !== '').map((line) => line.replace(/\\[nt\\]/g, (sign) => ESCAPES[sign]));
  const long = stops.find((stop) => new Blob([stop]).size > MAX_STOP_BYTES);
  if (stops.length > MAX_STOPS) errors.stop = `${stops.length} texts, limit ${MAX_STOPS}`;
  else if (long !== undefined) errors.stop = `A text has ${new Blob([long]).size} bytes, limit ${MAX_STOP_BYTES}`;
  return stops;
}

function readTools({demoTools, ownTools}, errors) {
  const own = readJson(ownTools, errors, 'ownTools', Array.isArray, 'a list of functions') ?? [];
  return [...(demoTools ? DEMO_TOOLS.map(definitionOf) : []), ...own];
}

// The names of the tools that these settings give.
export const toolNames = (settings) => readTools(settings, {}).map((tool) => tool?.name).filter((name) => typeof name === 'string');

// A choice is 'none', 'required' or 'name:' and a tool's name; '' leaves it to the model.
function readToolChoice(choice, tools, errors) {
  if (choice === '' || !choice.startsWith('name:')) return choice;
  const name = choice.slice('name:'.length);
  if (!tools.some((tool) => tool?.name === name)) errors.toolChoice = `There is no tool ${name}`;
  return {type: 'function', name};
}

// {body, errors, system, demoTools}; `contextTokens`: the model's, limits prompt and answer.
export function readSettings(settings, contextTokens = Infinity) {
  const errors = {}, body = {};
  if (Number.isFinite(contextTokens)) body.max_prompt_tokens = contextTokens;
  for (const [name, range] of Object.entries({...RANGES, ...MORE_RANGES})) {
    if (settings[name] === '') continue;
    const value = Number(settings[name]);
    const max = maxOf(name, range, contextTokens);
    const least = range.above ? value > range.min : value >= range.min;
    if (!(least && value <= max) || (range.step === 1 && !Number.isInteger(value))) {
      errors[name] = range.above ? `${range.title}: above ${range.min}, up to ${max}` : `${range.title}: ${range.min} to ${max}`;
    } else {
      body[range.field] = value;
    }
  }
  const stops = readStops(settings.stop, errors);
  if (stops.length > 0) body.stop = stops;
  if (settings.effort !== '') body.reasoning = {effort: settings.effort};
  if (settings.logprobs !== '') {
    body.include = ['message.output_text.logprobs'];
    body.top_logprobs = Number(settings.logprobs);
  }
  const schema = readJson(settings.schema, errors, 'schema',
                          (value) => typeof value === 'object' && value !== null && !Array.isArray(value), 'a JSON object');
  if (schema !== null) body.text = {format: {type: 'json_schema', name: 'answer', schema, strict: true}};
  const tools = readTools(settings, errors);
  if (tools.length > 0) {
    body.tools = tools;
    const choice = readToolChoice(settings.toolChoice, tools, errors);
    if (choice !== '') body.tool_choice = choice;
  }
  return {body, errors, schema, system: settings.system, demoTools: settings.demoTools};
}
