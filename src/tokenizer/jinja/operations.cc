#include "tokenizer/jinja/operations.h"

#include <algorithm>
#include <cmath>

#include "tokenizer/jinja/format.h"
#include "tokenizer/jinja/string_ops.h"
#include "tokenizer/jinja/unicode.h"

namespace tutti::tokenizer::jinja {
namespace {

Value Overflow(Runtime& rt) { return rt.Fail("integer outside 64 bits"); }

Value IntegerArithmetic(Runtime& rt, Operator op, int64_t a, int64_t b) {
  int64_t result = 0;
  switch (op) {
    case Operator::kAdd:
      return __builtin_add_overflow(a, b, &result) ? Overflow(rt) : Value::Int(result);
    case Operator::kSubtract:
      return __builtin_sub_overflow(a, b, &result) ? Overflow(rt) : Value::Int(result);
    case Operator::kMultiply:
      return __builtin_mul_overflow(a, b, &result) ? Overflow(rt) : Value::Int(result);
    case Operator::kDivide:
      if (b == 0) return rt.Fail("division by zero");
      return Value::Float(static_cast<double>(a) / static_cast<double>(b));
    case Operator::kFloorDivide:
    case Operator::kModulo: {
      if (b == 0) return rt.Fail("division by zero");
      if (b == -1) {  // the one divisor whose quotient can overflow
        if (op == Operator::kModulo) return Value::Int(0);
        return __builtin_sub_overflow(int64_t{0}, a, &result) ? Overflow(rt) : Value::Int(result);
      }
      int64_t quotient = a / b;
      int64_t remainder = a % b;
      if (remainder != 0 && (remainder < 0) != (b < 0)) {  // Python rounds towards minus infinity
        --quotient;
        remainder += b;
      }
      return Value::Int(op == Operator::kModulo ? remainder : quotient);
    }
    case Operator::kPower: {
      if (b < 0) {
        if (a == 0) return rt.Fail("division by zero");
        return Value::Float(std::pow(static_cast<double>(a), static_cast<double>(b)));
      }
      int64_t power = 1;
      int64_t base = a;
      for (int64_t exponent = b; exponent > 0; exponent >>= 1) {
        if ((exponent & 1) != 0 && __builtin_mul_overflow(power, base, &power)) return Overflow(rt);
        if (exponent > 1 && __builtin_mul_overflow(base, base, &base)) return Overflow(rt);
      }
      return Value::Int(power);
    }
    default:
      return rt.Fail("not an arithmetic operator");
  }
}

Value RealArithmetic(Runtime& rt, Operator op, double a, double b) {
  switch (op) {
    case Operator::kAdd:
      return Value::Float(a + b);
    case Operator::kSubtract:
      return Value::Float(a - b);
    case Operator::kMultiply:
      return Value::Float(a * b);
    case Operator::kDivide:
      if (b == 0) return rt.Fail("division by zero");
      return Value::Float(a / b);
    case Operator::kFloorDivide:
    case Operator::kModulo: {
      if (b == 0) return rt.Fail("division by zero");
      double remainder = std::fmod(a, b);
      if (remainder != 0 && (remainder < 0) != (b < 0)) remainder += b;
      if (op == Operator::kModulo) return Value::Float(remainder);
      return Value::Float(std::floor((a - remainder) / b + 0.5));
    }
    case Operator::kPower: {
      const double power = std::pow(a, b);
      if (std::isnan(power) && !std::isnan(a) && !std::isnan(b))
        return rt.Fail("power is not a real number");
      return Value::Float(power);
    }
    default:
      return rt.Fail("not an arithmetic operator");
  }
}

Value AddTexts(Runtime& rt, const Value& a, const Value& b) {
  const bool markup = a.text().markup() || b.text().markup();
  const Value left = markup && !a.text().markup() ? EscapeHtml(rt, a.text()) : a;
  const Value right = markup && !b.text().markup() ? EscapeHtml(rt, b.text()) : b;
  if (rt.failed() || !rt.Grow(left.text(), right.text().size()) ||
      !rt.SpendBytes(left.text().size()))
    return Value();
  Text sum = left.text();
  sum.Append(right.text());
  sum.set_markup(markup);
  return rt.NewString(std::move(sum));
}

Value RepeatText(Runtime& rt, const Text& text, int64_t times) {
  Text repeated;
  if (!text.empty()) {
    for (int64_t i = 0; i < times; ++i) {
      if (!rt.Spend(1) || !rt.Grow(repeated, text.size())) return Value();
      repeated.Append(text);
    }
  }
  return rt.NewString(std::move(repeated));
}

Value RepeatList(Runtime& rt, const Value& list, int64_t times) {
  std::vector<Value> repeated;
  for (int64_t i = 0; i < times && !list.items().empty(); ++i) {
    if (!rt.Spend(1 + list.items().size())) return Value();
    repeated.insert(repeated.end(), list.items().begin(), list.items().end());
  }
  return rt.NewList(std::move(repeated), list.is_tuple());
}

const char* Verb(Operator op) {
  switch (op) {
    case Operator::kAdd:
      return "add to";
    case Operator::kSubtract:
      return "subtract from";
    case Operator::kMultiply:
      return "multiply";
    case Operator::kModulo:
      return "take the remainder of";
    default:
      return "divide or raise";
  }
}

bool EqualLists(Runtime& rt, const Value& a, const Value& b) {
  if (a.is_tuple() != b.is_tuple() || a.items().size() != b.items().size()) return false;
  for (size_t i = 0; i < a.items().size(); ++i) {
    if (!Equal(rt, a.items()[i], b.items()[i])) return false;
  }
  return !rt.failed();
}

bool EqualDicts(Runtime& rt, const Value& a, const Value& b) {
  if (a.members().size() != b.members().size()) return false;
  for (const auto& [key, value] : a.members()) {
    const Value* const other = b.dict().Find(key);
    if (other == nullptr || !Equal(rt, value, *other)) return false;
  }
  return !rt.failed();
}

}  // namespace

bool Truthy(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
      return value.bool_value();
    case Kind::kInt:
      return value.int_value() != 0;
    case Kind::kFloat:
      return value.float_value() != 0;
    case Kind::kString:
      return !value.text().empty();
    case Kind::kList:
      return !value.items().empty();
    case Kind::kDict:
      return !value.members().empty();
    case Kind::kObject:
      return true;
  }
  return false;
}

bool IsNumber(const Value& value) { return value.is_bool() || value.is_int() || value.is_float(); }
int64_t ToInteger(const Value& value) {
  return value.is_bool() ? (value.bool_value() ? 1 : 0) : value.int_value();
}
double ToDouble(const Value& number) {
  return number.is_float() ? number.float_value() : static_cast<double>(ToInteger(number));
}

bool Equal(Runtime& rt, const Value& a, const Value& b) {
  if (!rt.Spend(1)) return false;
  if (IsNumber(a) && IsNumber(b)) {
    if (a.is_float() || b.is_float()) return ToDouble(a) == ToDouble(b);
    return ToInteger(a) == ToInteger(b);
  }
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kString:
      return a.text().size() == b.text().size() && rt.SpendBytes(a.text().size()) &&
             a.text().bytes() == b.text().bytes();
    case Kind::kList:
      return a.SameAs(b) || EqualLists(rt, a, b);
    case Kind::kDict:
      return a.SameAs(b) || EqualDicts(rt, a, b);
    default:
      return a.SameAs(b);
  }
}

bool Less(Runtime& rt, const Value& a, const Value& b) {
  if (!rt.Spend(1)) return false;
  if (IsNumber(a) && IsNumber(b)) {
    if (a.is_float() || b.is_float()) return ToDouble(a) < ToDouble(b);
    return ToInteger(a) < ToInteger(b);
  }
  if (a.is_string() && b.is_string()) {
    return rt.SpendBytes(std::min(a.text().size(), b.text().size())) &&
           a.text().bytes() < b.text().bytes();
  }
  if (a.is_list() && b.is_list() && a.is_tuple() == b.is_tuple()) {
    const size_t common = std::min(a.items().size(), b.items().size());
    for (size_t i = 0; i < common && !rt.failed(); ++i) {
      if (!Equal(rt, a.items()[i], b.items()[i])) return Less(rt, a.items()[i], b.items()[i]);
    }
    return a.items().size() < b.items().size();
  }
  rt.FailType("put in order", IsNumber(a) || a.is_string() ? b : a);
  return false;
}

bool Contains(Runtime& rt, const Value& container, const Value& item) {
  switch (container.kind()) {
    case Kind::kUndefined:
      return false;
    case Kind::kString: {
      if (!item.is_string()) return rt.FailType("look in a string for", item), false;
      if (!rt.Spend(1 + container.text().size() / Runtime::kBytesPerStep)) return false;
      return Find(container.text().bytes(), item.text().bytes()) != std::string_view::npos;
    }
    case Kind::kList:
      for (const Value& member : container.items()) {
        if (member.SameAs(item) || Equal(rt, member, item)) return true;
        if (rt.failed()) return false;
      }
      return false;
    case Kind::kDict:
      if (!rt.Spend(1)) return false;
      if (!item.defined()) return false;
      if (!Hashable(item)) return rt.FailType("use as a key", item), false;
      return container.dict().Find(item) != nullptr;
    default:
      return rt.FailType("look inside", container), false;
  }
}

bool Compare(Runtime& rt, Operator op, const Value& a, const Value& b) {
  switch (op) {
    case Operator::kEqual:
      return Equal(rt, a, b);
    case Operator::kNotEqual:
      return !Equal(rt, a, b);
    case Operator::kLess:
      return Less(rt, a, b);
    case Operator::kGreater:
      return Less(rt, b, a);
    case Operator::kLessEqual:
      return Less(rt, a, b) || (!rt.failed() && Equal(rt, a, b));
    case Operator::kGreaterEqual:
      return Less(rt, b, a) || (!rt.failed() && Equal(rt, a, b));
    case Operator::kIn:
      return Contains(rt, b, a);
    case Operator::kNotIn:
      return !Contains(rt, b, a);
    default:
      return rt.Fail("not a comparison"), false;
  }
}

Value Arithmetic(Runtime& rt, Operator op, const Value& a, const Value& b) {
  if (!rt.Spend(1)) return Value();
  if (IsNumber(a) && IsNumber(b)) {
    if (a.is_float() || b.is_float()) return RealArithmetic(rt, op, ToDouble(a), ToDouble(b));
    return IntegerArithmetic(rt, op, ToInteger(a), ToInteger(b));
  }
  if (op == Operator::kModulo && a.is_string()) return PercentFormat(rt, a.text(), b);
  if (op == Operator::kAdd && a.is_string() && b.is_string()) {
    return AddTexts(rt, a, b);
  }
  if (op == Operator::kAdd && a.is_list() && b.is_list() && a.is_tuple() == b.is_tuple()) {
    if (!rt.Spend(a.items().size() + b.items().size())) return Value();
    std::vector<Value> sum = a.items();
    sum.insert(sum.end(), b.items().begin(), b.items().end());
    return rt.NewList(std::move(sum), a.is_tuple());
  }
  if (op == Operator::kMultiply) {
    const bool times_first = a.is_int() || a.is_bool();
    const Value& sequence = times_first ? b : a;
    const Value& times = times_first ? a : b;
    if ((times.is_int() || times.is_bool()) && sequence.is_string()) {
      return RepeatText(rt, sequence.text(), ToInteger(times));
    }
    if ((times.is_int() || times.is_bool()) && sequence.is_list())
      return RepeatList(rt, sequence, ToInteger(times));
  }
  const bool first_is_odd = !(IsNumber(a) || a.is_string() || a.is_list());
  return rt.FailType(Verb(op), first_is_odd ? a : b);
}

Value Negate(Runtime& rt, const Value& value) {
  if (value.is_float()) return Value::Float(-value.float_value());
  if (value.is_int() || value.is_bool())
    return IntegerArithmetic(rt, Operator::kSubtract, 0, ToInteger(value));
  return rt.FailType("negate", value);
}

size_t Length(Runtime& rt, const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return 0;
    case Kind::kString:
      if (value.text().ascii()) return value.text().size();
      return rt.SpendBytes(value.text().size()) ? CountCodePoints(value.text().bytes()) : 0;
    case Kind::kList:
      return value.items().size();
    case Kind::kDict:
      return value.members().size();
    default:
      rt.FailType("take the length of", value);
      return 0;
  }
}

Value Iterate(Runtime& rt, const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return rt.NewList({});
    case Kind::kList:
      return value;
    case Kind::kDict: {
      if (!rt.Spend(value.members().size())) return Value();
      std::vector<Value> keys;
      keys.reserve(value.members().size());
      for (const auto& member : value.members()) keys.push_back(member.first);
      return rt.NewList(std::move(keys));
    }
    case Kind::kString: {
      const Text& text = value.text();
      std::vector<Value> characters;
      for (size_t pos = 0; pos < text.size();) {
        const size_t bytes = DecodeAt(text.bytes(), pos).length;
        characters.push_back(rt.NewString(text.Slice(pos, pos + bytes)));
        if (rt.failed()) return Value();
        pos += bytes;
      }
      return rt.NewList(std::move(characters));
    }
    default:
      return rt.FailType("iterate over", value);
  }
}

}  // namespace tutti::tokenizer::jinja
