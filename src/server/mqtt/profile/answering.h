// Answering: handles a message of either profile from its arrival to its answer: the caller, a
// place in the admission queue, the acceptance by the session, the response, and the stream of its
// events. Runs on the strand.
//
// A message is acknowledged once it is durable, or once its error was given to the port. A
// repetition by the transport (DUP), or an answer owed by an earlier process, is not answered again
// while its answer is on its way to the same topic, or after that answer has arrived.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "mqtt/message_port.h"
#include "server/mqtt/profile/context.h"
#include "server/mqtt/profile/reply_form.h"
#include "services/sessions/message.h"
#include "services/sessions/owed.h"

namespace tutti::mqtt::profile {

// The sender of a message, and the form in which its profile answers. `turn`: number of the turn in
// the session; 0: none yet.
class ReplyTarget {
 public:
  virtual ~ReplyTarget() = default;

  virtual Message OfError(int64_t turn, const Status& error) const = 0;
  // The acceptance event of a message whose answer is no longer kept, sent before the error.
  // Nothing if the profile has no such event.
  virtual std::optional<Message> OfAcceptance(const sessions::Acceptance& acceptance) const = 0;
  virtual std::unique_ptr<ReplyForm> FormOf(
      int64_t turn, const std::shared_ptr<responses::Response>& response) const = 0;
};

// One message, until it is answered.
struct Asked {
  std::unique_ptr<ReplyTarget> reply_target;
  sessions::SessionKey key;
  QuotaKey quota_key;       // user or project for whose limits the message counts
  std::string credential;   // credential of the publisher
  std::string reply_topic;  // topic of the answer
  bool redelivered = false;
  bool once_there = false;  // no second answer while one is on its way
  Receipt receipt;
  // Set for an answer owed by an earlier process; called if the answer cannot be sent now.
  std::function<void()> again;
  ReplyOrder::Place place;  // place in the order of the dialog, until the answer is on its way

  // --- Answering's ---
  AdmissionQueue::Permit permit;
  int64_t turn = 0;  // set once it is accepted
  bool parallel = false;
};
using AskedPointer = std::shared_ptr<Asked>;

class Answering {
 public:
  explicit Answering(Context& context) : context_(context) {}

  // Adds the caller to `said`, and submits it to its session.
  void Submit(const AskedPointer& asked, sessions::Message said);
  // Sends an answer that an earlier process owed: `asked` has an `again`.
  void Restore(const AskedPointer& asked, const std::string& message_id);
  void Refuse(const AskedPointer& asked, const Status& error);
  void Clear() { open_.clear(); }

 private:
  std::function<void(const Result<sessions::Acceptance>&)> WhenAccepted(const AskedPointer& asked);
  void Accepted(const AskedPointer& asked, const Result<sessions::Acceptance>& acceptance);
  bool IsRepeatedInVain(const Asked& asked, const sessions::Acceptance& acceptance) const;
  void Answer(const AskedPointer& asked, std::shared_ptr<responses::Response> response);

  Context& context_;
  std::set<AskedPointer> open_;  // not yet accepted; their receipts end with this object
};

}  // namespace tutti::mqtt::profile
