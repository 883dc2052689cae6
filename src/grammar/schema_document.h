// SchemaDocument: a parsed JSON schema, its subschemas by number, and where references lead.
//
// Immutable except for the numbering; one thread. Sources: JSON Schema 2020-12 core, sections 8.2
// (identifiers, anchors, references) and 9.2; RFC 3986, section 5.2; RFC 6901.
#pragma once

#include <boost/json/value.hpp>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/status.h"
#include "grammar/limits.h"

namespace tutti::grammar {

using Json = boost::json::value;
using NodeId = uint32_t;  // of a subschema

// The text of a string value, as long as the value lives.
inline std::string_view TextOf(const Json& value) {
  return {value.get_string().data(), value.get_string().size()};
}

class SchemaDocument {
 public:
  // Longest absolute URI of an $id or $anchor, in bytes: each subschema below keeps it.
  static constexpr size_t kMaxUriBytes = 2'048;

  // Errors: schema_invalid (not JSON, neither an object nor a boolean, a URI that is too long),
  // grammar_too_complex (bytes, nesting). `budget` must outlive the document.
  static Result<std::unique_ptr<SchemaDocument>> Parse(std::string_view text, Budget& budget);

  NodeId root() const { return 0; }
  // The number of the subschema at `value`, which stands in `parent` under `key`.
  NodeId Child(NodeId parent, std::string_view key, const Json& value);
  // A subschema that stands for a part of the one at `parent`. `name` identifies it there: the same
  // name gives the same number.
  NodeId Derive(NodeId parent, const std::string& name, Json value);
  const Json& value(NodeId id) const { return *nodes_[id].value; }
  // Dotted, from the root: "properties.a.items"; empty for the root. Names are cut at 64 bytes.
  std::string path(NodeId id) const { return PathOf(id, ""); }
  // The last part of the path.
  const std::string& key(NodeId id) const { return nodes_[id].key; }
  size_t nodes() const { return nodes_.size(); }

  // Before draft 2019-09 the keywords next to $ref do not count.
  bool ref_stands_alone() const { return ref_stands_alone_; }
  // The subschema that a reference in `from` leads to. Errors: schema_reference.
  Result<NodeId> Resolve(NodeId from, std::string_view reference);

  // Errors of the subschema's keyword; `param` of the status is its path.
  Status Invalid(NodeId id, std::string_view keyword, std::string_view what) const;
  Status Unsupported(NodeId id, std::string_view keyword, std::string_view why = {}) const;

 private:
  // Paths are made when they are asked for: together they can be much longer than the schema.
  struct Node {
    const Json* value = nullptr;
    NodeId parent = 0;
    std::string key;  // below the parent; empty: the parent's own place
  };
  std::string PathOf(NodeId id, std::string_view keyword) const;
  NodeId AddNode(const Json& value, NodeId parent, std::string_view key);
  Status FindIds(const Json& value, const std::string& base);

  Budget* budget_ = nullptr;
  Json document_;
  std::deque<Json> derived_;
  std::map<std::pair<NodeId, std::string>, NodeId> derived_ids_;
  std::vector<Node> nodes_;
  std::unordered_map<const Json*, NodeId> ids_;
  std::unordered_map<const Json*, std::string> bases_;      // of objects below an $id
  std::unordered_map<std::string, const Json*> resources_;  // by absolute URI
  std::unordered_map<std::string, const Json*> anchors_;    // by absolute URI with #name
  bool ref_stands_alone_ = false;
};

}  // namespace tutti::grammar
