// What the page alone knows of answers that have ended, by the ids of their items: a conversation has neither the id of a
// response nor its usage. Ids, figures and the schema that was asked for, no text; the newest ones, in the local storage.
import {onOtherOwner, preferences} from './preferences.js';

const NAME = 'tutti.answers';
const MAX_KEPT = 500;
const MAX_SCHEMA = 2000;  // characters

const isNumberOrNone = (value) => value === null || value === undefined || Number.isFinite(value);
const isRecord = (each) => Array.isArray(each?.ids) && typeof each.answer?.id === 'string' && isNumberOrNone(each.answer.speed) &&
    isNumberOrNone(each.answer.afterMs) && isNumberOrNone(each.answer.droppedItems);

function read() {
  try {
    const kept = JSON.parse(localStorage.getItem(NAME) ?? '{}');
    return kept.owner === preferences.value.owner && Array.isArray(kept.answers) ? kept.answers.filter(isRecord) : [];
  } catch {
    return [];
  }
}

// Summaries (answer.js) by the ids of items.
export const readRecords = () => new Map(read().flatMap(({ids, answer}) => ids.map((id) => [id, answer])));

export function addRecord(ids, answer) {
  if (ids.length === 0) return;
  try {
    const others = read().filter((each) => each.answer.id !== answer.id || each.answer.speed !== null);
    const {schema, ...rest} = answer;
    const kept = {ids, answer: schema && JSON.stringify(schema).length <= MAX_SCHEMA ? answer : rest};
    // The tab that has asked for the answer knows more of it than one that followed it.
    if (others.some((each) => each.answer.id === answer.id)) return;
    localStorage.setItem(NAME, JSON.stringify({owner: preferences.value.owner, answers: [...others, kept].slice(-MAX_KEPT)}));
  } catch {
    // A full or forbidden storage: the figures are shown until the page is loaded again.
  }
}

onOtherOwner(() => {
  try {
    localStorage.removeItem(NAME);
  } catch {
    // There is none.
  }
});
