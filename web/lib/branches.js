// Branches of a chat. Each one is a conversation of its own, which the server forked from another one. Its metadata says where
// it belongs: `root`, the first conversation; `parent`, the one it was forked from; `before`, the message that its first own
// message replaces; `item`, that first own message.
//
// `listed`: conversations with id and metadata. What is not listed is left out.

// The message in whose place a message stands: itself, if it was the first one there.
function placeOf(item, listed) {
  return listed.find((each) => each.metadata.item === item)?.metadata.before ?? item;
}

export function newBranch(id, metadata, item, listed) {
  return {title: metadata.title ?? '', root: metadata.root ?? id, parent: id, before: placeOf(item, listed)};
}

// The conversations that have different messages in the place of `item`, oldest first; only `id` if there is one.
export function variantsOf(id, item, listed) {
  const place = placeOf(item, listed);
  const forks = listed.filter((each) => each.metadata.before === place).sort((a, b) => a.created_at - b.created_at);
  if (forks.length === 0) return {ids: [id], current: 0};
  const ids = [forks[0].metadata.parent, ...forks.map((fork) => fork.id)];
  // The shown conversation may be a later branch of one of them.
  const byId = new Map(listed.map((each) => [each.id, each]));
  let at = id;
  while (at !== undefined && !ids.includes(at)) at = byId.get(at)?.metadata.parent;
  return {ids, current: Math.max(ids.indexOf(at), 0)};
}

// One entry for each chat: its branch that was used last, since `listed` has the last used one first.
export function chatsOf(listed) {
  const seen = new Set();
  return listed.filter((each) => {
    const root = each.metadata.root ?? each.id;
    return !seen.has(root) && seen.add(root);
  });
}

export function familyOf(id, listed) {
  const root = listed.find((each) => each.id === id)?.metadata.root ?? id;
  return listed.filter((each) => each.id === root || each.metadata.root === root);
}
