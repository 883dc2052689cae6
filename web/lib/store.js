// Values that several components show.
import {useEffect, useState} from './preact.js';

export class Store {
  #value;
  #listeners = new Set();

  constructor(value) {
    this.#value = value;
  }

  get value() {
    return this.#value;
  }

  set(value) {
    if (value === this.#value) return;
    this.#value = value;
    for (const listener of [...this.#listeners]) listener(value);
  }

  // Changes some members of an object.
  merge(changes) {
    this.set({...this.#value, ...changes});
  }

  subscribe(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}

export function useStore(store) {
  const [value, set] = useState(store.value);
  useEffect(() => {
    set(store.value);
    return store.subscribe(set);
  }, [store]);
  return value;
}
