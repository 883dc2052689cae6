// MQTT's data types (5.0 section 1.5) and property lists (section 2.2.2), read from and written to
// the bytes of a packet.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "mqtt/packet.h"

namespace tutti::mqtt {

// WireReader: reads the fields of one packet.
//
// The first fault is kept; after it every read returns zero or an empty value, so that a packet's
// reader is one straight list of its fields and checks once at the end. Never reads beyond its
// bytes. A value that borrows its bytes; one thread at a time.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : rest_(bytes) {}

  uint8_t Byte();
  uint16_t TwoBytes();
  uint32_t FourBytes();
  uint32_t VariableByteInteger();  // minimal encoding only; at most 268,435,455
  std::string Binary();            // with a two-byte length
  std::string Utf8();  // with a two-byte length; well-formed, without U+0000 (section 1.5.4)
  std::string_view Take(size_t bytes);
  std::string_view Rest() { return Take(rest_.size()); }

  bool empty() const { return rest_.empty(); }
  bool ok() const { return !fault_.has_value(); }
  const std::optional<Fault>& fault() const { return fault_; }
  void Fail(ReasonCode code, std::string_view why);  // `why`: a literal
  void Malformed(std::string_view why) { Fail(ReasonCode::kMalformedPacket, why); }
  void ProtocolError(std::string_view why) { Fail(ReasonCode::kProtocolError, why); }

 private:
  std::string_view rest_;
  std::optional<Fault> fault_;
};

inline constexpr uint32_t kMaxVariableByteInteger = 268'435'455;

// WireWriter: writes fields one after the other. What does not fit its type (a string above 65,535
// bytes, a variable byte integer above 268,435,455) makes the writer not ok, and what it wrote is
// of no use. One thread at a time.
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

// Reads a property length and that many bytes. Faults are the reader's: unknown here or cut short
// 0x81, twice or out of range 0x82, alias 0 0x94, response topic with a wildcard 0x90.
Properties ReadProperties(WireReader& in, PropertyPlace place);
// Writes the length and those of `properties` that may stand in `place`, in order of their ids.
void WriteProperties(const Properties& properties, PropertyPlace place, WireWriter& out);

}  // namespace tutti::mqtt
