// A text in Markdown that may still grow.
import {html, useEffect, useLayoutEffect, useRef} from '../lib/preact.js';
import {copy} from '../lib/copy.js';
import {MarkdownView} from '../lib/markdown.js';

// While a text grows it is shown again when the last time has rested for this often as long as it took.
const REST = 4, LEAST_REST_MS = 60;

export function Markdown({text, growing = false}) {
  const element = useRef(null);
  const state = useRef({view: null, text: '', timer: 0});

  // Before the browser paints, so that a list measures the text and not its absence.
  useLayoutEffect(() => {
    const {current} = state;
    current.view ??= new MarkdownView(element.current);
    current.text = text;
    const show = () => {
      clearTimeout(current.timer);
      current.timer = 0;
      const begin = performance.now();
      current.view.show(current.text);
      const took = performance.now() - begin;
      if (growing) current.timer = setTimeout(() => { current.timer = 0; if (current.late) show(); }, Math.max(took * REST, LEAST_REST_MS));
      current.late = false;
    };
    if (growing && current.timer !== 0) {
      current.late = true;
    } else {
      show();
    }
  }, [text, growing]);
  useEffect(() => () => clearTimeout(state.current.timer), []);

  const onClick = (event) => {
    const button = event.target.closest('button');
    if (button?.matches('.copy-code')) copy(button.closest('.code').querySelector('pre').textContent);
    if (button?.matches('.format-rest')) state.current.view.showAll();
  };
  return html`<div class=${`markdown${growing ? ' cursor' : ''}`} dir="auto" ref=${element} onClick=${onClick}></div>`;
}
