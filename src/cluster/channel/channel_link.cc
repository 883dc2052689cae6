#include "cluster/channel/channel_link.h"

#include <atomic>
#include <optional>
#include <utility>
#include <vector>

#include "base/random.h"
#include "cluster/channel/mailbox_names.h"
#include "cluster/channel/reliable_channel.h"
#include "cluster/relay.h"
#include "cluster/worker_pool.h"

namespace tutti::cluster {
namespace {

// Woken by threads of models and by the broker's thread. Shares ownership of the broker, because a
// model may wake it after the link has gone.
class Poker final : public Waker {
 public:
  explicit Poker(std::shared_ptr<broker::Broker> broker) : broker_(std::move(broker)) {}
  void Wake() noexcept override {
    if (!poked_.exchange(true, std::memory_order_acq_rel)) broker_->Poke();
  }
  void Clear() { poked_.store(false, std::memory_order_release); }

 private:
  const std::shared_ptr<broker::Broker> broker_;
  std::atomic<bool> poked_{false};
};

class ChannelLink final : public WorkerLink, private broker::Reader {
 public:
  ChannelLink(std::shared_ptr<broker::Broker> broker, ChannelLinkOptions options, v1::Hello hello,
              Relay::Ports ports, Logger* log)
      : options_(std::move(options)),
        own_(WorkerMailbox(options_.name, NewId(""))),
        hello_(std::move(hello)),
        clock_(*ports.clock),
        log_(log),
        broker_(std::move(broker)),
        poker_(std::make_shared<Poker>(broker_)),
        relay_(std::move(ports), poker_),
        presence_(clock_, log, options_.broker) {}
  ~ChannelLink() override {
    stopping_.store(true, std::memory_order_release);
    broker_->Stop();
    relay_.Drop();
  }
  Status Start() { return broker_->Start({own_, {}}, this); }

  bool attached() const override { return state_.attached(); }
  void BeatSoon() override {
    state_.BeatNow();
    broker_->Poke();
  }
  bool Drain(Duration limit) override {
    state_.BeginDrain();
    broker_->Poke();
    return state_.AwaitDrained(clock_, limit, [this] {
      return relay_.calls() == 0 && settled_.load(std::memory_order_acquire);
    });
  }

 private:
  void OnConnected() override {
    presence_.Connected();
    if (channel_) {
      channel_->SendAllAgain();
      heard_ = clock_.Now();
    }
  }
  void OnDisconnected(const Status& why) override { presence_.Disconnected(why); }

  void OnPacket(std::string text) override {
    v1::Packet packet;
    if (!packet.ParseFromString(text) || !IsFrontendMailbox(options_.name, packet.from())) return;
    if (!channel_) {
      if (packet.here()) Begin(packet.from());
      return;
    }
    if (packet.from() != frontend_ || packet.session() != channel_->session()) return;
    if (packet.over()) return End();
    heard_ = clock_.Now();
    if (!state_.attached()) {
      state_.set_attached(true);
      if (log_ != nullptr) log_->Info("frontend.attached", {{"frontend", frontend_}});
    }
    std::vector<std::string> messages;
    if (!channel_->Receive(packet, heard_, &messages)) return End();
    for (const std::string& each : messages) {
      v1::FrontendMessage message;
      if (!message.ParseFromString(each)) return End();
      if (message.has_refused()) {
        if (log_ != nullptr)
          log_->Error("frontend.refused",
                      {{"frontend", frontend_}, {"why", message.refused().message()}});
        End();
        next_ask_ = clock_.Now() + LinkState::kRefusedWait;
        return;
      }
      relay_.Receive(message);
      if (message.no_more()) state_.NoMore();
    }
  }

  void Begin(const std::string& frontend) {
    frontend_ = frontend;
    channel_.emplace(own_, RandomSession());
    heard_ = clock_.Now();
    v1::WorkerMessage first;
    *first.mutable_hello() = relay_.Announce(hello_);
    state_.Beat(relay_, &first);
    next_beat_ = heard_ + WorkerPool::kBeat;
    channel_->Send(first.SerializeAsString());
  }

  void End() {
    v1::Packet over;
    over.set_from(own_);
    over.set_session(channel_->session());
    over.set_over(true);
    Post(*broker_, frontend_, over);
    channel_.reset();
    settled_.store(true, std::memory_order_release);
    next_ask_ = TimePoint::min();
    relay_.Drop();
    if (state_.attached() && log_ != nullptr && !stopping_.load())
      log_->Warn("frontend.lost", {{"frontend", frontend_}});
    state_.set_attached(false);
  }

  void OnTurn() override {
    poker_->Clear();
    const TimePoint now = clock_.Now();
    if (channel_) {
      const bool silent = presence_.connected() && now - heard_ > kMaxAway;
      if (silent || presence_.away_too_long(now)) {
        End();
      } else if (presence_.connected()) {
        SendDue(now);
      }
    } else if (presence_.connected() && now >= next_ask_ && !stopping_.load()) {
      next_ask_ = now + kAskEvery;
      v1::Packet who;
      who.set_from(own_);
      who.set_who(true);
      Post(*broker_, SharedMailbox(options_.name), who);
    }
    if (stopping_.load(std::memory_order_acquire) && channel_) End();
  }

  void SendDue(TimePoint now) {
    settled_.store(false, std::memory_order_release);  // before a call is taken from the relay
    while (channel_->has_room()) {
      v1::WorkerMessage message;
      if (state_.TakeBeatNow() || now >= next_beat_) {
        state_.Beat(relay_, &message);
        next_beat_ = now + WorkerPool::kBeat;
      }
      if (!relay_.Next(&message) && !message.has_beat()) break;
      channel_->Send(message.SerializeAsString());
    }
    v1::Packet packet;
    while (channel_->Next(now, &packet)) {
      Post(*broker_, frontend_, packet);
      packet.Clear();
    }
    if (channel_->settled()) settled_.store(true, std::memory_order_release);
  }

  const ChannelLinkOptions options_;
  const std::string own_;
  const v1::Hello hello_;
  const Clock& clock_;
  Logger* const log_;
  const std::shared_ptr<broker::Broker> broker_;
  const std::shared_ptr<Poker> poker_;
  Relay relay_;
  LinkState state_;
  std::atomic<bool> stopping_{false};
  std::atomic<bool> settled_{true};  // the frontend has all that was taken from the relay
  // Used on the broker's thread.
  BrokerPresence presence_;
  std::optional<ReliableChannel> channel_;
  std::string frontend_;
  TimePoint heard_, next_beat_, next_ask_ = TimePoint::min();
};

}  // namespace

Result<std::unique_ptr<WorkerLink>> OpenChannelLink(std::shared_ptr<broker::Broker> broker,
                                                    ChannelLinkOptions options, v1::Hello hello,
                                                    Relay::Ports ports, Logger* log) {
  RETURN_IF_ERROR(CheckQueueName(options.name));
  auto link = std::make_unique<ChannelLink>(std::move(broker), std::move(options), std::move(hello),
                                            std::move(ports), log);
  RETURN_IF_ERROR(link->Start());
  return std::unique_ptr<WorkerLink>(std::move(link));
}

}  // namespace tutti::cluster
