// Frames of WebSocket (RFC 6455 section 5) as a server reads and writes them: bytes to whole texts
// and control frames, and back. No extensions; text alone. Pure; a reader belongs to one
// connection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tutti::wire {

// What a connection is closed with (section 7.4.1).
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
    kFault,  // the connection is to be closed with `code`; nothing follows
  };
  Kind kind = Kind::kFault;
  std::string payload;  // of kFault: why, for the peer
  int code = 0;
};

class FrameReader {
 public:
  explicit FrameReader(const FrameLimits& limits) : limits_(limits) {}

  // Takes from the front of `bytes` up to the end of the next event; none: all was taken, and more
  // is needed. Behind kClose and kFault nothing is taken any more.
  std::optional<FrameEvent> Next(std::string_view* bytes);
  size_t held() const { return message_.size(); }  // bytes of a message that is not whole yet

 private:
  size_t HeaderBytes() const;  // as far as is known
  // Of a header whose first two bytes, or all bytes, are there: what is wrong with it.
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
  // A text whose first frame has come and whose last has not ended.
  bool in_message_ = false;
  std::string message_, control_;
  int empty_fragments_ = 0;
};

// Frames of a server: whole messages, unmasked.
void AppendText(std::string_view text, std::string* out);
void AppendPing(std::string* out);
// At most 125 bytes, which a FrameEvent's payload never exceeds.
void AppendPong(std::string_view payload, std::string* out);
// `reason`: cut at 123 bytes, between characters. kCloseNoStatus: an empty one.
void AppendClose(int code, std::string_view reason, std::string* out);

}  // namespace tutti::wire
