#include "server/mqtt/bridge/bridge.h"

#include <algorithm>
#include <atomic>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <exception>
#include <optional>
#include <string_view>
#include <utility>

#include "base/mutex.h"
#include "base/work_inbox.h"
#include "mqtt/link/link.h"
#include "mqtt/message_packet.h"
#include "server/mqtt/bridge/inbox.h"
#include "server/mqtt/bridge/outbox.h"
#include "server/mqtt/bridge/session.h"
#include "server/net/io_thread.h"

namespace tutti::mqtt::bridge {
namespace {

constexpr Duration kGoodbyeTime = std::chrono::seconds(1);  // for the broker to close
// Maximum of bytes passed to the connection and not yet in the socket: enough to keep it busy.
// Other messages wait in the outbox, where they are counted.
constexpr size_t kUnsentBytes = 256 << 10;
constexpr size_t kFixedHeaderBytes = 5;  // at most (section 2.1)

// Loop: the bridge and its thread. Opens links to the broker, passes received bytes and the time to
// the session, and sends the session's output. All functions except those of Bridge run on this
// thread.
class Loop final : public Bridge {
 public:
  Loop(BridgeOptions options, Address address, Credentials credentials,
       std::shared_ptr<boost::asio::ssl::context> tls, const Dependencies& dependencies);
  ~Loop() override {
    (void)Stop(Duration::zero());  // it has logged what it did not send
    wakes_->Close();
  }

  Status Publish(Message message, Published done) override {
    RETURN_IF_ERROR(CheckMessage(message, options_.publish_bytes));
    RETURN_IF_ERROR(outbox_.Push(std::move(message), std::move(done)));
    wakes_->Wake();
    return OkStatus();
  }
  Status Subscribe(std::string filter, Sink sink) override {
    return inbox_.Subscribe(std::move(filter), std::move(sink));
  }
  void OnConnected(std::function<void()> connected) override {
    on_connected_ = std::move(connected);
  }
  void Start() override;
  Status Stop(Duration limit) override;
  BridgeStatistics Statistics() const override;

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

Loop::Loop(BridgeOptions options, Address address, Credentials credentials,
           std::shared_ptr<boost::asio::ssl::context> tls, const Dependencies& dependencies)
    : options_(std::move(options)),
      address_(std::move(address)),
      tls_(std::move(tls)),
      deps_(dependencies),
      thread_("tutti-bridge", dependencies.log, "mqtt.bridge.thread_failed"),
      wakes_(std::make_shared<WorkInbox>(
          [this](WorkInbox::Work work) {
            boost::asio::post(io_, std::move(work));
            return true;
          },
          WorkInbox::Limits{}, [this] { Guarded([this] { Pump(); }); })),
      outbox_(options_.outbox),
      inbox_([wakes = wakes_] { wakes->Wake(); }),
      credentials_(std::move(credentials)),
      session_({&options_, &credentials_, &outbox_, &inbox_, dependencies.log}),
      backoff_(options_.backoff, dependencies.seed) {}

void Loop::Start() {
  boost::asio::post(io_, [this] { Guarded([this] { Connect(); }); });
  thread_.Start();
}

Status Loop::Stop(Duration limit) {
  if (!thread_.started()) {
    outbox_.Close(Unavailable("draining", "the bridge to the broker was stopped"));
    return stopped_;
  }
  boost::asio::post(io_, [this, limit] { Guarded([this, limit] { BeginStop(limit); }); });
  thread_.Stop();
  return stopped_;
}

// If a sink or a library throws, the connection is reopened, and unacknowledged messages arrive
// again.
template <typename Step>
void Loop::Guarded(const Step& step) {
  try {
    step();
  } catch (const std::exception& error) {
    if (life_ != Life::kOver) Lost(Status(StatusCode::kInternal, "internal_error", error.what()));
  }
}

BridgeStatistics Loop::Statistics() const {
  const Outbox::Load load = outbox_.load();
  const Inbox::Counts& in = inbox_.counts();
  BridgeStatistics statistics;
  statistics.connected = connected_;
  statistics.connects = connects_;
  statistics.tries_failed = tries_failed_;
  statistics.published = outbox_.published();
  statistics.refused = outbox_.refused();
  statistics.failed = outbox_.failed();
  statistics.waiting = load.messages;
  statistics.waiting_bytes = load.bytes;
  statistics.received = in.received;
  statistics.redelivered = in.redelivered;
  statistics.accepted = in.accepted;
  statistics.refused_by_sinks = in.refused;
  statistics.expired = in.expired;
  statistics.too_large = in.too_large;
  statistics.unmatched = in.unmatched;
  statistics.unacknowledged = inbox_.held();
  MutexLock lock(mutex_);
  statistics.last_failure = last_failure_;
  return statistics;
}

void Loop::Connect() {
  if (life_ == Life::kOver) return;
  next_try_ = TimePoint::max();
  connect_limit_ = now() + options_.connect_time;
  splitter_.emplace(session_.limits());
  skip_.reset();
  link_ = MakeLink(
      io_, address_, tls_.get(),
      {.unreachable = "broker_unreachable", .tls = "broker_tls", .lost = "broker_gone"},
      {.opened = [this] { Guarded([this] { OnOpened(); }); },
       .received =
           [this](std::string_view bytes) { Guarded([this, bytes] { OnReceived(bytes); }); },
       .sent = [this] { Guarded([this] { Pump(); }); },
       .closed = [this](const Status& why) { Lost(why); }});
  link_->Open();
  Arm();
}

// The file is small and local; a try is made every half a second at most.
void Loop::ReadPassword() {
  Result<Credentials> read = ReadCredentials(options_);
  if (read.ok()) {
    credentials_ = *std::move(read);
    return;
  }
  // The file may be in the middle of a change: the earlier password is used meanwhile.
  if (deps_.log != nullptr)
    deps_.log->Warn("mqtt.bridge.password_not_read", {{"why", read.status().message()}});
}

void Loop::OnOpened() {
  ReadPassword();
  std::string out;
  session_.Open(now(), out);
  splitter_->set_limits(session_.limits());
  link_->Send(std::move(out));
}

void Loop::OnReceived(std::string_view bytes) {
  if (life_ == Life::kLeaving) return;  // read, and left to the next process
  std::string out;
  while (!bytes.empty()) {
    bytes.remove_prefix(Split(bytes));
    if (skip_) continue;
    if (const auto& fault = splitter_->fault()) {
      return Lost(Status(StatusCode::kInternal, "broker_protocol",
                         "the broker breaks the protocol: " + std::string(fault->why)));
    }
    if (!splitter_->done()) continue;
    const Status status = session_.On(splitter_->Take(), now(), out);
    if (!status.ok()) {
      // The last packet is sent if the socket has room for it; losing it does no harm.
      link_->Send(std::move(out));
      return Lost(status);
    }
    splitter_->set_limits(session_.limits());
  }
  link_->Send(std::move(out));
  Pump();
}

size_t Loop::Split(std::string_view bytes) {
  if (skip_) {
    const size_t taken = skip_->Feed(bytes);
    if (skip_->done()) {
      inbox_.ReceiveTooLarge(skip_->packet_id());
      skip_.reset();
    }
    return taken;
  }
  if (!splitter_->within()) header_.clear();
  const size_t taken = splitter_->Feed(bytes);
  header_ += bytes.substr(0, std::min(taken, kFixedHeaderBytes - header_.size()));
  if (const auto& fault = splitter_->fault();
      fault && fault->code == ReasonCode::kPacketTooLarge && session_.connected()) {
    skip_ = OversizeSkip::Of(header_);
    if (!skip_) return taken;
    splitter_.emplace(session_.limits());
    if (deps_.log != nullptr) {
      deps_.log->Warn("mqtt.bridge.too_large",
                      {{"broker", UrlOf(address_)}, {"max_bytes", options_.packet_bytes}});
    }
  }
  return taken;
}

void Loop::Pump() {
  if (life_ == Life::kOver) return;
  if (link_ != nullptr && session_.connected() && life_ != Life::kLeaving) {
    std::string out;
    const size_t unsent = link_->unsent();
    session_.Pump(now(), kUnsentBytes - std::min(unsent, kUnsentBytes), out);
    link_->Send(std::move(out));
    link_->SetReading(reading());
    NoteReady();
  }
  StopWhenDone();
  if (life_ != Life::kOver) Arm();
}

// Receive Maximum does not stop every broker (Mosquitto 2.0 counts wrongly once acknowledgements
// come in order), and 3.1.1 has none; the bytes left in the socket do.
bool Loop::reading() const { return inbox_.held_bytes() < options_.receive_bytes; }

void Loop::NoteReady() {
  if (announced_ || !session_.ready()) return;
  announced_ = true;
  connect_limit_ = TimePoint::max();
  backoff_.Connected(now());
  ++connects_;
  connected_ = true;
  if (deps_.log != nullptr) {
    deps_.log->Info("mqtt.bridge.connected", {{"broker", UrlOf(address_)},
                                              {"session", session_.resumed() ? "resumed" : "new"},
                                              {"waiting", outbox_.load().messages}});
  }
  if (on_connected_) on_connected_();
}

void Loop::Lost(const Status& why) {
  if (life_ == Life::kLeaving) return End();  // as it should
  if (link_ != nullptr) link_->Close();
  link_.reset();
  session_.Lost();
  connected_ = announced_ = false;
  connect_limit_ = TimePoint::max();
  ++tries_failed_;
  // Sets the next try before anything that may run out of memory, so that the next wake-up of this
  // thread finds it.
  const Duration wait = backoff_.Lost(now());
  next_try_ = now() + wait;
  {
    MutexLock lock(mutex_);
    last_failure_ = why;
  }
  if (deps_.log != nullptr) {
    deps_.log->Warn("mqtt.bridge.lost", {{"broker", UrlOf(address_)},
                                         {"reason", why.reason()},
                                         {"why", why.message()},
                                         {"retry_s", ToSeconds(wait)},
                                         {"waiting", outbox_.load().messages}});
  }
  StopWhenDone();
  if (life_ != Life::kOver) Arm();
}

void Loop::OnTimer() {
  armed_ = TimePoint::max();
  const TimePoint time = now();
  if (link_ == nullptr && time >= next_try_) {
    Connect();
  } else if (link_ != nullptr && time >= connect_limit_) {
    return Lost(Unavailable("broker_unreachable",
                            "the broker has not let us in for " +
                                std::to_string(ToSeconds(options_.connect_time)) + " s"));
  } else if (link_ != nullptr) {
    std::string out;
    const Status status = session_.Tick(time, reading(), out);
    link_->Send(std::move(out));
    if (!status.ok()) return Lost(status);
  }
  Pump();
}

void Loop::BeginStop(Duration limit) {
  life_ = Life::kFlushing;
  stop_limit_ = now() + limit;
  outbox_.Seal();
  inbox_.StopOffering();
  Pump();
}

// After everything is sent, the broker closes the connection. If this process closed it with unread
// bytes in the socket, the connection would be reset, and bytes that the broker has not read would
// be lost.
void Loop::StopWhenDone() {
  if (life_ == Life::kRunning || life_ == Life::kOver) return;
  const bool late = now() >= stop_limit_;
  if (life_ == Life::kFlushing) {
    const bool done = outbox_.load().messages == 0 && (link_ == nullptr || inbox_.offered() == 0);
    if (!done && !late) return;
    life_ = Life::kLeaving;
    if (link_ != nullptr) {
      std::string out;
      session_.Goodbye(out);
      link_->Send(std::move(out));
      link_->SetReading(true);
      stop_limit_ = std::min(stop_limit_, now() + kGoodbyeTime);
    }
  }
  if (late || link_ == nullptr) End();
}

void Loop::End() {
  life_ = Life::kOver;
  connected_ = false;
  if (link_ != nullptr) link_->Close();
  link_.reset();
  session_.Lost();
  const size_t left =
      outbox_.Close(Unavailable("draining", "the bridge to the broker was stopped"));
  if (left > 0) {
    stopped_ = Status(StatusCode::kDeadlineExceeded, "deadline_exceeded",
                      std::to_string(left) +
                          " messages were not published when the bridge to the "
                          "broker had to stop");
  }
  if (deps_.log != nullptr) {
    deps_.log->Info("mqtt.bridge.stopped", {{"broker", UrlOf(address_)}, {"unsent", left}});
  }
  timer_.cancel();
  io_.stop();
}

// The timer may fire early, so due work is determined at each expiry.
void Loop::Arm() {
  const TimePoint due = std::min({next_try_, connect_limit_, session_.due(),
                                  link_ != nullptr ? inbox_.due() : TimePoint::max(), stop_limit_});
  if (due >= armed_) return;
  armed_ = due;
  timer_.expires_after(std::max(due - now(), Duration::zero()));
  timer_.async_wait([this](boost::system::error_code ec) {
    if (!ec && life_ != Life::kOver) Guarded([this] { OnTimer(); });
  });
}

}  // namespace

Result<std::unique_ptr<Bridge>> Bridge::Create(BridgeOptions options,
                                               const Dependencies& dependencies) {
  ASSIGN_OR_RETURN(Address address, CheckOptions(options));
  ASSIGN_OR_RETURN(Credentials credentials, ReadCredentials(options));
  std::shared_ptr<boost::asio::ssl::context> tls;
  if (address.tls) {
    ASSIGN_OR_RETURN(tls, MakeTls(options));
  }
  return std::unique_ptr<Bridge>(std::make_unique<Loop>(std::move(options), std::move(address),
                                                        std::move(credentials), std::move(tls),
                                                        dependencies));
}

}  // namespace tutti::mqtt::bridge
