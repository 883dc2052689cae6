// The formatting mini-languages of Python's str: "%", str.format and strftime.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <optional>

#include "tokenizer/jinja/format.h"

namespace tutti::tokenizer::jinja {
namespace {

bool IsFormatDigit(char c) { return c >= '0' && c <= '9'; }

std::string_view View(const Text& text, size_t begin, size_t end) {
  return std::string_view(text.bytes()).substr(begin, end - begin);
}

constexpr std::string_view kFlags = "-0+ #";

// One conversion of "%": "%-08.3f".
struct Conversion {
  bool Has(char flag) const { return flags.find(flag) != std::string_view::npos; }
  std::string_view flags;  // of kFlags, in any order and number
  int width = 0;
  int precision = -1;
  char type = 0;
  size_t end = 0;  // offset after it
};

// False when it is not one this engine knows.
bool ParseConversion(std::string_view text, size_t pos, Conversion* out) {
  const size_t begin = pos;
  pos = std::min(text.find_first_not_of(kFlags, pos), text.size());
  out->flags = text.substr(begin, pos - begin);
  const auto number = [&](int* value) {
    *value = 0;
    for (int digits = 0; pos < text.size() && IsFormatDigit(text[pos]); ++pos, ++digits) {
      if (digits == 2) return false;
      *value = *value * 10 + (text[pos] - '0');
    }
    return true;
  };
  if (!number(&out->width)) return false;
  if (pos < text.size() && text[pos] == '.') {
    ++pos;
    if (!number(&out->precision)) return false;
  }
  if (pos >= text.size()) return false;
  out->type = text[pos];
  out->end = pos + 1;
  return std::string_view("disrfFgGeExXc").find(out->type) != std::string_view::npos;
}

// The number as C's printf writes it, which for these conversions is what Python writes.
bool AppendNumber(Runtime& rt, const Conversion& c, const Value& value, Text* out) {
  double real = 0;
  int64_t integer = 0;
  if (value.is_bool())
    real = static_cast<double>(integer = value.bool_value() ? 1 : 0);
  else if (value.is_int())
    real = static_cast<double>(integer = value.int_value());
  else if (value.is_float())
    real = value.float_value();
  else
    return rt.FailType("format as a number", value), false;

  const bool whole = std::string_view("dixX").find(c.type) != std::string_view::npos;
  if (whole && value.is_float()) {
    if (c.type == 'x' || c.type == 'X') return rt.FailType("format in base 16", value), false;
    if (!(real > -9.2e18 && real < 9.2e18)) return rt.Fail("number out of range"), false;
    integer = static_cast<int64_t>(real);
  }
  std::string pattern = "%";
  for (const char flag : kFlags) {
    if (c.Has(flag)) pattern += flag;
  }
  if (c.width > 0) pattern += std::to_string(c.width);
  if (c.precision >= 0) pattern += "." + std::to_string(c.precision);
  std::array<char, 512> text;  // 308 digits of a double, 99 of precision, 99 of width
  const bool negative_hex = (c.type == 'x' || c.type == 'X') && integer < 0;
  if (negative_hex) return rt.Fail("cannot format a negative number in base 16"), false;
  pattern += whole ? std::string("ll") + (c.type == 'i' ? 'd' : c.type) : std::string(1, c.type);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  const int size = whole ? std::snprintf(text.data(), text.size(), pattern.c_str(),
                                         static_cast<long long>(integer))
                         : std::snprintf(text.data(), text.size(), pattern.c_str(), real);
#pragma GCC diagnostic pop
  if (size < 0 || static_cast<size_t>(size) >= text.size())
    return rt.Fail("number too long"), false;
  out->Append(std::string_view(text.data(), static_cast<size_t>(size)), Origin::kTemplate);
  return true;
}

bool AppendReplacement(Runtime& rt, const Value& value, bool repr, Text* out) {
  if (!repr || !value.is_string()) return AppendText(rt, value, out);
  // repr of a string: show it as the only member of a list, without the brackets.
  const Value list = rt.NewList({value});
  Text text;
  if (rt.failed() || !AppendText(rt, list, &text) || !rt.Grow(*out, text.size())) return false;
  out->AppendRange(text, 1, text.size() - 1);
  return true;
}

bool AppendPadded(Runtime& rt, const Conversion& c, const Value& value, Text* out) {
  Text text;
  if (!AppendReplacement(rt, value, c.type == 'r', &text)) return false;
  if (c.precision >= 0 && text.ascii() && static_cast<size_t>(c.precision) < text.size()) {
    text = text.Slice(0, static_cast<size_t>(c.precision));
  }
  const auto width = static_cast<size_t>(c.width);
  const std::string padding(width > text.size() ? width - text.size() : 0, ' ');
  if (!rt.Grow(*out, text.size() + padding.size())) return false;
  if (!c.Has('-')) out->Append(padding, Origin::kTemplate);
  out->Append(text);
  if (c.Has('-')) out->Append(padding, Origin::kTemplate);
  return true;
}

}  // namespace

Value PercentFormat(Runtime& rt, const Text& format, const Value& args) {
  const std::vector<Value> single{args};
  const std::vector<Value>& values = args.is_tuple() ? args.items() : single;
  const std::string& bytes = format.bytes();
  size_t next_value = 0;
  Text out;
  for (size_t pos = 0; pos < bytes.size();) {
    const size_t percent = std::min(bytes.find('%', pos), bytes.size());
    if (!rt.Spend(1) || !rt.Grow(out, percent - pos)) return Value();
    out.AppendRange(format, pos, percent);
    if (percent == bytes.size()) break;
    if (percent + 1 < bytes.size() && bytes[percent + 1] == '%') {
      out.AppendRange(format, percent, percent + 1);
      pos = percent + 2;
      continue;
    }
    Conversion conversion;
    if (!ParseConversion(bytes, percent + 1, &conversion))
      return rt.Fail("unknown conversion after %");
    if (next_value >= values.size()) return rt.Fail("not enough arguments for format string");
    const Value& value = values[next_value++];
    const bool text = conversion.type == 's' || conversion.type == 'r' || conversion.type == 'c';
    if (!(text ? AppendPadded(rt, conversion, value, &out)
               : AppendNumber(rt, conversion, value, &out)))
      return Value();
    pos = conversion.end;
  }
  // A list or a dict may be there for its members alone.
  const bool must_be_used =
      args.is_tuple() || !(args.is_dict() || args.is_list() || !args.defined());
  if (next_value < values.size() && must_be_used) {
    return rt.Fail("not all arguments converted during string formatting");
  }
  return rt.NewString(std::move(out));
}

Value BraceFormat(Runtime& rt, const Text& format, const Arguments& args) {
  const std::string& bytes = format.bytes();
  size_t automatic = 0;
  Text out;
  for (size_t pos = 0; pos < bytes.size();) {
    const size_t brace = std::min(bytes.find_first_of("{}", pos), bytes.size());
    if (!rt.Spend(1) || !rt.Grow(out, brace - pos + 1)) return Value();
    out.AppendRange(format, pos, brace);
    if (brace == bytes.size()) break;
    if (brace + 1 < bytes.size() && bytes[brace + 1] == bytes[brace]) {
      out.AppendRange(format, brace, brace + 1);
      pos = brace + 2;
      continue;
    }
    const size_t close = bytes[brace] == '{' ? bytes.find('}', brace) : std::string::npos;
    if (close == std::string::npos) return rt.Fail("unbalanced brace in format string");
    std::string_view field = View(format, brace + 1, close);
    bool repr = false;
    if (const size_t bang = field.find('!'); bang != std::string_view::npos) {
      const std::string_view conversion = field.substr(bang + 1);
      if (conversion != "s" && conversion != "r")
        return rt.Fail("unknown conversion in format string");
      repr = conversion == "r";
      field = field.substr(0, bang);
    }
    const Value* value = nullptr;
    if (field.empty() ||
        (field.size() <= 4 && field.find_first_not_of("0123456789") == std::string_view::npos)) {
      const size_t index =
          field.empty() ? automatic++ : static_cast<size_t>(std::atoi(std::string(field).c_str()));
      if (index < args.positional.size()) value = &args.positional[index];
    } else {
      if (field.find_first_of(".[:{") != std::string_view::npos) {
        return rt.Fail(
            "format fields with attributes, indexes or specifications are not supported");
      }
      for (const auto& [name, named] : args.named) {
        if (name == field) value = &named;
      }
    }
    if (value == nullptr) return rt.Fail("format string names an argument that is not there");
    if (!AppendReplacement(rt, *value, repr, &out)) return Value();
    pos = close + 1;
  }
  return rt.NewString(std::move(out));
}

std::string FormatTime(std::string_view format, int64_t unix_s) {
  constexpr std::array<const char*, 7> kDays{"Sunday",   "Monday", "Tuesday", "Wednesday",
                                             "Thursday", "Friday", "Saturday"};
  constexpr std::array<const char*, 12> kMonths{"January",   "February", "March",    "April",
                                                "May",       "June",     "July",     "August",
                                                "September", "October",  "November", "December"};
  std::tm tm{};
  const auto seconds = static_cast<std::time_t>(unix_s);
  if (gmtime_r(&seconds, &tm) == nullptr) return "";
  const auto padded = [](int value, int width, bool pad, char fill = '0') {
    std::string digits = std::to_string(value);
    while (pad && digits.size() < static_cast<size_t>(width)) digits.insert(digits.begin(), fill);
    return digits;
  };
  const int hour12 = tm.tm_hour % 12 == 0 ? 12 : tm.tm_hour % 12;
  const char* const half = tm.tm_hour < 12 ? "AM" : "PM";
  // What a conversion stands for; nothing if there is no such conversion.
  const auto written = [&](char conversion, bool pad) -> std::optional<std::string> {
    switch (conversion) {
      case 'a':
        return std::string(kDays[static_cast<size_t>(tm.tm_wday)]).substr(0, 3);
      case 'A':
        return kDays[static_cast<size_t>(tm.tm_wday)];
      case 'b':
      case 'h':
        return std::string(kMonths[static_cast<size_t>(tm.tm_mon)]).substr(0, 3);
      case 'B':
        return kMonths[static_cast<size_t>(tm.tm_mon)];
      case 'd':
        return padded(tm.tm_mday, 2, pad);
      case 'e':
        return padded(tm.tm_mday, 2, pad, ' ');
      case 'm':
        return padded(tm.tm_mon + 1, 2, pad);
      case 'y':
        return padded(tm.tm_year % 100, 2, pad);
      case 'Y':
        return std::to_string(tm.tm_year + 1900);
      case 'H':
        return padded(tm.tm_hour, 2, pad);
      case 'I':
        return padded(hour12, 2, pad);
      case 'M':
        return padded(tm.tm_min, 2, pad);
      case 'S':
        return padded(tm.tm_sec, 2, pad);
      case 'p':
        return half;
      case 'j':
        return padded(tm.tm_yday + 1, 3, pad);
      case 'u':
        return std::to_string(tm.tm_wday == 0 ? 7 : tm.tm_wday);
      case 'w':
        return std::to_string(tm.tm_wday);
      case 's':
        return std::to_string(unix_s);
      case 'z':
        return "+0000";
      case 'Z':
        return "UTC";
      case 'n':
        return "\n";
      case 't':
        return "\t";
      case '%':
        return "%";
      case 'F':
        return FormatTime("%Y-%m-%d", unix_s);
      case 'D':
      case 'x':
        return FormatTime("%m/%d/%y", unix_s);
      case 'T':
      case 'X':
        return FormatTime("%H:%M:%S", unix_s);
      case 'R':
        return FormatTime("%H:%M", unix_s);
      case 'r':
        return FormatTime("%I:%M:%S %p", unix_s);
      case 'c':
        return FormatTime("%a %b %e %H:%M:%S %Y", unix_s);
      default:
        return std::nullopt;
    }
  };
  std::string out;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      out.push_back(format[i]);
      continue;
    }
    const size_t start = i++;
    const bool pad = format[i] != '-';  // glibc's "no padding"
    if (!pad && i + 1 < format.size()) ++i;
    const std::optional<std::string> text = written(format[i], pad);
    out += text ? std::string_view(*text) : format.substr(start, i - start + 1);
  }
  return out;
}

}  // namespace tutti::tokenizer::jinja
