// Suspects: requests that were in flight when a worker died, known by what they ask. One of them
// may have killed it, and would kill the next one too; so they are tried one at a time, and what is
// on trial when another worker dies is quarantined. Whoever asks the same again is met with the
// same care, whether a client, a job or the front itself asks.
//
// Not thread-safe. As RabbitMQ's delivery limit for poison messages, but by content, as a
// generation has no message that is redelivered.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>

#include "base/clock.h"

namespace tutti::remote {

// SHA-256 of what is asked.
using Fingerprint = std::array<uint8_t, 32>;

class Suspects {
 public:
  static constexpr size_t kMost = 4096;  // the oldest are forgotten first
  static constexpr Duration kRemembered = std::chrono::minutes(10);
  static constexpr Duration kQuarantine = std::chrono::hours(1);

  enum class Standing : uint8_t { kClear, kSuspect, kQuarantined };
  Standing Of(const Fingerprint& request, TimePoint now);

  // It was in flight when its worker died. `on_trial`: as the only suspect there. What it is now.
  Standing Died(const Fingerprint& request, bool on_trial, TimePoint now);
  // It was answered: it is suspect no more.
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

}  // namespace tutti::remote
