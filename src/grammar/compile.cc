#include "grammar/compile.h"

namespace tutti::grammar {

Result<std::shared_ptr<const Automaton>> Compile(const Structure& structure, const Limits& limits,
                                                 const std::atomic<bool>* cancelled) {
  Budget budget(limits, cancelled);
  Grammar grammar;
  ASSIGN_OR_RETURN(grammar.root, AddStructure(grammar, structure, budget));
  return Automaton::Create(grammar, budget);
}

}  // namespace tutti::grammar
