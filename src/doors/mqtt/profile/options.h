// What an operator says about the profiles, and what they are given to work with. Plain values.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "api/inference.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "doors/mqtt/profile/delta_coalescer.h"
#include "doors/mqtt/profile/reply_streams.h"
#include "doors/mqtt/profile/waiting_room.h"
#include "mqtt/message_port.h"
#include "services/responses/responses.h"
#include "services/sessions/sessions.h"
#include "wire/job.h"

namespace tutti::mqtt::profile {

enum class ReplyFormat { kText, kJson };

// A project of the project profile: only these are subscribed to.
struct ProjectSettings {
  std::string name;    // one plain level of a topic
  std::string tenant;  // that it works for
  std::string model;   // empty: the default one
  ReplyFormat reply_format = ReplyFormat::kText;
  bool stream = false;    // chunks as the answer comes, as JSON whatever the format
  bool parallel = false;  // session.order = parallel
};

// Durable jobs that are followed at once.
struct FollowLimits {
  size_t all = 4000;
  size_t per_user = 400;
};

struct ProfileOptions {
  bool native = true;
  std::string prefix = "llm/v1";            // of the native profile and of the server's status
  std::string tenant;                       // of users whom nobody here has authenticated
  std::string default_project = "default";  // of native messages that name none
  bool parallel = false;                    // session.order = parallel, of the native profile
  std::vector<ProjectSettings> projects;

  // This way in, by which answers that are owed are known: two ways in have two names.
  std::string door = "mqtt";
  std::string node;               // this server's level of its status topic
  std::string service = "tutti";  // in a project's status
  std::string version;
  Duration heartbeat = std::chrono::seconds(30);
  Duration statistics = std::chrono::seconds(60);  // between two lines in the log

  bool strict = false;  // fields that nobody knows are refused
  DeltaCoalescer::Options coalescing;
  WaitingRoom::Limits waiting;
  ReplyStreams::Limits streams;
  FollowLimits follows;
  // Messages of clients on their way to the strand.
  size_t inbox_messages = 1000;
  size_t inbox_bytes = 16 << 20;
  size_t payload_bytes = 1 << 20;
};

// All outlive the profile but for the port's messages: those that come later are refused.
struct Services {
  MessagePort& port;
  sessions::Sessions& sessions;
  responses::Responses& responses;
  api::Inference& inference;
  const Clock& clock;
  std::function<int64_t()> unix_ms;  // the wall clock
  Logger& log;
  // Whether a session may say one more thing now; on the strand, of each new message that is else
  // taken. Empty: it always may. It outlives the dialogs. Errors: rate_limit_exceeded, with
  // retry-after.
  std::function<Result<sessions::Admitted>(const sessions::SessionKey&)> admit;
  // Who asks, of a message of that credential (empty: nobody here has authenticated its publisher)
  // for that tenant. Errors: as auth::Authority::FromCredential.
  std::function<Result<api::CallerRef>(const std::string& credential, const std::string& tenant)>
      caller_of;
  // A tenant's durable job once its version is above that, or it has ended, or `until` has come;
  // `seen` on any thread, later. As jobs::Jobs::Follow, with its errors. Empty: there are no jobs.
  using JobSeen = std::function<void(Result<wire::JobView>)>;
  std::function<void(const std::string& tenant, const std::string& id, int64_t version,
                     TimePoint until, JobSeen seen)>
      watch_job = nullptr;
};

}  // namespace tutti::mqtt::profile
