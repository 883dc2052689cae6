// A durable job as clients see it: the resource of /v1/jobs, the events of its life, lists of them;
// and the header that makes a request one. In the words of RFC 7240 (Prefer) and of our own. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tutti::wire {

// As the store has it. `dead` is a failure after the last attempt, which can be begun again.
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
// "queued", "running", "completed", "failed" (also of dead ones), "cancelled", "expired".
std::string_view JobStateName(JobState state);
// Which states a public word stands for; none: it is none.
std::span<const JobState> StatesNamed(std::string_view word);

struct JobView {
  std::string id;    // "job_..."
  std::string kind;  // "chat.completions"
  JobState state = JobState::kQueued;
  int64_t version = 1;  // counts what of it changed
  bool past = false;    // as it was: later versions are known
  int64_t attempt = 0, max_attempts = 0;
  int64_t created_ms = 0, started_ms = 0, finished_ms = 0;  // unix; 0 = not yet
  int64_t run_at_ms = 0;                                    // not before
  int64_t deadline_ms = 0, expires_ms = 0;                  // until it must be done; is kept
  std::optional<int64_t> position, eta_ms;                  // of one that waits
  bool paused = false;                                      // its owner's queue
  int64_t progress_tokens = 0;
  std::string result;  // JSON; empty: none
  std::string error;   // JSON, {"code","message","param"}; empty: none
  // How far the telling of its end is (webhooks::Delivery); an empty status: nobody is told.
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

// {"code","message","param"} of what failed, as a client may see it.
std::string JobErrorJson(const Status& status);
// Back to a status of that code; internal_error where it cannot be read.
Status JobErrorOf(std::string_view json);

// How long a client may wait for a job's end in one request.
inline constexpr int64_t kMostWaitSeconds = 60;

// Prefer: what of it is ours.
struct Preference {
  bool respond_async = false;
  std::optional<std::chrono::seconds> wait;
};
// All values of the field, joined by commas. What is malformed or unknown is no preference.
Preference ReadPrefer(std::string_view field);

}  // namespace tutti::wire
