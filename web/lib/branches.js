// Branches of a chat. Each one is a conversation of its own, which the server forked from another one: its `parent` says so.
// Metadata alone proves nothing, because every client may write it: a fork is a branch if this page made it from that parent.
// Its metadata has `parent`, the conversation it was forked from, and `after`, the last item that both share, '' if there is
// none. Messages that follow the same item are branches at the same place. `made`, in ms, orders those of the same second.
//
// `listed`: conversations with id, metadata and parent, the last used one first.

const byId = (listed) => new Map(listed.map((each) => [each.id, each]));

export const isBranch = ({metadata, parent}) => parent !== undefined && metadata.parent === parent.id;

export const newBranch = (id, {title = ''}, after) => ({title, parent: id, after, made: String(Date.now())});

// The conversation and those it was forked from, up to the first one or one that is not listed. Data that is wrong may go round.
function lineOf(id, known) {
  const line = [id];
  for (let each = known.get(id); each !== undefined && isBranch(each) && !line.includes(each.parent.id); each = known.get(each.parent.id)) {
    line.push(each.parent.id);
  }
  return line;
}

const byAge = (a, b) => a.created_at - b.created_at || (Number(a.metadata.made) || 0) - (Number(b.metadata.made) || 0);

// The conversations with different messages behind the item `after`, oldest first; only `id` if there is one.
export function variantsOf(id, after, listed) {
  const known = byId(listed);
  const line = lineOf(id, known);
  const root = line.at(-1);
  const forks = listed.filter((each) => isBranch(each) && each.metadata.after === after && lineOf(each.id, known).at(-1) === root)
      .sort(byAge);
  if (forks.length === 0) return {ids: [id], current: 0};
  const ids = forks.map((fork) => fork.id);
  ids.unshift(lineOf(ids[0], known).find((each) => !ids.includes(each)));
  // The shown conversation may be a later branch of one of them.
  return {ids, current: Math.max(ids.indexOf(line.find((each) => ids.includes(each))), 0)};
}

// One entry for each chat: its branch that was used last, with the first conversation as `root`.
export function chatsOf(listed) {
  const known = byId(listed), chats = new Map();
  for (const each of listed) {
    const root = lineOf(each.id, known).at(-1);
    if (!chats.has(root)) chats.set(root, {...each, root});
  }
  return [...chats.values()];
}

export const rootOf = (id, listed) => lineOf(id, byId(listed)).at(-1);

// The conversations of a chat, each one in front of those that were forked from it.
export function familyOf(id, listed) {
  const known = byId(listed), root = lineOf(id, known).at(-1);
  const lines = listed.map((each) => lineOf(each.id, known)).filter((line) => line.at(-1) === root);
  return lines.sort((a, b) => a.length - b.length).map(([each]) => known.get(each));
}
