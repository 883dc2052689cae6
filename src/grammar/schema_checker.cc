#include "grammar/schema_checker.h"

#include <algorithm>
#include <utility>

#include "base/utf8.h"
#include "grammar/json_text.h"
#include "grammar/regex_parser.h"
#include "grammar/schema_format.h"

namespace tutti::grammar {
namespace {

// How deep values are compared with schemas; a schema may call itself without a value in between.
constexpr int kMaxDepth = 64;
// How deep two branches of oneOf are compared to find that no value matches both.
constexpr int kMaxDisjointDepth = 8;
constexpr size_t kMaxCombinations = 256;

size_t CountCharacters(std::string_view text) {
  size_t count = 0;
  for (size_t i = 0; i < text.size(); i += DecodeAt(text, i).length) ++count;
  return count;
}

}  // namespace

std::string JsonSpelling(std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  constexpr std::string_view kSpecial = "\"\\\b\f\n\r\t", kLetters = "\"\\bfnrt";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (const size_t known = kSpecial.find(c); known != std::string_view::npos) {
      out += {'\\', kLetters[known]};
    } else if (byte < 0x20) {
      out += "\\u00";
      out += {kHex[byte / 16], kHex[byte % 16]};
    } else {
      out += c;
    }
  }
  return out;
}

Result<std::vector<Elements>> SchemaChecker::Combinations(const Merged& merged) {
  Elements own;
  for (const NodeId node : merged.nodes) own.push_back(OwnElement(node));
  std::vector<Elements> all = {own};
  for (const Choice& choice : merged.choices) {
    if (all.size() * choice.branches.size() > kMaxCombinations) {
      return InvalidArgument("grammar_too_complex",
                             "anyOf and oneOf combine to more than 256 cases; nest them otherwise")
          .WithParam(document_.path(choice.at));
    }
    std::vector<Elements> more;
    for (const Elements& elements : all) {
      for (const NodeId branch : choice.branches) {
        if (!budget_.Take(20 + elements.size())) return TooComplex();
        Elements& with = more.emplace_back(elements);
        with.push_back(WholeElement(branch));
      }
    }
    all = std::move(more);
  }
  for (Elements& elements : all) Normalise(elements);
  return all;
}

Elements SchemaChecker::Item(const ArrayConstraints& arrays, uint64_t index) {
  Elements elements;
  for (const ArrayPart& part : arrays.parts) {
    if (index < part.prefix.size()) {
      elements.push_back(WholeElement(part.prefix[index]));
    } else if (part.rest) {
      elements.push_back(WholeElement(*part.rest));
    }
  }
  Normalise(elements);
  return elements;
}

Result<Elements> SchemaChecker::Property(const ObjectConstraints& objects,
                                         const std::string& name) {
  Elements elements;
  for (const ObjectPart& part : objects.parts) {
    bool named = false;
    const Json* own = part.declared == nullptr ? nullptr : part.declared->if_contains(name);
    if (own != nullptr) {
      named = true;
      elements.push_back(WholeElement(document_.Child(/*parent=*/0, "", *own)));  // known already
    }
    for (const auto& [pattern, node] : part.patterns) {
      ASSIGN_OR_RETURN(const auto language, Pattern(node, "", pattern));
      if (!budget_.Take(20 + 2 * name.size() + pattern.size())) return TooComplex();
      if (!language->Accepts(JsonSpelling(name))) continue;
      named = true;
      elements.push_back(WholeElement(node));
    }
    if (!named && part.additional) elements.push_back(WholeElement(*part.additional));
    if (!budget_.Take(20 + name.size() / 8)) return TooComplex();
  }
  Normalise(elements);
  return elements;
}

Result<bool> SchemaChecker::Accepts(const Elements& elements, const Json& value, int depth) {
  return Accepts(elements, value, depth, /*listed=*/false);
}

Result<bool> SchemaChecker::AcceptsListed(const Elements& elements, const Json& value) {
  return Accepts(elements, value, /*depth=*/0, /*listed=*/true);
}

Result<bool> SchemaChecker::Accepts(const Elements& elements, const Json& value, int depth,
                                    bool listed) {
  if (depth > kMaxDepth || !budget_.Take(50)) {
    budget_.Exhaust();
    return TooComplex();
  }
  ASSIGN_OR_RETURN(const Merged* const merged, merger_.Merge(elements));
  ASSIGN_OR_RETURN(const bool own, AcceptsOwn(*merged, value, depth, listed));
  if (!own) return false;
  for (const Choice& choice : merged->choices) {
    int matching = 0;
    for (const NodeId branch : choice.branches) {
      ASSIGN_OR_RETURN(const bool accepts, Accepts({WholeElement(branch)}, value, depth + 1));
      matching += accepts ? 1 : 0;
    }
    if (matching == 0 || (choice.exclusive && matching > 1)) return false;
  }
  return true;
}

Result<bool> SchemaChecker::AcceptsOwn(const Merged& merged, const Json& value, int depth,
                                       bool listed) {
  const uint8_t type = TypeOf(value);
  if ((merged.types & type) == 0) return false;
  for (const auto& [types, status] : merged.refusals) {
    if ((types & type) != 0) return Status(status);
  }
  if (merged.values && !listed) {
    if (!budget_.Take(2 * merged.values->size())) return TooComplex();
    if (std::none_of(merged.values->begin(), merged.values->end(),
                     [&](const Json* one) { return SameValue(*one, value); }))
      return false;
  }
  switch (type) {
    case kNumber: {
      const std::optional<Decimal> number = Decimal::From(value);
      return number && merged.numbers.Contains(*number);
    }
    case kString: {
      const std::string_view text = TextOf(value);
      if (!budget_.Take(text.size())) return TooComplex();
      const size_t length = CountCharacters(text);
      if (length < merged.strings.min_length || length > merged.strings.max_length) return false;
      ASSIGN_OR_RETURN(const auto language, Strings({.patterns = merged.strings.patterns,
                                                     .formats = merged.strings.formats}));
      return language->Accepts(JsonSpelling(text));
    }
    case kArray: {
      const auto& items = value.get_array();
      if (items.size() < merged.arrays.min_items || items.size() > merged.arrays.max_items)
        return false;
      for (size_t i = 0; i < items.size(); ++i) {
        ASSIGN_OR_RETURN(const bool accepts, Accepts(Item(merged.arrays, i), items[i], depth + 1));
        if (!accepts) return false;
      }
      return true;
    }
    case kObject: {
      const auto& object = value.get_object();
      const ObjectConstraints& objects = merged.objects;
      if (object.size() < objects.min_properties || object.size() > objects.max_properties)
        return false;
      for (const std::string& name : objects.required) {
        if (object.if_contains(name) == nullptr) return false;
      }
      for (const auto& member : object) {
        const std::string name(member.key().data(), member.key().size());
        for (const NodeId names : objects.names) {
          ASSIGN_OR_RETURN(const bool accepts,
                           Accepts({WholeElement(names)}, Json(name), depth + 1));
          if (!accepts) return false;
        }
        ASSIGN_OR_RETURN(const Elements elements, Property(objects, name));
        ASSIGN_OR_RETURN(const bool accepts, Accepts(elements, member.value(), depth + 1));
        if (!accepts) return false;
      }
      return true;
    }
    default:
      return true;
  }
}

Result<std::shared_ptr<const Dfa>> SchemaChecker::AllStrings() {
  if (all_ == nullptr) {
    Grammar grammar(budget_);
    all_ = Dfa::FromExpr(
        grammar,
        grammar.Repeat(Characters(grammar, CodePoints::All(), Spelling::kJson), 0, kUnlimited),
        budget_);
    if (all_ == nullptr) return TooComplex();
  }
  return all_;
}

Result<std::shared_ptr<const Dfa>> SchemaChecker::Pattern(NodeId node, std::string_view keyword,
                                                          const std::string& pattern) {
  const auto known = patterns_.find(pattern);
  if (known != patterns_.end()) return known->second;
  Grammar grammar(budget_);
  const std::string path = document_.path(node) +
                           (keyword.empty() || document_.path(node).empty() ? "" : ".") +
                           std::string(keyword);
  Result<ExprId> body = ParseRegex(grammar, pattern, Spelling::kJson, RegexMatch::kSearch, budget_);
  if (!body.ok()) return Status(body.status()).WithParam(path);
  std::shared_ptr<const Dfa> language = Dfa::FromExpr(grammar, *body, budget_);
  if (language == nullptr) return TooComplex().WithParam(path);
  patterns_.emplace(pattern, language);
  return language;
}

Result<std::shared_ptr<const Dfa>> SchemaChecker::Strings(const StringConstraints& strings) {
  std::shared_ptr<const Dfa> language;
  const auto restrict = [&](const Dfa& by) -> Status {
    if (language != nullptr) language = Dfa::Intersect(*language, by, budget_);
    return language == nullptr ? TooComplex() : OkStatus();
  };
  for (const auto& [node, pattern] : strings.patterns) {
    ASSIGN_OR_RETURN(const auto one, Pattern(node, "pattern", pattern));
    if (language == nullptr) {
      language = one;
    } else {
      RETURN_IF_ERROR(restrict(*one));
    }
  }
  for (const std::string& format : strings.formats) {
    if (KindOfFormat(format) != FormatKind::kEnforced) continue;
    const std::shared_ptr<const Dfa> one = FormatLanguage(format);
    if (language == nullptr) {
      language = one;
    } else {
      RETURN_IF_ERROR(restrict(*one));
    }
  }
  if (language == nullptr) {
    ASSIGN_OR_RETURN(language, AllStrings());
  }
  if (strings.any_length()) return language;
  Grammar grammar(budget_);
  const auto bound = [](uint64_t length) {
    return static_cast<uint32_t>(std::min<uint64_t>(length, kUnlimited));
  };
  if (strings.min_length > strings.max_length || strings.min_length >= kUnlimited)
    return std::make_shared<const Dfa>();
  const std::shared_ptr<const Dfa> lengths =
      Dfa::FromExpr(grammar,
                    grammar.Repeat(Characters(grammar, CodePoints::All(), Spelling::kJson),
                                   bound(strings.min_length), bound(strings.max_length)),
                    budget_);
  if (lengths == nullptr) return TooComplex();
  RETURN_IF_ERROR(restrict(*lengths));
  return language;
}

Result<std::shared_ptr<const Dfa>> SchemaChecker::Strings(const Elements& elements, int depth) {
  if (depth > kMaxDepth) {
    budget_.Exhaust();
    return TooComplex();
  }
  ASSIGN_OR_RETURN(const Merged* const merged, merger_.Merge(elements));
  if ((merged->types & kString) == 0) return std::make_shared<const Dfa>();
  Grammar grammar(budget_);
  std::vector<ExprId> ways;
  if (merged->values) {
    for (const Json* value : *merged->values) {
      if (!value->is_string()) continue;
      ASSIGN_OR_RETURN(const bool accepts, AcceptsListed(elements, *value));
      if (accepts) ways.push_back(grammar.Bytes(JsonSpelling(TextOf(*value))));
    }
  } else if (!merged->choices.empty()) {
    for (const Choice& choice : merged->choices) {
      if (choice.exclusive) {
        return document_.Unsupported(choice.at, "oneOf", "names of properties are told by anyOf");
      }
    }
    ASSIGN_OR_RETURN(const std::vector<Elements> cases, Combinations(*merged));
    for (const Elements& one : cases) {
      ASSIGN_OR_RETURN(const auto language, Strings(one, depth + 1));
      ways.push_back(grammar.Embed(language));
    }
  } else {
    for (const auto& [types, status] : merged->refusals) {
      if ((types & kString) != 0) return Status(status);
    }
    return Strings(merged->strings);
  }
  const std::shared_ptr<const Dfa> all =
      Dfa::FromExpr(grammar, grammar.Alternate(std::move(ways)), budget_);
  if (all == nullptr) return TooComplex();
  return all;
}

Result<bool> SchemaChecker::Disjoint(const Elements& a, const Elements& b, int depth) {
  if (depth > kMaxDisjointDepth) return false;
  if (!budget_.Take(100)) return TooComplex();
  ASSIGN_OR_RETURN(const Merged* const x, merger_.Merge(a));
  ASSIGN_OR_RETURN(const Merged* const y, merger_.Merge(b));
  const uint8_t shared = x->types & y->types;
  if (shared == 0) return true;
  for (const bool swapped : {false, true}) {
    const Merged& listed = swapped ? *y : *x;
    if (!listed.values) continue;
    for (const Json* value : *listed.values) {
      ASSIGN_OR_RETURN(const bool in_both, Accepts(swapped ? a : b, *value));
      if (!in_both) continue;
      ASSIGN_OR_RETURN(const bool in_own, AcceptsListed(swapped ? b : a, *value));
      if (in_own) return false;
    }
    return true;
  }
  for (const bool swapped : {false, true}) {
    const Merged& choosing = swapped ? *y : *x;
    if (choosing.choices.empty()) continue;
    ASSIGN_OR_RETURN(const std::vector<Elements> cases, Combinations(choosing));
    for (const Elements& one : cases) {
      ASSIGN_OR_RETURN(const bool disjoint, Disjoint(one, swapped ? a : b, depth + 1));
      if (!disjoint) return false;
    }
    return true;
  }
  for (uint8_t type = 1; type <= kObject; type = static_cast<uint8_t>(type * 2)) {
    if ((shared & type) == 0) continue;
    ASSIGN_OR_RETURN(const bool disjoint, Disjoint(*x, *y, type, depth));
    if (!disjoint) return false;
  }
  return true;
}

Result<bool> SchemaChecker::Disjoint(const Merged& a, const Merged& b, uint8_t type, int depth) {
  switch (type) {
    case kNumber: {
      NumberBounds both = a.numbers;
      if (b.numbers.low) both.RaiseLow(*b.numbers.low, b.numbers.low_exclusive);
      if (b.numbers.high) both.LowerHigh(*b.numbers.high, b.numbers.high_exclusive);
      both.integer = both.integer || b.numbers.integer;
      both.multiples.insert(both.multiples.end(), b.numbers.multiples.begin(),
                            b.numbers.multiples.end());
      const std::shared_ptr<const Dfa> shared = MakeNumbers(both, budget_);
      if (shared == nullptr) return TooComplex();
      return shared->empty();
    }
    case kString: {
      ASSIGN_OR_RETURN(const auto x, Strings(a.strings));
      ASSIGN_OR_RETURN(const auto y, Strings(b.strings));
      const std::shared_ptr<const Dfa> shared = Dfa::Intersect(*x, *y, budget_);
      if (shared == nullptr) return TooComplex();
      return shared->empty();
    }
    case kArray: {
      const uint64_t least = std::max(a.arrays.min_items, b.arrays.min_items);
      if (least > std::min(a.arrays.max_items, b.arrays.max_items)) return true;
      for (uint64_t i = 0; i < std::min<uint64_t>(least, 16); ++i) {
        ASSIGN_OR_RETURN(const bool disjoint,
                         Disjoint(Item(a.arrays, i), Item(b.arrays, i), depth + 1));
        if (disjoint) return true;
      }
      return false;
    }
    case kObject: {
      for (const ObjectConstraints* from : {&a.objects, &b.objects}) {
        for (const std::string& name : from->required) {
          ASSIGN_OR_RETURN(const Elements x, Property(a.objects, name));
          ASSIGN_OR_RETURN(const Elements y, Property(b.objects, name));
          ASSIGN_OR_RETURN(const bool disjoint, Disjoint(x, y, depth + 1));
          if (disjoint) return true;
        }
      }
      return std::max(a.objects.min_properties, b.objects.min_properties) >
             std::min(a.objects.max_properties, b.objects.max_properties);
    }
    default:
      return false;
  }
}

}  // namespace tutti::grammar
