// FramingGuard: strict framing of HTTP/1.1 requests, against request smuggling. It finds the end of
// a request byte by byte and refuses everything that two parsers could read differently: RFC 9112
// without its allowances for lenient recipients. No folded lines, no bare LF or CR, no space before
// a colon; one Content-Length of digits only or one Transfer-Encoding of exactly `chunked`, never
// both; plain chunk sizes, short extensions, no trailers.
//
// Pure state machine with constant memory, one per message; accepted bytes go to the message
// parser. After a fault the connection must be closed, because the start of the next message is
// unknown.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tutti::protocol {

struct FramingLimits {
  size_t request_line_bytes = 8 << 10;  // 414, 501 when the method alone is too long
  size_t header_bytes = 32 << 10;       // 431
  size_t header_fields = 100;           // 431
  size_t body_bytes = 8 << 20;          // 413
};

class FramingGuard {
 public:
  explicit FramingGuard(const FramingLimits& limits)
      : limits_(limits), body_limit_(limits.body_bytes) {}

  // Scans the next bytes. Returns how many of them belong to this message: all, unless the message
  // ends or faults within them.
  size_t Scan(std::string_view bytes);

  // Lowers the body limit of a message whose head is done; `bytes` must not exceed the limit in
  // FramingLimits. Faults at once if the announced or received length is greater.
  void LimitBody(size_t bytes);

  bool head_done() const { return head_done_; }
  bool done() const { return state_ == State::kDone; }
  bool failed() const { return !fault_.ok(); }
  // OK, or with the code of the error table: 400 invalid_value, 413 request_too_large, 414
  // uri_too_long, 431 headers_too_large, 501 not_implemented, 505 http_version_not_supported.
  const Status& fault() const { return fault_; }

  bool chunked() const { return chunked_; }
  uint64_t content_length() const { return content_length_.value_or(0); }
  uint64_t body_bytes() const { return body_bytes_; }  // of the body, decoded, so far

 private:
  enum class State {
    // head
    kMethod,
    kTarget,
    kVersion,
    kRequestLineLf,
    kLineStart,
    kName,
    kValueStart,
    kValue,
    kLineLf,
    kHeadLf,
    // body
    kBody,
    kChunkSize,
    kChunkExtension,
    kChunkSizeLf,
    kChunkData,
    kChunkDataCr,
    kChunkDataLf,
    kTrailerCr,
    kTrailerLf,
    kDone,
    kFailed,
  };

  void Head(unsigned char c);
  void ChunkFrame(unsigned char c);
  void EndField();
  void EndHead();
  void EndChunkSize();
  void CheckLength();
  void CheckChunk();
  void Fail(std::string_view code, std::string message);
  void Malformed(std::string_view what) {
    Fail("invalid_value", "malformed HTTP request: " + std::string(what));
  }

  const FramingLimits limits_;
  size_t body_limit_;
  State state_ = State::kMethod;
  Status fault_;
  size_t line_bytes_ = 0;  // of the request line
  size_t method_bytes_ = 0, target_bytes_ = 0;
  size_t header_bytes_ = 0, fields_ = 0;
  std::string version_;  // "HTTP/1.1"
  std::string name_;     // of the field in hand, lower case, as far as it can matter
  std::string value_;    // of a framing field
  bool framing_field_ = false;
  int hosts_ = 0;
  bool minor_zero_ = false;  // HTTP/1.0
  std::optional<uint64_t> content_length_;
  bool chunked_ = false, head_done_ = false;
  uint64_t body_bytes_ = 0;
  uint64_t remaining_ = 0;  // of the body or the chunk
  int size_digits_ = 0;
  size_t extension_bytes_ = 0;  // over all chunks
};

}  // namespace tutti::protocol
