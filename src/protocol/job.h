// JSON of durable jobs: the resource of /v1/jobs, its events, lists; and the Prefer header (RFC
// 7240) that turns a request into a job. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tutti::protocol {

// States in the store. `dead`: failed after the last attempt; it can be replayed.
enum class JobState : uint8_t {
  kQueued,
  kRunning,
  kSucceeded,
  kFailed,
  kCancelled,
  kExpired,
  kDead,
};
constexpr bool Ended(JobState state) { return state >= JobState::kSucceeded; }
// Public name: "queued", "running", "completed", "failed" (also for `dead`), "cancelled",
// "expired".
std::string_view JobStateName(JobState state);
// States of a public name; empty if the name is unknown.
std::span<const JobState> StatesNamed(std::string_view word);

struct JobView {
  std::string id;    // "job_..."
  std::string kind;  // "chat.completions"
  JobState state = JobState::kQueued;
  int64_t version = 1;  // counts what of it changed
  bool past = false;    // an old version: later ones are known
  int64_t attempt = 0, max_attempts = 0;
  int64_t created_ms = 0, started_ms = 0, finished_ms = 0;  // unix; 0 = not yet
  int64_t run_at_ms = 0;                                    // not before
  int64_t deadline_ms = 0, expires_ms = 0;                  // until it must be done; is kept
  std::optional<int64_t> position, eta_ms;                  // of one that waits
  bool paused = false;                                      // its owner's queue
  int64_t progress_tokens = 0;
  std::string result;  // JSON; empty: none
  std::string error;   // JSON, {"code","message","param"}; empty: none
  // Delivery state of the webhook (webhooks::Delivery); empty status: no webhook.
  struct Webhook {
    std::string status;
    int64_t attempts = 0;
    std::string error;  // of the last attempt that failed
  };
  Webhook webhook;
};
std::string JobJson(const JobView& job);
// The same within an event: {"type":"job.running","sequence_number":N,"job":{...}}, N the version.
std::string JobEventType(const JobView& job);
std::string JobEvent(const JobView& job);
// A page, newest first or oldest first as they come.
std::string JobListJson(std::span<const JobView> jobs, bool more);

// {"code","message","param"} of an error, for clients.
std::string JobErrorJson(const Status& status);
// Parses that JSON to a status; internal_error if it is malformed.
Status JobErrorOf(std::string_view json);

// Maximum time that a request may wait for the end of a job.
inline constexpr int64_t kMaxWaitSeconds = 60;

// The supported preferences of a Prefer header.
struct Preference {
  bool respond_async = false;
  std::optional<std::chrono::seconds> wait;
};
// Parses all values of the field, joined by commas. Malformed and unknown preferences are ignored.
Preference ReadPrefer(std::string_view field);

}  // namespace tutti::protocol
