// Markdown of models and users to elements. What the text contains is never trusted: marked makes HTML of it, and DOMPurify
// keeps the elements and attributes that are listed here, none of which can run or load anything.
import DOMPurify from '../vendor/dompurify.js';
import {Lexer, Renderer, Tokenizer, getDefaults, parser} from '../vendor/marked.js';

const ALLOWED = {
  ALLOWED_TAGS: ['a', 'blockquote', 'br', 'code', 'del', 'em', 'h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'hr', 'kbd', 'li', 'ol', 'p',
                 'pre', 'strong', 'sub', 'sup', 'table', 'tbody', 'td', 'th', 'thead', 'tr', 'ul'],
  ALLOWED_ATTR: ['align', 'class', 'href', 'start', 'title'],
  ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
  RETURN_DOM_FRAGMENT: true,
};

// Text beyond these lengths, in characters, is shown as it is: reading it as Markdown takes time that grows faster than the
// text, and it is hardly meant as Markdown. So are blocks that are nested deeper, because the parser calls itself for each level.
const MAX_TEXT = 200000, MAX_PARAGRAPH = 10000, MAX_DEPTH = 40;
const MAX_LIST = 10000;  // characters after which a list is made in parts

// A text is formatted until this time is used; the reader may ask for the rest. Up to FREE_STEPS, which are enough for about
// 30,000 characters of usual text, the time is longer, so that a message looks the same on a slow machine.
const BUDGET_MS = 150, FREE_STEPS = 100000, MAX_MS = 1000;
const MAX_BLOCK_MS = 300, SLICE_MS = 60;  // when the reader has asked

class PlainRenderer extends Renderer {
  // Nothing is loaded from elsewhere, so an image is a link to it.
  image(href, title, text) {
    return this.link(href, title, text || 'image');
  }
  checkbox(checked) {
    return checked ? '☑ ' : '☐ ';
  }
  // HTML in the text is shown as text.
  html(text) {
    return escapeHtml(text);
  }
}

const OPTIONS = {...getDefaults(), breaks: true, headerIds: false, mangle: false, renderer: new PlainRenderer()};

function escapeHtml(text) {
  return text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
}

DOMPurify.addHook('afterSanitizeAttributes', (node) => {
  if (node.tagName === 'A') {
    node.setAttribute('target', '_blank');
    node.setAttribute('rel', 'noopener noreferrer nofollow');
  }
  // Classes are for the language of a code block alone: others could look like parts of the page.
  if (node.hasAttribute('class') && !/^language-[\w+#.-]{1,32}$/.test(node.getAttribute('class'))) {
    node.removeAttribute('class');
  }
});

class OutOfTime extends Error {}

// The work on a text, in steps of about a microsecond.
class Meter {
  #steps = 0;
  #beginMs = performance.now();

  constructor(ms, maxMs = ms) {
    Object.assign(this, {ms, maxMs});
  }

  spend(steps) {
    this.#steps += steps;
    if (performance.now() - this.#beginMs > (this.#steps > FREE_STEPS ? this.ms : this.maxMs)) throw new OutOfTime('out of time');
  }
}

// Spends on a meter. space() is called for each block, escape() for each piece of a line.
class MeteredTokenizer extends Tokenizer {
  left = 0;  // characters from the current block on

  constructor(meter) {
    super();
    this.meter = meter;
  }

  space(src) {
    this.left = src.length;
    this.meter.spend(5);
    return super.space(src);
  }

  escape(src) {
    // These look far ahead.
    this.meter.spend(/^[*_[\]!`<~]/.test(src) ? 2 + src.length / 6 : 2);
    return super.escape(src);
  }

  list(src) {
    if (src.length <= MAX_LIST || !/^ {0,3}(?:[*+-]|\d{1,9}[.)])/.test(src)) return super.list(src);
    const next = [...src.slice(0, MAX_LIST).matchAll(/\n(?=(?:[*+-]|\d{1,9}[.)]) )/g)].at(-1);
    return super.list(next === undefined ? src : src.slice(0, next.index + 1));
  }
}

const newLexer = (Kind, meter, links) => {
  const made = new Kind({...OPTIONS, tokenizer: new MeteredTokenizer(meter)});
  made.tokens.links = links;
  return made;
};

// Finds the blocks of a text and not what is in them.
class Splitter extends Lexer {
  #inside = false;

  blockTokens(src, tokens = []) {
    if (!this.#inside) {
      this.#inside = true;
      return super.blockTokens(src, tokens);
    }
    this.state.top = true;
    return tokens;
  }
}

// {tokens, rest}: the blocks of a text as far as the meter lasts, and the text behind them.
function split(text, links, meter) {
  const splitter = newLexer(Splitter, meter, links);
  let rest = '';
  try {
    splitter.blockTokens(text, splitter.tokens);
  } catch (error) {
    rest = text.slice(text.length - splitter.tokenizer.left);
    if (!(error instanceof OutOfTime)) {
      splitter.tokens.push({type: 'text', raw: rest});
      rest = '';
    }
  }
  return {tokens: splitter.tokens.filter((token) => token.type !== 'space'), rest};
}

// Whether a paragraph is too long. Code between fences may be, as its lines are not looked at.
function isTooLong(text) {
  if (text.length > MAX_TEXT) return true;
  if (text.length <= MAX_PARAGRAPH) return false;
  let fence = '', length = 0;
  for (const line of text.split('\n')) {
    const [, found = ''] = /^ {0,3}(`{3,}(?=[^`]*$)|~{3,})/.exec(line) ?? [];
    if (fence === '' && found !== '') fence = found;
    else if (fence !== '' && found.startsWith(fence) && line.trim() === found) fence = '';
    length = fence !== '' || line.trim() === '' ? 0 : length + line.length + 1;
    if (length > MAX_PARAGRAPH) return true;
  }
  return false;
}

// Lines that begin with signs of quotes and lists, which are nested by their number or by their indent.
function isTooDeep(text) {
  for (const [, indent, signs] of text.matchAll(/^([ \t]*)((?:(?:>|(?:[*+-]|\d{1,9}[.)])(?=[ \t]|$))[ \t]*(?:\[[ xX]\][ \t]*)?)+)/gm)) {
    const atMost = indent.length / 2 + signs.length;
    if (atMost > MAX_DEPTH && indent.length / 2 + signs.match(/>|[*+-]|\d+[.)]/g).length > MAX_DEPTH) return true;
  }
  return false;
}

function plain(text) {
  const element = document.createElement('p');
  element.className = 'plain';
  element.dir = 'auto';
  element.textContent = text;
  return [element];
}

// A code block with its language and a button that copies it (components/markdown.js listens).
function frameCode(pre) {
  const frame = document.createElement('div');
  frame.className = 'code';
  const head = document.createElement('div');
  head.className = 'code-head';
  const language = document.createElement('span');
  language.textContent = /language-(\S+)/.exec(pre.firstElementChild?.className ?? '')?.[1] ?? 'code';
  const button = document.createElement('button');
  button.type = 'button';
  button.className = 'small copy-code';
  button.textContent = 'Copy';
  button.setAttribute('aria-label', `Copy ${language.textContent}`);
  head.append(language, button);
  pre.replaceWith(frame);
  pre.tabIndex = 0;  // it scrolls, so the keyboard must reach it
  pre.setAttribute('role', 'group');  // no landmark: there may be many
  pre.setAttribute('aria-label', `${language.textContent} block`);
  frame.append(head, pre);
}

function frameTable(table) {
  const frame = document.createElement('div');
  frame.className = 'table-scroll';
  frame.tabIndex = 0;
  frame.setAttribute('role', 'group');
  frame.setAttribute('aria-label', 'Table');
  table.replaceWith(frame);
  frame.append(table);
}

function elementsOf(tokens) {
  const fragment = DOMPurify.sanitize(parser(tokens, OPTIONS), ALLOWED);
  for (const pre of fragment.querySelectorAll('pre')) frameCode(pre);
  for (const table of fragment.querySelectorAll('table')) frameTable(table);
  // Each block goes its own way, from the left or from the right.
  for (const block of fragment.querySelectorAll('p, li, h1, h2, h3, h4, h5, h6, blockquote, td, th')) block.dir = 'auto';
  return [...fragment.childNodes];
}

// The elements of a block. Throws OutOfTime; a block that cannot be read is shown as it is.
function make({type, raw}, links, meter) {
  const shown = raw.replace(/\n+$/, '');
  if (type !== 'code' && isTooDeep(raw)) return plain(shown);
  try {
    meter.spend(100 + raw.length / 10);
    return elementsOf(newLexer(Lexer, meter, links).lex(raw));
  } catch (error) {
    if (error instanceof OutOfTime) throw error;
    return plain(shown);
  }
}

function headOfRest() {
  const button = document.createElement('button');
  button.type = 'button';
  button.className = 'small format-rest';
  button.textContent = 'Format the rest';
  const head = document.createElement('div');
  head.className = 'rest-head';
  head.append(button);
  return head;
}

// Keeps the elements of a text that grows: only blocks that changed are made again, so that a selection and the place of a
// scrolled code block stay. Behind them stands what there was no time for, with a button (components/markdown.js listens to it).
export class MarkdownView {
  #blocks = [];      // {raw, nodes}
  #waiting = {tokens: [], rest: '', links: Object.create(null)};
  #tail = null;      // the element with a button and what waits
  #isPatient = false;  // the reader has asked for all
  #timer = 0;

  constructor(container) {
    this.container = container;
  }

  show(text) {
    clearTimeout(this.#timer);
    if (isTooLong(text)) {
      this.#keep([text]);
      this.#waiting = {tokens: [], rest: '', links: Object.create(null)};
      if (this.#blocks.length === 0) this.#add(text, plain(text));
      return this.#showTail();
    }
    const meter = new Meter(BUDGET_MS, MAX_MS), links = Object.create(null);
    // As the lexer does it: what is left is told by its length.
    const clean = text.replace(/\r\n?/g, '\n').replace(/^( *)(\t+)/gm, (_, spaces, tabs) => spaces + '    '.repeat(tabs.length));
    const {tokens, rest} = split(clean, links, meter);
    const same = this.#keep(tokens.map(({raw}) => raw));
    this.#waiting = {tokens: tokens.slice(same), rest, links};
    return this.#advance(meter);
  }

  // Formats what waits, a little at a time.
  showAll() {
    this.#isPatient = true;
    clearTimeout(this.#timer);
    const end = performance.now() + SLICE_MS, {links} = this.#waiting;
    for (let first = true; first || performance.now() < end; first = false) {
      if (this.#waiting.tokens.length === 0) {
        if (this.#waiting.rest === '') break;
        Object.assign(this.#waiting, split(this.#waiting.rest, links, new Meter(SLICE_MS)));
      }
      const token = this.#waiting.tokens.shift();
      if (token === undefined) break;
      let nodes;
      try {
        nodes = make(token, links, new Meter(MAX_BLOCK_MS));
      } catch {
        nodes = plain(token.raw);
      }
      this.#add(token.raw, nodes);
    }
    this.#showTail();
  }

  // Drops the blocks from the first one on that has another text. Returns how many are left.
  #keep(raws) {
    let same = 0;
    while (same < raws.length && same < this.#blocks.length && raws[same] === this.#blocks[same].raw) ++same;
    for (const {nodes} of this.#blocks.splice(same)) for (const node of nodes) node.remove();
    return same;
  }

  #add(raw, nodes) {
    for (const node of nodes) this.container.insertBefore(node, this.#tail);
    this.#blocks.push({raw, nodes});
  }

  #advance(meter) {
    const {tokens, links} = this.#waiting;
    let done = 0;
    try {
      for (const token of tokens) {
        this.#add(token.raw, make(token, links, meter));
        ++done;
      }
    } catch (error) {
      if (!(error instanceof OutOfTime)) throw error;
    }
    tokens.splice(0, done);
    this.#showTail();
  }

  #showTail() {
    const {tokens, rest} = this.#waiting;
    const text = [...tokens.map(({raw}) => raw.trimEnd()), rest].join('\n\n').trimEnd();
    const hadFocus = this.#tail !== null && this.#tail.contains(document.activeElement);
    if (text === '') {
      this.#tail?.remove();
      this.#tail = null;
      if (!hadFocus) return;
      this.container.tabIndex = -1;
      this.container.focus({preventScroll: true});
      return;
    }
    if (this.#tail === null) {
      this.#tail = document.createElement('div');
      this.#tail.append(headOfRest());
      this.container.append(this.#tail);
    }
    const [head, shown] = this.#tail.childNodes;
    shown?.remove();
    head.after(...plain(text));
    if (!this.#isPatient) return;
    head.firstChild.textContent = 'Formatting…';
    this.#timer = setTimeout(() => { if (this.container.isConnected) this.showAll(); });
  }
}
