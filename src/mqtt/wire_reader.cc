#include "mqtt/wire_reader.h"

#include "base/utf8.h"

namespace tutti::mqtt {

void WireReader::Fail(ReasonCode code, std::string_view why) {
  if (!fault_) fault_ = Fault{code, why};
  rest_ = {};
}

std::string_view WireReader::Take(size_t bytes) {
  if (bytes > rest_.size()) {
    Malformed("the packet ends within a field");
    return {};
  }
  const std::string_view part = rest_.substr(0, bytes);
  rest_.remove_prefix(bytes);
  return part;
}

uint8_t WireReader::Byte() {
  const std::string_view part = Take(1);
  return part.empty() ? uint8_t{0} : static_cast<uint8_t>(part.front());
}

uint16_t WireReader::TwoBytes() {
  const uint8_t high = Byte();
  return static_cast<uint16_t>(high << 8 | Byte());
}

uint32_t WireReader::FourBytes() {
  const uint32_t high = TwoBytes();
  return high << 16 | TwoBytes();
}

uint32_t WireReader::VariableByteInteger() {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) {
    const uint8_t byte = Byte();
    value |= static_cast<uint32_t>(byte & 0x7F) << (7 * i);
    if ((byte & 0x80) != 0) continue;
    if (i > 0 && byte == 0) Malformed("a variable byte integer is longer than it need be");
    return ok() ? value : 0;
  }
  Malformed("a variable byte integer has more than four bytes");
  return 0;
}

std::string WireReader::Binary() { return std::string(Take(TwoBytes())); }

std::string WireReader::Utf8() {
  const std::string_view text = Take(TwoBytes());
  if (!IsValidUtf8(text)) Malformed("a string is not well-formed UTF-8");
  if (text.find('\0') != std::string_view::npos) Malformed("a string holds U+0000");
  return ok() ? std::string(text) : std::string();
}

}  // namespace tutti::mqtt
