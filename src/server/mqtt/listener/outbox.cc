#include "server/mqtt/listener/outbox.h"

#include <algorithm>
#include <utility>

namespace tutti::mqtt::listener {
namespace {

// Approximate memory of a delivery: a message is shared by its subscribers, but counted for each.
size_t SizeOf(const Delivery& delivery) {
  constexpr size_t kOverhead = 64;
  const Message& message = *delivery.message;
  return kOverhead + message.topic.size() + message.payload.size() +
         (message.correlation_data ? message.correlation_data->size() : 0);
}

bool Expired(const Delivery& delivery, TimePoint now) {
  return delivery.message->expires && *delivery.message->expires <= now;
}

}  // namespace

// One message always fits, however large: the listener takes none above its packet limit.
bool Outbox::Full(size_t more) const {
  return waiting() > 0 &&
         (waiting() >= limits_.queue_messages || bytes() + more > limits_.queue_bytes);
}

void Outbox::DropOldestHint() {
  hint_bytes_ -= SizeOf(hints_.front().delivery);
  hints_.pop_front();
  ++dropped_;
}

Outbox::Pushed Outbox::Push(Delivery delivery) {
  const size_t size = SizeOf(delivery);
  if (delivery.qos == 0) {
    if (Full(size)) {
      ++dropped_;
      return Pushed::kDropped;
    }
    hint_bytes_ += size;
    hints_.push_back({order_++, std::move(delivery)});
    return Pushed::kQueued;
  }
  while (!hints_.empty() && Full(size)) DropOldestHint();
  if (!kept_.empty() &&
      (kept_.size() >= limits_.queue_messages || kept_bytes_ + size > limits_.kept_bytes)) {
    return Pushed::kOverflow;
  }
  kept_bytes_ += size;
  kept_.push_back({order_++, std::move(delivery)});
  return Pushed::kQueued;
}

Delivery Outbox::Pop(std::deque<Waiting>& queue) {
  Delivery delivery = std::move(queue.front().delivery);
  queue.pop_front();
  return delivery;
}

std::optional<Delivery> Outbox::Next(size_t inflight, TimePoint now) {
  if (resend_ > 0) {
    if (sent_.size() - resend_ >= inflight) return std::nullopt;
    return sent_[sent_.size() - resend_--];
  }
  while (waiting() > 0) {
    const bool may_keep = !kept_.empty() && sent_.size() < inflight;
    const bool keep = may_keep && (hints_.empty() || kept_.front().order < hints_.front().order);
    if (!keep && hints_.empty()) return std::nullopt;
    Delivery delivery = Pop(keep ? kept_ : hints_);
    (keep ? kept_bytes_ : hint_bytes_) -= SizeOf(delivery);
    if (Expired(delivery, now)) {
      ++dropped_;
      continue;
    }
    if (!keep) return delivery;
    delivery.packet_id = NewPacketId();
    kept_bytes_ += SizeOf(delivery);
    sent_.push_back(delivery);
    return delivery;
  }
  return std::nullopt;
}

bool Outbox::Acknowledge(uint16_t packet_id) {
  const auto found = std::find_if(sent_.begin(), sent_.end(), [packet_id](const Delivery& each) {
    return each.packet_id == packet_id;
  });
  if (found == sent_.end()) return false;
  const auto at = static_cast<size_t>(found - sent_.begin());
  if (at >= sent_.size() - resend_) --resend_;
  kept_bytes_ -= SizeOf(*found);
  sent_.erase(found);
  return true;
}

void Outbox::Resend() {
  for (Delivery& each : sent_) each.dup = true;
  resend_ = sent_.size();
}

// At most `inflight` are in use, so a free one is near.
uint16_t Outbox::NewPacketId() {
  const auto used = [this](uint16_t id) {
    return id == 0 || std::any_of(sent_.begin(), sent_.end(),
                                  [id](const Delivery& each) { return each.packet_id == id; });
  };
  do {
    ++last_id_;
  } while (used(last_id_));
  return last_id_;
}

}  // namespace tutti::mqtt::listener
