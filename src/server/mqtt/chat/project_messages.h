// ProjectMessages: messages of older clients, on `{project}/user_input`. Runs on the strand.
//
// Messages with the same request id of one client are the same turn. A repeated message is answered
// again, because the answer may have been lost, but not while an answer is still on its way.
#pragma once

#include <functional>

#include "mqtt/message_port.h"
#include "protocol/chat/project.h"
#include "server/mqtt/chat/answering.h"
#include "server/mqtt/chat/context.h"
#include "server/mqtt/chat/project_formatter.h"
#include "server/mqtt/chat/reply_to.h"
#include "services/sessions/owed.h"

namespace tutti::mqtt::chat {

class ProjectMessages {
 public:
  explicit ProjectMessages(Context& context) : context_(context), answering_(context) {}
  void Take(const ProjectSettings& project, const Message& message, Receipt receipt);
  // Sends an answer that an earlier process owed. `place`: its place in the order of the dialog.
  // `again` is called if the answer cannot be sent now.
  void Restore(const ProjectSettings& project, const sessions::OwedAnswer& owed,
               const ReplyTo& reply_to, ReplyOrder::Place place, std::function<void()> again);
  void Clear() { answering_.Clear(); }

 private:
  void Submit(const PendingPointer& pending, const ProjectSettings& project,
              const ProjectAddress& address, protocol::ProjectMessage message, TimePoint expires);

  Context& context_;
  Answering answering_;
};

}  // namespace tutti::mqtt::chat
