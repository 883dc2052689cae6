// Conversations as files: what Export writes and Import reads. The items are those of the Conversations API without ids, so
// that other programs can send them too.

const FORMAT = 'tutti.conversation', VERSION = 2;
export const MAX_BYTES = 8 << 20, MAX_ITEMS = 20000;  // of a conversation, on the server

export const exportOf = (title, items) => JSON.stringify({format: FORMAT, version: VERSION, title, items}, null, 2);

const isText = (value) => typeof value === 'string';
const isParts = (value) => Array.isArray(value) && value.every((part) => isText(part?.type) && isText(part?.text));

// What is wrong with an item; '' if nothing is.
function validateItem(item) {
  switch (item?.type) {
    case 'message':
      if (!['user', 'assistant', 'system', 'developer'].includes(item.role)) return 'a message without a known role';
      return isText(item.content) || isParts(item.content) ? '' : 'a message without text';
    case 'function_call':
      return [item.call_id, item.name, item.arguments].every(isText) ? '' : 'a call without call_id, name or arguments';
    case 'function_call_output':
      return isText(item.call_id) && (isText(item.output) || isParts(item.output)) ? '' : 'a result without call_id or output';
    case 'reasoning':
      return isParts(item.content) ? '' : 'reasoning without text';
    default:
      return `of the unknown type ${JSON.stringify(item?.type ?? null)}`;
  }
}

// {title, items} of a file's text. Throws an Error that says what is wrong.
export function readExport(text) {
  if (new Blob([text]).size > MAX_BYTES) throw new Error('The file is larger than 8 MiB');
  let value;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new Error(`The file is not valid JSON: ${error.message}`);
  }
  if (value?.format !== FORMAT) throw new Error('The file is not an exported conversation');
  if (value.version !== VERSION) throw new Error(`The file has version ${value.version}; this page reads version ${VERSION}`);
  const {title = '', items} = value;
  if (!isText(title) || title.length > 512) throw new Error('The title must be a text of at most 512 characters');
  if (!Array.isArray(items) || items.length === 0) throw new Error('The conversation has no items');
  if (items.length > MAX_ITEMS) throw new Error(`The conversation has ${items.length} items, limit ${MAX_ITEMS}`);
  items.forEach((item, i) => {
    const fault = validateItem(item);
    if (fault !== '') throw new Error(`Item ${i + 1} is ${fault}`);
  });
  return {title, items};
}
