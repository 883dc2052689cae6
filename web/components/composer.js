// Where a message is written: its text, and text files to ask about.
import {html, useEffect, useRef, useState} from '../lib/preact.js';
import {countTokens} from '../lib/api.js';
import {bytes, count} from '../lib/format.js';
import {notify} from '../lib/notices.js';
import {joinFiles, readTextFile} from '../lib/text_files.js';
import {FileButton} from './file_button.js';
import {Icon} from './icon.js';

const ANSWER_TOKENS = 64;  // kept free for a short answer

// The files of the message that is being written. `add` takes Files of the browser, and says why one is refused.
export function useFiles(model) {
  const [files, setFiles] = useState([]);
  const add = async (picked) => {
    let all = files;
    for (const each of picked) {
      try {
        const file = await readTextFile(each);
        if (all.some(({name}) => name === file.name)) throw new Error(`${file.name} is there already`);
        file.tokens = model ? await countTokens(model.id, joinFiles([file], '')) : 0;
        const tokens = all.reduce((sum, other) => sum + other.tokens, file.tokens);
        const most = (model?.max_model_len ?? Infinity) - ANSWER_TOKENS;
        if (tokens > most) {
          const more = all.length > 0 ? `the files have ${count(tokens)} tokens with ${file.name}` : `${file.name} has ${count(tokens)} tokens`;
          throw new Error(`${more}; ${model.id} reads at most ${count(most)}`);
        }
        all = [...all, file];
        setFiles(all);
      } catch (error) {
        notify(`${error.message}.`, 'bad');
      }
    }
  };
  return {files, add, remove: (file) => setFiles(files.filter((each) => each !== file)), clear: () => setFiles([])};
}

const CLIP = 'M16.5 6.5v10a4.5 4.5 0 0 1-9 0V5.5a3 3 0 0 1 6 0v10a1.5 1.5 0 0 1-3 0v-9';

export function Composer({disabled, running, attached, onSend, onStop, hint}) {
  const [text, setText] = useState('');
  const field = useRef(null);
  const {files, add, remove, clear} = attached;
  const empty = text.trim() === '';
  const submit = (event) => {
    event.preventDefault();
    if (empty || disabled || running) return;
    onSend(joinFiles(files, text));
    setText('');
    clear();
  };
  const onKeyDown = (event) => {
    // Enter ends the input of many scripts first.
    if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) submit(event);
  };
  const onPaste = (event) => {
    const pasted = [...event.clipboardData.files];
    if (pasted.length === 0) return;
    event.preventDefault();
    add(pasted);
  };
  useEffect(() => { field.current.focus(); }, []);
  return html`
    <div class="composer">
      <form onSubmit=${submit}>
        ${files.length > 0 && html`
          <ul class="chips" aria-label="Files of the message">
            ${files.map((file) => html`
              <li class="chip" key=${file.name}><span class="chip-name" title=${file.name}>${file.name}</span>
                <span class="chip-size">${file.tokens > 0 ? `${count(file.tokens)} tokens` : bytes(file.bytes)}</span>
                <button type="button" class="quiet small" aria-label=${`Remove ${file.name}`} onClick=${() => remove(file)}>✕</button></li>`)}
          </ul>`}
        <div class="composer-row">
          <${FileButton} multiple className="quiet icon" label="Attach text files" onFiles=${add}>
            <${Icon} path=${CLIP} /><//>
          <label class="visually-hidden" for="message">Message</label>
          <textarea id="message" ref=${field} rows="1" dir="auto" placeholder=${files.length > 0 ? 'Ask about the files' : 'Message'} value=${text}
                    onInput=${(event) => setText(event.target.value)} onKeyDown=${onKeyDown} onPaste=${onPaste}></textarea>
          ${running
            ? html`<button type="button" onClick=${onStop}>Stop</button>`
            : html`<button class="primary" disabled=${disabled || empty}>Send</button>`}
        </div>
      </form>
      <p class="hint"><span>Enter sends, Shift+Enter begins a line</span><span>${hint}</span></p>
    </div>`;
}
