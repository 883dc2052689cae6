// WireWriter: puts MQTT's data types (5.0 section 1.5) behind each other.
//
// What does not fit its type (a string above 65,535 bytes, a variable byte integer above
// 268,435,455) makes the writer not ok, and what it wrote is of no use. One thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace tutti::mqtt {

inline constexpr uint32_t kMaxVariableByteInteger = 268'435'455;

class WireWriter {
 public:
  void Byte(unsigned value) { bytes_ += static_cast<char>(value); }
  void TwoBytes(uint16_t value) {
    Byte(value >> 8);
    Byte(value & 0xFFu);
  }
  void FourBytes(uint32_t value) {
    TwoBytes(static_cast<uint16_t>(value >> 16));
    TwoBytes(static_cast<uint16_t>(value & 0xFFFFu));
  }
  void VariableByteInteger(size_t value);
  void Binary(std::string_view bytes);  // with its two-byte length; strings too
  void Raw(std::string_view bytes) { bytes_ += bytes; }

  bool ok() const { return ok_; }
  const std::string& bytes() const { return bytes_; }
  std::string Release() { return std::move(bytes_); }

 private:
  std::string bytes_;
  bool ok_ = true;
};

}  // namespace tutti::mqtt
