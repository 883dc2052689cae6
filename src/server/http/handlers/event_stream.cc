#include "server/http/handlers/event_stream.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "server/http/connection/connection.h"
#include "server/http/connection/response.h"

namespace tutti::http {

namespace {
constexpr Duration kLongestHold = std::chrono::seconds(15);
}

void EventStream::Open(Duration keepalive, std::vector<std::string> ignored, std::string_view ping,
                       std::string_view type) {
  connection_.WillStream();
  keepalive_ = keepalive;
  ping_ = ping;
  quiet_since_ = connection_.loop()->clock().Now();
  headers_ = {{"Content-Type", std::string(type)},
              {"Cache-Control", "no-cache"},
              {"X-Accel-Buffering", "no"}};
  AddIgnored(ignored, &headers_);
}

bool EventStream::HasRoom(size_t more) const {
  return connection_.unsent() + held_.size() + more <
         connection_.context().options.limits.unsent_bytes;
}

void EventStream::Begin() {
  begun_ = true;
  connection_.BeginStream(200, std::move(headers_));
}

void EventStream::Release() {
  if (!std::exchange(holds_, false)) return;
  Show(std::exchange(held_, {}));
}

void EventStream::Show(const std::string& events) {
  if (events.empty()) return;
  if (holding()) {
    held_ += events;
    return;
  }
  if (!begun_) Begin();
  connection_.Send(events);
}

void EventStream::End() {
  Release();
  if (!begun_) Begin();  // the stream has no events
  connection_.EndStream();
}

TimePoint EventStream::KeepAliveDue() const {
  if (keepalive_ <= Duration::zero())
    return holding() && !held_.empty() ? quiet_since_ + kLongestHold : TimePoint::max();
  return std::max(quiet_since_, connection_.last_send()) + keepalive_;
}

void EventStream::KeepAlive(TimePoint now) {
  if (now < KeepAliveDue()) return;
  Release();
  if (!begun_) Begin();
  quiet_since_ = now;
  // While the reader is behind, the unsent bytes keep the connection alive.
  if (connection_.unsent() == 0) connection_.Send(ping_);
}

}  // namespace tutti::http
