// Reply: one reply of Redis, and ReplyReader, which parses replies from bytes. Uses hiredis' parser
// with bounds of its own, because the peer may not be a Redis server.
//
// One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tutti::redis {

struct Reply {
  enum class Kind : uint8_t { kNil, kText, kInteger, kArray, kError };
  Kind kind = Kind::kNil;
  int64_t integer = 0;       // kInteger
  std::string text;          // kText (also of a status line), kError
  std::vector<Reply> items;  // kArray

  bool is_error() const { return kind == Kind::kError; }
};

struct ReplyLimits {
  size_t bytes = size_t{4} << 20;  // of one reply on the wire
  size_t items = 65'536;           // of all its arrays together, also those only announced
  int depth = 8;                   // levels of nested arrays
};

class ReplyReader {
 public:
  explicit ReplyReader(const ReplyLimits& limits);
  ~ReplyReader();
  ReplyReader(const ReplyReader&) = delete;
  ReplyReader& operator=(const ReplyReader&) = delete;

  // Takes received bytes. Error: redis_protocol (no memory for them, or too many for one reply).
  Status Feed(std::string_view bytes);
  // The next complete reply; nothing while it is incomplete. Error: redis_protocol (the bytes are
  // no reply, or exceed the limits). After an error only the destructor may be called.
  Result<std::optional<Reply>> Next();
  // Whether no byte of a further reply has arrived.
  bool empty() const;

 private:
  struct Parser;
  const std::unique_ptr<Parser> parser_;
};

}  // namespace tutti::redis
