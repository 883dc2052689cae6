// The schema of every JSON request but KServe's, as one table: name, where it may stand, type,
// range, class, error code. KServe's fields are its protocol's and its tensors the models' to say:
// they are read in kserve/json/request.h.
//
// The same rows drive the checks (field_check.h, checked_object.h), the texts of the errors and the
// generated boundary tests.
// Classes:
//   honoured        has the effect it documents
//   without effect  accepted and checked, cannot change the answer
//   refused         would change the answer and is not implemented: 400 unsupported_parameter
//                   naming the field, unless its value is a neutral one that asks for nothing
// A field in no row is unknown: ignored and reported, or 400 unknown_parameter in strict mode.
// Pure.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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
  kEmbeddings = 1 << 9,             // POST /v1/embeddings
  kRerank = 1 << 10,                // POST /v1/rerank, with documents
  kScore = 1 << 11,                 // POST /v1/score
  kTeiEmbed = 1 << 12,              // POST /embed
  kTeiEmbedAll = 1 << 13,           // POST /embed_all
  kTeiPredict = 1 << 14,            // POST /predict
  kTeiRerank = 1 << 15,             // POST /rerank, with texts
  kTeiSimilarity = 1 << 16,         // POST /similarity
  kSimilarityInputs = 1 << 17,      // its inputs
  kSimilarityParameters = 1 << 18,  // its parameters
  kDocument = 1 << 19,              // an element of documents, or of what is scored
  kDecode = 1 << 20,                // POST /decode
  kLastScope = kDecode,
  kAnyGeneration = kChat | kText | kGenerate,
};

// Bounds of whole numbers, as rows hold them.
constexpr double kInt32Max = 2147483647.0;
constexpr double kInt64Low = -9223372036854775808.0, kInt64High = 9223372036854775807.0;

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

}  // namespace tutti::wire
