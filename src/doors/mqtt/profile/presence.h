// Presence: that this server is there: retained messages on `{prefix}/server/{node}/status` and on
// each project's `{project}/status`, again and again, and the contrary when it stops. Of the
// strand.
//
// One connection has one Will, the server's own status: after a crash that alone tells.
#pragma once

#include <string>

#include "doors/mqtt/profile/context.h"
#include "mqtt/message_port.h"

namespace tutti::mqtt::profile {

class Presence {
 public:
  explicit Presence(Context& context) : context_(context) {}

  void Start();  // says so now, and every heartbeat from now on
  void SayOnline();
  void SayOffline();
  // What is to be published when the server is gone without a word.
  static Message Will(const ProfileOptions& options, const NativeTopics& topics);

 private:
  void SayOfProjects(bool online);

  Context& context_;
};

}  // namespace tutti::mqtt::profile
