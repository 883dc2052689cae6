// Inbox: QoS 1 messages from the broker that are not acknowledged yet.
//
// A message is offered to every sink whose filter matches, and is acknowledged once all of them
// have accepted it. Acknowledgements leave in the order of the messages (MQTT-4.6.0-2). Until then
// the broker keeps the message and sends it again if this process or the connection fails. So only
// durable messages are acknowledged, and none is lost.
//
// A refused message stays unacknowledged and is offered again after a pause, marked as redelivered.
// Meanwhile later messages wait behind it: the server refuses when it is overloaded. Only the
// expiry of the message ends the repetition.
//
// The caller bounds the number of held messages by pausing reads (bridge.cc).
//
// Owned by the bridge's thread. Receipts arrive from other threads, through a Desk of their own.
#pragma once

#include <atomic>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "mqtt/message_port.h"

namespace tutti::mqtt::bridge {

class Inbox {
 public:
  // `wake` is called on any thread that gives a receipt, also when the Inbox is gone; it must not
  // block.
  explicit Inbox(std::function<void()> wake) : desk_(std::make_shared<Desk>(std::move(wake))) {}

  // Adds a sink, before the first message. Error: invalid_value, if `filter` is no topic filter.
  Status Subscribe(std::string filter, MessagePort::Sink sink);
  const std::vector<std::string>& filters() const { return filters_; }

  // Takes a message: with QoS 1 it is kept until it is acknowledged, with QoS 0 it is offered at
  // once. False: its packet id belongs to another unacknowledged message.
  bool Receive(uint16_t packet_id, Message message, TimePoint now);
  // Notes a message that was too large to be kept: it is acknowledged in its turn, unless
  // `packet_id` is empty (QoS 0).
  void ReceiveTooLarge(std::optional<uint16_t> packet_id);
  // Applies received receipts, offers messages that may be offered, and returns the packet ids to
  // acknowledge now, in order.
  std::vector<uint16_t> Settle(TimePoint now);
  // When Settle() has work without a receipt: the end of a pause.
  TimePoint due() const;
  // The connection is lost: unacknowledged messages will come again on the next one, and receipts
  // for them are ignored.
  void Lost();
  // Stops offering messages. Messages that are already offered may still be accepted.
  void StopOffering() { offering_ = false; }

  size_t held() const { return held_; }              // messages; any thread
  size_t held_bytes() const { return held_bytes_; }  // bridge's thread
  size_t offered() const { return offered_; }        // messages without all their receipts

  struct Counts {                           // any thread
    std::atomic<uint64_t> received = 0;     // all messages
    std::atomic<uint64_t> redelivered = 0;  // messages with DUP
    std::atomic<uint64_t> accepted = 0;     // accepted by all sinks
    std::atomic<uint64_t> refused = 0;      // refusing receipts
    std::atomic<uint64_t> expired = 0;      // dropped after refusals because they expired
    std::atomic<uint64_t> too_large = 0;    // skipped because of their size
    std::atomic<uint64_t> unmatched = 0;    // no sink: from a subscription of an earlier run
  };
  const Counts& counts() const { return counts_; }

 private:
  // Where receipts arrive; outlives the Inbox while receipts are outstanding.
  struct Verdict {
    uint64_t serial;  // of the entry; one of an older connection is ignored
    int attempt;
    bool accepted;
  };
  struct Desk {
    explicit Desk(std::function<void()> wake_owner) : wake(std::move(wake_owner)) {}
    const std::function<void()> wake;
    Mutex mutex;
    std::vector<Verdict> verdicts GUARDED_BY(mutex);
  };
  enum class State { kWaiting, kOffered, kAccepted };
  struct Entry {
    uint64_t serial = 0;  // kNoSerial: a QoS 0 message, which is not tracked
    uint16_t packet_id = 0;
    Message message;
    size_t bytes = 0;
    State state = State::kWaiting;
    int attempt = 0;       // number of offers so far
    int owed = 0;          // missing receipts of this attempt
    bool refused = false;  // a sink has refused it
  };

  Entry& Hold(uint16_t packet_id, Message message);
  // The entry of a serial, if it is still held.
  Entry* Find(uint64_t serial);
  void Offer(Entry& entry, const std::vector<const MessagePort::Sink*>& sinks);
  Receipt MakeReceipt(uint64_t serial, int attempt);
  void Apply(const Verdict& verdict, TimePoint now);
  void OfferWaiting(TimePoint now);
  void Drop();  // drops the first entry

  std::vector<std::string> filters_;  // as subscribed to
  SinkTable sinks_;                   // their filters without $share/NAME/
  std::shared_ptr<Desk> desk_;
  std::deque<Entry> entries_;   // in the order they came
  uint64_t next_serial_ = 1;    // serials increase along entries_, across connections
  std::set<uint64_t> waiting_;  // serials of entries to be offered
  size_t offered_ = 0;
  std::bitset<65536> used_;  // packet ids of entries_
  bool offering_ = true;
  Duration pause_{0};  // the last pause; 0: no recent refusal
  TimePoint paused_until_{};
  std::atomic<size_t> held_ = 0;
  size_t held_bytes_ = 0;
  Counts counts_;
};

// OversizeSkip: skips one PUBLISH that exceeds the size limit, and extracts its packet id.
//
// In MQTT 3.1.1 a client cannot announce a maximum packet size. If an oversized packet ended the
// connection, the broker would send the packet again on the next one: one message of any publisher
// could keep the server away from its broker. So the packet is read without being stored,
// acknowledged and counted. Holds a few bytes for a packet of any size.
class OversizeSkip {
 public:
  // `fixed_header`: a complete fixed header (type and flags, remaining length). Nothing if it is
  // incomplete or not that of a PUBLISH.
  static std::optional<OversizeSkip> Of(std::string_view fixed_header);

  // Consumes bytes after the header. Returns their number: all, unless the packet ends among them.
  size_t Feed(std::string_view bytes);
  bool done() const { return left_ == 0; }
  // Needs done(). Nothing: QoS 0, or the packet is too malformed to have an id.
  std::optional<uint16_t> packet_id() const;

 private:
  OversizeSkip(bool has_id, size_t left) : has_id_(has_id), left_(left) {}

  bool has_id_;
  size_t left_;        // bytes left of the packet
  std::string start_;  // first two bytes: the length of the topic
  size_t topic_left_ = 0;
  std::string id_;  // the two bytes after the topic
};

}  // namespace tutti::mqtt::bridge
