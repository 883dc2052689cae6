// JsonWriter: appends compact JSON to a string without building a tree. Wrong nesting fails a
// CHECK.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"

namespace tutti::protocol {

// Appends `text` quoted and escaped. Malformed UTF-8 becomes U+FFFD, so that the output is always
// valid JSON.
void AppendJsonString(std::string_view text, std::string* out);

class JsonWriter {
 public:
  // Appends to `out`, which outlives the writer.
  explicit JsonWriter(std::string* out) : out_(out) {}
  // Writes a text of its own.
  JsonWriter() : out_(&own_) {}
  JsonWriter(JsonWriter&& other) noexcept
      : own_(std::move(other.own_)),
        out_(other.out_ == &other.own_ ? &own_ : other.out_),
        comma_(other.comma_),
        depth_(other.depth_) {}
  std::string Take() { return std::move(own_); }  // the writer's own text; call it last

  JsonWriter& BeginObject() { return Open('{'); }
  JsonWriter& EndObject() { return Close('}'); }
  JsonWriter& BeginArray() { return Open('['); }
  JsonWriter& EndArray() { return Close(']'); }
  JsonWriter& Key(std::string_view key);

  JsonWriter& String(std::string_view text);
  JsonWriter& Int(int64_t number);
  JsonWriter& Double(double number);  // shortest form that reads back equal; not finite: null
  JsonWriter& Float(float number);    // shortest form that reads back as the same float
  JsonWriter& Floats(std::span<const float> numbers);  // an array of them
  JsonWriter& Bool(bool value) { return Raw(value ? "true" : "false"); }
  JsonWriter& Null() { return Raw("null"); }
  JsonWriter& Raw(std::string_view json);  // a finished value

  // Key and value in one call.
  JsonWriter& Member(std::string_view key, std::string_view text) { return Key(key).String(text); }
  JsonWriter& Member(std::string_view key, const char* text) { return Key(key).String(text); }
  JsonWriter& Member(std::string_view key, const std::string& text) {
    return Key(key).String(text);
  }
  JsonWriter& Member(std::string_view key, int number) { return Key(key).Int(number); }
  JsonWriter& Member(std::string_view key, int64_t number) { return Key(key).Int(number); }
  JsonWriter& Member(std::string_view key, double number) { return Key(key).Double(number); }
  JsonWriter& Member(std::string_view key, bool value) { return Key(key).Bool(value); }
  JsonWriter& Member(std::string_view key, std::nullptr_t) { return Key(key).Null(); }
  // null if `text` is empty, or there is no value.
  JsonWriter& MemberOrNull(std::string_view key, std::string_view text) {
    return text.empty() ? Member(key, nullptr) : Member(key, text);
  }
  template <typename T>
  JsonWriter& MemberOrNull(std::string_view key, const std::optional<T>& value) {
    return value.has_value() ? Member(key, *value) : Member(key, nullptr);
  }

 private:
  JsonWriter& Open(char bracket);
  JsonWriter& Close(char bracket);
  void Separate();  // a comma where one belongs

  std::string own_;  // empty where the writer appends to another text
  std::string* const out_;
  bool comma_ = false;  // a value stands before, in the same container
  int depth_ = 0;
};

}  // namespace tutti::protocol
