#include "tokenizer/regex/regex.h"

#include <utility>

#include "tokenizer/regex/automaton.h"
#include "tokenizer/regex/syntax.h"

namespace tutti::tokenizer {

Regex::Regex(std::unique_ptr<const regex::Automaton> automaton, bool matches_empty)
    : automaton_(std::move(automaton)), matches_empty_(matches_empty) {}
Regex::~Regex() = default;

Result<std::shared_ptr<const Regex>> Regex::Compile(std::string_view pattern) {
  ASSIGN_OR_RETURN(const regex::Syntax syntax, regex::Parse(pattern));
  ASSIGN_OR_RETURN(const regex::Program program, regex::MakeProgram(syntax));
  ASSIGN_OR_RETURN(regex::Symbols symbols, regex::Symbols::Create(syntax.sets));
  ASSIGN_OR_RETURN(std::unique_ptr<const regex::Automaton> automaton,
                   regex::Automaton::Create(program, std::move(symbols)));
  return std::shared_ptr<const Regex>(
      new Regex(std::move(automaton), syntax.nodes[syntax.root].nullable));
}

void Regex::FindAll(std::string_view text, MatchSink& sink) const {
  automaton_->FindAll(text, sink);
}

}  // namespace tutti::tokenizer
