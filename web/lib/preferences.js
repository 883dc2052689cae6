// What the user has chosen, kept in the browser: the theme and the settings of the chat. No key and no text of a dialog.
import {Store} from './store.js';

const NAME = 'tutti.preferences';

export const DEFAULTS = {
  theme: 'auto', model: '', system: '', temperature: '', topP: '', maxTokens: '', thinkingTokens: '', seed: '', effort: '',
  logprobs: '', demoTools: false,
  ownTools: '', schema: '',
};

function read() {
  try {
    return {...DEFAULTS, ...JSON.parse(localStorage.getItem(NAME) ?? '{}')};
  } catch {
    return {...DEFAULTS};
  }
}

export const preferences = new Store(read());

preferences.subscribe((value) => {
  try {
    localStorage.setItem(NAME, JSON.stringify(value));
  } catch {
    // A full or forbidden storage loses only the choice.
  }
});

export function applyTheme({theme}) {
  if (theme === 'auto') {
    delete document.documentElement.dataset.theme;
  } else {
    document.documentElement.dataset.theme = theme;
  }
}
