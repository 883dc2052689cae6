// Reply: what Redis answers, and ReplyReader, which makes it of bytes. hiredis' parser behind
// bounds of our own: whoever sits at the other end may be no Redis.
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
  size_t bytes = size_t{4} << 20;  // of one reply as it is sent
  size_t items = 65'536;           // of all its arrays together, also those only announced
};

class ReplyReader {
 public:
  explicit ReplyReader(const ReplyLimits& limits);
  ~ReplyReader();
  ReplyReader(const ReplyReader&) = delete;
  ReplyReader& operator=(const ReplyReader&) = delete;

  // Bytes that came. Error: redis_protocol (no memory for them, or too many for one reply).
  Status Feed(std::string_view bytes);
  // The next whole reply; nothing while it is on its way. Error: redis_protocol: what came is no
  // reply or beyond the limits. After an error only the destructor may be called.
  Result<std::optional<Reply>> Next();
  // Nothing of a further reply has come.
  bool empty() const;

 private:
  struct Parser;
  const std::unique_ptr<Parser> parser_;
};

}  // namespace tutti::redis
