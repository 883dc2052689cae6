// Messages of the project profile, and ProjectFormatter, the form of its answers.
//
// Every message has QoS 1 and the user properties `type` (reply, chunk, error, ack), `seq` and, if
// one was given, `requestId`. An answer is plain text unless the project is configured otherwise;
// an error is always JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "mqtt/message_port.h"
#include "protocol/chat/project_reply.h"
#include "server/mqtt/chat/options.h"
#include "server/mqtt/chat/reply_formatter.h"

namespace tutti::mqtt::chat {

struct ProjectAddress {
  protocol::ProjectReply reply;
  std::optional<std::string> correlation;
};

// `seq`: number of the turn; 0: none.
Message ProjectJson(const ProjectAddress& address, std::string type, int64_t seq,
                    std::string payload);
Message ProjectError(const ProjectAddress& address, int64_t seq, const Status& error);

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

}  // namespace tutti::mqtt::chat
