// Markdown of models and users to elements. What the text contains is never trusted: marked makes HTML of it, and DOMPurify
// keeps the elements and attributes that are listed here, none of which can run or load anything.
import DOMPurify from '../vendor/dompurify.js';
import {Renderer, getDefaults, lexer, parser} from '../vendor/marked.js';

const ALLOWED = {
  ALLOWED_TAGS: ['a', 'blockquote', 'br', 'code', 'del', 'em', 'h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'hr', 'kbd', 'li', 'ol', 'p',
                 'pre', 'strong', 'sub', 'sup', 'table', 'tbody', 'td', 'th', 'thead', 'tr', 'ul'],
  ALLOWED_ATTR: ['align', 'class', 'href', 'start', 'title'],
  ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
  RETURN_DOM_FRAGMENT: true,
};

// Text beyond these lengths, in characters, is shown as it is: reading it as Markdown takes time that grows faster than the
// text, and it is hardly meant as Markdown.
const MAX_TEXT = 200000, MAX_PARAGRAPH = 10000;

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

function isTooLong(text) {
  if (text.length > MAX_TEXT) return true;
  return text.length > MAX_PARAGRAPH && text.split(/\n[ \t]*\n/).some((paragraph) => paragraph.length > MAX_PARAGRAPH);
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

// Keeps the elements of a text that grows: only blocks that changed are made again, so that a selection and the place of a
// scrolled code block stay.
export class MarkdownView {
  #blocks = [];  // {raw, nodes}

  constructor(container) {
    this.container = container;
  }

  show(text) {
    const blocks = isTooLong(text) ? [{raw: text, make: () => plain(text)}] : this.#parse(text);
    let same = 0;
    while (same < blocks.length && same < this.#blocks.length && blocks[same].raw === this.#blocks[same].raw) ++same;
    for (const {nodes} of this.#blocks.splice(same)) for (const node of nodes) node.remove();
    for (const {raw, make} of blocks.slice(same)) {
      const nodes = make();
      this.container.append(...nodes);
      this.#blocks.push({raw, nodes});
    }
  }

  #parse(text) {
    const tokens = lexer(text, OPTIONS);
    return tokens.filter((token) => token.type !== 'space').map((token) => ({
      raw: token.raw,
      make: () => {
        const one = [token];
        one.links = tokens.links;
        return elementsOf(one);
      },
    }));
  }
}
