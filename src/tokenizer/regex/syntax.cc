#include "tokenizer/regex/syntax.h"

#include <algorithm>
#include <utility>

namespace tutti::tokenizer::regex {
namespace {

CodePoints LineFeed() { return CodePoints('\n', '\n'); }

}  // namespace

NodeId SyntaxBuilder::Add(Node node) {
  const auto nullable = [&](NodeId child) { return syntax_.nodes[child].nullable; };
  switch (node.kind) {
    case Node::Kind::kEmpty:
      node.nullable = true;
      break;
    case Node::Kind::kSet:
      break;
    case Node::Kind::kConcat:
      node.nullable = std::ranges::all_of(node.children, nullable);
      break;
    case Node::Kind::kAlternate:
      node.nullable = std::ranges::any_of(node.children, nullable);
      break;
    case Node::Kind::kRepeat:
      node.nullable = node.min == 0 || std::ranges::any_of(node.children, nullable);
      break;
    case Node::Kind::kLook:
    case Node::Kind::kBehind:
      node.nullable = true;
      break;
  }
  syntax_.nodes.push_back(std::move(node));
  return static_cast<NodeId>(syntax_.nodes.size() - 1);
}

uint32_t SyntaxBuilder::SetId(CodePoints points, bool edge) {
  const uint32_t hash = static_cast<uint32_t>(points.hashCode()) * 2 + (edge ? 1 : 0);
  const auto [first, last] = sets_.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    const CharSet& known = syntax_.sets[it->second];
    if (known.edge == edge && known.points == points) return it->second;
  }
  const auto id = static_cast<uint32_t>(syntax_.sets.size());
  syntax_.sets.push_back({std::move(points), edge});
  sets_.emplace(hash, id);
  return id;
}

NodeId SyntaxBuilder::Set(CodePoints points, bool edge) {
  Node node{.kind = Node::Kind::kSet};
  node.set = SetId(std::move(points), edge);
  return Add(std::move(node));
}

NodeId SyntaxBuilder::Concat(std::vector<NodeId> children) {
  if (children.size() == 1) return children[0];
  if (children.empty()) return Empty();
  Node node{.kind = Node::Kind::kConcat};
  node.children = std::move(children);
  return Add(std::move(node));
}

NodeId SyntaxBuilder::Alternate(std::vector<NodeId> children) {
  if (children.size() == 1) return children[0];
  Node node{.kind = Node::Kind::kAlternate};
  node.children = std::move(children);
  return Add(std::move(node));
}

NodeId SyntaxBuilder::Repeat(NodeId child, uint32_t min, uint32_t max, bool greedy) {
  Node node{.kind = Node::Kind::kRepeat};
  node.greedy = greedy;
  node.min = min;
  node.max = max;
  node.children = {child};
  return Add(std::move(node));
}

NodeId SyntaxBuilder::Look(NodeId child, bool negative) {
  Node node{.kind = Node::Kind::kLook};
  node.negative = negative;
  node.assertion = true;
  node.children = {child};
  return Add(std::move(node));
}

NodeId SyntaxBuilder::Behind(CodePoints points, bool edge, bool negative) {
  Node node{.kind = Node::Kind::kBehind};
  node.negative = negative;
  node.assertion = true;
  node.set = SetId(std::move(points), edge);
  return Add(std::move(node));
}

NodeId SyntaxBuilder::Assertion(NodeId id) {
  node(id).assertion = true;
  return id;
}

NodeId SyntaxBuilder::TextStart() { return Behind(CodePoints(), /*edge=*/true, false); }
NodeId SyntaxBuilder::TextEnd() { return Look(Set(CodePoints(), /*edge=*/true), false); }
NodeId SyntaxBuilder::LineEnd() { return Look(Set(LineFeed(), /*edge=*/true), false); }

// A line end that ends the text starts no line, as in Oniguruma.
NodeId SyntaxBuilder::LineStart() {
  const NodeId behind = Behind(LineFeed(), false, false);
  const NodeId inside = Look(Set(CodePoints(), /*edge=*/true), true);
  return Assertion(Alternate({TextStart(), Concat({behind, inside})}));
}

NodeId SyntaxBuilder::TextEndOrLastLineEnd() {
  return Look(Concat({Repeat(Set(LineFeed()), 0, 1, true), Set(CodePoints(), /*edge=*/true)}),
              false);
}

NodeId SyntaxBuilder::WordBoundary(bool negative) {
  if (!words_) words_ = WordCharacters(WordRule::kLatin1Numbers);
  const auto behind = [&](bool word) { return Behind(*words_, false, !word); };
  const auto ahead = [&](bool word) { return Look(Set(*words_), !word); };
  const NodeId after_word = Concat({behind(true), ahead(negative)});
  const NodeId after_other = Concat({behind(false), ahead(!negative)});
  return Assertion(Alternate({after_word, after_other}));
}

// CR LF together where both are there; a CR alone only where no LF follows.
NodeId SyntaxBuilder::LineBreak() {
  const NodeId pair = Concat({Set(CodePoints('\r', '\r')), Set(LineFeed())});
  const NodeId carriage = Concat({Set(CodePoints('\r', '\r')), Look(Set(LineFeed()), true)});
  CodePoints others(0x0A, 0x0C);
  others.add(0x85).add(0x2028, 0x2029);
  return Alternate({pair, carriage, Set(std::move(others))});
}

Syntax SyntaxBuilder::Finish(NodeId root) && {
  syntax_.root = root;
  return std::move(syntax_);
}

}  // namespace tutti::tokenizer::regex
