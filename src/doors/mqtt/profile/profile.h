// Profile: what Tutti says over MQTT, whether clients connect to its own listener or to a broker:
// the native profile (users and sessions) and the project profile (older clients, opt-in per
// project). It speaks to a MessagePort on one side and to the dialogs on the other.
//
// All of it runs on the responses' strand, where logs are written and dialogs live, so its state
// has no lock; the port's thread only hands messages over. Nothing here waits for a client, a model
// or a disk.
//
// Made and started in this order: Make, Subscribe (before the port starts), Start. It stops before
// the port and the services do; what they call later does nothing, and messages that come later are
// refused. Retained messages are left alone. Any thread, but not the strand.
#pragma once

#include <memory>

#include "base/status.h"
#include "doors/mqtt/profile/options.h"
#include "doors/mqtt/profile/waiting_room.h"
#include "mqtt/message_port.h"

namespace tutti::mqtt::profile {

class Profile {
 public:
  // Errors: invalid_value, for names that cannot be levels of a topic, and a project named twice.
  static Result<std::unique_ptr<Profile>> Make(ProfileOptions options, Services services);
  ~Profile();  // stopped
  Profile(const Profile&) = delete;
  Profile& operator=(const Profile&) = delete;

  // Of the native profile, if it is on, and of the projects that are. Errors: the port's.
  Status Subscribe();
  // Says that the server is there, and goes on saying it.
  void Start();
  // Tells what an earlier process owed. Once, when models are loaded and the dialogs go on.
  void Resume();
  // Says it once more: when a connection was made anew, or other models are served.
  void Announce();
  // Waits up to a second for what became of last messages that are on their way; then says that the
  // server is not there, once Start() was called. Idempotent.
  void Stop();

  // For whoever connects to a broker.
  Message Will() const;
  Statistics statistics() const;

 private:
  struct Parts;
  explicit Profile(std::unique_ptr<Parts> parts);
  const std::unique_ptr<Parts> parts_;
  bool started_ = false, stopped_ = false;
};

}  // namespace tutti::mqtt::profile
