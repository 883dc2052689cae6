// Answers in the form of the native profile.
//
// The events of a response are those of its log, with the numbers of the log, where `accepted` is 0
// (SSE does not show `accepted`, and numbers from the event after it). One exception: deltas that
// are sent together are one event. Its `delta` is the concatenation of their texts, its
// `sequence_number` that of the last delta, and its `first_sequence_number` that of the first. So
// an event covers all numbers from `first_sequence_number` (if absent: its own number) to its own.
// A client that receives an event which does not begin after the last number it has seen has a gap;
// a resume with that last number as `starting_after` gives exactly the missing events.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "mqtt/message_port.h"
#include "server/mqtt/chat/native_address.h"
#include "server/mqtt/chat/reply_formatter.h"

namespace tutti::mqtt::chat {

// Maximum size of an event whose size depends on the client's request: an event is one message, and
// brokers limit messages.
inline constexpr size_t kMaxEventBytes = 1 << 20;

// A message with an event for `address`, at QoS 1.
Message EventMessage(const NativeAddress& address, std::string payload);
// A message with an error; `id`: the client's id, or empty.
Message ErrorMessage(const NativeAddress& address, const Status& error, std::string_view id);

// The events of a log: deltas at QoS 0, all other events at QoS 1.
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

}  // namespace tutti::mqtt::chat
