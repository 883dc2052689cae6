#include "mqtt/frame_splitter.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace tutti::mqtt {
namespace {

// The flags that packets of a type have (table 2-2); PUBLISH has its own.
bool FlagsFit(PacketType type, uint8_t flags) {
  switch (type) {
    case PacketType::kPublish:
      return true;
    case PacketType::kPubrel:
    case PacketType::kSubscribe:
    case PacketType::kUnsubscribe:
      return flags == 2;
    default:
      return flags == 0;
  }
}

}  // namespace

size_t FrameSplitter::Feed(std::string_view bytes) {
  size_t taken = 0;
  while (taken < bytes.size() && state_ != State::kDone && state_ != State::kFailed) {
    if (state_ == State::kBody) {
      const size_t part = std::min(bytes.size() - taken, length_ - frame_.body.size());
      // Grows as bytes come, not as they are announced.
      frame_.body.append(bytes, taken, part);
      taken += part;
      if (frame_.body.size() == length_) state_ = State::kDone;
      continue;
    }
    const auto byte = static_cast<uint8_t>(bytes[taken++]);
    if (state_ == State::kType) {
      OnType(byte);
    } else {
      OnLength(byte);
    }
  }
  return taken;
}

void FrameSplitter::OnType(uint8_t byte) {
  frame_.type = static_cast<PacketType>(byte >> 4);
  frame_.flags = byte & 0x0F;
  if (byte >> 4 == 0) return Fail(ReasonCode::kMalformedPacket, "packet type 0");
  if (limits_.only && frame_.type != *limits_.only) {
    return Fail(ReasonCode::kProtocolError, "a packet of this type may not come now");
  }
  if (!FlagsFit(frame_.type, frame_.flags)) {
    return Fail(ReasonCode::kMalformedPacket, "flags that this type of packet does not have");
  }
  state_ = State::kLength;
}

void FrameSplitter::OnLength(uint8_t byte) {
  length_ |= static_cast<size_t>(byte & 0x7F) << (7 * length_bytes_);
  ++length_bytes_;
  if ((byte & 0x80) != 0) {
    if (length_bytes_ == 4) Fail(ReasonCode::kMalformedPacket, "a remaining length of five bytes");
    return;
  }
  frame_.minimal_length = byte != 0 || length_bytes_ == 1;
  if (1 + static_cast<size_t>(length_bytes_) + length_ > limits_.packet_bytes) {
    return Fail(ReasonCode::kPacketTooLarge, "a packet larger than is taken");
  }
  state_ = length_ > 0 ? State::kBody : State::kDone;
}

void FrameSplitter::Fail(ReasonCode code, std::string_view why) {
  state_ = State::kFailed;
  fault_ = Fault{code, why};
}

Frame FrameSplitter::Take() {
  CHECK(done());
  state_ = State::kType;
  length_ = 0;
  length_bytes_ = 0;
  return std::exchange(frame_, Frame());
}

}  // namespace tutti::mqtt
