// ProjectVerbs: the commands `{project}/template`, `/clear` and `/delete`, for one session or for
// all. Runs on the strand. A command is acknowledged on the answer topic when it has been carried
// out, and takes effect from the next turn on.
#pragma once

#include <functional>
#include <string>

#include "mqtt/message_port.h"
#include "protocol/chat/project.h"
#include "server/mqtt/chat/context.h"
#include "server/mqtt/chat/project_formatter.h"

namespace tutti::mqtt::chat {

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
