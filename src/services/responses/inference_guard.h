// CriticalSection: marks code that reads or changes a dialog's data. No inference may begin inside,
// because a dialog held while a model runs would make one client wait for another. HoldTimes:
// histogram of the durations of such sections.
//
// The mark is thread-local; CheckNoSection() aborts the process if a section is open.
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
  // Upper bound of the `part` quantile (0..1), accurate to a factor of two.
  Duration Quantile(double part) const;

 private:
  std::array<std::atomic<uint64_t>, 40> counts_{};  // [i]: up to 2^i ns
  std::atomic<int64_t> max_ns_{0};
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
