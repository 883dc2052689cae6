// Streaming parser for multipart/form-data (RFC 7578) with constant memory; a PartSink receives the
// headers and the bytes of each part.
//
// One reader per body, for use by one thread. Input that strict and lenient parsers could split
// differently is refused: lines must end with CRLF, and each part must have one Content-Disposition
// of form-data with one name. Errors of all functions: invalid_value, invalid_utf8 (names), and
// those of the sink.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tutti::protocol {

// Boundary from a Content-Type header. Errors: unsupported_media_type (not multipart/form-data);
// invalid_value (boundary missing or malformed).
Result<std::string> MultipartBoundary(std::string_view content_type);

struct PartHead {
  std::string name;
  std::optional<std::string> filename;  // without folders; absent: the part is a field, no file
};

class PartSink {
 public:
  virtual ~PartSink() = default;
  virtual Status OnPart(const PartHead& head) = 0;
  virtual Status OnData(std::string_view bytes) = 0;  // of the last part, in order
};

class MultipartReader {
 public:
  static constexpr size_t kMaxHeadBytes = 8 << 10;      // of one part
  static constexpr size_t kMaxPreambleBytes = 4 << 10;  // before the first one
  static constexpr int kMaxParts = 16;

  MultipartReader(const std::string& boundary, PartSink* sink);

  // Parses the next bytes. After an error the reader must not be used any more.
  Status Feed(std::string_view bytes);
  // Ends the body; an error if the last boundary is missing.
  Status End() const;

 private:
  enum class State { kPreamble, kDelimiter, kHead, kData, kEpilogue };

  Status Step(bool* stuck);
  Status AtDelimiter(bool* stuck);
  Status AtHead(bool* stuck);
  Status AtData(bool* stuck);

  const std::string delimiter_;  // "\r\n--boundary"
  PartSink* const sink_;
  State state_ = State::kPreamble;
  // Not yet understood: at most what was fed last and a head. The first boundary may begin the
  // body.
  std::string buffer_ = "\r\n";
  int parts_ = 0;
};

}  // namespace tutti::protocol
