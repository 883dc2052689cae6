// CriticalSection: a stretch of code that reads or changes a dialog's data, measured, and in which
// no inference may begin: waiting for a model with a dialog's data held is what makes one client
// wait for another. HoldTimes: how long such sections took.
//
// The mark is the thread's; CheckNoSection() ends the process where a section is open.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/clock.h"

namespace tutti::responses {

// Any thread.
class HoldTimes {
 public:
  void Add(Duration held);
  uint64_t count() const;
  Duration most() const;
  // That at least the `part` (0..1) of all were no longer than, to a factor of two.
  Duration Quantile(double part) const;

 private:
  std::array<std::atomic<uint64_t>, 40> counts_{};  // [i]: up to 2^i ns
  std::atomic<int64_t> most_ns_{0};
};

class CriticalSection {
 public:
  explicit CriticalSection(HoldTimes* times);
  ~CriticalSection();
  CriticalSection(const CriticalSection&) = delete;
  CriticalSection& operator=(const CriticalSection&) = delete;

 private:
  HoldTimes* const times_;
  const TimePoint begin_;
};

void CheckNoSection();

}  // namespace tutti::responses
