// EventStream: an answer of server-sent events over one connection, to a reader that may be slow.
//
// The status line waits for the first event or the first keep-alive, so that a failure before it
// can be an ordinary HTTP error; and, where it says what became of the request at a cache of
// answers, for that: events that come before it is known (Hold()) wait with it. While too much
// waits for the socket there is no room, and its user takes nothing more from the model. An
// exchange's own; its thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "doors/http/response.h"
#include "wire/openai_response.h"

namespace tutti::http {

class Connection;

class EventStream {
 public:
  explicit EventStream(Connection& connection) : connection_(connection) {}

  // Silence counts from now on. `keepalive`: how long it may last; 0 = for ever. `ignored`: names
  // of unknown fields, for the head. `ping`: what ends a silence, a static text.
  void Open(Duration keepalive, std::vector<std::string> ignored,
            std::string_view ping = wire::kSsePing);

  // The head is not complete yet: what is shown waits, until Release(), the end, or the time of the
  // first keep-alive, or where there are none that of others (15 s).
  void Hold() { holds_ = !begun_; }
  void Release();  // once more changes nothing

  // The head is out, or events wait that are to be told with it.
  bool begun() const { return begun_ || !held_.empty(); }
  // Whether an event may follow `more` bytes that are not shown yet.
  bool HasRoom(size_t more) const;
  void Show(const std::string& events);  // none = nothing happens
  void End();

  // When a ping is to be sent if nothing was until then; max() = never.
  TimePoint KeepAliveDue() const;
  void KeepAlive(TimePoint now);  // sends it, if it is due

 private:
  void Begin();
  bool holding() const { return holds_ && !begun_; }

  Connection& connection_;
  HeaderList headers_;
  Duration keepalive_{0};
  std::string_view ping_ = wire::kSsePing;
  TimePoint quiet_since_;
  bool begun_ = false, holds_ = false;
  std::string held_;  // shown before the head is
};

}  // namespace tutti::http
