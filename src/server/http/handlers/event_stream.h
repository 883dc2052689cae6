// EventStream: writes server-sent events, or lines of JSON, to one connection whose reader may be
// slow.
//
// The status line is sent with the first event or keep-alive, so that an earlier failure can be an
// ordinary HTTP error. If the head must report the result of the cache look-up, events that come
// before this result wait with it (Hold()). While too many bytes wait for the socket, HasRoom() is
// false, and the owner takes no more output from the model. Owned by a handler; used on its thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "protocol/response_writer.h"
#include "server/http/connection/response.h"

namespace tutti::http {

class Connection;

class EventStream {
 public:
  explicit EventStream(Connection& connection) : connection_(connection) {}

  // Starts the stream, and the time of silence. `keepalive`: maximum silence; 0 = unlimited.
  // `ignored`: names of unknown fields, for the head. `ping`: what is sent to end a silence, a
  // static text. `type`: the Content-Type.
  void Open(Duration keepalive, std::vector<std::string> ignored,
            std::string_view ping = protocol::kSsePing,
            std::string_view type = "text/event-stream; charset=utf-8");

  // Holds events back until the head is complete: until Release(), the end, or the first keep-alive
  // (or 15 s, if there are none).
  void Hold() { holds_ = !begun_; }
  void Release();  // idempotent

  // Whether the head is sent, or events are held that will be sent with it.
  bool begun() const { return begun_ || !held_.empty(); }
  // Whether another event may follow `more` bytes that are not passed to Show() yet.
  bool HasRoom(size_t more) const;
  void Show(const std::string& events);  // nothing happens if empty
  void End();

  // Time of the next ping if nothing else is sent; max() = never.
  TimePoint KeepAliveDue() const;
  void KeepAlive(TimePoint now);  // sends a ping, if it is due

 private:
  void Begin();
  bool holding() const { return holds_ && !begun_; }

  Connection& connection_;
  HeaderList headers_;
  Duration keepalive_{0};
  std::string_view ping_ = protocol::kSsePing;
  TimePoint quiet_since_;
  bool begun_ = false, holds_ = false;
  std::string held_;  // passed to Show() before the head is sent
};

}  // namespace tutti::http
