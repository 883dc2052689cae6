#include "cluster/channel/channel_port.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "cluster/channel/mailbox_names.h"
#include "cluster/channel/reliable_channel.h"
#include "cluster/inference_codec.h"

namespace tutti::cluster {
namespace {

constexpr size_t kMaxSessions = 1024;
// Sessions that have ended, whose packets may still come; the oldest are forgotten.
constexpr size_t kRememberedSessions = 1024;
constexpr Duration kMaxTurnGap = std::chrono::seconds(2);  // turns come ten times a second
// How long a refused worker can read the reason.
constexpr Duration kRefusalLife = std::chrono::seconds(10);

// One worker. Used on the broker's thread, except for calls by the pool.
class Session final : public WorkerPool::Connection {
 public:
  Session(broker::Broker& broker, std::string to, std::string from, uint64_t number)
      : mailbox(std::move(to)), channel(std::move(from), number), broker_(broker) {}
  void Wake() override {
    if (!wanted.exchange(true, std::memory_order_acq_rel)) broker_.Poke();
  }
  void Close() override {
    closing.store(true, std::memory_order_release);
    broker_.Poke();
  }

  const std::string mailbox;
  ReliableChannel channel;
  WorkerPool::WorkerRef worker;         // null: it was refused
  TimePoint forget = TimePoint::max();  // of one that was refused
  std::atomic<bool> wanted{true}, closing{false};

 private:
  broker::Broker& broker_;
};

class Port final : public ChannelPort, private broker::Reader {
 public:
  Port(std::unique_ptr<broker::Broker> broker, Options options, WorkerPool& pool,
       const Clock& clock, Logger* log)
      : options_(std::move(options)),
        own_(FrontendMailbox(options_.name, options_.id)),
        pool_(pool),
        clock_(clock),
        presence_(clock, log, options_.broker),
        broker_(std::move(broker)) {}
  ~Port() override {
    stopping_.store(true, std::memory_order_release);
    broker_->Stop();
    for (const auto& [number, session] : sessions_) {
      if (session->worker != nullptr) pool_.Lost(session->worker);
    }
  }
  Status Start() { return broker_->Start({own_, SharedMailbox(options_.name)}, this); }

  Figures figures() const override {
    return {.connected = connected_.load(std::memory_order_relaxed),
            .repeated = repeated_.load(std::memory_order_relaxed)};
  }

 private:
  void OnConnected() override {
    presence_.Connected();
    connected_.store(true, std::memory_order_relaxed);
    for (const auto& [number, session] : sessions_) session->channel.SendAllAgain();
  }
  void OnDisconnected(const Status& why) override {
    presence_.Disconnected(why);
    connected_.store(false, std::memory_order_relaxed);
  }

  void OnPacket(std::string text) override {
    v1::Packet packet;
    if (!packet.ParseFromString(text) || !IsWorkerMailbox(options_.name, packet.from())) return;
    if (packet.who()) return Welcome(packet.from());
    const auto found = sessions_.find(packet.session());
    if (found == sessions_.end()) return OnStranger(packet);
    const std::shared_ptr<Session> session = found->second;
    if (session->mailbox != packet.from()) return;
    if (packet.over()) return End(packet.session(), WorkerPool::Ended::kWay);  // it lives to say so
    Read(*session, packet);
  }

  void Welcome(const std::string& mailbox) {
    v1::Packet answer;
    answer.set_from(own_);
    answer.set_here(true);
    Post(*broker_, mailbox, answer);
  }

  void OnStranger(const v1::Packet& packet) {
    const bool known = std::find(ended_.begin(), ended_.end(), packet.session()) != ended_.end();
    if (packet.over()) return;
    if (known || packet.number() != 1 || packet.session() == 0 || sessions_.size() >= kMaxSessions)
      return SendEnd(packet.from(), packet.session());
    const auto session = std::make_shared<Session>(*broker_, packet.from(), own_, packet.session());
    sessions_[packet.session()] = session;
    Read(*session, packet);
  }

  void Read(Session& session, const v1::Packet& packet) {
    std::vector<std::string> messages;
    if (!session.channel.Receive(packet, clock_.Now(), &messages))
      session.closing.store(true, std::memory_order_release);
    if (session.worker != nullptr && messages.empty())
      pool_.Receive(session.worker, {});  // it is there
    for (const std::string& text : messages) {
      v1::WorkerMessage message;
      if (!message.ParseFromString(text)) {
        session.closing.store(true, std::memory_order_release);
        return;
      }
      if (session.worker != nullptr) {
        pool_.Receive(session.worker, message);
      } else if (session.forget == TimePoint::max()) {
        Attach(session, message);
      }
    }
  }

  void Attach(Session& session, const v1::WorkerMessage& message) {
    Result<WorkerPool::WorkerRef> worker =
        pool_.Attach(message.hello(), sessions_.at(session.channel.session()));
    if (worker.ok()) {
      session.worker = *std::move(worker);
      if (message.has_beat()) pool_.Receive(session.worker, message);
      return;
    }
    v1::FrontendMessage refusal;
    ToWire(worker.status(), refusal.mutable_refused());
    session.channel.Send(refusal.SerializeAsString());
    session.forget = clock_.Now() + kRefusalLife;
  }

  void OnTurn() override {
    const TimePoint now = clock_.Now();
    std::vector<std::pair<uint64_t, WorkerPool::Ended>> ended;
    uint64_t repeated = 0;
    // If this thread itself was blocked for that long, by a broker that did not answer, silence of
    // a worker proves nothing.
    const bool missed = now - std::exchange(last_turn_, now) > kMaxTurnGap;
    for (const auto& [number, session] : sessions_) {
      if (presence_.away_too_long(now)) {
        ended.emplace_back(number, WorkerPool::Ended::kWay);
      } else if (now >= session->forget || stopping_.load(std::memory_order_acquire)) {
        ended.emplace_back(number, WorkerPool::Ended::kWorker);
      } else if (session->closing.exchange(false, std::memory_order_acq_rel) && !missed) {
        ended.emplace_back(number, WorkerPool::Ended::kSilence);
      } else if (!presence_.connected()) {
        // Without the broker no worker can send, so none counts as silent.
        if (session->worker != nullptr) pool_.Receive(session->worker, {});
      } else {
        SendDue(*session, now);
      }
      repeated += session->channel.repeated();
    }
    repeated_.store(repeated_before_ + repeated, std::memory_order_relaxed);
    for (const auto& [number, what] : ended) End(number, what);
  }

  void SendDue(Session& session, TimePoint now) {
    session.wanted.store(false, std::memory_order_release);
    while (session.worker != nullptr && session.channel.has_room()) {
      v1::FrontendMessage message;
      if (!pool_.TakeMessage(session.worker, &message)) break;
      session.channel.Send(message.SerializeAsString());
    }
    v1::Packet packet;
    while (session.channel.Next(now, &packet)) {
      Post(*broker_, session.mailbox, packet);
      packet.Clear();
    }
  }

  void End(uint64_t number, WorkerPool::Ended what) {
    const auto found = sessions_.find(number);
    if (found == sessions_.end()) return;
    const std::shared_ptr<Session> session = found->second;
    sessions_.erase(found);
    repeated_before_ += session->channel.repeated();
    ended_.push_back(number);
    if (ended_.size() > kRememberedSessions) ended_.pop_front();
    SendEnd(session->mailbox, number);
    if (session->worker != nullptr) pool_.Lost(session->worker, what);
  }
  void SendEnd(const std::string& mailbox, uint64_t number) {
    v1::Packet over;
    over.set_from(own_);
    over.set_session(number);
    over.set_over(true);
    Post(*broker_, mailbox, over);
  }

  const Options options_;
  const std::string own_;
  WorkerPool& pool_;
  const Clock& clock_;
  std::atomic<bool> stopping_{false}, connected_{false};
  std::atomic<uint64_t> repeated_{0};
  // Used by the broker's thread only.
  BrokerPresence presence_;
  TimePoint last_turn_{clock_.Now()};
  std::map<uint64_t, std::shared_ptr<Session>> sessions_;
  std::deque<uint64_t> ended_;
  uint64_t repeated_before_ = 0;  // in sessions that have ended
  const std::unique_ptr<broker::Broker> broker_;
};

}  // namespace

Result<std::unique_ptr<ChannelPort>> ChannelPort::Open(std::unique_ptr<broker::Broker> broker,
                                                       Options options, WorkerPool& pool,
                                                       const Clock& clock, Logger* log) {
  RETURN_IF_ERROR(CheckQueueName(options.name));
  auto port = std::make_unique<Port>(std::move(broker), std::move(options), pool, clock, log);
  RETURN_IF_ERROR(port->Start());
  return std::unique_ptr<ChannelPort>(std::move(port));
}

}  // namespace tutti::cluster
