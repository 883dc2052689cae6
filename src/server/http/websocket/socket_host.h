// SocketHost: the WebSocket as seen by a dialect. Its implementation, SocketHandler
// (socket_handler.cc), handles frames, authentication, pings, age and drain. A dialect handles the
// messages and what runs for them: the Responses API (responses_dialect.h) or chat
// (chat_dialect.h).
//
// Used on the connection's thread.
#pragma once

#include <string_view>

#include "base/status.h"

namespace tutti::http {

class SocketHost {
 public:
  virtual void Send(std::string_view json) = 0;
  virtual bool HasRoom() const = 0;  // whether more may be sent now
  // Not OK: the reason why no new request may begin.
  virtual const Status& leaving() const = 0;
  // Accepts no new requests from now on. Closes the socket with `code` when no request runs any
  // more, or after SocketLimits::age_grace. Only the first call counts.
  virtual void Leave(const Status& why, int code) = 0;
  virtual void Close(int code, std::string_view why) = 0;  // closes at once
  virtual void Idle() = 0;                                 // the dialect reports that nothing runs

 protected:
  ~SocketHost() = default;
};

}  // namespace tutti::http
