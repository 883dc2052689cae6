#include "mqtt/wire_writer.h"

namespace tutti::mqtt {

void WireWriter::VariableByteInteger(size_t value) {
  if (value > kMaxVariableByteInteger) {
    ok_ = false;
    return;
  }
  do {
    const auto low = static_cast<unsigned>(value & 0x7F);
    value >>= 7;
    Byte(value > 0 ? low | 0x80u : low);
  } while (value > 0);
}

void WireWriter::Binary(std::string_view bytes) {
  if (bytes.size() > 0xFFFF) {
    ok_ = false;
    return;
  }
  TwoBytes(static_cast<uint16_t>(bytes.size()));
  Raw(bytes);
}

}  // namespace tutti::mqtt
