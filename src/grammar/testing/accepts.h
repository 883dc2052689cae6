// Whether a compiled grammar accepts a whole text. For tests.
#pragma once

#include <string_view>

#include "grammar/state_sets.h"
#include "grammar/structure.h"

namespace tutti::grammar::testing {

inline bool Accepts(const std::shared_ptr<const Automaton>& automaton, std::string_view text) {
  StateSets sets(automaton);
  return sets.complete(sets.Next(sets.start(), text));
}

// False also where the source does not compile.
inline bool Accepts(const Structure& source, std::string_view text) {
  const auto automaton = Compile(source);
  return automaton.ok() && Accepts(*automaton, text);
}

}  // namespace tutti::grammar::testing
