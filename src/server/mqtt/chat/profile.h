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
//
// ProfileOptions are the operator's settings, and Services what the profile uses: plain values.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "api/inference.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "mqtt/message_port.h"
#include "protocol/job.h"
#include "server/mqtt/chat/admission_queue.h"
#include "server/mqtt/chat/reply_publisher.h"
#include "services/responses/responses.h"
#include "services/sessions/sessions.h"

namespace tutti::mqtt::chat {

enum class ReplyFormat { kText, kJson };

// A project of the project profile; only configured projects are subscribed to.
struct ProjectSettings {
  std::string name;    // one plain level of a topic
  std::string tenant;  // tenant of the project
  std::string model;   // empty: the default model
  ReplyFormat reply_format = ReplyFormat::kText;
  bool stream = false;    // chunks while the answer is generated, always as JSON
  bool parallel = false;  // session.order = parallel
};

// Maximum numbers of durable jobs followed at once.
struct FollowLimits {
  size_t all = 4000;
  size_t per_user = 400;
};

struct ProfileOptions {
  bool native = true;
  std::string prefix = "llm/v1";            // of the native profile and of the server's status
  std::string tenant;                       // of users that this process has not authenticated
  std::string default_project = "default";  // of native messages without a project
  bool parallel = false;                    // session.order = parallel, of the native profile
  std::vector<ProjectSettings> projects;

  // Name of this entrance, stored with answers that are owed, so that after a restart the same
  // entrance sends them. Unique per entrance.
  std::string server = "mqtt";
  std::string node;               // this server's level in its status topic
  std::string service = "tutti";  // name in a project's status
  std::string version;
  Duration heartbeat = std::chrono::seconds(30);
  Duration statistics = std::chrono::seconds(60);  // interval of log lines

  bool strict = false;  // refuse unknown fields
  DeltaCoalescer::Options coalescing;
  AdmissionQueue::Limits waiting;
  ReplyPublisher::Limits streams;
  FollowLimits follows;
  // Limits of clients' messages that wait for the strand.
  size_t inbox_messages = 1000;
  size_t inbox_bytes = 16 << 20;
  size_t payload_bytes = 1 << 20;
};

// All outlive the profile, except messages of the port that arrive later: those are refused.
struct Services {
  MessagePort& port;
  sessions::Sessions& sessions;
  responses::Responses& responses;
  api::Inference& inference;
  const Clock& clock;
  std::function<int64_t()> unix_ms;  // the wall clock
  Logger& log;
  // Admission check of a session: called on the strand for each new message that is otherwise
  // valid. Empty: all are admitted. Outlives the dialogs. Errors: rate_limit_exceeded, with
  // retry-after.
  std::function<Result<sessions::Admitted>(const sessions::SessionKey&)> admit;
  // The caller for a message with that credential (empty: this process has not authenticated the
  // publisher) and tenant. Errors: those of auth::Authenticator::FromCredential.
  std::function<Result<api::CallerRef>(const std::string& credential, const std::string& tenant)>
      caller_of;
  // Reports a durable job of a tenant once its version is above `version`, or it has ended, or
  // `until` has come. `seen` is called later, on any thread. Like jobs::Jobs::Follow, with its
  // errors. Empty: there are no jobs.
  using JobCallback = std::function<void(Result<protocol::JobView>)>;
  std::function<void(const std::string& tenant, const std::string& id, int64_t version,
                     TimePoint until, JobCallback seen)>
      watch_job = nullptr;
};

class Profile {
 public:
  // Errors: invalid_value, for names that cannot be levels of a topic, and for a project named
  // twice.
  static Result<std::unique_ptr<Profile>> Make(ProfileOptions options, Services services);
  virtual ~Profile() = default;  // Stop()

  // Subscribes to the topics of the native profile, if it is enabled, and of the configured
  // projects. Errors: those of the port.
  virtual Status Subscribe() = 0;
  // Publishes the online status, and repeats it periodically.
  virtual void Start() = 0;
  // Sends the answers that an earlier process owed. Call once, when models are loaded and the
  // dialogs are restored.
  virtual void Resume() = 0;
  // Publishes the status again: after a reconnect, or when other models are served.
  virtual void Announce() = 0;
  // Waits up to a second for the results of last messages; then publishes the offline status if
  // Start() was called. Idempotent.
  virtual void Stop() = 0;

  // The Will for the connection to a broker.
  virtual Message Will() const = 0;
  virtual Statistics statistics() const = 0;
};

struct Context;
class NativeTopics;

// StatusTopic: publishes the server's status as retained messages on
// `{prefix}/server/{node}/status` and on each project's `{project}/status`: online periodically,
// offline when the server stops. Runs on the strand.
//
// A connection has only one Will, which is the server's own status; after a crash the status of
// projects stays online.
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
