// ProjectMessages: what older clients say, `{project}/user_input`. Of the strand.
//
// A message is acknowledged once it is durable, or once its error has been published. The same
// request id of the same client is the same turn. It is answered again to who asks again, as the
// answer may have been lost; but not for a message that the transport alone repeats (DUP), where
// this process knows that the answer has arrived.
#pragma once

#include <functional>
#include <memory>
#include <set>

#include "doors/mqtt/profile/context.h"
#include "doors/mqtt/profile/project_reply.h"
#include "doors/mqtt/profile/reply_to.h"
#include "mqtt/message_port.h"
#include "services/sessions/message.h"
#include "wire/mqtt_project.h"

namespace tutti::mqtt::profile {

class ProjectMessages {
 public:
  explicit ProjectMessages(Context& context) : context_(context) {}
  void Take(const ProjectSettings& project, const Message& message, Receipt receipt);
  // An answer that an earlier process owed; `place`: among the dialog's. `again` is called where it
  // cannot be told now.
  void Restore(const ProjectSettings& project, const sessions::OwedAnswer& owed,
               const ReplyTo& reply_to, ReplyOrder::Place place, std::function<void()> again);
  void Clear() { open_.clear(); }

 private:
  struct Asked;  // one message, until it is answered
  using AskedPointer = std::shared_ptr<Asked>;
  void Submit(const AskedPointer& asked, wire::ProjectMessage message, TimePoint expires);
  void Accepted(const AskedPointer& asked, const Result<sessions::Acceptance>& acceptance);
  void Answer(const AskedPointer& asked, std::shared_ptr<responses::Response> response);
  void Refuse(const AskedPointer& asked, const Status& error);
  bool IsRepeatedInVain(const Asked& asked, const sessions::Acceptance& acceptance) const;

  Context& context_;
  std::set<AskedPointer> open_;  // not yet accepted: what they owe goes when this goes
};

}  // namespace tutti::mqtt::profile
