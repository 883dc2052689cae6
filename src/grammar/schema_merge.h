// Merges subschemas that apply together (allOf, $ref and the keywords next to it) into one set of
// constraints, and the choices (anyOf, oneOf) that remain.
//
// One thread; belongs to one compilation.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "grammar/schema_document.h"
#include "grammar/schema_number.h"

namespace tutti::grammar {

// Subschemas that a value must satisfy, all of them. An element is a subschema's number twice; plus
// one where only the constraints of its own keywords count, as $ref, allOf and choices were already
// followed.
using Elements = std::vector<uint32_t>;  // ascending
// Sorts the elements and removes repetitions.
void Normalise(Elements& elements);

constexpr uint32_t WholeElement(NodeId node) { return node * 2; }
constexpr uint32_t OwnElement(NodeId node) { return node * 2 + 1; }

// Bits of the types of JSON.
inline constexpr uint8_t kNull = 1, kBoolean = 2, kNumber = 4, kString = 8, kArray = 16,
                         kObject = 32, kAllTypes = 63;
uint8_t TypeOf(const Json& value);
// Equality as in JSON Schema: numbers by value, objects regardless of the order of their members.
bool SameValue(const Json& a, const Json& b);

inline constexpr uint64_t kNoLimit = UINT64_MAX;

struct StringConstraints {
  uint64_t min_length = 0, max_length = kNoLimit;  // characters
  std::vector<std::pair<NodeId, std::string>> patterns = {};
  std::vector<std::string> formats = {};

  bool any_length() const { return min_length == 0 && max_length == kNoLimit; }
  bool plain() const { return any_length() && patterns.empty() && formats.empty(); }
};

// The keywords for items that stand in one schema object.
struct ArrayPart {
  std::vector<NodeId> prefix;
  std::optional<NodeId> rest;
};

struct ArrayConstraints {
  std::vector<ArrayPart> parts = {};
  uint64_t min_items = 0, max_items = kNoLimit;
};

// The keywords for properties that stand in one schema object: additionalProperties is about the
// others of that object.
struct ObjectPart {
  std::vector<std::pair<std::string, NodeId>> properties;  // as they are written
  const boost::json::object* declared = nullptr;           // their object, which finds a name fast
  std::vector<std::pair<std::string, NodeId>> patterns;
  std::optional<NodeId> additional;
};

struct ObjectConstraints {
  std::vector<ObjectPart> parts = {};
  bool has_properties = false;             // the keyword stands in one of the objects
  std::vector<std::string> required = {};  // each once
  std::vector<NodeId> names = {};          // propertyNames
  uint64_t min_properties = 0, max_properties = kNoLimit;
  std::optional<NodeId> min_at = {};  // where minProperties stands
};

struct Choice {
  NodeId at = 0;
  bool exclusive = false;  // oneOf
  std::vector<NodeId> branches = {};
};

struct Merged {
  uint8_t types = kAllTypes;  // 0: no value
  NumberBounds numbers = {};
  StringConstraints strings = {};
  ArrayConstraints arrays = {};
  ObjectConstraints objects = {};
  std::optional<std::vector<const Json*>> values = {};  // enum and const, of all their nodes
  std::vector<Choice> choices = {};
  std::vector<NodeId> nodes = {};  // all whose keywords are merged here, ascending
  // Keywords that cannot be enforced, and the types of values that they are about.
  std::vector<std::pair<uint8_t, Status>> refusals = {};
};

class SchemaMerger {
 public:
  SchemaMerger(SchemaDocument& document, Budget& budget) : document_(document), budget_(budget) {}

  // Valid as long as the merger. Errors: schema_invalid, schema_reference, grammar_too_complex.
  Result<const Merged*> Merge(const Elements& elements);

 private:
  Status Add(NodeId node, bool own_only, Merged& merged, std::vector<uint32_t>& todo);
  Status AddReferences(NodeId node, const boost::json::object& object, Merged& merged,
                       std::vector<uint32_t>& todo);
  Status AddDependencies(NodeId node, const boost::json::object& object, Merged& merged);
  Status AddTypes(NodeId node, const boost::json::object& object, Merged& merged);
  Status AddNumbers(NodeId node, const boost::json::object& object, Merged& merged);
  Status AddStrings(NodeId node, const boost::json::object& object, Merged& merged);
  Status AddArrays(NodeId node, const boost::json::object& object, Merged& merged);
  Status AddObjects(NodeId node, const boost::json::object& object, Merged& merged);
  void AddUnsupported(NodeId node, const boost::json::object& object, Merged& merged);

  Result<NodeId> Subschema(NodeId parent, std::string_view key, const Json& value);
  Result<std::optional<uint64_t>> Count(NodeId node, const boost::json::object& object,
                                        std::string_view keyword);

  SchemaDocument& document_;
  Budget& budget_;
  std::map<Elements, Merged> known_;
};

}  // namespace tutti::grammar
