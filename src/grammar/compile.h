// Compiles the constraint of a request (schema, expression, grammar, choice) to an automaton.
//
// Pure; any thread. Source texts come from clients: every call is bounded by Limits.
#pragma once

#include <atomic>
#include <memory>

#include "base/status.h"
#include "grammar/automaton.h"
#include "grammar/limits.h"
#include "grammar/structure.h"

namespace tutti::grammar {

// Errors: those of the front ends (json_schema.h, regex_parser.h, gbnf_parser.h), of AddStructure()
// and of Automaton::Create().
Result<std::shared_ptr<const Automaton>> Compile(const Structure& structure,
                                                 const Limits& limits = {},
                                                 const std::atomic<bool>* cancelled = nullptr);

}  // namespace tutti::grammar
