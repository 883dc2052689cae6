// SyntaxBuilder: makes the nodes of a tree, each set of characters once. A value, not for two
// threads at once.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "tokenizer/regex/syntax.h"

namespace tutti::tokenizer::regex {

class SyntaxBuilder {
 public:
  NodeId Empty() { return Add({}); }
  NodeId Set(CodePoints points, bool edge = false);
  NodeId Concat(std::vector<NodeId> children);
  NodeId Alternate(std::vector<NodeId> children);
  NodeId Repeat(NodeId child, uint32_t min, uint32_t max, bool greedy);
  NodeId Look(NodeId child, bool negative);
  NodeId Behind(CodePoints points, bool edge, bool negative);

  NodeId LineStart();                  // ^
  NodeId LineEnd();                    // $
  NodeId TextStart();                  // \A
  NodeId TextEnd();                    // \z
  NodeId TextEndOrLastLineEnd();       // \Z
  NodeId WordBoundary(bool negative);  // \b \B
  NodeId LineBreak();                  // \R

  Node& node(NodeId id) { return syntax_.nodes[id]; }
  const CodePoints& points(NodeId id) const { return syntax_.sets[syntax_.nodes[id].set].points; }
  size_t set_count() const { return syntax_.sets.size(); }
  Syntax Finish(NodeId root) &&;

 private:
  NodeId Add(Node node);
  uint32_t SetId(CodePoints points, bool edge);
  NodeId Assertion(NodeId id);

  Syntax syntax_;
  std::optional<CodePoints> words_;                   // what \b goes by, once it is needed
  std::unordered_multimap<uint32_t, uint32_t> sets_;  // hash to place in syntax_.sets
};

}  // namespace tutti::tokenizer::regex
