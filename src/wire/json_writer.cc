#include "wire/json_writer.h"

#include <array>
#include <charconv>
#include <cmath>

#include "wire/utf8.h"

namespace tutti::wire {
namespace {

constexpr char kHex[] = "0123456789abcdef";

void AppendEscaped(std::string_view text, std::string* out) {
  size_t plain = 0;  // start of the run that needs no escape
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7F) continue;
    out->append(text, plain, i - plain);
    plain = i + 1;
    switch (c) {
      case '"':
        *out += "\\\"";
        break;
      case '\\':
        *out += "\\\\";
        break;
      case '\b':
        *out += "\\b";
        break;
      case '\f':
        *out += "\\f";
        break;
      case '\n':
        *out += "\\n";
        break;
      case '\r':
        *out += "\\r";
        break;
      case '\t':
        *out += "\\t";
        break;
      default:
        *out += "\\u00";
        *out += kHex[c >> 4];
        *out += kHex[c & 15];
    }
  }
  out->append(text, plain, text.size() - plain);
}

template <typename T>
JsonWriter& Shortest(T number, JsonWriter* json) {
  if (!std::isfinite(number)) return json->Null();
  std::array<char, 32> digits;
  char* end = std::to_chars(digits.data(), digits.data() + digits.size() - 2, number).ptr;
  const std::string_view text(digits.data(), static_cast<size_t>(end - digits.data()));
  // 1 would read back as an integer; clients with strict types expect a number with a point.
  if (text.find_first_of(".e") == std::string_view::npos) {
    *end++ = '.';
    *end++ = '0';
  }
  return json->Raw({digits.data(), static_cast<size_t>(end - digits.data())});
}

}  // namespace

void AppendJsonString(std::string_view text, std::string* out) {
  *out += '"';
  while (true) {
    const size_t valid = ValidUtf8Prefix(text);
    AppendEscaped(text.substr(0, valid), out);
    if (valid == text.size()) break;
    *out += "\xEF\xBF\xBD";
    text.remove_prefix(valid + 1);
  }
  *out += '"';
}

void JsonWriter::Separate() {
  if (comma_) *out_ += ',';
  comma_ = true;
}

JsonWriter& JsonWriter::Open(char bracket) {
  Separate();
  *out_ += bracket;
  comma_ = false;
  ++depth_;
  return *this;
}

JsonWriter& JsonWriter::Close(char bracket) {
  CHECK(depth_ > 0) << "unbalanced JSON";
  --depth_;
  *out_ += bracket;
  comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::Key(std::string_view key) {
  Separate();
  AppendJsonString(key, out_);
  *out_ += ':';
  comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::String(std::string_view text) {
  Separate();
  AppendJsonString(text, out_);
  return *this;
}

JsonWriter& JsonWriter::Int(int64_t number) {
  std::array<char, 24> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  return Raw({digits.data(), static_cast<size_t>(end - digits.data())});
}

JsonWriter& JsonWriter::Double(double number) { return Shortest(number, this); }
JsonWriter& JsonWriter::Float(float number) { return Shortest(number, this); }

JsonWriter& JsonWriter::Raw(std::string_view json) {
  Separate();
  *out_ += json;
  return *this;
}

}  // namespace tutti::wire
