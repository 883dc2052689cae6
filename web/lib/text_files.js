// Text files to ask about. They stand in front of a message's text, each as a code block with its name, so that every model
// and every client reads them; the page shows them folded.

const MAX_BYTES = 1 << 20;
const MAX_FILES = 100;  // of a message that are shown as files

// Reads a File of the browser. Resolves with {name, text, bytes}; rejects with an Error that says why not.
export async function readTextFile(file) {
  const name = file.name.replaceAll(/[`\s]+/g, ' ');
  if (file.size === 0) throw new Error(`${name} is empty`);
  if (file.size > MAX_BYTES) throw new Error(`${name} has ${(file.size / MAX_BYTES).toFixed(1)} MiB, limit 1 MiB; send a part of it`);
  const bytes = await file.arrayBuffer();
  let text;
  try {
    text = new TextDecoder('utf-8', {fatal: true}).decode(bytes);
  } catch {
    throw new Error(`${name} is not UTF-8 text; only text files can be read`);
  }
  if (text.includes('\0')) throw new Error(`${name} is a binary file; only text files can be read`);
  return {name, text: text.replaceAll('\r\n', '\n'), bytes: file.size};
}

// A fence longer than any in the text.
function fenceOf(text) {
  const longest = (text.match(/`{3,}/g) ?? []).reduce((most, run) => Math.max(most, run.length), 2);
  return '`'.repeat(longest + 1);
}

export function joinFiles(files, text) {
  const blocks = files.map((file) => {
    const fence = fenceOf(file.text);
    return `File \`${file.name}\`:\n${fence}\n${file.text}\n${fence}\n\n`;
  });
  return blocks.join('') + text;
}

// {files: [{name, text}], text}: the files in front of a message, and the rest of it, with further files as text.
export function splitFiles(message) {
  const files = [];
  let rest = message;
  while (files.length < MAX_FILES) {
    const head = /^File `([^`\n]+)`:\n(`{3,})\n/.exec(rest);
    if (head === null) break;
    const end = rest.indexOf(`\n${head[2]}\n\n`, head[0].length - 1);
    if (end < 0) break;
    files.push({name: head[1], text: rest.slice(head[0].length, Math.max(end, head[0].length))});
    rest = rest.slice(end + head[2].length + 3);
  }
  return {files, text: rest};
}
