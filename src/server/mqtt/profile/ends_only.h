// FinalOnly: sends only the `accepted` event and the last event of an answer that an earlier
// process owed. It is unknown which events that process had sent; a client that wants the others
// sends a resume.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "server/mqtt/profile/reply_form.h"

namespace tutti::mqtt::profile {

class FinalOnly final : public ReplyForm {
 public:
  explicit FinalOnly(std::unique_ptr<ReplyForm> form) : form_(std::move(form)) {}

  std::optional<Message> OfDeltas(const Deltas&, int64_t) const override { return std::nullopt; }
  std::optional<Message> OfEvent(const responses::LogEntry& entry, int64_t index) const override {
    const bool accepted = std::holds_alternative<wire::AcceptedEvent>(entry.event);
    if (!entry.terminal() && !accepted) return std::nullopt;
    return form_->OfEvent(entry, index);
  }
  std::optional<Message> OfError(const Status& error) const override {
    // The missing events would not have been sent anyway.
    return error.reason() == "expired" ? std::nullopt : form_->OfError(error);
  }

 private:
  const std::unique_ptr<ReplyForm> form_;
};

}  // namespace tutti::mqtt::profile
