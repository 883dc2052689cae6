// Inbox: the QoS 1 messages that the broker has sent and that are not acknowledged yet.
//
// A message is offered to every sink whose filter matches; it is acknowledged once all of them have
// accepted it, and acknowledgements leave in the order in which the messages came (MQTT-4.6.0-2).
// Until then the broker keeps it: what happens to this process or the connection, it comes again.
// So nothing is acknowledged that a sink has not made durable, and nothing is lost.
//
// A message that a sink refuses stays, unacknowledged, and is offered again after a pause, marked
// as redelivered. While that lasts later ones wait behind it: refusing is how the server says that
// it is overloaded. Only a message's own expiry ends this.
//
// How much may be held is the caller's to bound, who stops reading (loop.cc).
//
// Owned by the bridge's thread; only Receipts come back from others, through a desk of their own.
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
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "mqtt/message_port.h"

namespace tutti::mqtt::bridge {

class Inbox {
 public:
  // `wake` is called by any thread that gave a receipt, until Close(); it must not block.
  explicit Inbox(std::function<void()> wake);

  // Before the first message. Error: invalid_value, for what is no filter.
  Status Subscribe(std::string filter, MessagePort::Sink sink);
  const std::vector<std::string>& filters() const { return filters_; }

  // A message that came: with QoS 1 kept until it is acknowledged, with QoS 0 offered there and
  // then. False: its packet id is that of another message that is not acknowledged.
  bool Receive(uint16_t packet_id, Message message, TimePoint now);
  // A message that came and was too large to be kept: it is acknowledged in its turn, unless
  // `packet_id` is nothing (QoS 0).
  void ReceiveTooLarge(std::optional<uint16_t> packet_id);
  // Takes the receipts that came, offers what may be offered, and gives the packet ids that are to
  // be acknowledged now, in order.
  std::vector<uint16_t> Settle(TimePoint now);
  // When Settle() has something to do without a receipt: the end of a pause.
  TimePoint due() const;
  // The connection is gone: what was not acknowledged comes again on the next, and receipts of it
  // mean nothing any more.
  void Lost();
  // Offers nothing more. What is offered may still be accepted.
  void StopOffering() { offering_ = false; }
  void Close();  // no more waking

  size_t held() const { return held_; }              // messages; any thread
  size_t held_bytes() const { return held_bytes_; }  // bridge's thread
  size_t offered() const { return offered_; }        // messages whose receipts are missing

  struct Counts {                           // any thread
    std::atomic<uint64_t> received = 0;     // all that came
    std::atomic<uint64_t> redelivered = 0;  // of them with DUP
    std::atomic<uint64_t> accepted = 0;     // by all sinks
    std::atomic<uint64_t> refused = 0;      // receipts that refused
    std::atomic<uint64_t> expired = 0;      // given up while they were refused
    std::atomic<uint64_t> too_large = 0;    // read over, and nobody's
    std::atomic<uint64_t> unmatched = 0;    // nobody's: of subscriptions that an earlier run left
  };
  const Counts& counts() const { return counts_; }

 private:
  // Where receipts arrive; outlives the Inbox in those that are still out.
  struct Verdict {
    uint64_t serial;  // of the entry; one of an older connection is none's any more
    int attempt;
    bool accepted;
  };
  struct Desk {
    Mutex mutex;
    std::vector<Verdict> verdicts GUARDED_BY(mutex);
    std::function<void()> wake GUARDED_BY(mutex);
  };
  enum class State { kWaiting, kOffered, kAccepted };
  struct Entry {
    uint64_t serial = 0;  // kNoSerial: of a QoS 0 message, which nobody waits for
    uint16_t packet_id = 0;
    Message message;
    size_t bytes = 0;
    State state = State::kWaiting;
    int attempt = 0;       // of offers so far
    int owed = 0;          // receipts of this attempt
    bool refused = false;  // by one of them
  };

  Entry& Hold(uint16_t packet_id, Message message);
  std::vector<const MessagePort::Sink*> SinksOf(const std::string& topic) const;
  // The entry of a serial, if it is still held.
  Entry* Find(uint64_t serial);
  void Offer(Entry& entry, const std::vector<const MessagePort::Sink*>& sinks);
  Receipt MakeReceipt(uint64_t serial, int attempt);
  void Apply(const Verdict& verdict, TimePoint now);
  void OfferWaiting(TimePoint now);
  void Drop();  // the first

  std::vector<std::string> filters_;  // as they were subscribed to
  struct Route {
    std::string filter;  // without $share/NAME/
    MessagePort::Sink sink;
  };
  std::vector<Route> routes_;
  std::shared_ptr<Desk> desk_;
  std::deque<Entry> entries_;   // in the order they came
  uint64_t next_serial_ = 1;    // serials count up along entries_, over all connections
  std::set<uint64_t> waiting_;  // of entries to be offered
  size_t offered_ = 0;
  std::bitset<65536> used_;  // packet ids of entries_
  bool offering_ = true;
  Duration pause_{0};  // the last one; 0: nothing has been refused lately
  TimePoint paused_until_{};
  std::atomic<size_t> held_ = 0;
  size_t held_bytes_ = 0;
  Counts counts_;
};

}  // namespace tutti::mqtt::bridge
