// AdmissionQueue: counts the messages of all sessions that are accepted but not yet answered.
// Limits their number, and keeps statistics of outcomes and times.
//
// Thread-safe; nothing blocks. Outlives its permits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"

namespace tutti::mqtt::chat {

// The user for whose limits a message or an answer counts; or, behind a broker that does not
// identify the users of a project, all users of that project together. Both empty: not limited.
struct QuotaKey {
  std::string user = {};
  std::string project = {};  // empty if the user is known

  bool empty() const { return user.empty() && project.empty(); }
  friend bool operator<(const QuotaKey& a, const QuotaKey& b) {
    return std::tie(a.user, a.project) < std::tie(b.user, b.project);
  }
};

struct QuotaKeyLimits {
  size_t per_user;
  size_t per_project;  // for projects with unknown users
};

// The number of things that count for each key. Not synchronised.
class QuotaKeyCounts {
 public:
  explicit QuotaKeyCounts(const QuotaKeyLimits& limits) : limits_(limits) {}

  // Checks whether one more is allowed. `what`: name of the counted things, for messages. Error:
  // tenant_concurrency.
  Status RoomFor(const QuotaKey& quota_key, const char* what) const {
    const auto known = counts_.find(quota_key);
    const bool user = !quota_key.user.empty();
    if (known == counts_.end() || known->second < (user ? limits_.per_user : limits_.per_project))
      return OkStatus();
    return ResourceExhausted("tenant_concurrency", std::to_string(known->second) + " " + what +
                                                       " of this " + (user ? "user" : "project") +
                                                       " wait, which is the most");
  }
  void Add(const QuotaKey& quota_key) {
    if (!quota_key.empty()) ++counts_[quota_key];
  }
  void Remove(const QuotaKey& quota_key) {
    const auto known = counts_.find(quota_key);
    if (known != counts_.end() && --known->second == 0) counts_.erase(known);
  }

 private:
  const QuotaKeyLimits limits_;
  std::map<QuotaKey, size_t> counts_;
};

struct Statistics {
  uint64_t processed = 0;  // answered messages
  uint64_t errors = 0;     // messages that were invalid or ended with an error
  uint64_t rejected = 0;   // rejected for a limit or lack of room
  size_t waiting = 0;
  Duration total{0};    // from acceptance to answer, of processed messages
  Duration average{0};  // mean of total
};

class AdmissionQueue {
 public:
  struct Limits {
    size_t all = 1000;
    size_t per_user = 200;
    size_t per_project = 750;  // for unknown users of one project: leaves a quarter to others
  };
  enum class Outcome { kProcessed, kError, kRejected, kLeft };

  // The place of one message, given up by Leave() or the destructor. Movable; one thread at a time.
  class Permit {
   public:
    Permit() = default;
    Permit(Permit&& other) noexcept
        : room_(std::exchange(other.room_, nullptr)),
          quota_key_(std::move(other.quota_key_)),
          entered_(other.entered_) {}
    Permit& operator=(Permit&& other) noexcept;
    ~Permit() { Leave(Outcome::kLeft, entered_); }
    void Leave(Outcome outcome, TimePoint now);
    explicit operator bool() const { return room_ != nullptr; }

   private:
    friend class AdmissionQueue;
    AdmissionQueue* room_ = nullptr;
    QuotaKey quota_key_;
    TimePoint entered_;
  };

  explicit AdmissionQueue(const Limits& limits)
      : limits_(limits), quota_counts_({limits.per_user, limits.per_project}) {}

  // Errors: overloaded, tenant_concurrency.
  Result<Permit> Enter(QuotaKey quota_key, TimePoint now);
  // Counts a message that got no place.
  void Count(Outcome outcome);

  Statistics statistics() const;
  // The room is crowded from 70 % of its limit. Returns +1 if it has become crowded since the last
  // call, -1 if it no longer is, else 0.
  int CrowdingChange();

 private:
  void Leave(const Permit& permit, Outcome outcome, TimePoint now);
  void CountLocked(Outcome outcome) REQUIRES(mutex_);

  const Limits limits_;
  mutable Mutex mutex_;
  QuotaKeyCounts quota_counts_ GUARDED_BY(mutex_);
  Statistics counts_ GUARDED_BY(mutex_);  // without `average`
  bool crowded_ GUARDED_BY(mutex_) = false;
};

}  // namespace tutti::mqtt::chat
