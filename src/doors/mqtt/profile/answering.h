// Answering: the way of a message to its answer, in either profile: a caller and a place in the
// waiting room, the session's acceptance, the response, its events on their way out. Of the strand.
//
// A message is acknowledged once it is durable, or once its error was handed to the port. What the
// transport alone repeats (DUP), and what an earlier process owed, is not answered again while its
// answer is on its way there, or once it has arrived.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "doors/mqtt/profile/context.h"
#include "doors/mqtt/profile/reply_form.h"
#include "mqtt/message_port.h"
#include "services/sessions/message.h"
#include "services/sessions/owed.h"

namespace tutti::mqtt::profile {

// Who said a message, as the profile speaks to it. `turn`: of the session; 0: none yet.
class Asker {
 public:
  virtual ~Asker() = default;

  virtual Message OfError(int64_t turn, const Status& error) const = 0;
  // Of a message that is accepted and whose answer is no longer kept, before that is said. Nothing,
  // where this profile does not show it.
  virtual std::optional<Message> OfAcceptance(const sessions::Acceptance& acceptance) const = 0;
  virtual std::unique_ptr<ReplyForm> FormOf(
      int64_t turn, const std::shared_ptr<responses::Response>& response) const = 0;
};

// One message, until it is answered.
struct Asked {
  std::unique_ptr<Asker> asker;
  sessions::SessionKey key;
  Claimant claimant;        // whose bounds it counts for
  std::string credential;   // of who published it
  std::string reply_topic;  // where its answer goes
  bool redelivered = false;
  bool once_there = false;  // who asks again gets no second answer beside one on its way
  Receipt receipt;
  // Of an answer that an earlier process owed; else empty.
  std::function<void()> again;
  ReplyOrder::Place place;  // among the dialog's, until it is on its way

  // --- Answering's ---
  WaitingRoom::Ticket ticket;
  int64_t turn = 0;  // once it is accepted
  bool parallel = false;
};
using AskedPointer = std::shared_ptr<Asked>;

class Answering {
 public:
  explicit Answering(Context& context) : context_(context) {}

  // Gives `said` its caller, and what it is asked for when all else is well.
  void Submit(const AskedPointer& asked, sessions::Message said);
  // An answer that an earlier process owed: `asked` has an `again`.
  void Restore(const AskedPointer& asked, const std::string& message_id);
  void Refuse(const AskedPointer& asked, const Status& error);
  void Clear() { open_.clear(); }

 private:
  std::function<void(const Result<sessions::Acceptance>&)> WhenAccepted(const AskedPointer& asked);
  void Accepted(const AskedPointer& asked, const Result<sessions::Acceptance>& acceptance);
  bool IsRepeatedInVain(const Asked& asked, const sessions::Acceptance& acceptance) const;
  void Answer(const AskedPointer& asked, std::shared_ptr<responses::Response> response);

  Context& context_;
  std::set<AskedPointer> open_;  // not yet accepted: what they owe goes when this goes
};

}  // namespace tutti::mqtt::profile
