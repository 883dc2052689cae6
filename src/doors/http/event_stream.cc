#include "doors/http/event_stream.h"

#include <algorithm>
#include <utility>

#include "doors/http/connection.h"
#include "doors/http/exchange.h"
#include "wire/openai_response.h"

namespace tutti::http {

void EventStream::Open(Duration keepalive, std::vector<std::string> ignored) {
  keepalive_ = keepalive;
  quiet_since_ = connection_.loop()->clock().Now();
  headers_ = {{"Content-Type", "text/event-stream; charset=utf-8"},
              {"Cache-Control", "no-cache"},
              {"X-Accel-Buffering", "no"}};
  AddIgnored(ignored, &headers_);
}

bool EventStream::HasRoom(size_t more) const {
  return connection_.unsent() + more < connection_.context().options.limits.unsent_bytes;
}

void EventStream::Begin() {
  begun_ = true;
  connection_.BeginStream(200, std::move(headers_));
}

void EventStream::Show(const std::string& events) {
  if (events.empty()) return;
  if (!begun_) Begin();
  connection_.Send(events);
}

void EventStream::End() {
  if (!begun_) Begin();  // nothing was to be said
  connection_.EndStream();
}

TimePoint EventStream::KeepAliveDue() const {
  if (keepalive_ <= Duration::zero()) return TimePoint::max();
  return std::max(quiet_since_, connection_.last_send()) + keepalive_;
}

void EventStream::KeepAlive(TimePoint now) {
  if (now < KeepAliveDue()) return;
  if (!begun_) Begin();
  quiet_since_ = now;
  // While the reader is behind, what waits for it keeps the connection alive.
  if (connection_.unsent() == 0) connection_.Send(wire::kSsePing);
}

}  // namespace tutti::http
