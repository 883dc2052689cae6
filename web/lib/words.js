// Plain words for names of the API that several views show.

// Limits of keys, tenants and models: [what is counted, title of its field].
export const LIMITS = {
  requests_per_minute: ['requests a minute', 'Requests a minute'],
  tokens_per_minute: ['tokens a minute', 'Tokens a minute'],
  concurrency: ['requests at the same time', 'Requests at the same time'],
  queued_tokens: ['waiting tokens', 'Tokens of waiting requests'],
  daily_tokens: ['tokens a day', 'Tokens a day'],
  window: ['requests in a window', 'Requests in a window'],
};
export const limitName = (limit) => LIMITS[limit]?.[0] ?? limit;

// What a model does (tasks of /v1/models).
export const TASKS = {generate: 'writes text', embed: 'compares texts (vectors)', rerank: 'ranks texts', score: 'scores texts', classify: 'classifies texts'};
export const taskName = (task) => TASKS[task] ?? task;

// What a job does (docs/jobs.md).
const KINDS = {
  'chat.completions': 'Chat answer', completions: 'Completion', generate: 'Completion', infill: 'Text to fill in', embeddings: 'Embeddings', embed: 'Embeddings',
  rerank: 'Ranking', score: 'Scores', decisions: 'Decision', systemone: 'Decision', responses: 'Response',
};
export const kindName = (kind) => KINDS[kind] ?? kind ?? '';
