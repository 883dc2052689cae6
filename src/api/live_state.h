// LiveEngine: a snapshot of one engine for operators: its sequences, the reasons why some wait, its
// KV blocks and its last steps. LiveClient, LiveSession, LiveWorker: the connected chat clients,
// the sessions that are being answered, the workers of a frontend. LiveSource: where servers get
// the snapshots of a process.
//
// Plain values of bounded size; times are those of the process's monotonic clock.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "api/caller.h"
#include "api/request_trace.h"
#include "api/types.h"
#include "base/clock.h"

namespace tutti::api {

// A short text without memory of its own, so that snapshots are taken without allocation. Longer
// texts are cut.
template <size_t kBytes>
class ShortText {
 public:
  void Set(std::string_view text) {
    size_ = static_cast<uint8_t>(std::min(text.size(), kBytes));
    std::memcpy(bytes_.data(), text.data(), size_);
  }
  std::string_view view() const { return {bytes_.data(), size_}; }

 private:
  static_assert(kBytes < 256);
  std::array<char, kBytes> bytes_ = {};
  uint8_t size_ = 0;
};

// A sequence of a decoder, or a request to an encoder.
struct LiveSequence {
  enum class Phase : uint8_t { kWaiting, kPrefill, kDecode, kPaused };
  ShortText<128> request;  // the id of its request
  ShortText<64> tenant;
  ShortText<96> caller;  // Caller::credential; empty: not known
  Phase phase = Phase::kWaiting;
  WaitReason waits_for = WaitReason::kNone;
  Priority priority = Priority::kInteractive;
  uint8_t choice = 0;
  int preemptions = 0;
  int prompt_tokens = 0;
  int cached_tokens = 0;    // prompt tokens that the prefix cache had
  int computed_tokens = 0;  // whose keys and values it has; for an encoder: in finished items
  int output_tokens = 0;
  int max_tokens = 0;             // how many the output may have
  int blocks = 0;                 // KV blocks that it refers to
  int items = 0, items_left = 0;  // for requests to an encoder
  Duration age{0};                // since it was accepted
  Duration waited{0};             // since it waits for this reason
};
std::string_view LivePhaseName(LiveSequence::Phase phase);  // "prefill"

// One step of a decoder, or one batch of an encoder, whose items count as prefill rows.
struct LiveStep {
  uint64_t step = 0;
  TimePoint begin{};
  Duration plan{0};     // what to compute: scheduler, draft model, grammars
  Duration launch{0};   // a runner on the CPU computes here
  Duration collect{0};  // a runner on a GPU is waited for here
  Duration commit{0};   // progress of the sequences, texts and events of their requests
  Duration forward{0};  // the model pass, measured by the runner
  int decode_rows = 0, prefill_rows = 0, prefill_tokens = 0, draft_tokens = 0;
  int output_tokens = 0;
  bool failed = false, aborted = false;
};

struct LiveEngine {
  // A process has few engines, so that these bounds cost at most 400 KiB for each one that is
  // watched.
  static constexpr size_t kMaxRows = 512;
  static constexpr size_t kMaxCells = 4096;
  static constexpr size_t kSteps = 256;

  // State of a block, a character of `kv_map`.
  static constexpr char kFree = '.', kUsed = 'u', kShared = 's', kCached = 'c', kPinned = 'p';

  std::string model;     // set by the LiveSource
  bool encoder = false;  // else a decoder
  TimePoint taken{};     // when
  int max_num_seqs = 0;
  int running = 0, waiting = 0, paused = 0;  // sequences; of an encoder: requests
  int preparing = 0;                         // accepted, and not submitted yet
  int64_t waiting_tokens = 0;
  std::array<int, kWaitReasons> reasons = {};  // sequences that wait or pause, by reason
  // Sequences that run, then those that wait, in the order in which they are looked at, then those
  // that pause. At most kMaxRows.
  std::vector<LiveSequence> sequences;
  int left_out = 0;  // sequences without a row

  int kv_blocks = 0, kv_free = 0, kv_cached = 0;
  int kv_used = 0;    // referenced by one sequence
  int kv_shared = 0;  // referenced by several
  int kv_pinned = 0;
  // A character for each block, or for each `kv_cell_blocks` blocks: the state that most of them
  // have. At most kMaxCells.
  std::string kv_map;
  int kv_cell_blocks = 1;

  std::vector<LiveStep> steps;  // the last ones, ascending; at most kSteps
  uint64_t steps_total = 0;
  // Rates over the last 5 s, or over the time that `steps` cover if that is shorter.
  double output_tokens_per_s = 0, prompt_tokens_per_s = 0;
  double busy_share = 0;  // share of that time in which the device computed for this engine
};

// A request that waits until its model is loaded.
struct LiveModelWait {
  std::string request;  // empty: not known
  std::string model;
  Duration waited{0};
};

// A connected client with chat sessions.
struct LiveClient {
  enum class Protocol : uint8_t { kMqtt311, kMqtt5, kWebSocket };
  Protocol protocol = Protocol::kMqtt5;
  std::string client_id;  // empty: a WebSocket
  std::string tenant, user;
  TimePoint since{};      // when it logged in
  int subscriptions = 0;  // 0 for a WebSocket
};
std::string_view LiveProtocolName(LiveClient::Protocol protocol);  // "mqtt5"

// A session with a turn that runs or waits. Nothing of its messages.
struct LiveSession {
  std::string tenant, project, session;
  std::string user;              // empty: not the session of a user
  std::string response;          // the id of the first running turn's response; empty: none runs
  int running = 0, waiting = 0;  // turns
};

// A worker that is attached to this frontend.
struct LiveWorker {
  std::string name;
  bool draining = false;
  std::vector<std::string> models;  // those that are loaded; at most kMaxModels
  int models_left_out = 0;
  int in_flight = 0;                               // requests and questions that it has
  int running = 0, waiting = 0, max_num_seqs = 0;  // as it last said
  Duration silent{0};                              // since its last message
  static constexpr size_t kMaxModels = 16;
};

// A tenant, a key or a model of a tenant with limits, and what is left of them.
struct LiveLimits {
  std::string of;    // "tenant", "key", "model"
  std::string name;  // a tenant, a credential, or TENANT/MODEL
  struct Limit {
    std::string_view name;  // "requests_per_minute"
    RateLimit state;
  };
  std::vector<Limit> limits;
};

struct LiveState {
  std::vector<LiveEngine> engines;
  bool engines_elsewhere = false;          // this process is a frontend
  std::vector<LiveModelWait> model_waits;  // at most kMaxModelWaits
  int model_waits_total = 0;
  int preparing = 0;                // requests whose prompts are being read
  std::vector<LiveClient> clients;  // the newest ones first; at most kMaxClients of each server
  int clients_left_out = 0;
  std::vector<LiveSession> sessions;  // those with a running turn first; at most kMaxSessions
  int sessions_left_out = 0;
  std::vector<LiveWorker> workers;  // at most kMaxWorkers
  int workers_left_out = 0;
  std::vector<LiveLimits> limits;  // the nearest to a limit first; at most kMaxLimits
  static constexpr size_t kMaxModelWaits = 64, kMaxLimits = 64;
  static constexpr size_t kMaxClients = 64, kMaxSessions = 512, kMaxWorkers = 64;
};

// Any thread; no call blocks for an engine.
class LiveSource {
 public:
  // Engines take one snapshot in this time at most.
  static constexpr Duration kMinInterval = std::chrono::milliseconds(250);

  virtual ~LiveSource() = default;
  // Asks all engines for a snapshot, which they take before their next step. Nothing happens within
  // kMinInterval of the last time: call it again until TakenSince() holds.
  virtual void Ask() = 0;
  // Whether the last snapshots of all engines were taken at `since` or later.
  virtual bool TakenSince(TimePoint since) const = 0;
  // The last snapshots. An engine that was never asked, or has not answered yet, is missing.
  virtual LiveState Read() const = 0;
};

}  // namespace tutti::api
