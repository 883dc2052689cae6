#include "grammar/structure.h"

#include <map>
#include <utility>

#include "base/utf8.h"
#include "grammar/dfa.h"
#include "grammar/gbnf_parser.h"
#include "grammar/json_schema.h"
#include "grammar/json_text.h"
#include "grammar/regex_parser.h"

namespace tutti::grammar {
namespace {

using Kind = Structure::Kind;

void AppendKey(const Structure& structure, std::string& key) {
  const auto number = [&](int64_t value) { key += std::to_string(value) + ":"; };
  const auto text = [&](const std::string& value) {
    number(static_cast<int64_t>(value.size()));
    key += value;
  };
  number(static_cast<int64_t>(structure.kind));
  text(structure.text);
  number(static_cast<int64_t>(structure.texts.size()));
  for (const std::string& one : structure.texts) text(one);
  number(structure.token);
  number(static_cast<int64_t>(structure.tokens.size()));
  for (const TokenId token : structure.tokens) number(token);
  number(structure.min);
  number(structure.max);
  number(structure.open_objects);
  number(static_cast<int64_t>(structure.parts.size()));
  for (const Structure& part : structure.parts) AppendKey(part, key);
}

Status At(const std::string& param, Status status) {
  if (param.empty()) return status;
  const std::string path = status.param();
  return std::move(status).WithParam(path.empty() ? param : param + "." + path);
}

class StructureCompiler {
 public:
  StructureCompiler(Grammar& grammar, Budget& budget) : g_(grammar), budget_(budget) {}

  Result<ExprId> Compile(const Structure& structure) {
    if (!budget_.Take(20 + structure.text.size()) || !budget_.TakeBytes(100)) return Spent();
    Result<ExprId> expr = Body(structure);
    if (!expr.ok()) return At(structure.param, std::move(expr).status());
    return expr;
  }

 private:
  Status Spent() const { return budget_.status(); }

  Result<ExprId> Body(const Structure& structure) {
    switch (structure.kind) {
      case Kind::kText:
        return g_.Bytes(structure.text);
      case Kind::kToken:
        return g_.SpecialToken(structure.token);
      case Kind::kJsonSchema: {
        ASSIGN_OR_RETURN(
            const RuleId rule,
            AddJsonSchema(g_, structure.text, {.open_objects = structure.open_objects}, budget_));
        return g_.Call(rule);
      }
      case Kind::kJsonObject:
        return g_.Call(json_.Object());
      case Kind::kRegex: {
        ASSIGN_OR_RETURN(const ExprId body, ParseRegex(g_, structure.text, Spelling::kPlain,
                                                       RegexMatch::kWhole, budget_));
        return g_.Call(g_.AddRule("regex", RuleKind::kRegular, body));
      }
      case Kind::kChoice:
        return Choices(structure.texts);
      case Kind::kGbnf: {
        ASSIGN_OR_RETURN(const RuleId rule, ParseGbnf(g_, structure.text, budget_));
        return g_.Call(rule);
      }
      case Kind::kFreeText:
      case Kind::kOtherStart:
      case Kind::kPlainText:
        return FreeText(structure);
      case Kind::kSequence:
      case Kind::kAlternatives: {
        std::vector<ExprId> parts;
        for (const Structure& part : structure.parts) {
          ASSIGN_OR_RETURN(const ExprId one, Compile(part));
          parts.push_back(one);
        }
        return structure.kind == Kind::kSequence ? g_.Concat(std::move(parts))
                                                 : g_.Alternate(std::move(parts));
      }
      case Kind::kRepeat:
        return Repeat(structure);
      case Kind::kMembers:
        return Members(structure);
    }
    return Internal("unknown kind of structure");
  }

  Result<ExprId> Choices(const std::vector<std::string>& choices) {
    if (choices.empty()) return InvalidArgument("invalid_value", "choice must not be empty");
    std::vector<ExprId> ways;
    for (const std::string& choice : choices) {
      if (!IsValidUtf8(choice)) return InvalidArgument("invalid_utf8", "choice is not valid UTF-8");
      if (!budget_.Take(20 + choice.size()) || !budget_.TakeBytes(100 + choice.size()))
        return Spent();
      ways.push_back(g_.Bytes(choice));
    }
    return g_.Call(g_.AddRule("choice", RuleKind::kRegular, g_.Alternate(std::move(ways))));
  }

  Result<ExprId> Repeat(const Structure& structure) {
    // Counts of lists come from clients' schemas.
    if (structure.min > structure.max) {
      return InvalidArgument("schema_invalid", "at least " + std::to_string(structure.min) +
                                                   " and at most " + std::to_string(structure.max) +
                                                   " items exclude each other");
    }
    ASSIGN_OR_RETURN(const ExprId item, Compile(structure.parts[0]));
    if (structure.max == 0) return g_.Empty();
    if (structure.max == 1 && structure.parts.size() == 1)
      return g_.Repeat(item, structure.min, structure.max);
    // A rule, so that counts copy a call of it and not the item.
    const ExprId call = g_.Call(g_.AddRule("item", RuleKind::kNested, item));
    if (structure.parts.size() == 1) return g_.Repeat(call, structure.min, structure.max);
    ASSIGN_OR_RETURN(const ExprId separator, Compile(structure.parts[1]));
    const uint32_t more = structure.max == kUnlimited ? kUnlimited : structure.max - 1;
    const uint32_t least = structure.min == 0 ? 0 : structure.min - 1;
    const ExprId items = g_.Concat({call, g_.Repeat(g_.Concat({separator, call}), least, more)});
    return structure.min == 0 ? g_.Optional(items) : items;
  }

  // From the last part to the first, so that each is compiled once: what may follow a part is a
  // rule of its own, with a separator before it and without.
  Result<ExprId> Members(const Structure& structure) {
    ExprId first = g_.Empty(), rest = g_.Empty();
    for (auto part = structure.parts.rbegin(); part != structure.parts.rend(); ++part) {
      const bool optional = part->kind == Kind::kRepeat && part->min == 0 && part->max == 1;
      ASSIGN_OR_RETURN(const ExprId item, Compile(optional ? part->parts[0] : *part));
      const ExprId call = g_.Call(g_.AddRule("member", RuleKind::kNested, item));
      const ExprId with = g_.Concat({g_.Bytes(structure.text), call, rest});
      const ExprId begins = g_.Concat({call, rest});
      first = optional ? g_.Alternate({begins, first}) : begins;
      rest = optional ? g_.Alternate({with, rest}) : with;
      first = g_.Call(g_.AddRule("members", RuleKind::kNested, first));
      rest = g_.Call(g_.AddRule("more members", RuleKind::kNested, rest));
    }
    return first;
  }

  // All texts except those that contain one of the texts, or begin with one.
  Result<ExprId> FreeText(const Structure& structure) {
    const ExprId one =
        structure.kind == Kind::kPlainText ? g_.Chars(CodePoints::All()) : g_.ByteRange(0, 255);
    const ExprId any = g_.Repeat(one, 0, kUnlimited);
    std::vector<ExprId> stops;
    for (const std::string& stop : structure.texts) {
      if (!budget_.Take(20 + stop.size())) return Spent();
      stops.push_back(g_.Bytes(stop));
    }
    for (const TokenId token : structure.tokens) stops.push_back(g_.SpecialToken(token));
    if (stops.empty()) return g_.Call(g_.AddRule("free text", RuleKind::kRegular, any));
    const ExprId before = structure.kind == Kind::kOtherStart ? g_.Empty() : any;
    const ExprId holds_stop = g_.Concat({before, g_.Alternate(std::move(stops)), any});
    // One tool may have many values of the same kind.
    const std::string key = structure.Key();
    if (const auto known = free_texts_.find(key); known != free_texts_.end()) return known->second;
    const std::shared_ptr<const Dfa> all = Dfa::FromExpr(g_, any, budget_);
    const std::shared_ptr<const Dfa> bad = Dfa::FromExpr(g_, holds_stop, budget_);
    if (all == nullptr || bad == nullptr) return Spent();
    const std::shared_ptr<const Dfa> free = Dfa::Subtract(*all, *bad, budget_);
    if (free == nullptr) return Spent();
    const ExprId embedded = g_.Embed(free);
    free_texts_.emplace(key, embedded);
    return embedded;
  }

  Grammar& g_;
  Budget& budget_;
  JsonRules json_{g_, JsonSchemaOptions().space};
  std::map<std::string, ExprId> free_texts_;  // by their keys
};

}  // namespace

std::string Structure::Key() const {
  std::string key;
  AppendKey(*this, key);
  return key;
}

Result<RuleId> AddStructure(Grammar& grammar, const Structure& structure, Budget& budget) {
  StructureCompiler compiler(grammar, budget);
  ASSIGN_OR_RETURN(const ExprId body, compiler.Compile(structure));
  return grammar.AddRule("structure", RuleKind::kNested, body);
}

}  // namespace tutti::grammar
