// FuzzInput: takes an input apart into the values a target needs. Any bytes give some values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tutti::fuzz {

class FuzzInput {
 public:
  FuzzInput(const uint8_t* data, size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}

  bool empty() const { return rest_.empty(); }
  uint8_t Byte() {
    if (rest_.empty()) return 0;
    const auto byte = static_cast<uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    return byte;
  }
  // Up to the next `end`, which is dropped, or all that is left.
  std::string_view Until(char end) {
    const size_t at = rest_.find(end);
    const std::string_view part = rest_.substr(0, at);
    rest_.remove_prefix(at == std::string_view::npos ? rest_.size() : at + 1);
    return part;
  }
  std::string_view Rest() {
    const std::string_view part = rest_;
    rest_ = {};
    return part;
  }

 private:
  std::string_view rest_;
};

}  // namespace tutti::fuzz
