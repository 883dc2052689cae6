// Whether a call carries the key of this server. Any thread.
#pragma once

#include <array>
#include <span>
#include <string_view>

namespace tutti::rpc {

class KeyCheck {
 public:
  explicit KeyCheck(std::string_view key);  // empty = none is needed

  // `authorization`: all values of that metadata field; right is one, "Bearer <key>". Takes the
  // same time whatever was sent.
  bool Accepts(std::span<const std::string_view> authorization) const;

 private:
  const bool has_key_;
  std::array<unsigned char, 32> digest_;
};

}  // namespace tutti::rpc
