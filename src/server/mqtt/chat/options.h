// The operator's settings of the profiles, and the services that the profiles use. Plain values.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "api/inference.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "mqtt/message_port.h"
#include "protocol/job.h"
#include "server/mqtt/chat/admission_queue.h"
#include "server/mqtt/chat/delta_coalescer.h"
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

}  // namespace tutti::mqtt::chat
