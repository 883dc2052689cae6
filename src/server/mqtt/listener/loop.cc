#include "server/mqtt/listener/loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <future>
#include <utility>

#include "server/mqtt/listener/connection.h"
#include "server/net/tls.h"

namespace tutti::mqtt::listener {
namespace {

// Messages of this process to subscribers.
constexpr WorkInbox::Limits kMaxWaiting{.items = 16'384, .bytes = 64 << 20};

}  // namespace

std::string NameForLog(const std::string& user_name) {
  constexpr size_t kMaxShown = 40;  // a key has 62, a signed token more
  if (user_name.empty()) return "-";
  if (user_name.size() <= kMaxShown) return user_name;
  return "(a name of " + std::to_string(user_name.size()) + " bytes)";
}

Loop::Loop(const Limits& listener_limits, const Clock& listener_clock,
           Authenticator& listener_authenticator, Logger* log)
    : limits(listener_limits),
      clock(listener_clock),
      authenticator(listener_authenticator),
      hub(limits, clock),
      log_(log),
      thread_("tutti-mqtt", log, "mqtt.handler_failed"),
      hub_timer_(context()),
      login_timer_(context()),
      inbox_(std::make_shared<WorkInbox>(
          [this](WorkInbox::Work work) {
            boost::asio::post(context(), std::move(work));
            return true;
          },
          kMaxWaiting, [this] { Settle(); })),
      gate_(limits) {}

Loop::~Loop() { Stop(); }

void Loop::Start() { thread_.Start(); }

void Loop::Do(const std::function<void()>& work) {
  if (!thread_.started()) return work();
  std::promise<void> done;
  boost::asio::post(context(), [&] {
    work();
    done.set_value();
  });
  done.get_future().wait();
}

void Loop::Stop() {
  Do([this] {
    inbox_->Close();
    ForEach([](Connection& connection) { connection.Close(); });
    hub_timer_.cancel();
    login_timer_.cancel();
  });
  thread_.Stop();
  thread_.Sweep();
}

bool Loop::Enter(const std::string& address) {
  if (gate_.Enter(address)) return true;
  const bool of_any = !gate_.IsFull(address);  // it is the places of all that are taken
  const auto silent = std::find_if(newcomers_.begin(), newcomers_.end(), [&](Connection* each) {
    return !each->has_asked() && (of_any || each->address() == address);
  });
  if (silent == newcomers_.end()) return false;
  (*silent)->Close();  // it leaves
  return gate_.Enter(address);
}

void Loop::Leave(Connection& connection) {
  gate_.Leave(connection.address());
  std::erase(newcomers_, &connection);
}

void Loop::Add(std::shared_ptr<Connection> connection) {
  newcomers_.push_back(connection.get());
  connections_.insert(std::move(connection));
  count_.fetch_add(1);
  if (!checks_logins_) CheckLogins();
}

void Loop::CheckLogins() {
  checks_logins_ = false;  // also where memory is short: the next connection tries again
  ForEach([](Connection& connection) { connection.CheckLogin(); });
  if (connections_.empty()) return;
  login_timer_.expires_after(limits.login_check);
  login_timer_.async_wait([this](const boost::system::error_code& cancelled) {
    if (!cancelled) CheckLogins();
  });
  checks_logins_ = true;
}

void Loop::Remove(const std::shared_ptr<Connection>& connection) {
  if (connections_.erase(connection) == 0) return;
  count_.fetch_sub(1);
  if (on_closed) on_closed();
}

void Loop::Settle() {
  hub.Flush();
  const TimePoint due = hub.due();
  if (due >= armed_for_) return;  // an earlier one asks again
  armed_for_ = due;
  hub_timer_.expires_after(due - clock.Now());
  hub_timer_.async_wait([this](const boost::system::error_code& cancelled) {
    if (cancelled) return;
    armed_for_ = TimePoint::max();
    hub.OnTime();
    Settle();
  });
}

// Clients can bring these about as often as they like: a line a second.
void Loop::NoteEnd(const Who& who, ReasonCode why) {
  if (log_ == nullptr || !IsFailure(why)) return;
  const auto suppressed = end_lines_.Next(clock.Now());
  if (!suppressed) return;
  log_->Warn("mqtt.connection_ended", {{"peer", who.peer},
                                       {"user", who.user.empty() ? "-" : who.user},
                                       {"asked_as", who.asked_name},
                                       {"reason", fmt::format("0x{:02X}", static_cast<int>(why))},
                                       {"suppressed", *suppressed}});
}

void Loop::NoteForbidden(const Who& who, std::string_view what, std::string_view topic) {
  if (log_ == nullptr) return;
  if (const auto suppressed = forbidden_lines_.Next(clock.Now())) {
    log_->Warn("mqtt.forbidden", {{"peer", who.peer},
                                  {"user", who.user},
                                  {"what", what},
                                  {"topic", topic},
                                  {"reason", "0x87"},
                                  {"suppressed", *suppressed}});
  }
}

void Loop::NoteHandshake(const std::string& peer, const std::string& why) {
  if (log_ == nullptr || why.empty()) return;
  std::string_view reason = why;
  if (reason == sockets::kPlainText) reason = "plain MQTT on the TLS port";
  if (const auto suppressed = handshake_lines_.Next(clock.Now()))
    log_->Info("tls.handshake_failed",
               {{"peer", peer}, {"why", reason}, {"suppressed", *suppressed}});
}

}  // namespace tutti::mqtt::listener
