// The view that the address names: "#/chat/conv_1" is {view: 'chat', argument: 'conv_1'}.
import {Store} from './store.js';

function read() {
  const [view, ...rest] = location.hash.replace(/^#\/?/, '').split('/');
  let argument = rest.join('/');
  try {
    argument = decodeURIComponent(argument);
  } catch {
    argument = '';  // a broken escape names nothing
  }
  return {view: view || 'chat', argument};
}

export const route = new Store(read());
window.addEventListener('hashchange', () => route.set(read()));

export const addressOf = (view, argument = '') => `#/${view}${argument && `/${encodeURIComponent(argument)}`}`;

// `replace`: the browser's back button does not come to the old address.
export function go(view, argument = '', replace = false) {
  const address = addressOf(view, argument);
  if (replace) {
    history.replaceState(null, '', address);
    route.set(read());
  } else {
    location.hash = address;
  }
}
