#include "server/mqtt/bridge/inbox.h"

#include <algorithm>
#include <utility>

#include "mqtt/message_packet.h"
#include "mqtt/packet.h"
#include "mqtt/topics.h"

namespace tutti::mqtt::bridge {
namespace {

// Time from the first refusal to the next offer, doubled by each further refusal in a row.
constexpr Duration kFirstPause = std::chrono::milliseconds(100);
constexpr Duration kMaxPause = std::chrono::seconds(5);
constexpr uint64_t kNoSerial = 0;

uint16_t Number(const std::string& two) {
  return static_cast<uint16_t>(static_cast<uint8_t>(two[0]) << 8 | static_cast<uint8_t>(two[1]));
}

}  // namespace

Status Inbox::Subscribe(std::string filter, MessagePort::Sink sink) {
  if (!IsMqttText(filter) || !IsTopicFilter(filter)) {
    return InvalidArgument(
               "invalid_value",
               "filter must be 1 to 65,535 bytes of UTF-8; + must be a whole level, # the last one")
        .WithParam("filter");
  }
  const auto shared = SharedFilterOf(filter);
  sinks_.Add(std::string(shared ? shared->filter : filter), std::move(sink));
  if (std::find(filters_.begin(), filters_.end(), filter) == filters_.end()) {
    filters_.push_back(std::move(filter));
  }
  return OkStatus();
}

bool Inbox::Receive(uint16_t packet_id, Message message, TimePoint now) {
  ++counts_.received;
  if (message.redelivered) ++counts_.redelivered;
  if (message.qos == 0) {
    Entry entry;
    entry.serial = kNoSerial;
    entry.message = std::move(message);
    const auto sinks = sinks_.Match(entry.message.topic);
    if (sinks.empty()) ++counts_.unmatched;
    if (offering_) Offer(entry, sinks);
    return true;
  }
  if (used_[packet_id]) {
    // Some 3.1.1 brokers resend unacknowledged messages on the same connection.
    return message.redelivered &&
           std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
             return entry.packet_id == packet_id && entry.message.topic == message.topic;
           });
  }
  waiting_.insert(Hold(packet_id, std::move(message)).serial);
  OfferWaiting(now);
  return true;
}

void Inbox::ReceiveTooLarge(std::optional<uint16_t> packet_id) {
  ++counts_.received;
  ++counts_.too_large;
  // A message that is already held is acknowledged together with the first one.
  if (packet_id && !used_[*packet_id]) Hold(*packet_id, {}).state = State::kAccepted;
}

Inbox::Entry& Inbox::Hold(uint16_t packet_id, Message message) {
  Entry entry;
  entry.serial = next_serial_++;
  entry.packet_id = packet_id;
  entry.bytes = BytesOf(message);
  entry.message = std::move(message);
  ++held_;
  held_bytes_ += entry.bytes;
  used_.set(packet_id);
  entries_.push_back(std::move(entry));
  return entries_.back();
}

std::vector<uint16_t> Inbox::Settle(TimePoint now) {
  std::vector<Verdict> verdicts;
  {
    MutexLock lock(desk_->mutex);
    verdicts.swap(desk_->verdicts);
  }
  for (const Verdict& verdict : verdicts) Apply(verdict, now);
  OfferWaiting(now);
  std::vector<uint16_t> acknowledged;
  while (!entries_.empty() && entries_.front().state == State::kAccepted) {
    acknowledged.push_back(entries_.front().packet_id);
    Drop();
  }
  return acknowledged;
}

TimePoint Inbox::due() const {
  return !waiting_.empty() && offering_ && offered_ == 0 ? paused_until_ : TimePoint::max();
}

void Inbox::Lost() {
  while (!entries_.empty()) Drop();
  waiting_.clear();
  offered_ = 0;
}

Inbox::Entry* Inbox::Find(uint64_t serial) {
  if (entries_.empty() || serial < entries_.front().serial) return nullptr;
  const uint64_t at = serial - entries_.front().serial;
  return at < entries_.size() ? &entries_[at] : nullptr;
}

void Inbox::Offer(Entry& entry, const std::vector<const MessagePort::Sink*>& sinks) {
  entry.state = State::kOffered;
  entry.owed = static_cast<int>(sinks.size());
  entry.refused = false;
  const int attempt = ++entry.attempt;
  const uint64_t serial = entry.serial;
  if (attempt > 1) entry.message.redelivered = true;
  for (const MessagePort::Sink* sink : sinks) (*sink)(entry.message, MakeReceipt(serial, attempt));
}

Receipt Inbox::MakeReceipt(uint64_t serial, int attempt) {
  return Receipt([desk = desk_, serial, attempt](const Status& status) {
    {
      MutexLock lock(desk->mutex);
      desk->verdicts.push_back({serial, attempt, status.ok()});
    }
    desk->wake();
  });
}

void Inbox::Apply(const Verdict& verdict, TimePoint now) {
  if (!verdict.accepted) ++counts_.refused;
  if (verdict.serial == kNoSerial) {
    if (verdict.accepted) ++counts_.accepted;
    return;
  }
  Entry* const entry = Find(verdict.serial);
  if (entry == nullptr || entry->attempt != verdict.attempt) return;  // of a lost connection
  entry->refused |= !verdict.accepted;
  if (--entry->owed > 0) return;
  --offered_;
  if (!entry->refused) {
    ++counts_.accepted;
    entry->state = State::kAccepted;
    pause_ = Duration::zero();
    return;
  }
  if (entry->message.expires && *entry->message.expires <= now) {
    ++counts_.expired;
    entry->state = State::kAccepted;
    return;
  }
  entry->state = State::kWaiting;
  waiting_.insert(entry->serial);
  // Refusals of concurrent offers count once.
  if (now < paused_until_) return;
  pause_ = std::min(std::max(kFirstPause, pause_ * 2), kMaxPause);
  paused_until_ = now + pause_;
}

void Inbox::OfferWaiting(TimePoint now) {
  if (!offering_ || now < paused_until_) return;
  while (!waiting_.empty()) {
    // After a refusal, messages are offered one at a time until one is accepted, to probe whether
    // the overload is over.
    if (pause_ > Duration::zero() && offered_ > 0) return;
    Entry& entry = *Find(*waiting_.begin());
    waiting_.erase(waiting_.begin());
    const auto sinks = sinks_.Match(entry.message.topic);
    if (sinks.empty()) {
      ++counts_.unmatched;
      entry.state = State::kAccepted;
      continue;
    }
    ++offered_;
    Offer(entry, sinks);
  }
}

void Inbox::Drop() {
  const Entry& entry = entries_.front();
  --held_;
  held_bytes_ -= entry.bytes;
  used_.reset(entry.packet_id);
  entries_.pop_front();
}

std::optional<OversizeSkip> OversizeSkip::Of(std::string_view fixed_header) {
  if (fixed_header.size() < 2 || fixed_header.size() > 5) return std::nullopt;
  const auto first = static_cast<uint8_t>(fixed_header[0]);
  if (first >> 4 != static_cast<int>(PacketType::kPublish)) return std::nullopt;
  size_t length = 0;
  for (size_t i = 1; i < fixed_header.size(); ++i) {
    const auto byte = static_cast<uint8_t>(fixed_header[i]);
    length |= static_cast<size_t>(byte & 0x7F) << (7 * (i - 1));
    const bool last = i + 1 == fixed_header.size();
    if (last != ((byte & 0x80) == 0)) return std::nullopt;
  }
  return OversizeSkip((first & 0x06) != 0, length);
}

size_t OversizeSkip::Feed(std::string_view bytes) {
  bytes = bytes.substr(0, left_);
  left_ -= bytes.size();
  const size_t taken = bytes.size();
  const auto fill = [&bytes](std::string& two) {
    const size_t part = std::min(bytes.size(), 2 - two.size());
    two += bytes.substr(0, part);
    bytes.remove_prefix(part);
    return two.size() == 2;
  };
  if (start_.size() < 2) {
    if (!fill(start_)) return taken;
    topic_left_ = Number(start_);
  }
  const size_t of_topic = std::min(bytes.size(), topic_left_);
  topic_left_ -= of_topic;
  bytes.remove_prefix(of_topic);
  if (topic_left_ == 0 && id_.size() < 2) fill(id_);
  return taken;
}

std::optional<uint16_t> OversizeSkip::packet_id() const {
  if (!has_id_ || id_.size() < 2 || Number(id_) == 0) return std::nullopt;
  return Number(id_);
}

}  // namespace tutti::mqtt::bridge
