// The settings of the chat, with the server's limits.
import {html} from '../lib/preact.js';
import {RANGES} from '../lib/chat_settings.js';
import {DEFAULTS, preferences} from '../lib/preferences.js';
import {Check, Field} from './field.js';

const EFFORTS = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'];
const SCHEMA_EXAMPLE = `{
  "type": "object",
  "properties": {"city": {"type": "string"}, "population": {"type": "integer"}},
  "required": ["city", "population"]
}`;

function Text({name, title, settings, errors, placeholder = '', hint = ''}) {
  return html`
    <${Field} title=${title} hint=${hint} error=${errors[name]}>${(attributes) => html`
      <textarea ...${attributes} class=${name === 'system' ? '' : 'mono'} dir="auto" value=${settings[name]} placeholder=${placeholder}
                onInput=${(event) => preferences.merge({[name]: event.target.value})}></textarea>`}<//>`;
}

export function ChatSettings({settings, errors, model, onClose}) {
  const defaults = model?.default_sampling_params ?? {};
  return html`
    <aside class="settings" aria-label="Settings of the chat">
      <div class="stack">
        <div class="row"><h2>Settings</h2><span style=${{flex: 1}}></span>
          <button type="button" class="small" onClick=${onClose}>Close</button></div>
        <${Text} name="system" title="System prompt" settings=${settings} errors=${errors} hint="For new conversations." />
        <div class="pairs">${Object.entries(RANGES).map(([name, range]) => html`
          <${Field} key=${name} title=${range.title} error=${errors[name]}>${(attributes) => html`
            <input ...${attributes} type="number" inputmode="decimal" min=${range.min} step=${range.step}
                   max=${name === 'maxTokens' ? model?.max_model_len ?? range.max : range.max}
                   placeholder=${defaults[range.field] ?? 'default'} value=${settings[name]}
                   onInput=${(event) => preferences.merge({[name]: event.target.value})} />`}<//>`)}
        <${Field} title="Reasoning effort">${(attributes) => html`
          <select ...${attributes} value=${settings.effort} onChange=${(event) => preferences.merge({effort: event.target.value})}>
            <option value="">default</option>
            ${EFFORTS.map((effort) => html`<option value=${effort}>${effort}</option>`)}
          </select>`}<//></div>
        <${Field} title="Token probabilities" hint="Shown by the button Tokens below an answer.">${(attributes) => html`
          <select ...${attributes} value=${settings.logprobs} onChange=${(event) => preferences.merge({logprobs: event.target.value})}>
            <option value="">off</option>
            ${[1, 3, 5, 10, 20].map((top) => html`<option value=${top}>${top} most probable</option>`)}
          </select>`}<//>
        <${Check} title="Demo tools: clock, calculator, dice" checked=${settings.demoTools}
                  onChange=${(demoTools) => preferences.merge({demoTools})} />
        <${Text} name="ownTools" title="Own tools (JSON)" settings=${settings} errors=${errors}
                 placeholder='[{"type": "function", "name": "get_weather", "parameters": {"type": "object"}}]'
                 hint="The page asks you for their results." />
        <${Text} name="schema" title="JSON schema of the answer" settings=${settings} errors=${errors} placeholder=${SCHEMA_EXAMPLE}
                 hint="Empty: free text." />
        <div class="row"><button type="button" onClick=${() => preferences.merge({...DEFAULTS, theme: settings.theme, model: settings.model, owner: settings.owner})}>
          Reset</button></div>
      </div>
    </aside>`;
}
