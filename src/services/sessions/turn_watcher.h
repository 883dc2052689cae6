// TurnWatcher: observer of the messages and answers of all dialogs; app::ConversationLog implements
// it. Called on the responses' strand; must not block and must not call Sessions.
#pragma once

#include <cstdint>

#include "protocol/responses/state.h"
#include "services/sessions/history.h"
#include "services/sessions/message.h"

namespace tutti::sessions {

class TurnWatcher {
 public:
  virtual ~TurnWatcher() = default;
  // A message was accepted.
  virtual void OnAccepted(const SessionKey& key, int64_t turn, const Message& message) = 0;
  // The turn has ended, in any way.
  virtual void OnEnded(const SessionKey& key, int64_t turn, const protocol::ResponseState& end) = 0;
};

}  // namespace tutti::sessions
