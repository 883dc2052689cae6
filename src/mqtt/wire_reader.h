// WireReader: reads MQTT's data types (5.0 section 1.5) from the bytes of one packet.
//
// The first fault is kept; after it every read returns zero or an empty value, so that a packet's
// reader is one straight list of its fields and checks once at the end. Never reads beyond its
// bytes. A value that borrows its bytes; one thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "mqtt/reason_code.h"

namespace tutti::mqtt {

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

}  // namespace tutti::mqtt
