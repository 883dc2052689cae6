// SocketHost: a WebSocket as what is spoken over it knows it. SocketExchange (socket_exchange.cc)
// is one: it has the frames, who asks, pings, age and drain; a dialect has the messages and what
// runs for them: that of the Responses API (responses_dialect.h), that of chat (chat_dialect.h).
//
// Of the connection's thread.
#pragma once

#include <string_view>

#include "base/status.h"

namespace tutti::http {

class SocketHost {
 public:
  virtual void Say(std::string_view json) = 0;
  virtual bool HasRoom() const = 0;  // for more to be said now
  // Why nothing may be begun any more; OK: something may.
  virtual const Status& leaving() const = 0;
  // Nothing is begun any more, and when nothing runs, or after SocketLimits::age_grace, it is
  // closed with `code`. The first time counts.
  virtual void Leave(const Status& why, int code) = 0;
  virtual void Close(int code, std::string_view why) = 0;  // at once
  virtual void Idle() = 0;                                 // nothing runs

 protected:
  ~SocketHost() = default;
};

}  // namespace tutti::http
