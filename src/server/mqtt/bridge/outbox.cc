#include "server/mqtt/bridge/outbox.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "base/check.h"
#include "mqtt/codec.h"
#include "mqtt/message_packet.h"

namespace tutti::mqtt::bridge {
namespace {

// Ids above are SUBSCRIBE's (session.cc).
constexpr uint16_t kMaxPacketId = 60'000;

}  // namespace

Status StatusOfPuback(ReasonCode reason) {
  switch (reason) {
    case ReasonCode::kSuccess:
      return OkStatus();
    case ReasonCode::kNoMatchingSubscribers:
      return NotFound("not_found", "nobody has subscribed to the message's topic");
    case ReasonCode::kNotAuthorized:
      return Status(StatusCode::kPermissionDenied, "insufficient_scope",
                    "the broker does not let us publish to this topic (its access rules)");
    case ReasonCode::kPacketTooLarge:
      return ResourceExhausted("request_too_large", "the message is larger than the broker takes");
    case ReasonCode::kQuotaExceeded:
      return Unavailable("overloaded", "the broker's quota is exceeded");
    case ReasonCode::kTopicNameInvalid:
    case ReasonCode::kPayloadFormatInvalid:
      return InvalidArgument("invalid_value", "the broker refuses the message's topic or payload");
    default:
      return Internal("the broker refuses the message");
  }
}

Status Outbox::Obstacle(const Message& message, TimePoint now) const {
  if (message.expires && *message.expires <= now) {
    return Status(StatusCode::kDeadlineExceeded, "deadline_exceeded",
                  "the message expired before the broker had it");
  }
  if (message.retain && !takes_.retained) {
    return Status(StatusCode::kUnimplemented, "not_implemented",
                  "the broker keeps no retained messages");
  }
  if (message.qos > 0 && !takes_.qos1) {
    return Status(StatusCode::kUnimplemented, "not_implemented", "the broker takes no QoS 1");
  }
  if (refused_topics_.Has(message.topic, now)) return StatusOfPuback(ReasonCode::kNotAuthorized);
  return OkStatus();
}

Status Outbox::Push(Message message, MessagePort::Published done) {
  const size_t bytes = BytesOf(message);
  MutexLock lock(mutex_);
  if (sealed_) return Unavailable("draining", "the bridge to the broker is being stopped");
  const auto overloaded = [this](std::string why) {
    ++refused_;
    return Unavailable("overloaded", std::move(why)).WithRetryAfter(std::chrono::seconds(1));
  };
  if (message.qos == 0 && !connected_) {
    return overloaded("there is no connection to the broker, and QoS 0 does not wait for one");
  }
  if (load_.messages + 1 > limits_.messages || load_.bytes + bytes > limits_.bytes) {
    return overloaded(std::to_string(load_.messages) + " messages of " +
                      std::to_string(load_.bytes) + " bytes wait for the broker, at most " +
                      std::to_string(limits_.messages) + " of " + std::to_string(limits_.bytes) +
                      " may");
  }
  load_.messages += 1;
  load_.bytes += bytes;
  waiting_.push_back({std::move(message), std::move(done), bytes, 0});
  return OkStatus();
}

Outbox::Load Outbox::load() const {
  MutexLock lock(mutex_);
  return load_;
}

void Outbox::Connected(const BrokerTakes& takes) {
  takes_ = takes;
  takes_.in_flight = std::clamp<size_t>(takes.in_flight, 1, kMaxPacketId);
  MutexLock lock(mutex_);
  connected_ = true;
}

void Outbox::Lost() {
  std::vector<Item> dropped;
  {
    MutexLock lock(mutex_);
    connected_ = false;
    const auto lost = std::stable_partition(waiting_.begin(), waiting_.end(),
                                            [](const Item& item) { return item.message.qos > 0; });
    std::move(lost, waiting_.end(), std::back_inserter(dropped));
    waiting_.erase(lost, waiting_.end());
    waiting_.insert(waiting_.begin(), std::make_move_iterator(in_flight_.begin()),
                    std::make_move_iterator(in_flight_.end()));
    in_flight_.clear();
  }
  for (Item& item : dropped) {
    Finish(std::move(item), Unavailable("overloaded", "the connection to the broker was lost"));
  }
}

std::optional<Outbox::Item> Outbox::Pop(TimePoint now) {
  for (;;) {
    Item item;
    Status obstacle;
    {
      MutexLock lock(mutex_);
      if (!connected_ || waiting_.empty()) return std::nullopt;
      obstacle = Obstacle(waiting_.front().message, now);
      // A message that will not be sent needs no room in the window.
      const bool room = in_flight_.size() < takes_.in_flight;
      if (waiting_.front().message.qos > 0 && !room && obstacle.ok()) return std::nullopt;
      item = std::move(waiting_.front());
      waiting_.pop_front();
    }
    if (obstacle.ok()) return item;
    Finish(std::move(item), obstacle);
  }
}

bool Outbox::SendNext(TimePoint now, std::string& out) {
  while (std::optional<Item> item = Pop(now)) {
    Publish packet = ToPublish(item->message, now);
    if (packet.qos > 0) {
      // A broker that remembers the last connection knows the message by its id.
      packet.dup = item->packet_id != 0 && takes_.session_resumed;
      if (item->packet_id == 0) item->packet_id = TakePacketId();
      packet.packet_id = item->packet_id;
    }
    const Result<std::string> bytes = Encode(takes_.version, Packet(std::move(packet)));
    if (!bytes.ok()) {
      Finish(*std::move(item), bytes.status());
      continue;
    }
    if (bytes->size() > takes_.packet_bytes) {
      Finish(*std::move(item), StatusOfPuback(ReasonCode::kPacketTooLarge));
      continue;
    }
    out += *bytes;
    if (item->message.qos == 0) {
      Finish(*std::move(item), OkStatus());
    } else {
      in_flight_.push_back(*std::move(item));
    }
    return true;
  }
  return false;
}

std::deque<Outbox::Item>::const_iterator Outbox::InFlight(uint16_t packet_id) const {
  return std::find_if(in_flight_.begin(), in_flight_.end(),
                      [&](const Item& item) { return item.packet_id == packet_id; });
}

std::string Outbox::TopicOf(uint16_t packet_id) const {
  const auto found = InFlight(packet_id);
  return found == in_flight_.end() ? "" : found->message.topic;
}

bool Outbox::Acknowledge(uint16_t packet_id, const Status& status) {
  const auto found = in_flight_.begin() + (InFlight(packet_id) - in_flight_.cbegin());
  if (found == in_flight_.end()) return false;
  Item item = std::move(*found);
  in_flight_.erase(found);
  Finish(std::move(item), status);
  return true;
}

void Outbox::Seal() {
  MutexLock lock(mutex_);
  sealed_ = true;
}

size_t Outbox::Close(const Status& why) {
  Seal();
  Lost();
  std::deque<Item> left;
  {
    MutexLock lock(mutex_);
    left = std::exchange(waiting_, {});
  }
  for (Item& item : left) Finish(std::move(item), why);
  return left.size();
}

void Outbox::Finish(Item item, const Status& status) {
  if (item.packet_id != 0) used_.reset(item.packet_id);
  // The lack of a subscriber is no failure of the broker.
  const bool well = status.ok() || status.code() == StatusCode::kNotFound;
  ++(well ? published_ : failed_);
  {
    MutexLock lock(mutex_);
    load_.messages -= 1;
    load_.bytes -= item.bytes;
  }
  if (item.done) item.done(status);
}

uint16_t Outbox::TakePacketId() {
  CHECK(in_flight_.size() < takes_.in_flight);
  do {
    last_id_ = last_id_ == kMaxPacketId ? 1 : static_cast<uint16_t>(last_id_ + 1);
  } while (used_[last_id_]);
  used_.set(last_id_);
  return last_id_;
}

}  // namespace tutti::mqtt::bridge
