// EventStream: an answer of server-sent events over one connection, to a reader that may be slow.
//
// The status line waits for the first event or the first keep-alive, so that a failure before it
// can be an ordinary HTTP error. While too much waits for the socket there is no room, and its user
// takes nothing more from the model. An exchange's own; its thread.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "doors/http/response.h"

namespace tutti::http {

class Connection;

class EventStream {
 public:
  explicit EventStream(Connection& connection) : connection_(connection) {}

  // Silence counts from now on. `keepalive`: how long it may last; 0 = for ever. `ignored`: names
  // of unknown fields, for the head.
  void Open(Duration keepalive, std::vector<std::string> ignored);

  bool begun() const { return begun_; }  // the head is out
  // Whether an event may follow `more` bytes that are not shown yet.
  bool HasRoom(size_t more) const;
  void Show(const std::string& events);  // none = nothing happens
  void End();

  // When a comment is to be sent if nothing was until then; max() = never.
  TimePoint KeepAliveDue() const;
  void KeepAlive(TimePoint now);  // sends it, if it is due

 private:
  void Begin();

  Connection& connection_;
  HeaderList headers_;
  Duration keepalive_{0};
  TimePoint quiet_since_;
  bool begun_ = false;
};

}  // namespace tutti::http
