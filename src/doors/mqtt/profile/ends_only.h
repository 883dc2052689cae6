// EndsOnly: an answer of which only `accepted` and the end are said: what an earlier process owed.
// What it had said before it ended nobody knows; whoever wants the rest resumes.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "doors/mqtt/profile/reply_form.h"

namespace tutti::mqtt::profile {

class EndsOnly final : public ReplyForm {
 public:
  explicit EndsOnly(std::unique_ptr<ReplyForm> form) : form_(std::move(form)) {}

  std::optional<Message> OfDeltas(const Deltas&, int64_t) const override { return std::nullopt; }
  std::optional<Message> OfEvent(const responses::LogEntry& entry, int64_t index) const override {
    if (!entry.terminal && entry.type != "accepted") return std::nullopt;
    return form_->OfEvent(entry, index);
  }
  std::optional<Message> OfError(const Status& error) const override {
    // Nothing was to be said of the events that are gone.
    return error.reason() == "expired" ? std::nullopt : form_->OfError(error);
  }

 private:
  const std::unique_ptr<ReplyForm> form_;
};

}  // namespace tutti::mqtt::profile
