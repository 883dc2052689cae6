// Where a message is written: its text, and text files to ask about.
import {html, useEffect, useRef, useState} from '../lib/preact.js';
import {countTokens} from '../lib/api.js';
import {draftOf, setDraft, useDraft} from '../lib/drafts.js';
import {bytes, count} from '../lib/format.js';
import {notify} from '../lib/notices.js';
import {joinFiles, readTextFile} from '../lib/text_files.js';
import {FileButton} from './file_button.js';
import {Icon} from './icon.js';

const ANSWER_TOKENS = 64;  // kept free for a short answer

// The files of the message that is being written in a conversation. `add` takes Files of the browser, and says why one is refused;
// `reading`: whether a call of it is not done.
export function useFiles(model, chat) {
  const {files} = useDraft(chat);
  const [reading, setReading] = useState(0);
  const last = useRef(Promise.resolve());  // the end of the queue of additions
  const set = (id, changed) => setDraft(id, {files: changed});
  const addAll = async (picked) => {
    for (const each of picked) {
      try {
        const file = await readTextFile(each);
        if (draftOf(chat).files.some(({name}) => name === file.name)) throw new Error(`${file.name} is already attached`);
        file.tokens = model ? await countTokens(model.id, joinFiles([file], '')) : 0;
        const all = draftOf(chat).files;
        const tokens = all.reduce((sum, other) => sum + other.tokens, file.tokens);
        const max = (model?.max_model_len ?? Infinity) - ANSWER_TOKENS;
        if (tokens > max) {
          const more = all.length > 0 ? `with ${file.name} the files have ${count(tokens)} tokens` : `${file.name} has ${count(tokens)} tokens`;
          throw new Error(`${more}; ${model.id} reads at most ${count(max)}`);
        }
        set(chat, [...all, file]);
      } catch (error) {
        notify(`${error.message}.`, 'bad');
      }
    }
  };
  const add = (picked) => {
    setReading((count) => count + 1);
    last.current = last.current.then(() => addAll(picked)).finally(() => setReading((count) => count - 1));
  };
  return {files, reading: reading > 0, add, remove: (file) => set(chat, draftOf(chat).files.filter((each) => each !== file))};
}

const CLIP = 'M16.5 6.5v10a4.5 4.5 0 0 1-9 0V5.5a3 3 0 0 1 6 0v10a1.5 1.5 0 0 1-3 0v-9';

// `chat`: the conversation, whose draft is shown. `onSend(text)` sends a message; text and files stay here until it has been taken.
// `sending`: that has not happened yet.
export function Composer({chat, disabled, running, sending, attached, onSend, onStop, hint}) {
  const {text} = useDraft(chat);
  const field = useRef(null);
  const {files, reading, add, remove} = attached;
  const blocked = text.trim() === '' || disabled || sending || reading;
  const submit = (event) => {
    event.preventDefault();
    if (blocked || running) return;
    onSend(joinFiles(files, text));
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
                <button type="button" class="quiet small" disabled=${sending} aria-label=${`Remove ${file.name}`}
                        onClick=${() => remove(file)}>✕</button></li>`)}
          </ul>`}
        <div class="composer-row">
          <${FileButton} multiple className="quiet icon" disabled=${sending} label="Attach text files" onFiles=${add}>
            <${Icon} path=${CLIP} /><//>
          <label class="visually-hidden" for="message">Message</label>
          <textarea id="message" ref=${field} rows="1" dir="auto" readonly=${sending} value=${text}
                    placeholder=${files.length > 0 ? 'Ask about the files' : 'Message'} onInput=${(event) => setDraft(chat, {text: event.target.value})} onKeyDown=${onKeyDown} onPaste=${onPaste}></textarea>
          ${running
            ? html`<button type="button" onClick=${onStop}>Stop</button>`
            : html`<button class="primary" disabled=${blocked}>Send</button>`}
        </div>
      </form>
      <p class="hint"><span>Enter sends, Shift+Enter begins a line</span>
        <span role="status">${reading ? 'Reading files…' : sending ? 'Sending…' : hint}</span></p>
    </div>`;
}
