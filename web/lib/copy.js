import {notify} from './notices.js';

// Puts a text on the clipboard. Without a secure origin the browser has none, and says so.
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    notify('Copied');
  } catch {
    notify('The browser does not let this page copy; select the text and copy it by hand', 'bad');
  }
}

// Offers a text as a file.
export function download(name, text, type = 'application/json') {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([text], {type}));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
