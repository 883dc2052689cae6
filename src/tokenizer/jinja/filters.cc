// The table of filters and those that work on one value. Filters over sequences:
// sequence_filters.cc.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "base/ascii.h"
#include "tokenizer/jinja/builtins.h"
#include "tokenizer/jinja/format.h"
#include "tokenizer/jinja/operations.h"
#include "tokenizer/jinja/string_ops.h"
#include "tokenizer/jinja/unicode.h"

namespace tutti::tokenizer::jinja {
namespace {

Value Default(Runtime& rt, const Value& input, const Arguments& args) {
  const ArgReader reader(rt, args, "default", {"default_value", "boolean"});
  if (!reader.ok()) return Value();
  const bool replace = !input.defined() || (reader.Bool(1, false) && !Truthy(input));
  if (!replace) return input;
  return reader.Has(0) ? reader.Get(0) : rt.NewString(Text());
}

Value Trim(Runtime& rt, const Value& input, const Arguments& args) {
  const ArgReader reader(rt, args, "trim", {"chars"});
  const std::optional<Text> chars = reader.String(0);
  const Value text = ToStringValue(rt, input);
  if (!reader.ok()) return Value();
  return StripText(rt, text.text(), true, true, chars ? &*chars : nullptr);
}

template <CaseChange kChange>
Value Cased(Runtime& rt, const Value& input, const Arguments& args) {
  if (!ArgReader(rt, args, "a case filter", {}).ok()) return Value();
  const Value text = ToStringValue(rt, input);
  return rt.failed() ? Value() : ChangeCase(rt, text.text(), kChange);
}

// Jinja's own title filter: words begin at the start and after white space and - ( { [ <.
Value Title(Runtime& rt, const Value& input, const Arguments& args) {
  if (!ArgReader(rt, args, "title", {}).ok()) return Value();
  const Value value = ToStringValue(rt, input);
  if (rt.failed() || !rt.Spend(value.text().size() / 2)) return Value();
  const Text& text = value.text();
  Text out;
  bool start = true;
  for (size_t pos = 0; pos < text.size();) {
    const CodePoint c = DecodeAt(text.bytes(), pos);
    const std::string_view original = std::string_view(text.bytes()).substr(pos, c.length);
    out.Append(start ? ToUpper(original) : ToLower(original), text.OriginAt(pos));
    start = IsSpace(c.code_point) ||
            (c.code_point < 0x80 && std::string_view("-({[<").find(
                                        static_cast<char>(c.code_point)) != std::string_view::npos);
    pos += c.length;
  }
  return rt.NewString(std::move(out));
}

Value Replace(Runtime& rt, const Value& input, const Arguments& args) {
  const ArgReader reader(rt, args, "replace", {"old", "new", "count"});
  const Value from = ToStringValue(rt, reader.Require(0));
  const Value to = ToStringValue(rt, reader.Require(1));
  const Value text = ToStringValue(rt, input);
  const int64_t count = reader.Int(2, -1);
  return reader.ok() ? ReplaceText(rt, text.text(), from.text(), to.text(), count) : Value();
}

Value StringOf(Runtime& rt, const Value& input, const Arguments& args) {
  return ArgReader(rt, args, "string", {}).ok() ? ToStringValue(rt, input) : Value();
}

Value Safe(Runtime& rt, const Value& input, const Arguments& args) {
  const Value value = ToStringValue(rt, input);
  if (!ArgReader(rt, args, "safe", {}).ok() || !rt.Grow(value.text(), value.text().size()))
    return Value();
  Text safe = value.text();
  safe.set_markup(true);
  return rt.NewString(std::move(safe));
}

Value Escape(Runtime& rt, const Value& input, const Arguments& args) {
  if (!ArgReader(rt, args, "escape", {}).ok()) return Value();
  const Value value = ToStringValue(rt, input);
  if (rt.failed() || value.text().markup()) return value;
  return EscapeHtml(rt, value.text());
}

// Added spaces get the origin of the text, so that an indented message stays one piece.
Value Indent(Runtime& rt, const Value& input, const Arguments& args) {
  const ArgReader reader(rt, args, "indent", {"width", "first", "blank"});
  const Value value = ToStringValue(rt, input);
  Text indention;
  if (reader.Has(0) && reader.Get(0).is_string()) {
    indention = reader.Get(0).text();
  } else {
    const int64_t width = std::max<int64_t>(reader.Int(0, 4), 0);
    if (!reader.ok() || !rt.SpendBytes(static_cast<size_t>(width)) ||
        !rt.Grow(Text(), static_cast<size_t>(width))) {
      return Value();
    }
    indention = Text(std::string(static_cast<size_t>(width), ' '), Origin::kTemplate);
  }
  // splitlines() drops a last newline, so one is added first: "a\n" has two lines here.
  if (!reader.ok() || !rt.Grow(value.text(), 1)) return Value();
  Text whole = value.text();
  whole.Append("\n", whole.empty() ? Origin::kTemplate : whole.OriginAt(whole.size() - 1));
  const Value lines = SplitLines(rt, whole, /*keep_ends=*/false);
  if (rt.failed()) return Value();
  const bool first = reader.Bool(1, false);
  const bool blank = reader.Bool(2, false);
  Text out;
  for (size_t i = 0; i < lines.items().size(); ++i) {
    const Text& line = lines.items()[i].text();
    if (!rt.Spend(1) || !rt.Grow(out, line.size() + indention.size() + 1)) return Value();
    if (i > 0) out.Append("\n", Origin::kTemplate);
    if (i == 0 ? first : (blank || !line.empty())) out.Append(indention);
    out.Append(line);
  }
  out.Demote();
  return rt.NewString(std::move(out));
}

// The number a text spells, as int() or float() read it: white space around and "_" between digits
// are allowed.
std::optional<double> ReadReal(std::string_view text) {
  const Span span = Strip(text, true, true);
  std::string digits;
  for (size_t i = span.begin; i < span.end; ++i) {
    if (text[i] != '_') digits.push_back(text[i]);
  }
  if (digits.empty() || digits.size() > 400) return std::nullopt;
  return ParseNumber<double>(std::string_view(digits).substr(digits[0] == '+' ? 1 : 0));
}

std::optional<int64_t> ReadInteger(std::string_view text, int base) {
  const Span span = Strip(text, true, true);
  bool negative = false;
  std::string digits;
  for (size_t i = span.begin; i < span.end && digits.size() < 100; ++i) {
    const bool sign = i == span.begin && (text[i] == '-' || text[i] == '+');
    if (sign) negative = text[i] == '-';
    if (!sign && text[i] != '_') digits.push_back(text[i]);
  }
  std::string_view rest = digits;
  if (rest.size() > 2 && rest[0] == '0') {
    const char kind = static_cast<char>(rest[1] | 0x20);
    if ((base == 16 && kind == 'x') || (base == 8 && kind == 'o') || (base == 2 && kind == 'b'))
      rest.remove_prefix(2);
  }
  if (rest.empty() || rest[0] == '-') return std::nullopt;
  const std::optional<int64_t> value = ParseNumber<int64_t>(rest, base);
  if (!value.has_value()) return std::nullopt;
  return negative ? -*value : *value;
}

Value IntOfReal(double value, const Value& otherwise) {
  if (!(value > -9.2e18 && value < 9.2e18)) return otherwise;
  return Value::Int(static_cast<int64_t>(value));
}

Value IntOf(Runtime& rt, const Value& input, const Arguments& args) {
  const ArgReader reader(rt, args, "int", {"default", "base"});
  const Value otherwise = reader.Has(0) ? reader.Get(0) : Value::Int(0);
  const int64_t base = reader.Int(1, 10);
  if (base < 2 || base > 36) return rt.Fail("int: the base must be between 2 and 36");
  if (!reader.ok()) return Value();
  if (!input.defined()) return rt.FailType("make a number of", input);
  if (input.is_int() || input.is_bool()) return Value::Int(ToInteger(input));
  if (input.is_float()) return IntOfReal(input.float_value(), otherwise);
  if (!input.is_string()) return otherwise;
  if (!rt.SpendBytes(input.text().size())) return Value();
  if (const auto whole = ReadInteger(input.text().bytes(), static_cast<int>(base)))
    return Value::Int(*whole);
  const std::optional<double> real = ReadReal(input.text().bytes());
  return real.has_value() ? IntOfReal(*real, otherwise) : otherwise;
}

Value FloatOf(Runtime& rt, const Value& input, const Arguments& args) {
  const ArgReader reader(rt, args, "float", {"default"});
  const Value otherwise = reader.Has(0) ? reader.Get(0) : Value::Float(0);
  if (!reader.ok()) return Value();
  if (!input.defined()) return rt.FailType("make a number of", input);
  if (IsNumber(input)) return Value::Float(ToDouble(input));
  if (!input.is_string() || !rt.SpendBytes(input.text().size())) return otherwise;
  const std::optional<double> real = ReadReal(input.text().bytes());
  return real.has_value() ? Value::Float(*real) : otherwise;
}

Value Round(Runtime& rt, const Value& input, const Arguments& args) {
  const ArgReader reader(rt, args, "round", {"precision", "method"});
  const int64_t precision = reader.Int(0, 0);
  const std::string method = reader.String(1).value_or(Text("common", Origin::kTemplate)).bytes();
  if (!reader.ok()) return Value();
  if (!IsNumber(input)) return rt.FailType("round", input);
  if (precision < -300 || precision > 300) return rt.Fail("round: the precision is out of range");
  if (method == "common") {
    if (!input.is_float() && precision >= 0) return Value::Int(ToInteger(input));
    const double value = ToDouble(input);
    if (!std::isfinite(value)) return Value::Float(value);
    if (precision >= 0) {  // printf rounds the exact value, to even at a tie, as round() does
      std::array<char, 768> text;
      std::snprintf(text.data(), text.size(), "%.*f", static_cast<int>(precision), value);
      return Value::Float(std::strtod(text.data(), nullptr));
    }
    const double unit = std::pow(10.0, static_cast<double>(-precision));
    const double rounded = std::nearbyint(value / unit) * unit;
    return input.is_float() ? Value::Float(rounded) : IntOfReal(rounded, Value::Int(0));
  }
  if (method != "ceil" && method != "floor")
    return rt.Fail("round: the method must be common, ceil or floor");
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = ToDouble(input) * scale;
  return Value::Float((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}

Value Absolute(Runtime& rt, const Value& input, const Arguments& args) {
  if (!ArgReader(rt, args, "abs", {}).ok()) return Value();
  if (!IsNumber(input)) return rt.FailType("take the absolute value of", input);
  if (input.is_float()) return Value::Float(std::fabs(input.float_value()));
  return ToInteger(input) < 0 ? Negate(rt, input) : Value::Int(ToInteger(input));
}

Value ToJsonFilter(Runtime& rt, const Value& input, const Arguments& args) {
  const ArgReader reader(rt, args, "tojson", {"ensure_ascii", "indent", "separators", "sort_keys"});
  if (!reader.ok()) return Value();
  JsonStyle style;
  style.ensure_ascii = reader.Bool(0, false);
  style.sort_keys = reader.Bool(3, false);
  const Value indent = reader.Get(1);
  if (indent.is_string()) {
    style.indent = indent.text().bytes();
  } else if (indent.defined() && !indent.is_none()) {
    const int64_t width = reader.Int(1, 0);
    if (width > 256) return rt.Fail("tojson: the indent is out of range");
    style.indent = std::string(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
  }
  if (style.indent) style.item_separator.assign(1, ',');
  const Value separators = reader.Get(2);
  if (separators.is_list() && separators.items().size() == 2 && separators.items()[0].is_string() &&
      separators.items()[1].is_string()) {
    style.item_separator = separators.items()[0].text().bytes();
    style.key_separator = separators.items()[1].text().bytes();
  } else if (separators.defined() && !separators.is_none()) {
    return rt.Fail("tojson: separators must be two strings");
  }
  return rt.failed() ? Value() : ToJson(rt, input, style);
}

Value Format(Runtime& rt, const Value& input, const Arguments& args) {
  if (!input.is_string()) return rt.FailType("use as a format", input);
  if (!args.named.empty()) return rt.Fail("format: named arguments are not supported");
  const Value values = rt.NewList(args.positional, /*tuple=*/true);
  return rt.failed() ? Value() : PercentFormat(rt, input.text(), values);
}

Value Attr(Runtime& rt, const Value& input, const Arguments& args) {
  const ArgReader reader(rt, args, "attr", {"name"});
  const Value name = reader.Require(0);
  if (!reader.ok()) return Value();
  if (!name.is_string()) return rt.FailType("use as an attribute name", name);
  // Attributes only: the members of a dict are not attributes of it.
  if (input.is_object()) return GetItem(rt, input, name);
  const std::string& method = name.text().bytes();
  return HasMethod(input, method) ? rt.NewObject<MethodObject>(input, method) : Value();
}

constexpr auto kCapitalize = Cased<CaseChange::kCapitalize>;
constexpr auto kLower = Cased<CaseChange::kLower>;
constexpr auto kUpper = Cased<CaseChange::kUpper>;

constexpr std::array<FilterEntry, 21> kValueFilters{{
    {"abs", Absolute},        {"attr", Attr},       {"capitalize", kCapitalize},
    {"d", Default},           {"default", Default}, {"e", Escape},
    {"escape", Escape},       {"float", FloatOf},   {"forceescape", Escape},
    {"format", Format},       {"indent", Indent},   {"int", IntOf},
    {"lower", kLower},        {"replace", Replace}, {"round", Round},
    {"safe", Safe},           {"string", StringOf}, {"title", Title},
    {"tojson", ToJsonFilter}, {"trim", Trim},       {"upper", kUpper},
}};

const FilterEntry* FindFilter(std::string_view name) {
  for (const FilterEntry& entry : kValueFilters) {
    if (entry.name == name) return &entry;
  }
  return FindSequenceFilter(name);
}

}  // namespace

bool IsFilter(std::string_view name) { return FindFilter(name) != nullptr; }

Value ApplyFilter(Runtime& rt, std::string_view name, const Value& input, const Arguments& args) {
  if (!rt.Spend(1)) return Value();
  const FilterEntry* const entry = FindFilter(name);
  if (entry == nullptr) return rt.Fail("unknown filter");
  return entry->filter(rt, input, args);
}

}  // namespace tutti::tokenizer::jinja
