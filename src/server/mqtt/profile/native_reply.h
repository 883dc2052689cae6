// NativeReply: an answer in the form of the native profile: the events of its log, deltas at QoS 0,
// all other events at QoS 1.
#pragma once

#include <string>
#include <utility>

#include "server/mqtt/profile/native_address.h"
#include "server/mqtt/profile/reply_form.h"
#include "services/responses/response.h"

namespace tutti::mqtt::profile {

class NativeReply final : public ReplyForm {
 public:
  // `id`: the client's id of the message or command that requested the answer.
  NativeReply(NativeAddress address, std::string id,
              const std::shared_ptr<responses::Response>& response)
      : address_(std::move(address)), id_(std::move(id)), response_(response) {}

  std::optional<Message> OfDeltas(const Deltas& deltas, int64_t index) const override;
  std::optional<Message> OfEvent(const responses::LogEntry& entry, int64_t index) const override;
  std::optional<Message> OfError(const Status& error) const override;

 private:
  const NativeAddress address_;
  const std::string id_;
  const std::shared_ptr<responses::Response> response_;
};

// Sends one message when a response has ended, and nothing before: the answer to a cancel.
class WordAtEnd final : public ReplyForm {
 public:
  explicit WordAtEnd(Message word) : word_(std::move(word)) {}
  std::optional<Message> OfDeltas(const Deltas&, int64_t) const override { return std::nullopt; }
  std::optional<Message> OfEvent(const responses::LogEntry& entry, int64_t) const override {
    return entry.terminal() ? std::optional(word_) : std::nullopt;
  }
  std::optional<Message> OfError(const Status&) const override { return std::nullopt; }

 private:
  const Message word_;
};

}  // namespace tutti::mqtt::profile
