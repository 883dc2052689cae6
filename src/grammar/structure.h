// Structure: a text composed of fixed parts, JSON values and free text, such as an answer that may
// contain tool calls; and its compilation to an automaton.
//
// A value; one thread. Parts come from the server's own formats and from clients' schemas: a
// Budget bounds what they cost.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "grammar/automaton.h"
#include "grammar/expression.h"
#include "grammar/limits.h"

namespace tutti::grammar {

struct Structure {
  enum class Kind : uint8_t {
    kText,          // `text` as it is
    kToken,         // the special token `token`
    kJsonSchema,    // a JSON value that satisfies the schema `text`
    kJsonObject,    // any JSON object
    kRegex,         // what the expression `text` matches
    kChoice,        // one of `texts`
    kGbnf,          // what the grammar `text` matches
    kFreeText,      // any bytes in which none of `texts` and of the special tokens `tokens` occurs
    kOtherStart,    // any bytes that do not begin with one of `texts` or of `tokens`
    kPlainText,     // UTF-8 without special tokens in which none of `texts` occurs
    kSequence,      // `parts` one after the other
    kAlternatives,  // one of `parts`
    kRepeat,        // parts[0], `min` to `max` times, with parts[1], if there is one, between them
    kMembers,       // `parts` in this order with `text` between two; Optional() ones may be missing
  };
  Kind kind = Kind::kText;
  std::string text = {};
  std::vector<std::string> texts = {};  // valid UTF-8 for kChoice
  TokenId token = kNoToken;
  std::vector<TokenId> tokens = {};
  uint32_t min = 0, max = kUnlimited;
  bool open_objects = false;  // of kJsonSchema: JsonSchemaOptions::open_objects
  std::vector<Structure> parts = {};
  // Where an error in `text` lies, for Status::param(): "tools[0].function.parameters".
  std::string param = {};

  static Structure Text(std::string text) { return {.text = std::move(text)}; }
  static Structure Schema(std::string schema, std::string param) {
    return {.kind = Kind::kJsonSchema, .text = std::move(schema), .param = std::move(param)};
  }
  static Structure Sequence(std::vector<Structure> parts) {
    return {.kind = Kind::kSequence, .parts = std::move(parts)};
  }
  static Structure Alternatives(std::vector<Structure> parts) {
    return {.kind = Kind::kAlternatives, .parts = std::move(parts)};
  }
  static Structure Optional(Structure part) {
    return {.kind = Kind::kRepeat, .max = 1, .parts = {std::move(part)}};
  }

  // Equal for equal structures, and for no others: `param` does not count.
  std::string Key() const;
};

// Adds the rules and returns the one for the whole text. Errors: those of the parts' front ends,
// `param` beginning with the part's own; grammar_too_complex.
Result<RuleId> AddStructure(Grammar& grammar, const Structure& structure, Budget& budget);

// Structural tags: free text in which certain strings begin a part that a schema constrains.
//
// The form is vLLM's: {"structures": [{"begin": TEXT, "schema": SCHEMA, "end": TEXT}, ...],
// "triggers": [TEXT, ...]}. Text is free until a trigger; then one of the structures follows whose
// begin starts with that trigger, and text is free again behind its end. Pure.
//
// `param` names the field for errors. Errors: invalid_value, missing_required_parameter.
Result<Structure> ParseStructuralTag(std::string_view json, const std::string& param);

// Compiles the constraint of a request (schema, expression, grammar, choice) to an automaton. Pure;
// any thread. Source texts come from clients: every call is bounded by Limits.
//
// Errors: those of the front ends (json_schema.h, regex_parser.h, gbnf_parser.h), of AddStructure()
// and of Automaton::Create().
Result<std::shared_ptr<const Automaton>> Compile(const Structure& structure,
                                                 const Limits& limits = {},
                                                 const std::atomic<bool>* cancelled = nullptr);

// Whether the texts of a constraint may begin or end with white space, which then belongs to the
// value and may not be dropped together with the white space around a tag. Pure; any thread.
//
// True if a text of `structure` may begin or end with a space, tab or line end. Only expressions,
// grammars and choices are examined: JSON values have no outer white space, and that of free text
// has no meaning. True as well where the answer is not known, such as in a grammar of very many
// rules; false where the source cannot be parsed, because compiling it fails anyway. Takes time in
// proportion to the source, within `limits`.
bool MayHaveOuterSpace(const Structure& structure, const Limits& limits = {});

}  // namespace tutti::grammar
