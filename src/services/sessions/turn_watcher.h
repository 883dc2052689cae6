// TurnWatcher: told what is said in dialogs, whatever door it comes by: the debug log of
// conversations. Called on the responses' strand; must not block, nor ask anything of the dialogs.
#pragma once

#include <cstdint>

#include "services/sessions/history.h"
#include "services/sessions/message.h"
#include "wire/response_state.h"

namespace tutti::sessions {

class TurnWatcher {
 public:
  virtual ~TurnWatcher() = default;
  // A message was accepted.
  virtual void Asked(const SessionKey& key, int64_t turn, const Message& message) = 0;
  // Its turn has ended, however it did.
  virtual void Answered(const SessionKey& key, int64_t turn, const wire::ResponseState& end) = 0;
};

}  // namespace tutti::sessions
