// Whether a request carries the key of this server. Any thread.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "base/status.h"

namespace tutti::access {

class KeyCheck {
 public:
  explicit KeyCheck(std::string_view key);  // empty = none is needed

  // `authorization`: all values of that field; right is one, "Bearer <key>", the first word in any
  // case. Takes the same time whatever was sent: one hash and one compare of equal length.
  bool Accepts(std::span<const std::string_view> authorization) const;

 private:
  const bool has_key_;
  std::array<unsigned char, 32> digest_;
};

// What a request without the key is told. `field`: "authorization", as the protocol writes it.
Status KeyNeeded(std::string_view field);

}  // namespace tutti::access
