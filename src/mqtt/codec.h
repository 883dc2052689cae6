// Packets from and to bytes (MQTT 3.1.1 and 5.0, sections 2 and 3): a stream is cut into frames,
// and a frame is decoded to a packet. The functions are pure; any thread.
//
// Decoding checks the content of each packet by itself, with the reason codes of the standard;
// rules of the connection (allowed senders, order, known aliases) are not checked here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "mqtt/packet.h"

namespace tutti::mqtt {

// One packet as it came.
struct Frame {
  PacketType type = PacketType::kPingreq;
  uint8_t flags = 0;           // the low half of the first byte
  bool minimal_length = true;  // in 5.0 the remaining length must be (section 1.5.5)
  std::string body;            // all behind the remaining length
};

struct FrameLimits {
  size_t packet_bytes = 1 << 20;   // of a whole packet; more is 0x95
  std::optional<PacketType> only;  // any other is 0x82
};

// FrameSplitter: cuts a stream of bytes into the packets of MQTT (section 2.1 of both versions).
//
// It looks at the fixed header alone: type, flags, remaining length. What is refused is refused at
// the first byte that shows it, before anything is kept: a type that may not come, flags that its
// type does not have, a length above the limit. Holds at most one packet. One for each direction of
// a connection; after a fault the connection is of no further use.
class FrameSplitter {
 public:
  explicit FrameSplitter(const FrameLimits& limits) : limits_(limits) {}

  // Reads bytes that follow those read so far. Returns how many it took: all of them, unless a
  // packet ends or a fault shows there.
  size_t Feed(std::string_view bytes);
  bool done() const { return state_ == State::kDone; }
  Frame Take();  // needs done(); the next packet begins
  // 0x81, 0x82 or 0x95.
  const std::optional<Fault>& fault() const { return fault_; }
  // Whether a packet has begun that is not done.
  bool within() const { return state_ == State::kLength || state_ == State::kBody; }
  size_t held_bytes() const { return frame_.body.capacity(); }

  // Takes effect with the next packet.
  void set_limits(const FrameLimits& limits) { limits_ = limits; }

 private:
  enum class State { kType, kLength, kBody, kDone, kFailed };
  void OnType(uint8_t byte);
  void OnLength(uint8_t byte);
  void Fail(ReasonCode code, std::string_view why);

  FrameLimits limits_;
  State state_ = State::kType;
  Frame frame_;
  size_t length_ = 0;     // the remaining length
  int length_bytes_ = 0;  // of it, read so far
  std::optional<Fault> fault_;
};

// A packet, or the reason why the bytes are not a packet.
struct Decoded {
  Packet packet;
  std::optional<Fault> fault;  // then `packet` means nothing
  bool ok() const { return !fault.has_value(); }
};

// CONNECT is read as the version that it names, every other packet as `version`.
// Faults: 0x81 malformed, 0x82 protocol error, 0x84 version, 0x8F filter, 0x90 topic, 0x94 alias,
// 0x97 too many user properties.
Decoded Decode(Version version, const Frame& frame);

// The version for the answer to a CONNECT that Decode() has refused: 5.0 if it names that or a
// later one, else 3.1.1.
Version VersionToAnswer(const Frame& connect);

// A whole packet with its fixed header. Error: invalid_value, of a field or packet longer than the
// protocol can express, a topic or id that is missing, or AUTH in 3.1.1.
Result<std::string> Encode(Version version, const Packet& packet);  // CONNECT: as its own version

}  // namespace tutti::mqtt
