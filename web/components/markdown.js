// A text in Markdown that may still grow; lib/answer.js says how often.
import {html, useLayoutEffect, useRef} from '../lib/preact.js';
import {copy} from '../lib/copy.js';
import {MarkdownView} from '../lib/markdown.js';

export function Markdown({text, growing = false}) {
  const element = useRef(null);
  const view = useRef(null);

  // Before the browser paints, so that a list measures the text and not its absence.
  useLayoutEffect(() => {
    view.current ??= new MarkdownView(element.current);
    view.current.show(text);
  }, [text]);

  const onClick = (event) => {
    const button = event.target.closest('button');
    if (button?.matches('.copy-code')) copy(button.closest('.code').querySelector('pre').textContent);
    if (button?.matches('.format-rest')) view.current.showAll();
  };
  return html`<div class=${`markdown${growing ? ' cursor' : ''}`} dir="auto" ref=${element} onClick=${onClick}></div>`;
}
