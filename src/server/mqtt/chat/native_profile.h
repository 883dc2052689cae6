// The native profile: messages of clients to their sessions, commands, subscriptions to jobs, and
// the form of the answers. Runs on the strand.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "mqtt/message_port.h"
#include "protocol/chat/native.h"
#include "protocol/job.h"
#include "server/mqtt/chat/admission_queue.h"
#include "server/mqtt/chat/answering.h"
#include "server/mqtt/chat/context.h"
#include "server/mqtt/chat/reply_publisher.h"
#include "server/mqtt/chat/topics.h"
#include "services/sessions/message.h"

namespace tutti::mqtt::chat {

// Maximum size of an event whose size depends on the client's request: an event is one message, and
// brokers limit messages.
inline constexpr size_t kMaxEventBytes = 1 << 20;

// A message with an event for `address`, at QoS 1.
Message EventMessage(const NativeAddress& address, std::string payload);
// A message with an error; `id`: the client's id, or empty.
Message ErrorMessage(const NativeAddress& address, const Status& error, std::string_view id);

// NativeFormatter: answers in the form of the native profile: deltas at QoS 0, all other events at
// QoS 1.
//
// The events of a response are those of its log, with the numbers of the log, where `accepted` is 0
// (SSE does not show `accepted`, and numbers from the event after it). One exception: deltas that
// are sent together are one event. Its `delta` is the concatenation of their texts, its
// `sequence_number` that of the last delta, and its `first_sequence_number` that of the first. So
// an event covers all numbers from `first_sequence_number` (if absent: its own number) to its own.
// A client that receives an event which does not begin after the last number it has seen has a gap;
// a resume with that last number as `starting_after` gives exactly the missing events.
class NativeFormatter final : public ReplyFormatter {
 public:
  // `id`: the client's id of the message or command that requested the answer, or empty.
  NativeFormatter(NativeAddress address, std::string id)
      : address_(std::move(address)), id_(std::move(id)) {}

  std::optional<Message> OfAcceptance(const sessions::Acceptance& acceptance) const override;
  std::optional<Message> OfDeltas(const Deltas& deltas, int64_t index) const override;
  std::optional<Message> OfEvent(const responses::LogEntry& entry, int64_t index) const override;
  std::optional<Message> OfError(const Status& error) const override;

 private:
  Message LogMessage(int64_t sequence, bool last, std::string payload) const;

  const NativeAddress address_;
  const std::string id_;
};

// Sends one message when a response has ended, and nothing before: the answer to a cancel.
class EndNotice final : public ReplyFormatter {
 public:
  explicit EndNotice(Message notice) : notice_(std::move(notice)) {}
  std::optional<Message> OfDeltas(const Deltas&, int64_t) const override { return std::nullopt; }
  std::optional<Message> OfEvent(const responses::LogEntry& entry, int64_t) const override {
    return entry.terminal() ? std::optional(notice_) : std::nullopt;
  }
  std::optional<Message> OfError(const Status&) const override { return std::nullopt; }

 private:
  const Message notice_;
};

// NativeMessages: messages of clients to their sessions, on `.../in`.
//
// The answer is sent to the reply topic, `accepted` first. A message with a known id is the same
// turn: its events are published again from the first one, with the correlation data of the new
// message.
class NativeMessages {
 public:
  explicit NativeMessages(Context& context) : context_(context), answering_(context) {}
  void Take(const Message& message, Receipt receipt);
  // As Answering::Restore().
  void Restore(const sessions::OwedAnswer& owed, const ReplyTo& reply_to, ReplyOrder::Place place,
               std::function<void()> again);
  void Clear() { answering_.Clear(); }

 private:
  void Submit(const PendingPointer& pending, const NativeAddress& address,
              protocol::MqttMessage message, TimePoint expires);

  Context& context_;
  Answering answering_;
};

// JobFollows: sends the states of durable jobs to clients of the native profile that subscribed to
// them on `.../ctl`.
//
// Each state is one event on the reply topic, with the job's version as its number. The last event
// has the result, also for late subscribers; a client that gives a number gets every state after
// it. There is one entry per job and topic, with one wait for news however many subscriptions there
// are; the number of entries is limited in total and per user. Entries are not durable: a client
// that was away subscribes again with the last number that it has seen.
class JobFollows {
 public:
  explicit JobFollows(Context& context);

  void Follow(const NativeAddress& address, const protocol::MqttControl& control);
  // For topics with this prefix: only the last events are published from now on.
  void DetachBelow(std::string_view topics);
  void Clear();

 private:
  struct Key {
    std::string topic, job, tenant;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  struct Entry {
    NativeAddress address;
    std::string id;  // id that the client gave to its verb
    int64_t seen = 0;
    uint64_t serial = 0;  // distinguishes the entry from an earlier one with the same key
    bool detached = false;
  };
  using Place = std::map<Key, Entry>::iterator;

  // Wait for news, or only read the current state.
  enum class Wait { kForNews, kNot };
  void Watch(const Key& key, const Entry& entry, Wait wait);
  void OnJob(const Key& key, uint64_t serial, int64_t asked, Wait wait,
             const Result<protocol::JobView>& job);
  void Publish(const Entry& entry, const protocol::JobView& job, std::string event);
  void Refuse(const NativeAddress& address, const std::string& id, const Status& why);
  void Close(Place place);

  Context& context_;
  std::map<Key, Entry> follows_;
  QuotaKeyCounts quota_counts_;
  uint64_t serial_ = 0;
};

// NativeControl: commands of clients for their turns and sessions, on `.../ctl`. Each command is
// answered by one event or by an error, with the `id` of the command; a resume and a subscribe are
// answered by the requested events.
class NativeControl {
 public:
  explicit NativeControl(Context& context) : context_(context), jobs_(context) {}
  void Take(const Message& message, Receipt receipt);
  // A client's status, which may be its Will: no client of that user listens any more.
  void TakeStatus(const Message& message, Receipt receipt);
  void Clear() { jobs_.Clear(); }  // sends no more events of jobs

 private:
  void Carry(const NativeAddress& address, const protocol::MqttControl& control);
  void Cancel(const NativeAddress& address, const protocol::MqttControl& control);
  void CancelOf(const NativeAddress& address, const std::string& id,
                const std::shared_ptr<responses::Response>& response);
  void Resume(const NativeAddress& address, const protocol::MqttControl& control);

  // Looks up the response of that id, if the user may see it.
  void Find(const NativeAddress& address, const protocol::MqttControl& control,
            std::function<void(std::shared_ptr<responses::Response>)> then);
  void Refuse(const NativeAddress& address, const std::string& id, const Status& error);

  Context& context_;
  JobFollows jobs_;
};

}  // namespace tutti::mqtt::chat
