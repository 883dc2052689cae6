// What the user has chosen, kept in the browser: the theme and the settings of the chat, among them the system prompt. No key
// and no text of a dialog. The settings are of one owner (api.js): the next one does not see them.
import {Store} from './store.js';

const NAME = 'tutti.preferences';

export const DEFAULTS = {
  theme: 'auto', model: '', system: '', temperature: '', topP: '', maxTokens: '', thinkingTokens: '', seed: '', effort: '',
  topK: '', minP: '', repetitionPenalty: '', presencePenalty: '', frequencyPenalty: '', stop: '',
  logprobs: '', demoTools: false, ownTools: '', toolChoice: '', schema: '', owner: '',
};

// The storage may have anything: a member of another type is not taken.
function read() {
  try {
    const kept = JSON.parse(localStorage.getItem(NAME) ?? '{}');
    return Object.fromEntries(Object.entries(DEFAULTS).map(([name, usual]) => {
      const isRight = Object.hasOwn(kept, name) && typeof kept[name] === typeof usual;
      return [name, isRight ? kept[name] : usual];
    }));
  } catch {
    return {...DEFAULTS};
  }
}

export const preferences = new Store(read());

let fromOtherTab = false;

preferences.subscribe((value) => {
  if (fromOtherTab) return;
  try {
    localStorage.setItem(NAME, JSON.stringify(value));
  } catch {
    // A full or forbidden storage loses only the choice.
  }
});

// Other tabs change the same settings; those of another owner are not taken, only the theme.
window.addEventListener('storage', ({key}) => {
  if (key !== NAME) return;
  const next = read(), {owner} = preferences.value;
  fromOtherTab = true;
  preferences.merge(owner === '' || next.owner === owner ? next : {theme: next.theme});
  fromOtherTab = false;
});

// Sign-out: all but the theme is forgotten.
export const forgetSettings = () => preferences.set({...DEFAULTS, theme: preferences.value.theme});

export function keepSettingsFor(owner) {
  const {value} = preferences;
  if (value.owner === owner) return;
  if (value.owner !== '') forgetSettings();
  preferences.merge({owner});
}

// Calls `forget` when the owner has signed out or another one has signed in.
export function onOtherOwner(forget) {
  let {owner} = preferences.value;
  preferences.subscribe((value) => {
    const before = owner;
    owner = value.owner;
    if (before !== '' && before !== owner) forget();
  });
}

export function applyTheme({theme}) {
  if (theme === 'auto') {
    delete document.documentElement.dataset.theme;
  } else {
    document.documentElement.dataset.theme = theme;
  }
}
