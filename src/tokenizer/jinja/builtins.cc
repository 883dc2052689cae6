#include "tokenizer/jinja/builtins.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "tokenizer/jinja/format.h"
#include "tokenizer/jinja/operations.h"
#include "tokenizer/jinja/unicode.h"

namespace tutti::tokenizer::jinja {
namespace {

Value Range(Runtime& rt, const Arguments& args) {
  const ArgReader reader(rt, args, "range", {"start", "stop", "step"});
  if (!reader.ok() || !reader.Require(0).defined()) return rt.FailType("count to", reader.Get(0));
  const int64_t start = reader.Has(1) ? reader.Int(0, 0) : 0;
  const int64_t stop = reader.Has(1) ? reader.Int(1, 0) : reader.Int(0, 0);
  const int64_t step = reader.Int(2, 1);
  if (rt.failed()) return Value();
  if (step == 0) return rt.Fail("range: the step is zero");
  const bool empty = step > 0 ? start >= stop : start <= stop;
  const auto distance = step > 0 ? static_cast<uint64_t>(stop) - static_cast<uint64_t>(start)
                                 : static_cast<uint64_t>(start) - static_cast<uint64_t>(stop);
  const uint64_t stride =
      step > 0 ? static_cast<uint64_t>(step) : uint64_t{0} - static_cast<uint64_t>(step);
  const uint64_t count = empty ? 0 : (distance - 1) / stride + 1;
  if (count > static_cast<uint64_t>(rt.limits().range_items)) return rt.FailRange();
  if (!rt.Spend(count / 2)) return Value();
  std::vector<Value> items;
  items.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    items.push_back(Value::Int(
        static_cast<int64_t>(static_cast<uint64_t>(start) + i * static_cast<uint64_t>(step))));
  }
  return rt.NewList(std::move(items));
}

// The members of namespace(...) and dict(...): of a mapping, then by name.
bool Members(Runtime& rt, const Arguments& args, std::vector<DictRep::Item>* members) {
  if (args.positional.size() > 1) return rt.Fail("at most one mapping is expected"), false;
  if (!args.positional.empty()) {
    if (!args.positional[0].is_dict())
      return rt.FailType("copy the members of", args.positional[0]), false;
    *members = args.positional[0].members();
  }
  for (const auto& [name, value] : args.named) members->emplace_back(rt.NewString(name), value);
  return rt.Spend(members->size());
}

Value NewDict(Runtime& rt, const Arguments& args) {
  std::vector<DictRep::Item> members;
  return Members(rt, args, &members) ? rt.NewDict(std::move(members)) : Value();
}

Value NewNamespace(Runtime& rt, const Arguments& args) {
  std::vector<DictRep::Item> members;
  const Value space = rt.NewObject<NamespaceObject>();
  if (rt.failed() || !Members(rt, args, &members)) return Value();
  for (const auto& [key, value] : members) {
    if (!key.is_string()) return rt.FailType("use as the name of an attribute", key);
    SetAttribute(rt, static_cast<NamespaceObject*>(space.object()), key.text().bytes(), value);
  }
  return space;
}

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

ArgReader::ArgReader(Runtime& rt, const Arguments& args, std::string_view callee,
                     std::initializer_list<std::string_view> parameters)
    : rt_(rt), callee_(callee) {
  CHECK(parameters.size() <= kMaxParameters);
  size_t count = 0;
  for (const std::string_view name : parameters) names_[count++] = name;
  if (args.positional.size() > count) {
    rt_.Fail(callee_ + " takes at most " + std::to_string(count) + " arguments");
    return;
  }
  for (size_t i = 0; i < args.positional.size(); ++i) values_[i] = &args.positional[i];
  for (const auto& [name, value] : args.named) {
    size_t i = 0;
    while (i < count && names_[i] != name) ++i;
    if (i == count || values_[i] != nullptr) {
      rt_.Fail(callee_ + ": unexpected or repeated argument");
      return;
    }
    values_[i] = &value;
  }
}

Value ArgReader::Require(size_t i) const {
  if (Has(i)) return *values_[i];
  return rt_.Fail(callee_ + ": argument '" + std::string(names_[i]) + "' is missing");
}

int64_t ArgReader::Int(size_t i, int64_t otherwise) const {
  if (!Has(i) || values_[i]->is_none()) return otherwise;
  if (values_[i]->is_int() || values_[i]->is_bool()) return ToInteger(*values_[i]);
  rt_.FailType("use as a whole number", *values_[i]);
  return otherwise;
}

bool ArgReader::Bool(size_t i, bool otherwise) const {
  return Has(i) ? Truthy(*values_[i]) : otherwise;
}

std::optional<Text> ArgReader::String(size_t i) const {
  if (!Has(i) || values_[i]->is_none()) return std::nullopt;
  if (values_[i]->is_string()) {
    if (!rt_.SpendBytes(values_[i]->text().size())) return std::nullopt;
    return values_[i]->text();
  }
  rt_.FailType("use as text", *values_[i]);
  return std::nullopt;
}

void SetAttribute(Runtime& rt, NamespaceObject* space, const std::string& name,
                  const Value& value) {
  if (!name.empty() && name[0] == '_') {
    rt.Fail("names of a namespace may not begin with an underscore");
    return;
  }
  if (rt.Spend(1)) space->attributes[name] = value;
}

Value CallFunction(Runtime& rt, Builtin function, const Arguments& args) {
  switch (function) {
    case Builtin::kRange:
      return Range(rt, args);
    case Builtin::kNamespace:
      return NewNamespace(rt, args);
    case Builtin::kDict:
      return NewDict(rt, args);
    case Builtin::kRaiseException: {
      const ArgReader reader(rt, args, "raise_exception", {"message"});
      const Value message = ToStringValue(rt, reader.Require(0));
      return rt.failed() ? Value() : rt.FailRaised(message.text());
    }
    case Builtin::kStrftimeNow: {
      const ArgReader reader(rt, args, "strftime_now", {"format"});
      const std::optional<Text> format = reader.String(0);
      if (!format) return rt.failed() ? Value() : reader.Require(0);
      if (format->size() > 256) return rt.Fail("strftime_now: the format is too long");
      if (!rt.Spend(16)) return Value();
      const Origin origin = format->empty() ? Origin::kTemplate : format->OriginAt(0);
      return rt.NewString(FormatTime(format->bytes(), rt.limits().now_unix_s),
                          format->uniform() ? origin : Origin::kClient);
    }
  }
  return Value();
}

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
