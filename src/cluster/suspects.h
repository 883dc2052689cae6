// Suspects: requests that were in flight when a worker died, identified by their content. One of
// them may have killed the worker and would kill the next one; so suspects are tried one at a time,
// and a request that is on trial when another worker dies is quarantined. An equal request is
// treated alike, whether a client, a job or the frontend itself sends it.
//
// Not thread-safe. Comparable to RabbitMQ's delivery limit for poison messages, but by content,
// because a generation has no message that is redelivered.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>

#include "base/clock.h"

namespace tutti::cluster {

// SHA-256 of the request's content.
using Fingerprint = std::array<uint8_t, 32>;

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

}  // namespace tutti::cluster
