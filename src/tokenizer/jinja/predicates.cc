#include <algorithm>
#include <array>

#include "tokenizer/jinja/arguments.h"
#include "tokenizer/jinja/builtins.h"
#include "tokenizer/jinja/format.h"
#include "tokenizer/jinja/operations.h"
#include "tokenizer/jinja/unicode.h"

namespace tutti::tokenizer::jinja {
namespace {

using Plain = bool (*)(const Value&);

bool IsCallable(const Value& v) {
  return v.is_object() && v.object()->kind() != ObjectKind::kNamespace &&
         v.object()->kind() != ObjectKind::kLoop;
}

bool IsIterable(const Value& v) {
  return v.is_string() || v.is_list() || v.is_dict() || !v.defined();
}

struct PlainTest {
  std::string_view name;
  Plain test;
};

constexpr std::array<PlainTest, 14> kPlain{{
    {"defined", [](const Value& v) { return v.defined(); }},
    {"undefined", [](const Value& v) { return !v.defined(); }},
    {"none", [](const Value& v) { return v.is_none(); }},
    {"true", [](const Value& v) { return v.is_bool() && v.bool_value(); }},
    {"false", [](const Value& v) { return v.is_bool() && !v.bool_value(); }},
    {"boolean", [](const Value& v) { return v.is_bool(); }},
    {"integer", [](const Value& v) { return v.is_int(); }},
    {"float", [](const Value& v) { return v.is_float(); }},
    {"number", [](const Value& v) { return IsNumber(v); }},
    {"string", [](const Value& v) { return v.is_string(); }},
    {"mapping", [](const Value& v) { return v.is_dict(); }},
    {"sequence", IsIterable},  // for the default undefined, too
    {"iterable", IsIterable},
    {"callable", IsCallable},
}};

struct ComparisonTest {
  std::string_view name;
  Operator op;
};

constexpr std::array<ComparisonTest, 18> kComparisons{{
    {"eq", Operator::kEqual},
    {"equalto", Operator::kEqual},
    {"==", Operator::kEqual},
    {"ne", Operator::kNotEqual},
    {"!=", Operator::kNotEqual},
    {"lt", Operator::kLess},
    {"lessthan", Operator::kLess},
    {"<", Operator::kLess},
    {"le", Operator::kLessEqual},
    {"<=", Operator::kLessEqual},
    {"gt", Operator::kGreater},
    {"greaterthan", Operator::kGreater},
    {">", Operator::kGreater},
    {"ge", Operator::kGreaterEqual},
    {">=", Operator::kGreaterEqual},
    {"in", Operator::kIn},
    {"sameas", Operator::kEqual},  // found first below, by identity
    {"divisibleby", Operator::kModulo},
}};

constexpr std::array<std::string_view, 7> kOthers{"odd",     "even",   "upper", "lower",
                                                  "escaped", "filter", "test"};

bool AllCased(Runtime& rt, const Value& input, bool upper) {
  const Value value = ToStringValue(rt, input);
  if (rt.failed() || !rt.SpendBytes(value.text().size() * 4)) return false;
  bool any = false;
  const std::string& bytes = value.text().bytes();
  for (size_t pos = 0; pos < bytes.size();) {
    const CodePoint c = DecodeAt(bytes, pos);
    if (IsCased(c.code_point)) {
      any = true;
      if (!(upper ? IsUpper(c.code_point) : IsLower(c.code_point))) return false;
    }
    pos += c.length;
  }
  return any;
}

bool ApplyOther(Runtime& rt, std::string_view name, const Value& input) {
  if (name == "escaped") return false;
  if (name == "upper" || name == "lower") return AllCased(rt, input, name == "upper");
  if (name == "filter" || name == "test") {
    if (!input.is_string()) return false;
    return name == "filter" ? IsFilter(input.text().bytes()) : IsPredicate(input.text().bytes());
  }
  const Value rest = Arithmetic(rt, Operator::kModulo, input, Value::Int(2));  // 2.5 is neither
  return !rt.failed() && Equal(rt, rest, Value::Int(name == "odd" ? 1 : 0));
}

}  // namespace

bool IsPredicate(std::string_view name) {
  const auto named = [name](const auto& entry) { return entry.name == name; };
  return std::any_of(kPlain.begin(), kPlain.end(), named) ||
         std::any_of(kComparisons.begin(), kComparisons.end(), named) ||
         std::find(kOthers.begin(), kOthers.end(), name) != kOthers.end();
}

bool ApplyPredicate(Runtime& rt, std::string_view name, const Value& input, const Arguments& args) {
  if (!rt.Spend(1)) return false;
  for (const PlainTest& entry : kPlain) {
    if (entry.name == name) return ArgReader(rt, args, name, {}).ok() && entry.test(input);
  }
  for (const ComparisonTest& entry : kComparisons) {
    if (entry.name != name) continue;
    const ArgReader reader(rt, args, name, {"other"});
    const Value other = reader.Require(0);
    if (!reader.ok()) return false;
    if (name == "sameas") return input.SameAs(other);
    if (name == "divisibleby") {
      const Value rest = Arithmetic(rt, Operator::kModulo, input, other);
      return !rt.failed() && Equal(rt, rest, Value::Int(0));
    }
    return Compare(rt, entry.op, input, other);
  }
  if (std::find(kOthers.begin(), kOthers.end(), name) == kOthers.end()) {
    return rt.Fail("unknown test"), false;
  }
  return ArgReader(rt, args, name, {}).ok() && ApplyOther(rt, name, input);
}

}  // namespace tutti::tokenizer::jinja
