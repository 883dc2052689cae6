// The schema of every JSON request, as one table: name, where it may stand, type, range, class,
// error code.
//
// The same rows drive the checks, the texts of the errors and the generated boundary tests.
// Classes:
//   honoured        has the effect it documents
//   without effect  accepted and checked, cannot change the answer
//   refused         would change the answer and is not implemented: 400 unsupported_parameter
//                   naming the field, unless its value is a neutral one that asks for nothing
// A field in no row is unknown: ignored and reported, or 400 unknown_parameter in strict mode.
// Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/types.h"
#include "base/status.h"
#include "wire/json.h"

namespace tutti::wire {

// The kinds of JSON object that have a schema; a bit each.
enum Scope : unsigned {
  kChat = 1 << 0,           // POST /v1/chat/completions
  kText = 1 << 1,           // POST /v1/completions
  kGenerate = 1 << 2,       // POST /generate
  kTokenize = 1 << 3,       // POST /tokenize
  kDetokenize = 1 << 4,     // POST /detokenize
  kApplyTemplate = 1 << 5,  // POST /apply-template
  kMessage = 1 << 6,        // an element of messages
  kPart = 1 << 7,           // an element of a message's content
  kStreamOptions = 1 << 8,
  kAnyGeneration = kChat | kText | kGenerate,
};

enum class FieldType {
  kBool,
  kInteger,   // low..high
  kNumber,    // low..high, finite
  kString,    // low..high bytes
  kChoice,    // one of the words of `words`
  kStrings,   // a string or a list of at most `count`, each low..high bytes
  kTokenIds,  // low..`count` integers 0..2^31-1; an id outside: token_out_of_range
  kBias,      // object of at most `count` members: token id as text -> number low..high
  kArray,     // low..high elements, checked by its reader
  kObject,    // at most high bytes when written as JSON
  kAny,       // checked by its reader
};

enum class FieldClass { kHonoured, kNoEffect, kRefused };

struct FieldSpec {
  std::string_view name;
  unsigned scopes = 0;
  FieldType type = FieldType::kAny;
  double low = 0, high = 0;
  FieldClass field_class = FieldClass::kHonoured;
  bool required = false;
  bool above_low = false;            // low itself is outside (top_p > 0)
  size_t count = 0;                  // elements of a list
  std::string_view words;            // "a|b|c"
  std::vector<std::string> neutral;  // refused: values, as JSON, that ask for nothing
  std::string_view hint;             // refused: added to the message
  std::string_view out_of_range = "invalid_value";  // code of a value outside low..high

  bool In(Scope scope) const { return (scopes & scope) != 0; }
};

std::span<const FieldSpec> Schema();
const FieldSpec* FindField(Scope scope, std::string_view name);

// Type and range of one value; `param` is the path for the error ("messages[2].name"). null is not
// passed here.
Status CheckValue(const FieldSpec& field, const Json& value, const std::string& param);

// Names of unknown fields, as far as they are fit for a header, in order of appearance and without
// repeats.
class IgnoredFields {
 public:
  void Add(std::string_view path);
  const std::vector<std::string>& names() const { return names_; }

 private:
  std::vector<std::string> names_;
};

// An object whose members were all checked against the schema of `scope`: reading is total. A
// member that is null counts as absent. Refers to the document.
class CheckedObject {
 public:
  // `path` is "" or "messages[2]"; `strict` refuses unknown members, else they are added to
  // `ignored`.
  static Result<CheckedObject> Check(Scope scope, const Json& value, std::string path, bool strict,
                                     IgnoredFields* ignored);

  const Json* Find(
      std::string_view name) const;  // null when absent; the name must be in the schema
  bool Has(std::string_view name) const { return Find(name) != nullptr; }
  std::string Param(std::string_view name) const;  // its path for errors

  std::optional<bool> Bool(std::string_view name) const;
  std::optional<int64_t> Int(std::string_view name) const;
  std::optional<double> Number(std::string_view name) const;
  std::optional<std::string> Text(std::string_view name) const;
  std::vector<std::string> Strings(std::string_view name) const;
  std::vector<TokenId> Tokens(std::string_view name) const;
  std::vector<std::pair<TokenId, float>> Bias(std::string_view name) const;

 private:
  CheckedObject(Scope scope, const JsonObject* object, std::string path)
      : scope_(scope), object_(object), path_(std::move(path)) {}
  const FieldSpec& Spec(std::string_view name) const;

  Scope scope_;
  const JsonObject* object_;
  std::string path_;
};

// An integer given as 3 or 3.0; nothing for other values and for 2^63 and above.
std::optional<int64_t> AsInteger(const Json& value);

// A list of token ids; code token_out_of_range or invalid_value, naming the element.
Result<std::vector<TokenId>> ReadTokenIds(const JsonArray& array, const std::string& param);

}  // namespace tutti::wire
