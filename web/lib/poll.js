// Values of the server that a view asks for again and again. One request runs at a time, and the answer to an earlier one never
// replaces the answer to a later one.
import {useEffect, useRef, useState} from './preact.js';
import {models as fetchModels} from './api.js';

// `fetch` gets a signal. Returns {value, failure, refresh}: `value` is null until the first answer and stays while requests
// fail; `refresh()` asks at once. `everyMs` 0: asks once. Nothing is asked for while the tab is hidden.
export function usePolled(fetch, everyMs = 0, inputs = []) {
  const [state, setState] = useState({value: null, failure: null});
  const ask = useRef(async () => {});
  useEffect(() => {
    let current = new AbortController(), timer;
    const look = async () => {
      clearTimeout(timer);
      current.abort();
      current = new AbortController();
      const {signal} = current;
      try {
        const value = await fetch(signal);
        if (!signal.aborted) setState({value, failure: null});
      } catch (failure) {
        if (!signal.aborted) setState((last) => ({...last, failure}));
      }
      if (!signal.aborted && everyMs > 0) timer = setTimeout(next, everyMs);
    };
    const next = () => {
      if (document.hidden) timer = setTimeout(next, everyMs); else look();
    };
    ask.current = look;
    look();
    return () => {
      current.abort();
      clearTimeout(timer);
    };
  }, inputs);
  return {...state, refresh: () => ask.current()};
}

// The models that the caller may use.
export const useModels = (everyMs = 0) => usePolled((signal) => fetchModels({signal}), everyMs);
