// StatusTopic: publishes the server's status as retained messages on
// `{prefix}/server/{node}/status` and on each project's `{project}/status`: online periodically,
// offline when the server stops. Runs on the strand.
//
// A connection has only one Will, which is the server's own status; after a crash the status of
// projects stays online.
#pragma once

#include <string>

#include "mqtt/message_port.h"
#include "server/mqtt/chat/context.h"

namespace tutti::mqtt::chat {

class StatusTopic {
 public:
  explicit StatusTopic(Context& context) : context_(context) {}

  void Start();  // publishes online now, and at every heartbeat
  void PublishOnline();
  void PublishOffline();
  // The message that the broker publishes if the server disappears.
  static Message Will(const ProfileOptions& options, const NativeTopics& topics);

 private:
  void PublishOfProjects(bool online);

  Context& context_;
};

}  // namespace tutti::mqtt::chat
