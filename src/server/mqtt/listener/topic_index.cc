#include "server/mqtt/listener/topic_index.h"

#include <algorithm>
#include <utility>

namespace tutti::mqtt::listener {
namespace {

// The first level of `text`, what follows it, and whether nothing does.
struct Split {
  std::string_view level, rest;
  bool last;
};

Split FirstLevel(std::string_view text) {
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos) return {text, {}, true};
  return {text.substr(0, slash), text.substr(slash + 1), false};
}

}  // namespace

void TopicIndex::Add(std::string_view filter, Session* session) {
  Node* node = &root_;
  for (bool last = false; !last;) {
    const Split split = FirstLevel(filter);
    std::unique_ptr<Node>& child = node->children[std::string(split.level)];
    if (child == nullptr) child = std::make_unique<Node>();
    node = child.get();
    filter = split.rest;
    last = split.last;
  }
  node->sessions.push_back(session);
}

void TopicIndex::Remove(std::string_view filter, Session* session) {
  RemoveBelow(root_, filter, false, session);
}

// True when nothing is left of `node`. At most as deep as a filter has levels, which is bounded.
bool TopicIndex::RemoveBelow(Node& node, std::string_view rest, bool last, Session* session) {
  if (last) {
    const auto found = std::find(node.sessions.begin(), node.sessions.end(), session);
    if (found != node.sessions.end()) node.sessions.erase(found);
  } else {
    const Split split = FirstLevel(rest);
    const auto child = node.children.find(split.level);
    if (child != node.children.end() &&
        RemoveBelow(*child->second, split.rest, split.last, session)) {
      node.children.erase(child);
    }
  }
  return node.children.empty() && node.sessions.empty();
}

void TopicIndex::FindBelow(const Node& node, std::string_view rest, bool last, bool first,
                           std::vector<Session*>& found) {
  const bool wild = !first || !rest.starts_with('$');  // section 4.7.2
  const auto collect = [&found](const Node& at) {
    found.insert(found.end(), at.sessions.begin(), at.sessions.end());
  };
  if (const auto all = node.children.find("#"); wild && all != node.children.end()) {
    collect(*all->second);
  }
  if (last) return collect(node);
  const Split split = FirstLevel(rest);
  if (const auto any = node.children.find("+"); wild && any != node.children.end()) {
    FindBelow(*any->second, split.rest, split.last, false, found);
  }
  if (const auto same = node.children.find(split.level); same != node.children.end()) {
    FindBelow(*same->second, split.rest, split.last, false, found);
  }
}

std::vector<Session*> TopicIndex::Find(std::string_view topic) const {
  std::vector<Session*> found;
  FindBelow(root_, topic, false, true, found);
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

}  // namespace tutti::mqtt::listener
