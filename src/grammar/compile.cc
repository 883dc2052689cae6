#include "grammar/compile.h"

#include <utility>

#include "base/utf8.h"
#include "grammar/gbnf_parser.h"
#include "grammar/json_schema.h"
#include "grammar/json_text.h"
#include "grammar/regex_parser.h"

namespace tutti::grammar {
namespace {

constexpr uint32_t kJsonSpace = JsonSchemaOptions().space;

Result<RuleId> AddChoices(Grammar& grammar, const std::vector<std::string>& choices,
                          Budget& budget) {
  if (choices.empty()) return InvalidArgument("invalid_value", "choice must not be empty");
  std::vector<ExprId> ways;
  for (const std::string& choice : choices) {
    if (!IsValidUtf8(choice)) return InvalidArgument("invalid_utf8", "choice is not valid UTF-8");
    if (!budget.Take(20 + choice.size()) || !budget.TakeBytes(100 + choice.size()))
      return budget.status();
    ways.push_back(grammar.Bytes(choice));
  }
  return grammar.AddRule("choice", RuleKind::kRegular, grammar.Alternate(std::move(ways)));
}

Result<RuleId> AddSource(Grammar& grammar, const Source& source, Budget& budget) {
  switch (source.kind) {
    case Source::Kind::kJsonObject:
      return JsonRules(grammar, kJsonSpace).Object();
    case Source::Kind::kJsonSchema:
      return AddJsonSchema(grammar, source.text, {.space = kJsonSpace}, budget);
    case Source::Kind::kRegex: {
      ASSIGN_OR_RETURN(const ExprId body, ParseRegex(grammar, source.text, Spelling::kPlain,
                                                     RegexMatch::kWhole, budget));
      return grammar.AddRule("regex", RuleKind::kRegular, body);
    }
    case Source::Kind::kChoice:
      return AddChoices(grammar, source.choices, budget);
    case Source::Kind::kGbnf:
      return ParseGbnf(grammar, source.text, budget);
  }
  return Internal("unknown kind of constraint");
}

}  // namespace

Result<std::shared_ptr<const Automaton>> Compile(const Source& source, const Limits& limits,
                                                 const std::atomic<bool>* cancelled) {
  Budget budget(limits, cancelled);
  Grammar grammar;
  ASSIGN_OR_RETURN(grammar.root, AddSource(grammar, source, budget));
  return Automaton::Create(grammar, budget);
}

}  // namespace tutti::grammar
