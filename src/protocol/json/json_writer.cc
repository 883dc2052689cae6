#include "protocol/json/json_writer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/utf8.h"

namespace tutti::protocol {
namespace {

constexpr char kHex[] = "0123456789abcdef";
// The characters with an escape of one letter, and these letters.
constexpr std::string_view kEscaped = "\"\\\b\f\n\r\t", kEscapes = "\"\\bfnrt";

void AppendEscaped(std::string_view text, std::string* out) {
  size_t plain = 0;  // start of the run that needs no escape
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7F) continue;
    out->append(text, plain, i - plain);
    plain = i + 1;
    const size_t known = kEscaped.find(text[i]);
    *out += known == std::string_view::npos ? "\\u00" : "\\";
    if (known != std::string_view::npos) {
      *out += kEscapes[known];
    } else {
      *out += kHex[c >> 4];
      *out += kHex[c & 15];
    }
  }
  out->append(text, plain, text.size() - plain);
}

constexpr size_t kMaxNumber = 32;  // characters of the longest double, and more

// Into `to`, which has room for kMaxNumber; returns the end.
template <typename T>
char* Shortest(T number, char* to) {
  if (!std::isfinite(number)) return std::copy_n("null", 4, to);
  char* end = std::to_chars(to, to + kMaxNumber - 2, number).ptr;
  // 1 would read back as an integer; clients with strict types expect a number with a point.
  if (std::string_view(to, static_cast<size_t>(end - to)).find_first_of(".e") ==
      std::string_view::npos) {
    *end++ = '.';
    *end++ = '0';
  }
  return end;
}

template <typename T>
JsonWriter& WriteNumber(T number, JsonWriter* json) {
  std::array<char, kMaxNumber> digits;
  const char* end = Shortest(number, digits.data());
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

JsonWriter& JsonWriter::Double(double number) { return WriteNumber(number, this); }
JsonWriter& JsonWriter::Float(float number) { return WriteNumber(number, this); }

JsonWriter& JsonWriter::Floats(std::span<const float> numbers) {
  Separate();
  std::array<char, 64 * (kMaxNumber + 1)> block;
  char* end = block.data();
  *out_ += '[';
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (i > 0) *end++ = ',';
    end = Shortest(numbers[i], end);
    if (i % 64 != 63) continue;
    out_->append(block.data(), end);
    end = block.data();
  }
  out_->append(block.data(), end);
  *out_ += ']';
  return *this;
}

JsonWriter& JsonWriter::Raw(std::string_view json) {
  Separate();
  *out_ += json;
  return *this;
}

}  // namespace tutti::protocol
