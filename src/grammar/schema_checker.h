// SchemaChecker: decides whether a given value satisfies a schema, and compiles the languages of
// its strings. Used for the values of enum and const, for property names, and to distinguish the
// branches of oneOf.
//
// One thread; belongs to one compilation.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "grammar/dfa.h"
#include "grammar/schema_merge.h"

namespace tutti::grammar {

// A string as the inside of a JSON string, spelled as Spelling::kJson does.
std::string JsonSpelling(std::string_view text);

class SchemaChecker {
 public:
  SchemaChecker(SchemaDocument& document, SchemaMerger& merger, Budget& budget)
      : document_(document), merger_(merger), budget_(budget) {}

  Result<bool> Accepts(const Elements& elements, const Json& value, int depth = 0);
  // As Accepts(), for a value that is listed in the enum or const of each element that has one.
  Result<bool> AcceptsListed(const Elements& elements, const Json& value);
  // False also if the answer is unknown.
  Result<bool> Disjoint(const Elements& a, const Elements& b, int depth = 0);

  // The insides of the strings that satisfy `elements`.
  Result<std::shared_ptr<const Dfa>> Strings(const Elements& elements, int depth = 0);
  // Strings that satisfy the patterns, formats and lengths.
  Result<std::shared_ptr<const Dfa>> Strings(const StringConstraints& strings);
  // Strings that contain a match of a schema's pattern.
  Result<std::shared_ptr<const Dfa>> Pattern(NodeId node, std::string_view keyword,
                                             const std::string& pattern);
  Result<std::shared_ptr<const Dfa>> AllStrings();

  // The constraints on the value of a property, or on an item.
  Result<Elements> Property(const ObjectConstraints& objects, const std::string& name);
  static Elements Item(const ArrayConstraints& arrays, uint64_t index);
  // The elements of `merged` with a branch for each of its choices, one list for each combination.
  Result<std::vector<Elements>> Combinations(const Merged& merged);

 private:
  Result<bool> Accepts(const Elements& elements, const Json& value, int depth, bool listed);
  Result<bool> AcceptsOwn(const Merged& merged, const Json& value, int depth, bool listed);
  Result<bool> Disjoint(const Merged& a, const Merged& b, uint8_t type, int depth);
  Status TooComplex() const { return budget_.status(); }

  SchemaDocument& document_;
  SchemaMerger& merger_;
  Budget& budget_;
  std::map<std::string, std::shared_ptr<const Dfa>> patterns_;
  std::shared_ptr<const Dfa> all_;
};

}  // namespace tutti::grammar
