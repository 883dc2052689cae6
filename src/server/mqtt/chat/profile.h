// Profile: chat over MQTT, with Tutti's own listener or a broker: the native profile (users and
// sessions) and the project profile (older clients, enabled per project). Connects a MessagePort
// with the dialogs.
//
// All state belongs to the strand of the responses, where logs are written and dialogs live, so it
// has no lock; the port's thread only hands messages over. Nothing here waits for a client, a model
// or a disk.
//
// Call Make, Subscribe (before the port starts) and Start in this order. The profile stops before
// the port and the services; their later callbacks do nothing, and later messages are refused.
// Retained messages stay. Any thread except the strand.
#pragma once

#include <memory>

#include "base/status.h"
#include "mqtt/message_port.h"
#include "server/mqtt/chat/admission_queue.h"
#include "server/mqtt/chat/options.h"

namespace tutti::mqtt::chat {

class Profile {
 public:
  // Errors: invalid_value, for names that cannot be levels of a topic, and for a project named
  // twice.
  static Result<std::unique_ptr<Profile>> Make(ProfileOptions options, Services services);
  ~Profile();  // Stop()
  Profile(const Profile&) = delete;
  Profile& operator=(const Profile&) = delete;

  // Subscribes to the topics of the native profile, if it is enabled, and of the configured
  // projects. Errors: those of the port.
  Status Subscribe();
  // Publishes the online status, and repeats it periodically.
  void Start();
  // Sends the answers that an earlier process owed. Call once, when models are loaded and the
  // dialogs are restored.
  void Resume();
  // Publishes the status again: after a reconnect, or when other models are served.
  void Announce();
  // Waits up to a second for the results of last messages; then publishes the offline status if
  // Start() was called. Idempotent.
  void Stop();

  // The Will for the connection to a broker.
  Message Will() const;
  Statistics statistics() const;

 private:
  struct Parts;
  explicit Profile(std::unique_ptr<Parts> parts);
  const std::unique_ptr<Parts> parts_;
  bool started_ = false, stopped_ = false;
};

}  // namespace tutti::mqtt::chat
