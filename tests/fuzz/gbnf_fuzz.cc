// Grammars of clients (GBNF): compiled within limits or refused by a code. Texts that follow the
// automaton are UTF-8.
// Input: one byte (seed of the texts), then the grammar.
#include <string>

#include "base/utf8.h"
#include "fuzz_input.h"
#include "grammar_walk.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tutti::fuzz::FuzzInput input(data, size);
  const uint8_t seed = input.Byte();
  const auto automaton =
      tutti::fuzz::CompileOrRefuse(tutti::grammar::Structure::Kind::kGbnf, input.Rest(),
                                   {"grammar_syntax", "grammar_left_recursion"});
  if (automaton == nullptr) return 0;
  tutti::fuzz::GrammarWalk walk(automaton, seed);
  for (int i = 0; i < 3; ++i) {
    const std::optional<std::string> text = walk.Text();
    if (text) CHECK(tutti::IsValidUtf8(*text)) << *text;
  }
  return 0;
}
