#include "tokenizer/jinja/format.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "tokenizer/jinja/unicode.h"

namespace tutti::tokenizer::jinja {
namespace {

// Recursion is as deep as the value, which NewList, NewDict and the input check keep within
// kMaxDepth; a namespace shows none of its attributes, so it cannot close a circle.
class Repr {
 public:
  Repr(Runtime& rt, Text* out) : rt_(rt), out_(out) {}

  bool Write(const Value& value) {
    if (!rt_.Spend(1) || !rt_.Grow(*out_, 4)) return false;
    switch (value.kind()) {
      case Kind::kUndefined:
        return Own("Undefined");
      case Kind::kString:
        return Quote(value.text());
      case Kind::kList:
        return List(value);
      case Kind::kDict:
        return Dict(value);
      default:
        return AppendText(rt_, value, out_);
    }
  }

 private:
  bool Own(std::string_view text) {
    out_->Append(text, Origin::kTemplate);
    return true;
  }

  bool List(const Value& value) {
    const std::vector<Value>& items = value.items();
    Own(value.is_tuple() ? "(" : "[");
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) Own(", ");
      if (!Write(items[i])) return false;
    }
    if (value.is_tuple() && items.size() == 1) Own(",");
    return Own(value.is_tuple() ? ")" : "]");
  }

  bool Dict(const Value& value) {
    Own("{");
    bool first = true;
    for (const auto& [key, member] : value.members()) {
      if (!first) Own(", ");
      first = false;
      if (!Write(key)) return false;
      Own(": ");
      if (!Write(member)) return false;
    }
    return Own("}");
  }

  bool Quote(const Text& text) {
    if (!rt_.Grow(*out_, 4 * text.size())) return false;
    const std::string& bytes = text.bytes();
    const bool has_single = bytes.find('\'') != std::string::npos;
    const bool has_double = bytes.find('"') != std::string::npos;
    const char quote = has_single && !has_double ? '"' : '\'';
    const std::string_view mark(&quote, 1);
    Own(mark);
    for (size_t pos = 0; pos < bytes.size();) {
      const CodePoint c = DecodeAt(bytes, pos);
      const std::string escape = Escape(c.code_point, quote);
      if (escape.empty()) {
        out_->AppendRange(text, pos, pos + c.length);
      } else {
        out_->Append(escape, text.OriginAt(pos));
      }
      pos += c.length;
    }
    return Own(mark);
  }

  static std::string Escape(char32_t c, char quote) {
    if (c == '\\') return "\\\\";
    if (c == static_cast<char32_t>(quote)) return std::string("\\") + quote;
    if (c == '\n') return "\\n";
    if (c == '\r') return "\\r";
    if (c == '\t') return "\\t";
    if (c == 0xFFFD || IsPrintable(c)) return "";
    std::array<char, 16> text;
    const char* const pattern = c <= 0xFF ? "\\x%02x" : (c <= 0xFFFF ? "\\u%04x" : "\\U%08x");
    // NOLINTNEXTLINE: one of three fixed patterns
    std::snprintf(text.data(), text.size(), pattern, static_cast<unsigned>(c));
    return text.data();
  }

  Runtime& rt_;
  Text* out_;
};

class JsonWriter {
 public:
  JsonWriter(Runtime& rt, const JsonStyle& style) : rt_(rt), style_(style) {}

  bool Write(const Value& value, int level) {
    if (!rt_.Spend(1) ||
        !rt_.Grow(out_, style_.item_separator.size() + style_.key_separator.size()))
      return false;
    switch (value.kind()) {
      case Kind::kNone:
        return Own("null");
      case Kind::kBool:
        return Own(value.bool_value() ? "true" : "false");
      case Kind::kInt:
        return Own(std::to_string(value.int_value()));
      case Kind::kFloat:
        return Own(Number(value.float_value()));
      case Kind::kString:
        return Quote(value.text());
      case Kind::kList:
        return List(value, level);
      case Kind::kDict:
        return Dict(value, level);
      default:
        rt_.FailType("write as JSON", value);
        return false;
    }
  }
  Text Take() { return std::move(out_); }

 private:
  bool Own(std::string_view text) {
    out_.Append(text, Origin::kTemplate);
    return true;
  }

  static std::string Number(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
    return FormatFloat(value);
  }

  bool NewLine(int level) {
    if (!style_.indent) return true;
    const size_t bytes = 1 + style_.indent->size() * static_cast<size_t>(level);
    if (!rt_.Grow(out_, bytes)) return false;
    Own("\n");
    for (int i = 0; i < level; ++i) Own(*style_.indent);
    return true;
  }

  bool List(const Value& value, int level) {
    if (value.items().empty()) return Own("[]");
    Own("[");
    bool first = true;
    for (const Value& item : value.items()) {
      if (!first) Own(style_.item_separator);
      first = false;
      if (!NewLine(level + 1) || !Write(item, level + 1)) return false;
    }
    if (!NewLine(level)) return false;
    return Own("]");
  }

  bool Dict(const Value& value, int level) {
    const auto& members = value.members();
    if (members.empty()) return Own("{}");
    std::vector<const DictRep::Item*> order;
    for (const auto& member : members) order.push_back(&member);
    if (style_.sort_keys) {
      std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
        return CompareKeys(a->first, b->first) < 0;
      });
    }
    Own("{");
    bool first = true;
    for (const DictRep::Item* member : order) {
      if (!first) Own(style_.item_separator);
      first = false;
      if (!NewLine(level + 1) || !Key(member->first)) return false;
      Own(style_.key_separator);
      if (!Write(member->second, level + 1)) return false;
    }
    if (!NewLine(level)) return false;
    return Own("}");
  }

  bool Key(const Value& key) {
    if (key.is_string()) return Quote(key.text());
    Own("\"");
    return Write(key, 0) && Own("\"");
  }

  bool Quote(const Text& text) {
    if (!rt_.Grow(out_, 6 * text.size())) return false;
    Own("\"");
    const std::string& bytes = text.bytes();
    size_t plain = 0;  // start of what needs no escape
    for (size_t pos = 0; pos < bytes.size();) {
      const auto c = static_cast<unsigned char>(bytes[pos]);
      if (c >= 0x20 && c != '"' && c != '\\' && (c < 0x80 || !style_.ensure_ascii)) {
        ++pos;
        continue;
      }
      out_.AppendRange(text, plain, pos);
      const CodePoint code = DecodeAt(bytes, pos);
      out_.Append(Escape(code.code_point), text.OriginAt(pos));
      pos += code.length;
      plain = pos;
    }
    out_.AppendRange(text, plain, bytes.size());
    return Own("\"");
  }

  static std::string Escape(char32_t c) {
    constexpr std::string_view kSpecial = "\"\\\n\r\t\b\f", kLetters = "\"\\nrtbf";
    const size_t known = c < 0x80 ? kSpecial.find(static_cast<char>(c)) : std::string_view::npos;
    if (known != std::string_view::npos) return std::string("\\") + kLetters[known];
    std::array<char, 16> text;
    if (c <= 0xFFFF) {
      std::snprintf(text.data(), text.size(), "\\u%04x", static_cast<unsigned>(c));
    } else {
      const unsigned rest = static_cast<unsigned>(c) - 0x10000;
      std::snprintf(text.data(), text.size(), "\\u%04x\\u%04x", 0xD800 + (rest >> 10),
                    0xDC00 + (rest & 0x3FF));
    }
    return text.data();
  }

  Runtime& rt_;
  const JsonStyle& style_;
  Text out_;
};

}  // namespace

std::string FormatFloat(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::array<char, 64> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                 std::chars_format::scientific);
  const std::string_view shortest(buffer.data(), static_cast<size_t>(end.ptr - buffer.data()));
  // d.ddde±xx, taken apart and written as repr() does: fixed for exponents -4..15.
  const size_t e = shortest.find('e');
  const int exponent = std::atoi(std::string(shortest.substr(e + 1)).c_str());
  std::string digits;
  for (const char c : shortest.substr(0, e)) {
    if (c >= '0' && c <= '9') digits.push_back(c);
  }
  const std::string sign = shortest[0] == '-' ? "-" : "";
  if (exponent < -4 || exponent >= 16) {
    std::string text = sign + digits.substr(0, 1);
    if (digits.size() > 1) text += "." + digits.substr(1);
    std::array<char, 16> tail;
    std::snprintf(tail.data(), tail.size(), "e%c%02d", exponent < 0 ? '-' : '+',
                  std::abs(exponent));
    return text + tail.data();
  }
  if (exponent < 0)
    return sign + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  const auto whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= whole) return sign + digits + std::string(whole - digits.size(), '0') + ".0";
  return sign + digits.substr(0, whole) + "." + digits.substr(whole);
}

bool AppendText(Runtime& rt, const Value& value, Text* out) {
  const auto own = [out](std::string_view text) {
    out->Append(text, Origin::kTemplate);
    return true;
  };
  switch (value.kind()) {
    case Kind::kUndefined:
      return !rt.failed();
    case Kind::kNone:
      return own("None");
    case Kind::kBool:
      return own(value.bool_value() ? "True" : "False");
    case Kind::kInt:
      return own(std::to_string(value.int_value()));
    case Kind::kFloat:
      return own(FormatFloat(value.float_value()));
    case Kind::kString:
      if (!rt.Grow(*out, value.text().size())) return false;
      out->Append(value.text());
      return true;
    case Kind::kObject:
      switch (value.object()->kind()) {
        case ObjectKind::kNamespace:
          return own("<Namespace>");
        case ObjectKind::kLoop:
          return own("<LoopContext>");
        case ObjectKind::kMacro:
          return own("<Macro>");
        default:
          return own("<function>");
      }
    case Kind::kList:
    case Kind::kDict:
      break;
  }
  Text text;
  if (!Repr(rt, &text).Write(value) || !rt.Grow(*out, text.size())) return false;
  text.Demote();
  out->Append(text);
  return true;
}

Value ToStringValue(Runtime& rt, const Value& value) {
  if (value.is_string()) return value;
  Text text;
  if (!AppendText(rt, value, &text)) return Value();
  return rt.NewString(std::move(text));
}

Value ToJson(Runtime& rt, const Value& value, const JsonStyle& style) {
  JsonWriter writer(rt, style);
  if (!writer.Write(value, 0)) return Value();
  Text text = writer.Take();
  text.Demote();
  return rt.NewString(std::move(text));
}

}  // namespace tutti::tokenizer::jinja
