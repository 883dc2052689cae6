// ReplyFormatter: encodes the answer to one message in the form of a profile. Runs on the strand.
// It publishes nothing itself; a message that cannot be published now is requested again later.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "base/status.h"
#include "mqtt/message_port.h"
#include "server/mqtt/chat/delta_coalescer.h"
#include "services/responses/response.h"
#include "services/sessions/message.h"

namespace tutti::mqtt::chat {

class ReplyFormatter {
 public:
  virtual ~ReplyFormatter() = default;

  // The number of the turn in the session, once the message is accepted; 0 before.
  void set_turn(int64_t turn) { turn_ = turn; }
  // The answer; before OfDeltas() and OfEvent().
  void set_response(std::shared_ptr<responses::Response> response) {
    response_ = std::move(response);
  }

  // Each returns nothing if this form does not show the event.
  //
  // The acceptance of a message whose answer is no longer kept, published before the error.
  virtual std::optional<Message> OfAcceptance(const sessions::Acceptance&) const {
    return std::nullopt;
  }
  // Deltas that are sent together, after `index` earlier messages of deltas. At QoS 0 they may be
  // lost.
  virtual std::optional<Message> OfDeltas(const Deltas& deltas, int64_t index) const = 0;
  // Any other event; the message of the terminal event holds the answer, and is never lost.
  virtual std::optional<Message> OfEvent(const responses::LogEntry& entry, int64_t index) const = 0;
  // Why the message was refused. Also replaces an event that could not be sent, or events that are
  // no longer stored.
  virtual std::optional<Message> OfError(const Status& error) const = 0;

 protected:
  int64_t turn() const { return turn_; }
  const responses::Response& response() const { return *response_; }

 private:
  int64_t turn_ = 0;
  std::shared_ptr<responses::Response> response_;
};

}  // namespace tutti::mqtt::chat
