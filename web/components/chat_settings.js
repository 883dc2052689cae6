// The settings of the chat, with the server's limits.
import {html, useState} from '../lib/preact.js';
import {MORE, MORE_RANGES, RANGES, maxOf, toolNames} from '../lib/chat_settings.js';
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

// `defaults`: of the model, by the fields of a request.
function Numbers({ranges, settings, errors, model}) {
  const defaults = model?.default_sampling_params ?? {};
  return Object.entries(ranges).map(([name, range]) => html`
    <${Field} key=${name} title=${range.title} error=${errors[name]}>${(attributes) => html`
      <input ...${attributes} type="number" inputmode="decimal" min=${range.min} step=${range.step}
             max=${maxOf(name, range, model?.max_model_len ?? Infinity)}
             placeholder=${defaults[range.field] ?? range.usual} value=${settings[name]}
             onInput=${(event) => preferences.merge({[name]: event.target.value})} />`}<//>`);
}

function ToolChoice({settings, errors}) {
  const names = toolNames(settings);
  const {toolChoice: chosen} = settings;
  if (names.length === 0) return null;
  // A tool that is gone is shown with its error, until another choice is made.
  const gone = chosen.startsWith('name:') && !names.includes(chosen.slice(5)) ? [chosen.slice(5)] : [];
  return html`
    <${Field} title="Tool choice" error=${errors.toolChoice}>${(attributes) => html`
      <select ...${attributes} value=${chosen} onChange=${(event) => preferences.merge({toolChoice: event.target.value})}>
        <option value="">the model decides</option>
        <option value="none">no call</option>
        <option value="required">must call one</option>
        ${[...new Set([...names, ...gone])].map((name) => html`<option value=${`name:${name}`}>must call ${name}</option>`)}
      </select>`}<//>`;
}

export function ChatSettings({settings, errors, model, onClose}) {
  const changed = MORE.filter((name) => settings[name] !== '').length;
  const [moreOpen, setMoreOpen] = useState(MORE.some((name) => name in errors));
  return html`
    <aside class="settings" aria-label="Settings of the chat">
      <div class="stack">
        <div class="row"><h2>Settings</h2><span style=${{flex: 1}}></span>
          <button type="button" class="small" onClick=${onClose}>Close</button></div>
        <${Text} name="system" title="System prompt" settings=${settings} errors=${errors} hint="For new conversations." />
        <div class="pairs"><${Numbers} ranges=${RANGES} settings=${settings} errors=${errors} model=${model} />
        <${Field} title="Reasoning effort">${(attributes) => html`
          <select ...${attributes} value=${settings.effort} onChange=${(event) => preferences.merge({effort: event.target.value})}>
            <option value="">default</option>
            ${EFFORTS.map((effort) => html`<option value=${effort}>${effort}</option>`)}
          </select>`}<//></div>
        <details class="fold" open=${moreOpen} onToggle=${(event) => setMoreOpen(event.target.open)}>
          <summary>More sampling${changed > 0 ? `: ${changed} set` : ''}</summary>
          <div class="stack">
            <div class="pairs"><${Numbers} ranges=${MORE_RANGES} settings=${settings} errors=${errors} model=${model} /></div>
            <${Text} name="stop" title="Stop texts" settings=${settings} errors=${errors}
                     hint="One in each line, up to 16; \\n stands for a line break. The answer ends before any of them." />
          </div>
        </details>
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
        <${ToolChoice} settings=${settings} errors=${errors} />
        <${Text} name="schema" title="JSON schema of the answer" settings=${settings} errors=${errors} placeholder=${SCHEMA_EXAMPLE}
                 hint="Empty: free text." />
        <div class="row"><button type="button" onClick=${() => preferences.merge({...DEFAULTS, theme: settings.theme, model: settings.model, owner: settings.owner})}>
          Reset</button></div>
      </div>
    </aside>`;
}
