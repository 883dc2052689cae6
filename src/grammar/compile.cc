#include "grammar/compile.h"

#include "grammar/state_sets.h"

namespace tutti::grammar {

Result<std::shared_ptr<const Automaton>> Compile(const Structure& structure, const Limits& limits,
                                                 const std::atomic<bool>* cancelled) {
  Budget budget(limits, cancelled);
  Grammar grammar;
  ASSIGN_OR_RETURN(grammar.root, AddStructure(grammar, structure, budget));
  ASSIGN_OR_RETURN(std::shared_ptr<const Automaton> automaton, Automaton::Create(grammar, budget));
  if (StateSets::AlwaysOverflows(*automaton, budget)) {
    return InvalidArgument("grammar_too_complex",
                           "grammar has too many alternatives at one point; split it or require "
                           "some of its optional parts");
  }
  RETURN_IF_ERROR(budget.status());
  return automaton;
}

}  // namespace tutti::grammar
