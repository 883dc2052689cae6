// The project profile, for older clients: their messages, their commands, and the form of the
// answers. Runs on the strand.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "mqtt/message_port.h"
#include "protocol/chat/project.h"
#include "server/mqtt/chat/answering.h"
#include "server/mqtt/chat/context.h"
#include "server/mqtt/chat/reply_publisher.h"
#include "services/sessions/message.h"

namespace tutti::mqtt::chat {

struct ProjectAddress {
  protocol::ProjectReply reply;
  std::optional<std::string> correlation;
};

// Every message of this profile has QoS 1 and the user properties `type` (reply, chunk, error,
// ack), `seq` (number of the turn; 0: none) and, if one was given, `requestId`.
Message ProjectJson(const ProjectAddress& address, std::string type, int64_t seq,
                    std::string payload);
Message ProjectError(const ProjectAddress& address, int64_t seq, const Status& error);

// An answer is plain text unless the project is configured otherwise; an error is always JSON.
class ProjectFormatter final : public ReplyFormatter {
 public:
  ProjectFormatter(const ProjectSettings& project, ProjectAddress address)
      : address_(std::move(address)), format_(project.reply_format), stream_(project.stream) {}

  std::optional<Message> OfDeltas(const Deltas& deltas, int64_t index) const override;
  std::optional<Message> OfEvent(const responses::LogEntry& entry, int64_t index) const override;
  std::optional<Message> OfError(const Status& error) const override;

 private:
  Message Whole(const protocol::ResponseState& end, int64_t index) const;

  const ProjectAddress address_;
  const ReplyFormat format_;
  const bool stream_;
};

// ProjectMessages: messages of older clients, on `{project}/user_input`.
//
// Messages with the same request id of one client are the same turn. A repeated message is answered
// again, because the answer may have been lost, but not while an answer is still on its way.
class ProjectMessages {
 public:
  explicit ProjectMessages(Context& context) : context_(context), answering_(context) {}
  void Take(const ProjectSettings& project, const Message& message, Receipt receipt);
  // As Answering::Restore().
  void Restore(const ProjectSettings& project, const sessions::OwedAnswer& owed,
               const ReplyTo& reply_to, ReplyOrder::Place place, std::function<void()> again);
  void Clear() { answering_.Clear(); }

 private:
  void Submit(const PendingPointer& pending, const ProjectSettings& project,
              const ProjectAddress& address, protocol::ProjectMessage message, TimePoint expires,
              TraceContext trace_context);

  Context& context_;
  Answering answering_;
};

// ProjectVerbs: the commands `{project}/template`, `/clear` and `/delete`, for one session or for
// all. A command is acknowledged on the answer topic when it has been carried out, and takes effect
// from the next turn on.
class ProjectVerbs {
 public:
  explicit ProjectVerbs(Context& context) : context_(context) {}
  void Take(const ProjectSettings& project, const Message& message, Receipt receipt);

 private:
  void OfAll(const ProjectSettings& project, const ProjectAddress& address,
             const protocol::ProjectVerb& verb);
  void OfOne(const sessions::SessionKey& key, const ProjectAddress& address,
             const protocol::ProjectVerb& verb, int64_t seq);
  void Publish(const ProjectAddress& address, protocol::ProjectOp op, int64_t seq,
               const Status& status);

  Context& context_;
};

}  // namespace tutti::mqtt::chat
