// Compiling what a request constrains its answer to.
//
// Pure; any thread. Source texts come from clients: every call is bounded by Limits.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "grammar/automaton.h"
#include "grammar/limits.h"

namespace tutti::grammar {

struct Source {
  enum class Kind : uint8_t {
    kJsonObject,  // any JSON object
    kJsonSchema,  // `text`: a schema
    kRegex,       // `text`: an expression that the whole answer matches
    kChoice,      // one of `choices`
    kGbnf,        // `text`: a grammar
  };
  Kind kind = Kind::kJsonObject;
  std::string text = {};
  std::vector<std::string> choices = {};
  friend bool operator==(const Source&, const Source&) = default;
};

// Errors: those of the front ends (json_schema.h, regex_parser.h, gbnf_parser.h) and
// Automaton::Create(); invalid_value for an empty list of choices.
Result<std::shared_ptr<const Automaton>> Compile(const Source& source, const Limits& limits = {},
                                                 const std::atomic<bool>* cancelled = nullptr);

}  // namespace tutti::grammar
