// Stored form of a message, from its acceptance to the end of its turn: everything that is needed
// to compute the same answer after a crash. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "services/sessions/message.h"

namespace tutti::sessions {

struct TurnRecord {
  Message message;                    // without policy and expectations, which are already applied
  int64_t position = 0;               // as reported when it was accepted
  std::optional<int64_t> deadline_s;  // unix time; the message's is steady time
};

std::string EncodeTurn(const TurnRecord& record);
// Errors: record_corrupt.
Result<TurnRecord> DecodeTurn(std::string_view text);

}  // namespace tutti::sessions
