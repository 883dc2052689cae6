// Where a request goes: the choice of a worker, the requests that may have killed one, and the
// names of the models that are waited for.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/types.h"
#include "base/clock.h"

namespace tutti::cluster {

// --- the choice of a worker ---
//
// Among the workers that can serve a request's model soonest, a long prompt goes to the one that
// had prompts of the same beginning, because that worker likely has their KV blocks (rendezvous
// hashing: Thaler and Ravishankar 1998; a worker that joins or leaves moves no prompt between the
// others), unless that worker is much busier than the least busy one. Every other request goes to
// the least busy worker. Pure.

// What a worker has to do before it can serve a model, the cheapest first. The first three compete
// by load: a worker that would have to load the model into free memory is chosen when those that
// have it are so busy that the load pays. Nothing is unloaded for a model that another worker has.
enum class Readiness : uint8_t {
  kLoaded,
  kLoading,   // or a request that waits for it has been sent there
  kFits,      // into free memory
  kEvicts,    // others must leave first
  kFailed,    // the last load failed
  kTooLarge,  // for the memory budget, or for what pinned models leave of it
};

// Bytes of a worker's models. `budget` 0: no limit.
struct WorkerMemory {
  int64_t budget = 0;
  int64_t used = 0;    // loaded, being loaded or unloaded, or requested
  int64_t pinned = 0;  // the part of `used` that is pinned
};

// `requested`: the worker has requests for the model.
Readiness ReadinessOf(const api::ModelStatus& model, bool requested, const WorkerMemory& memory);

struct Candidate {
  uint64_t name_hash = 0;
  int load = 0;          // requests assigned to it
  int max_num_seqs = 1;  // requests that it computes concurrently
  Readiness readiness = Readiness::kLoaded;
};

// Index of the chosen worker; nothing if there are no candidates. `key`: AffinityKey() of the
// prompt, 0 if any worker will do.
std::optional<size_t> ChooseWorker(std::span<const Candidate> candidates, uint64_t key);

// Hash of the tenant and the first `least` bytes of the prompt; 0 for a prompt of fewer bytes.
uint64_t AffinityKey(const std::string& tenant, const api::Prompt& prompt, size_t least);
uint64_t HashOf(std::string_view text);

// --- suspects ---

// SHA-256 of the request's content.
using Fingerprint = std::array<uint8_t, 32>;

// Requests that were in flight when a worker died, identified by their content. One of them may
// have killed the worker and would kill the next one; so suspects are tried one at a time, and a
// request that is on trial when another worker dies is quarantined. An equal request is treated
// alike, whether a client, a job or the frontend itself sends it.
//
// Not thread-safe. Comparable to RabbitMQ's delivery limit for poison messages, but by content,
// because a generation has no message that is redelivered.
class Suspects {
 public:
  static constexpr size_t kMost = 4096;  // the oldest are forgotten first
  static constexpr Duration kRemembered = std::chrono::minutes(10);
  static constexpr Duration kQuarantine = std::chrono::hours(1);

  enum class Standing : uint8_t { kClear, kSuspect, kQuarantined };
  Standing Of(const Fingerprint& request, TimePoint now);

  // Records that the request was in flight when its worker died. `on_trial`: it was the only
  // suspect at that worker. Returns its new standing.
  Standing Died(const Fingerprint& request, bool on_trial, TimePoint now);
  // Records that the request was answered: it is no longer a suspect; a quarantined request stays
  // quarantined.
  void Answered(const Fingerprint& request);
  size_t size() const { return known_.size(); }

 private:
  struct Entry {
    Standing standing = Standing::kSuspect;
    TimePoint until;
    std::list<Fingerprint>::iterator age;
  };
  std::map<Fingerprint, Entry> known_;
  std::list<Fingerprint> ages_;  // the oldest first
};

// --- known models ---

// The names of all models that workers have brought. For some time after its last worker has gone,
// a model counts as temporarily unavailable; only then as unknown.
//
// Not thread-safe. The name of a model that a worker has is kept; a name without a worker is kept
// for kRemembered, and at most kMaxGone such names, the latest ones.
class KnownModels {
 public:
  static constexpr Duration kRemembered = std::chrono::hours(1);
  static constexpr size_t kMaxGone = 256;

  // The models of one worker, by ids and aliases. Left() is called with the same models as Came().
  void Came(const std::vector<api::ModelInfo>& models, TimePoint now);
  void Left(const std::vector<api::ModelInfo>& models, TimePoint now);
  bool Contains(const std::string& name, TimePoint now) const;
  // Ids of the models, in the order in which they came: the first generator is the default model.
  const std::vector<std::string>& ids() const { return ids_; }

 private:
  struct Name {
    int holders = 0;  // workers that have it
    TimePoint left;   // when its last worker left
  };
  void Hold(const std::string& name);
  void Release(const std::string& name, TimePoint now);
  void Forget(TimePoint now);

  std::map<std::string, Name> names_;
  std::set<std::pair<TimePoint, std::string>> gone_;  // names without a worker, the oldest first
  std::vector<std::string> ids_;
};

}  // namespace tutti::cluster
