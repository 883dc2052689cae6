#include "grammar/structure.h"

#include <boost/json.hpp>
#include <map>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "grammar/dfa.h"
#include "grammar/gbnf_parser.h"
#include "grammar/json_schema.h"
#include "grammar/json_text.h"
#include "grammar/regex_parser.h"
#include "grammar/state_sets.h"

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

constexpr size_t kMaxTags = 128;
constexpr uint32_t kMaxParts = 256;  // that one answer may hold

Status Invalid(const std::string& param, std::string_view what) {
  return InvalidArgument("invalid_value", param + " " + std::string(what)).WithParam(param);
}

// A required member of an object.
Result<const boost::json::value*> Member(const boost::json::object& object, const char* name,
                                         const std::string& param) {
  const boost::json::value* found = object.if_contains(name);
  const std::string path = param + "." + name;
  if (found == nullptr) {
    return InvalidArgument("missing_required_parameter", path + " is missing").WithParam(path);
  }
  return found;
}

Result<std::string> TextMember(const boost::json::object& object, const char* name,
                               const std::string& param) {
  ASSIGN_OR_RETURN(const boost::json::value* const value, Member(object, name, param));
  if (!value->is_string()) return Invalid(param + "." + name, "must be a string");
  return std::string(value->get_string());
}

Result<const boost::json::array*> ListMember(const boost::json::object& object, const char* name,
                                             const std::string& param) {
  ASSIGN_OR_RETURN(const boost::json::value* const value, Member(object, name, param));
  if (!value->is_array() || value->get_array().empty() || value->get_array().size() > kMaxTags)
    return Invalid(param + "." + name, "must be a list of 1 to 128 elements");
  return &value->get_array();
}

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

Result<Structure> ParseStructuralTag(std::string_view json, const std::string& param) {
  boost::system::error_code error;
  boost::json::parse_options depth;
  depth.max_depth = Limits().depth;
  const boost::json::value root = boost::json::parse({json.data(), json.size()}, error, {}, depth);
  if (error || !root.is_object()) return Invalid(param, "must be an object");
  const boost::json::object& object = root.get_object();
  ASSIGN_OR_RETURN(const boost::json::array* const triggers, ListMember(object, "triggers", param));
  Structure text{.kind = Structure::Kind::kFreeText};
  for (size_t i = 0; i < triggers->size(); ++i) {
    const boost::json::value& trigger = (*triggers)[i];
    if (!trigger.is_string() || trigger.get_string().empty())
      return Invalid(param + ".triggers[" + std::to_string(i) + "]", "must be a non-empty string");
    text.texts.emplace_back(trigger.get_string());
  }
  ASSIGN_OR_RETURN(const boost::json::array* const structures,
                   ListMember(object, "structures", param));
  std::vector<Structure> tags;
  for (size_t i = 0; i < structures->size(); ++i) {
    const std::string path = param + ".structures[" + std::to_string(i) + "]";
    if (!(*structures)[i].is_object()) return Invalid(path, "must be an object");
    const boost::json::object& tag = (*structures)[i].get_object();
    ASSIGN_OR_RETURN(std::string begin, TextMember(tag, "begin", path));
    ASSIGN_OR_RETURN(std::string end, TextMember(tag, "end", path));
    ASSIGN_OR_RETURN(const boost::json::value* const schema, Member(tag, "schema", path));
    bool triggered = false;
    for (const std::string& trigger : text.texts) triggered |= begin.starts_with(trigger);
    if (!triggered) return Invalid(path + ".begin", "must start with one of the triggers");
    tags.push_back(
        Structure::Sequence({Structure::Text(std::move(begin)),
                             Structure::Schema(boost::json::serialize(*schema), path + ".schema"),
                             Structure::Text(std::move(end))}));
  }
  Structure parts{.kind = Structure::Kind::kRepeat,
                  .max = kMaxParts,
                  .parts = {Structure::Sequence({Structure::Alternatives(std::move(tags)), text})}};
  return Structure::Sequence({std::move(text), std::move(parts)});
}

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
