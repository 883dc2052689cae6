#include "grammar/json_schema.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "grammar/json_text.h"
#include "grammar/schema_checker.h"
#include "grammar/schema_document.h"
#include "grammar/schema_format.h"
#include "grammar/schema_merge.h"

namespace tutti::grammar {
namespace {

// Names of patternProperties split the other names in up to two to this power of languages.
constexpr size_t kMaxPatterns = 6;

class SchemaCompiler {
 public:
  SchemaCompiler(Grammar& grammar, SchemaDocument& document, const JsonSchemaOptions& options,
                 Budget& budget)
      : g_(grammar),
        document_(document),
        budget_(budget),
        options_(options),
        json_(grammar, options.space),
        merger_(document, budget),
        checker_(document, merger_, budget) {}

  Result<RuleId> Compile() {
    const RuleId root = RuleFor({WholeElement(document_.root())});
    while (!todo_.empty()) {
      const auto [elements, rule] = std::move(todo_.front());
      todo_.pop_front();
      if (!budget_.Take(100)) return budget_.status();
      Result<ExprId> body = Body(elements);
      if (!body.ok()) {
        Status status = std::move(body).status();
        if (!status.param().empty() || status.reason() != "grammar_too_complex") return status;
        // The part of the schema whose compilation has used up the budget.
        return std::move(status).WithParam(document_.path(elements[0] / 2));
      }
      g_.SetBody(rule, *body);
    }
    return root;
  }

 private:
  // The rule for values that satisfy `elements`; its body is made later, so that schemas may call
  // themselves.
  RuleId RuleFor(Elements elements) {
    std::erase_if(elements, [&](uint32_t element) {
      const Json& value = document_.value(element / 2);
      return value.is_bool() ? value.get_bool() : value.get_object().empty();
    });
    if (elements.empty()) return json_.Value();
    const auto [at, fresh] = rules_.try_emplace(elements, 0);
    if (fresh) {
      const std::string path = document_.path(elements[0] / 2);
      at->second = g_.AddRule(path.empty() ? "the schema" : "schema " + path);
      // In a tree and in a queue.
      budget_.TakeBytes(200 + 2 * elements.size() * sizeof(uint32_t));
      todo_.emplace_back(elements, at->second);
    }
    return at->second;
  }

  Result<ExprId> Body(const Elements& elements) {
    ASSIGN_OR_RETURN(const Merged* const merged, merger_.Merge(elements));
    if (merged->types == 0) return g_.Never();
    if (merged->values) return Values(elements, *merged);
    if (!merged->choices.empty()) return Cases(*merged);
    for (const auto& [types, status] : merged->refusals) {
      if ((types & merged->types) != 0) return Status(status);
    }
    std::vector<ExprId> ways;
    if ((merged->types & kNull) != 0) ways.push_back(g_.Bytes("null"));
    if ((merged->types & kBoolean) != 0) {
      ways.push_back(g_.Bytes("true"));
      ways.push_back(g_.Bytes("false"));
    }
    if ((merged->types & kNumber) != 0) {
      ASSIGN_OR_RETURN(const ExprId way, Number(merged->numbers));
      ways.push_back(way);
    }
    if ((merged->types & kString) != 0) {
      ASSIGN_OR_RETURN(const ExprId way, String(merged->strings));
      ways.push_back(way);
    }
    if ((merged->types & kArray) != 0) {
      ASSIGN_OR_RETURN(const ExprId way, Array(merged->arrays));
      ways.push_back(way);
    }
    if ((merged->types & kObject) != 0) {
      ASSIGN_OR_RETURN(const ExprId way, Object(merged->objects));
      ways.push_back(way);
    }
    return g_.Alternate(std::move(ways));
  }

  // --- enum, const ---

  Result<ExprId> Values(const Elements& elements, const Merged& merged) {
    // Values without whitespace inside are one regular rule.
    std::vector<ExprId> scalars, others;
    for (const Json* value : *merged.values) {
      ASSIGN_OR_RETURN(const bool accepts, checker_.AcceptsListed(elements, *value));
      if (!accepts) continue;
      (value->is_structured() ? others : scalars).push_back(Literal(*value));
      if (!budget_.Take(20)) return budget_.status();
    }
    if (!scalars.empty())
      others.push_back(
          g_.Call(g_.AddRule("enum", RuleKind::kRegular, g_.Alternate(std::move(scalars)))));
    return g_.Alternate(std::move(others));
  }

  ExprId Literal(const Json& value) {
    if (value.is_null()) return g_.Bytes("null");
    if (value.is_bool()) return g_.Bytes(value.get_bool() ? "true" : "false");
    if (value.is_number()) {
      const std::optional<Decimal> number = Decimal::From(value);
      return number ? g_.Bytes(number->Text()) : g_.Never();
    }
    if (value.is_string())
      return g_.Concat({g_.Bytes("\""), Spell(g_, TextOf(value), Spelling::kJson), g_.Bytes("\"")});
    std::vector<ExprId> parts = {g_.Bytes(value.is_array() ? "[" : "{"), json_.Space()};
    bool first = true;
    const auto separate = [&] {
      if (!first) {
        parts.push_back(g_.Bytes(","));
        parts.push_back(json_.Space());
      }
      first = false;
    };
    if (value.is_array()) {
      for (const Json& item : value.get_array()) {
        separate();
        parts.push_back(Literal(item));
        parts.push_back(json_.Space());
      }
    } else {
      for (const auto& member : value.get_object()) {
        separate();
        parts.push_back(g_.Bytes("\""));
        parts.push_back(Name({member.key().data(), member.key().size()}));
        parts.push_back(Literal(member.value()));
        parts.push_back(json_.Space());
      }
    }
    parts.push_back(g_.Bytes(value.is_array() ? "]" : "}"));
    return g_.Concat(std::move(parts));
  }

  // --- anyOf, oneOf ---

  Result<ExprId> Cases(const Merged& merged) {
    for (const Choice& choice : merged.choices) {
      if (!choice.exclusive) continue;
      for (size_t i = 0; i < choice.branches.size(); ++i) {
        for (size_t j = i + 1; j < choice.branches.size(); ++j) {
          Elements one, two;
          for (const NodeId node : merged.nodes) one.push_back(OwnElement(node));
          two = one;
          one.push_back(WholeElement(choice.branches[i]));
          two.push_back(WholeElement(choice.branches[j]));
          std::sort(one.begin(), one.end());
          std::sort(two.begin(), two.end());
          ASSIGN_OR_RETURN(const bool disjoint, checker_.Disjoint(one, two));
          if (disjoint) continue;
          return document_.Unsupported(
              choice.at, "oneOf",
              "branches " + std::to_string(i) + " and " + std::to_string(j) +
                  " may both match; use anyOf, or a const property that tells them apart");
        }
      }
    }
    ASSIGN_OR_RETURN(const std::vector<Elements> cases, checker_.Combinations(merged));
    std::vector<ExprId> ways;
    for (const Elements& elements : cases) ways.push_back(g_.Call(RuleFor(elements)));
    return g_.Alternate(std::move(ways));
  }

  // --- scalars ---

  Result<ExprId> Number(const NumberBounds& numbers) {
    if (numbers.plain()) return g_.Call(numbers.integer ? json_.Integer() : json_.Number());
    const std::shared_ptr<const Dfa> language = MakeNumbers(numbers, budget_);
    if (language == nullptr) return budget_.status();
    if (language->empty()) return g_.Never();
    return g_.Call(g_.AddRule("number", RuleKind::kRegular, g_.Embed(language)));
  }

  Result<ExprId> String(const StringConstraints& strings) {
    if (strings.plain()) return g_.Call(json_.String());
    if (strings.min_length > strings.max_length) return g_.Never();
    const ExprId quote = g_.Bytes("\"");
    const bool enforced =
        !strings.patterns.empty() ||
        std::any_of(strings.formats.begin(), strings.formats.end(), [](const std::string& format) {
          return KindOfFormat(format) == FormatKind::kEnforced;
        });
    if (!enforced) {
      const auto least =
          static_cast<uint32_t>(std::min<uint64_t>(strings.min_length, kUnlimited - 1));
      const auto most = static_cast<uint32_t>(std::min<uint64_t>(strings.max_length, kUnlimited));
      if (strings.any_length()) return g_.Call(json_.String());
      const RuleId characters = g_.AddCountedRule("characters", AnyJsonCharacter(g_), least, most);
      return g_.Concat({quote, g_.Call(characters), quote});
    }
    StringConstraints constraints = strings;
    const bool limited = strings.max_length != kNoLimit;
    if (limited) constraints.max_length = kNoLimit;
    const Result<std::shared_ptr<const Dfa>> language = checker_.Strings(constraints);
    if (!language.ok()) {
      const Status& status = language.status();
      if (status.reason() != "grammar_too_complex" || !status.param().empty() ||
          strings.any_length())
        return status;
      return InvalidArgument("grammar_too_complex",
                             "lengths of a string with a pattern or format are too complex to "
                             "compile; lower them or leave them out");
    }
    ASSIGN_OR_RETURN(const ExprId quoted, Quoted(**language));
    if (quoted == g_.Never()) return quoted;
    if (limited) {
      const auto most = static_cast<uint32_t>(std::min<uint64_t>(strings.max_length, kUnlimited));
      return g_.Call(g_.AddLimitedRule("string", quoted, most));
    }
    return g_.Call(g_.AddRule("string", RuleKind::kRegular, quoted));
  }

  // The insides of strings, with their quotes.
  Result<ExprId> Quoted(const Dfa& language) {
    const std::shared_ptr<const Dfa> quoted = Dfa::Quote(language, budget_);
    if (quoted == nullptr) return budget_.status();
    return g_.Embed(quoted);
  }

  // --- arrays ---

  // One rule for each number of items that came before, until the number does not matter.
  Result<ExprId> Array(const ArrayConstraints& arrays) {
    uint64_t prefix = 0;
    for (const ArrayPart& part : arrays.parts)
      prefix = std::max<uint64_t>(prefix, part.prefix.size());
    if (arrays.min_items > arrays.max_items) return g_.Never();
    // After this many items all rules would be the same.
    const bool bounded = arrays.max_items != kNoLimit;
    const uint64_t last =
        bounded ? arrays.max_items : std::max<uint64_t>({prefix, arrays.min_items, 1});
    if (!budget_.Take(last) || last > budget_.limits().states) {
      budget_.Exhaust();
      return budget_.status();
    }
    RuleId next = g_.AddRule("items");
    const RuleId behind_last = next;
    for (uint64_t i = last + 1; i-- > 0;) {
      const RuleId rule = i == last ? behind_last : g_.AddRule("items");
      std::vector<ExprId> ways;
      if (i >= arrays.min_items) ways.push_back(g_.Bytes("]"));
      if (i < arrays.max_items) {
        const ExprId comma = i == 0 ? g_.Empty() : g_.Concat({g_.Bytes(","), json_.Space()});
        ways.push_back(g_.Concat({comma, g_.Call(RuleFor(SchemaChecker::Item(arrays, i))),
                                  json_.Space(), g_.Call(next)}));
      }
      g_.SetBody(rule, g_.Alternate(std::move(ways)));
      next = rule;
      if (!budget_.Take(50)) return budget_.status();
    }
    return g_.Concat({g_.Bytes("["), json_.Space(), g_.Call(next)});
  }

  // --- objects ---

  // A property's name behind its first quote, with what stands before its value.
  ExprId Name(std::string_view name) {
    return g_.Concat({Spell(g_, name, Spelling::kJson), g_.Bytes("\""), json_.Space(),
                      g_.Bytes(":"), json_.Space()});
  }

  struct Named {
    ExprId member = 0;  // behind the first quote
    bool required = false;
  };

  // See JsonSchemaOptions::open_objects.
  bool IsClosedByDefault(const ObjectConstraints& objects,
                         const std::vector<std::string>& declared) const {
    if (options_.open_objects || !objects.has_properties || !objects.names.empty()) return false;
    if (objects.min_properties > declared.size()) return false;
    return std::all_of(objects.parts.begin(), objects.parts.end(), [](const ObjectPart& part) {
      return part.patterns.empty() && !part.additional;
    });
  }

  // Properties whose names are not declared, by languages of names.
  Result<std::vector<ExprId>> Others(const ObjectConstraints& objects,
                                     const std::vector<std::string>& declared) {
    std::vector<std::pair<NodeId, std::string>> patterns;  // each once
    for (const ObjectPart& part : objects.parts) {
      for (const auto& named : part.patterns) {
        const auto same = [&](const auto& known) { return known.second == named.first; };
        if (std::none_of(patterns.begin(), patterns.end(), same))
          patterns.emplace_back(named.second, named.first);
      }
    }
    if (patterns.size() > kMaxPatterns) {
      return document_.Unsupported(patterns[0].first, "", "more than 6 patterns for names");
    }
    const bool closed =
        std::any_of(objects.parts.begin(), objects.parts.end(), [&](const ObjectPart& part) {
          return part.patterns.empty() && part.additional &&
                 document_.value(*part.additional).is_bool() &&
                 !document_.value(*part.additional).get_bool();
        });
    if (closed || IsClosedByDefault(objects, declared)) return std::vector<ExprId>();
    std::vector<ExprId> members;
    const auto add = [&](ExprId name, Elements value) {
      members.push_back(g_.Concat(
          {name, json_.Space(), g_.Bytes(":"), json_.Space(), g_.Call(RuleFor(std::move(value)))}));
    };
    if (patterns.empty() && declared.empty() && objects.names.empty()) {
      Elements value;
      for (const ObjectPart& part : objects.parts) {
        if (part.additional) value.push_back(WholeElement(*part.additional));
      }
      Normalise(value);
      add(g_.Call(json_.String()), std::move(value));
      return members;
    }
    ASSIGN_OR_RETURN(std::shared_ptr<const Dfa> names, checker_.AllStrings());
    if (!objects.names.empty()) {
      Elements elements;
      for (const NodeId node : objects.names) elements.push_back(WholeElement(node));
      Normalise(elements);
      ASSIGN_OR_RETURN(names, checker_.Strings(elements));
    }
    if (!declared.empty()) {
      Grammar own(budget_);
      std::vector<ExprId> literals;
      for (const std::string& name : declared)
        literals.push_back(Spell(own, name, Spelling::kJson));
      const auto taken = Dfa::FromExpr(own, own.Alternate(std::move(literals)), budget_);
      names = taken == nullptr ? nullptr : Dfa::Subtract(*names, *taken, budget_);
      if (names == nullptr) return budget_.status();
    }
    struct Split {
      std::shared_ptr<const Dfa> names;
      std::vector<bool> matched;  // by pattern
    };
    std::vector<Split> splits = {{names, {}}};
    for (const auto& [node, pattern] : patterns) {
      ASSIGN_OR_RETURN(const auto language, checker_.Pattern(node, "", pattern));
      std::vector<Split> more;
      for (Split& split : splits) {
        for (const bool matches : {true, false}) {
          Split part{matches ? Dfa::Intersect(*split.names, *language, budget_)
                             : Dfa::Subtract(*split.names, *language, budget_),
                     split.matched};
          if (part.names == nullptr) return budget_.status();
          part.matched.push_back(matches);
          if (!part.names->empty()) more.push_back(std::move(part));
        }
      }
      splits = std::move(more);
    }
    for (const Split& split : splits) {
      if (split.names->empty()) continue;
      Elements value;
      for (const ObjectPart& part : objects.parts) {
        bool named = false;
        for (const auto& [pattern, node] : part.patterns) {
          for (size_t i = 0; i < patterns.size(); ++i) {
            if (patterns[i].second != pattern || !split.matched[i]) continue;
            named = true;
            value.push_back(WholeElement(node));
          }
        }
        if (!named && part.additional) value.push_back(WholeElement(*part.additional));
      }
      Normalise(value);
      ASSIGN_OR_RETURN(const ExprId quoted, Quoted(*split.names));
      const RuleId name = g_.AddRule("name", RuleKind::kRegular, quoted);
      add(g_.Call(name), std::move(value));
    }
    return members;
  }

  Result<ExprId> Object(const ObjectConstraints& objects) {
    std::vector<std::string> declared;
    std::map<std::string, bool, std::less<>> known;
    for (const ObjectPart& part : objects.parts) {
      for (const auto& [name, node] : part.properties) {
        if (known.emplace(name, false).second) declared.push_back(name);
      }
    }
    for (const std::string& name : objects.required) {
      if (known.emplace(name, true).second) declared.push_back(name);
      known[name] = true;
    }
    std::vector<Named> members;
    uint64_t required = 0;
    for (const std::string& name : declared) {
      bool allowed = true;
      for (const NodeId node : objects.names) {
        ASSIGN_OR_RETURN(allowed, checker_.Accepts({WholeElement(node)}, Json(name)));
        if (!allowed) break;
      }
      ASSIGN_OR_RETURN(Elements value, checker_.Property(objects, name));
      Named member{.required = known[name]};
      if (allowed) {
        member.member = g_.Call(
            g_.AddRule("property", RuleKind::kNested,
                       g_.Concat({Name(name), g_.Call(RuleFor(std::move(value))), json_.Space()})));
      }
      required += member.required ? 1 : 0;
      members.push_back(member);
      if (!budget_.Take(100) || !budget_.TakeBytes(200)) return budget_.status();
    }
    ASSIGN_OR_RETURN(const std::vector<ExprId> others, Others(objects, declared));
    const uint64_t least = objects.min_properties, most = objects.max_properties;
    if (least > most || required > most) return g_.Never();
    // The grammar cannot refuse a repeated name among the undeclared ones, so their number in the
    // text is not the number of distinct names.
    if (least > std::max<uint64_t>(required, 1) && !others.empty()) {
      return document_.Unsupported(objects.min_at.value_or(0), "minProperties",
                                   "names that are not declared could repeat");
    }
    ExprId other = g_.Never();
    if (!others.empty()) {
      other = g_.Call(g_.AddRule("other property", RuleKind::kNested,
                                 g_.Concat({g_.Alternate(others), json_.Space()})));
    }
    return Members(members, other, least > required ? least : 0, most);
  }

  // Two rules for each place in the order of properties and each number of those that came, as far
  // as the number matters: what stands behind the properties so far, and one property or more from
  // there on. The comma, the whitespace behind it and the quote are those of all the properties
  // that may come next: a text is in one state there, not in one for each of them.
  Result<ExprId> Members(const std::vector<Named>& members, ExprId other, uint64_t least,
                         uint64_t most) {
    const uint64_t cap = std::max<uint64_t>(most != kNoLimit ? most : least, 1);
    const uint64_t limit = budget_.limits().states / 2;
    const bool counted = most != kNoLimit || least > 1;
    const uint64_t levels = counted ? cap + 1 : 2;
    if (levels > limit || levels * (members.size() + 1) > limit) {
      budget_.Exhaust();
      return budget_.status();
    }
    const auto after = [&](uint64_t count) { return std::min(count + 1, levels - 1); };
    const auto add = [&](const char* name, std::vector<ExprId> ways) {
      const ExprId body = g_.Alternate(std::move(ways));
      return body == g_.Never() ? body : g_.Call(g_.AddRule(name, RuleKind::kNested, body));
    };
    // By the number of properties so far. Each of `named` begins behind a quote.
    std::vector<ExprId> unnamed(levels, g_.Never()), named(levels, g_.Never()), rest(levels);
    bool may_end = true;
    const auto set_rest = [&] {
      for (uint64_t count = 0; count < levels; ++count) {
        std::vector<ExprId> ways;
        if (may_end && count >= least) ways.push_back(g_.Bytes("}"));
        const ExprId more = g_.Alternate(
            {g_.Concat({g_.Bytes("\""), named[count]}), may_end ? unnamed[count] : g_.Never()});
        ways.push_back(count == 0 ? more : g_.Concat({g_.Bytes(","), json_.Space(), more}));
        rest[count] = add("properties", std::move(ways));
      }
    };
    std::vector<RuleId> others(levels);
    for (RuleId& rule : others) rule = g_.AddRule("other properties");
    for (uint64_t count = 0; count < levels; ++count) {
      if (count < most) unnamed[count] = g_.Concat({other, g_.Call(others[after(count)])});
    }
    set_rest();
    for (uint64_t count = 0; count < levels; ++count) g_.SetBody(others[count], rest[count]);
    for (size_t i = members.size(); i-- > 0;) {
      for (uint64_t count = 0; count < levels; ++count) {
        std::vector<ExprId> ways;
        if (count < most) ways.push_back(g_.Concat({members[i].member, rest[after(count)]}));
        if (!members[i].required) ways.push_back(named[count]);
        named[count] = add("named properties", std::move(ways));
        if (!budget_.Take(50)) return budget_.status();
      }
      may_end = may_end && !members[i].required;
      set_rest();
    }
    return g_.Concat({g_.Bytes("{"), json_.Space(), rest[0]});
  }

  Grammar& g_;
  SchemaDocument& document_;
  Budget& budget_;
  const JsonSchemaOptions options_;
  JsonRules json_;
  SchemaMerger merger_;
  SchemaChecker checker_;
  std::map<Elements, RuleId> rules_;
  std::deque<std::pair<Elements, RuleId>> todo_;
};

}  // namespace

Result<RuleId> AddJsonSchema(Grammar& grammar, std::string_view schema,
                             const JsonSchemaOptions& options, Budget& budget) {
  grammar.ChargeTo(budget);
  ASSIGN_OR_RETURN(const std::unique_ptr<SchemaDocument> document,
                   SchemaDocument::Parse(schema, budget));
  return SchemaCompiler(grammar, *document, options, budget).Compile();
}

}  // namespace tutti::grammar
