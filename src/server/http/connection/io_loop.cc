#include "server/http/connection/io_loop.h"

#include <boost/asio/post.hpp>
#include <vector>

#include "server/http/connection/connection.h"

namespace tutti::http {

IoLoop::IoLoop(const Clock& clock, Logger* log)
    : clock_(clock), thread_("tutti-http", log, "http.handler_failed"), timer_(context()) {
  std::random_device device;
  std::seed_seq seed{device(), device(), device(), device()};
  random_.seed(seed);
}

void IoLoop::Start() { thread_.Start(); }

void IoLoop::Stop() {
  if (!thread_.started()) return;
  boost::asio::post(context(), [this] {
    stopping_ = true;
    ForEach([](Connection& connection) { connection.Abort(); });
    timer_.cancel();
  });
  thread_.Stop();
}

void IoLoop::Sweep() { thread_.Sweep(); }

void IoLoop::Wake() noexcept {
  if (woken_.exchange(true, std::memory_order_acq_rel)) return;
  wanted_.Want();
  try {
    boost::asio::post(context(), [this] { PumpAll(); });
  } catch (...) {  // out of memory: the next wake tries again
    wanted_.Got();
    woken_.store(false, std::memory_order_release);
  }
}

void IoLoop::PumpAll() {
  woken_.store(false, std::memory_order_release);  // before reading, so that no growth is missed
  const std::vector<Connection*> now(streaming_.begin(), streaming_.end());
  for (Connection* connection : now) {
    if (streaming_.contains(connection)) connection->Pump();
  }
  wanted_.Got();
}

bool IoLoop::Add(std::shared_ptr<Connection> connection) {
  if (!stopping_) connections_.insert(std::move(connection));
  return !stopping_;
}

void IoLoop::Remove(Connection* connection) {
  streaming_.erase(connection);
  timers_.erase({connection->timer_due(), connection});
  connections_.erase(connection->shared_from_this());
}

void IoLoop::SetStreaming(Connection* connection, bool streaming) {
  if (streaming) {
    streaming_.insert(connection);
  } else {
    streaming_.erase(connection);
  }
}

void IoLoop::Schedule(Connection* connection, TimePoint due) {
  if (due >= connection->timer_due()) return;
  timers_.erase({connection->timer_due(), connection});
  connection->set_timer_due(due);
  timers_.insert({due, connection});
  if (due < armed_for_) ArmTimer();
}

void IoLoop::ArmTimer() {
  armed_for_ = timers_.empty() ? TimePoint::max() : timers_.begin()->first;
  if (timers_.empty()) {
    timer_.cancel();
    return;
  }
  timer_.expires_after(armed_for_ - clock_.Now());
  timer_.async_wait([this](const boost::system::error_code& ec) {
    if (!ec) OnTimer();
  });
}

void IoLoop::OnTimer() {
  const TimePoint now = clock_.Now();
  while (!timers_.empty() && timers_.begin()->first <= now) {
    Connection* connection = timers_.begin()->second;
    timers_.erase(timers_.begin());
    connection->set_timer_due(TimePoint::max());
    connection->OnTimer(now);  // schedules itself again, or is gone
  }
  ArmTimer();
}

std::string IoLoop::RandomId(size_t length) {
  constexpr char kAlphabet[] = "abcdefghijklmnopqrstuvwxyz0123456789";
  std::string id;
  for (size_t i = 0; i < length; ++i) id += kAlphabet[random_() % 36];
  return id;
}

}  // namespace tutti::http
