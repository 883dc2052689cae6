// MessageParser: parses the bytes of a connection into an HttpRequest. Two parsers read every byte:
// protocol::FramingGuard decides what is allowed and where the message ends, Boost.Beast what it
// means; a message is valid only if both agree. One object per message; one thread.
//
// And the path of a request's target, which may contain anything.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "protocol/http1/framing.h"

namespace tutti::http {

struct HttpRequest {
  std::string method;
  std::string target;  // as sent
  bool http_1_0 = false;
  bool keep_alive = true;
  std::vector<std::pair<std::string, std::string>> fields;  // names in lower case, in order
  std::string body;                                         // decoded

  const std::string* Find(std::string_view name) const;  // the first; `name` in lower case
  size_t Count(std::string_view name) const;
  // All fields of the name, joined by commas, as one list (RFC 9110 5.3).
  std::string Joined(std::string_view name) const;
};

class MessageParser {
 public:
  explicit MessageParser(const protocol::FramingLimits& limits);
  ~MessageParser();
  MessageParser(const MessageParser&) = delete;
  MessageParser& operator=(const MessageParser&) = delete;

  // Consumes this message's bytes from the front of `bytes`; returns their number.
  size_t Feed(std::string_view bytes);

  bool head_done() const;
  bool done() const;
  const Status& fault() const;      // why the message is refused; then close
  const HttpRequest& head() const;  // after head_done(): everything but the body
  // Method and target as far as they have arrived, at most the first 8 KiB, unchecked, also of a
  // malformed message: for the log. Empty if no blank follows the method.
  std::pair<std::string_view, std::string_view> first_line() const;
  HttpRequest Take();  // after done()
  // After head_done(): limits the body to `bytes`, in addition to the general limit.
  void LimitBody(size_t bytes);
  // After head_done(): the part of the body received since the last call.
  std::string TakeBody();
  bool has_body() const;            // after head_done(): a body is announced
  uint64_t announced_body() const;  // Content-Length; 0 when chunked
  bool chunked() const;
  uint64_t body_bytes() const;  // decoded so far

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// --- the path of a target; pure ---

// The path of a request target without its query, or nothing when it is not in canonical form: no
// empty, "." or ".." segments, no escapes of characters that need none, nothing outside printable
// ASCII.
std::optional<std::string> CanonicalPath(std::string_view target);

// The path of `target` for logs, as sent, without scheme, authority and query. "-" if there is no
// path, or if the path contains `key` or a text like one of our keys, escaped or not; an empty
// `key` matches nothing.
std::string PathForLog(std::string_view target, std::string_view key);

// Decodes the escapes of a path, or of a part of one. A percent sign that begins none is kept.
std::string DecodedPath(std::string_view text);

}  // namespace tutti::http
