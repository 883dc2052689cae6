// Loop: the bridge's thread. Opens links to the broker, passes received bytes and the time to the
// session, and sends the session's output. All functions except Start, Stop, Wake and Statistics
// run on this thread.
#pragma once

#include <atomic>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/mutex.h"
#include "base/work_inbox.h"
#include "mqtt/link/link.h"
#include "server/mqtt/bridge/bridge.h"
#include "server/mqtt/bridge/inbox.h"
#include "server/mqtt/bridge/outbox.h"
#include "server/mqtt/bridge/oversize_skip.h"
#include "server/mqtt/bridge/session.h"
#include "server/net/io_thread.h"

namespace tutti::mqtt::bridge {

class Bridge::Loop {
 public:
  Loop(BridgeOptions options, Address address, Credentials credentials,
       std::shared_ptr<boost::asio::ssl::context> tls, const Dependencies& dependencies);
  ~Loop() { wakes_->Close(); }

  const BridgeOptions& options() const { return options_; }
  Outbox& outbox() { return outbox_; }
  Inbox& inbox() { return inbox_; }  // before Start
  void OnConnected(std::function<void()> connected) { on_connected_ = std::move(connected); }

  void Start();
  Status Stop(Duration limit);
  void Wake() { wakes_->Wake(); }  // any thread: there is a message to send, or a receipt
  BridgeStatistics Statistics() const;

 private:
  enum class Life { kRunning, kFlushing, kLeaving, kOver };

  template <typename Step>
  void Guarded(const Step& step);
  void Connect();
  void OnOpened();
  void ReadPassword();
  void OnReceived(std::string_view bytes);
  size_t Split(std::string_view bytes);  // number of consumed bytes: up to the end of a packet
  void OnTimer();
  void Pump();
  void NoteReady();
  void ControlReading();
  void Lost(const Status& why);
  void BeginStop(Duration limit);
  void StopWhenDone();
  void End();
  void Arm();
  bool reading() const;
  TimePoint now() const { return deps_.clock->Now(); }

  // Constant after construction.
  const BridgeOptions options_;
  const Address address_;
  const std::shared_ptr<boost::asio::ssl::context> tls_;
  const Dependencies deps_;
  std::function<void()> on_connected_;

  // The bridge's thread, and members used on it only.
  sockets::IoThread thread_;
  boost::asio::io_context& io_ = thread_.context();
  const std::shared_ptr<WorkInbox> wakes_;  // any thread; runs Pump()
  boost::asio::steady_timer timer_{io_};
  TimePoint armed_ = TimePoint::max();  // when timer_ fires
  Outbox outbox_;                       // has a lock of its own
  Inbox inbox_;
  Credentials credentials_;  // as read when the last connection was opened
  Session session_;
  ReconnectBackoff backoff_;
  std::shared_ptr<Link> link_;  // null between two attempts
  std::optional<FrameSplitter> splitter_;
  std::string header_;                          // the first bytes of the packet in splitter_
  std::optional<OversizeSkip> skip_;            // replaces splitter_ until that packet has ended
  TimePoint next_try_ = TimePoint::max();       // while there is no link
  TimePoint connect_limit_ = TimePoint::max();  // until the broker accepts the connection
  bool announced_ = false;                      // OnConnected was called for this connection
  Life life_ = Life::kRunning;
  TimePoint stop_limit_ = TimePoint::max();
  Status stopped_;  // result of Stop()

  std::atomic<bool> connected_ = false;
  std::atomic<uint64_t> connects_ = 0, tries_failed_ = 0;
  mutable Mutex mutex_;
  Status last_failure_ GUARDED_BY(mutex_);
};

}  // namespace tutti::mqtt::bridge
