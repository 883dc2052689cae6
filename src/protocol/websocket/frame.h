// Server side of WebSocket framing (RFC 6455 section 5): converts bytes to whole text messages and
// control frames, and back. No extensions, no binary messages. Pure; each connection has its own
// reader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tutti::protocol {

// Close codes (section 7.4.1).
enum CloseCode : int {
  kCloseNormal = 1000,
  kCloseGoingAway = 1001,
  kCloseProtocolError = 1002,
  kCloseUnsupportedData = 1003,
  kCloseNoStatus = 1005,  // stands in no frame
  kCloseBadPayload = 1007,
  kClosePolicy = 1008,
  kCloseTooBig = 1009,
  kCloseInternalError = 1011,
  kCloseTryAgainLater = 1013,
};

struct FrameLimits {
  uint64_t frame_bytes = 1 << 20;
  uint64_t message_bytes = 8 << 20;
  int empty_fragments = 1000;  // in a row
};

struct FrameEvent {
  enum class Kind {
    kText,  // a message, well-formed
    kPing,  // to be answered with the same payload
    kPong,
    kClose,  // the peer's; `code` is kCloseNoStatus where it gave none
    kFault,  // close the connection with `code`; nothing follows
  };
  Kind kind = Kind::kFault;
  std::string payload;  // of kFault: why, for the peer
  int code = 0;
};

class FrameReader {
 public:
  explicit FrameReader(const FrameLimits& limits) : limits_(limits) {}

  // Consumes `bytes` up to the end of the next event. nullopt: all bytes are consumed, and more are
  // needed. After kClose and kFault nothing is consumed any more.
  std::optional<FrameEvent> Next(std::string_view* bytes);
  size_t held() const { return message_.size(); }  // bytes of a message that is not whole yet

 private:
  size_t HeaderBytes() const;  // as far as is known
  // Error of a frame header; called with its first two bytes, and again with all bytes.
  std::optional<FrameEvent> CheckStart();
  std::optional<FrameEvent> CheckLength();
  void TakePayload(std::string_view* bytes);
  std::optional<FrameEvent> EndFrame();
  FrameEvent EndClose();
  FrameEvent Fault(int code, std::string why);

  const FrameLimits limits_;
  bool done_ = false;
  uint8_t header_[14] = {};
  size_t header_bytes_ = 0;  // that have come
  bool in_payload_ = false;
  uint64_t left_ = 0, taken_ = 0;  // of the frame's payload
  // A fragmented text message whose last frame has not ended.
  bool in_message_ = false;
  std::string message_, control_;
  int empty_fragments_ = 0;
};

// Frames of a server: whole messages, unmasked.
void AppendText(std::string_view text, std::string* out);
void AppendPing(std::string* out);
// `payload`: at most 125 bytes; the payload of a FrameEvent is never longer.
void AppendPong(std::string_view payload, std::string* out);
// `reason` is cut to 123 bytes, between characters. kCloseNoStatus makes an empty close frame.
void AppendClose(int code, std::string_view reason, std::string* out);

}  // namespace tutti::protocol
