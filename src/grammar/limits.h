// Budget: bounds what compiling one grammar may cost.
//
// Counted in units of work and bytes, not in time, so that the same grammar is accepted or refused
// on every machine. Owned by one compilation; one thread, except for `cancelled`, which any thread
// may set. Once exhausted, every further Take() fails: callers return at their next check.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/status.h"

namespace tutti::grammar {

struct Limits {
  // Chosen so that what uses it up is refused within 250 ms of CPU; a unit is a few nanoseconds.
  uint64_t work = 20'000'000;
  size_t bytes = 48 << 20;      // of all tables that exist at one time
  size_t states = 1 << 16;      // of the finished automaton
  size_t text_bytes = 1 << 20;  // of the schema, expression or grammar text
  size_t depth = 64;            // nesting of schemas, groups and rules' bodies
};

class Budget {
 public:
  explicit Budget(const Limits& limits, const std::atomic<bool>* cancelled = nullptr)
      : limits_(limits), cancelled_(cancelled) {}

  const Limits& limits() const { return limits_; }
  // False when the work is used up or the request was cancelled.
  bool Take(uint64_t work) {
    work_ += work;
    if (work_ > limits_.work) exhausted_ = true;
    if (cancelled_ != nullptr && cancelled_->load(std::memory_order_relaxed)) exhausted_ = true;
    return !exhausted_;
  }
  bool TakeBytes(size_t bytes) {
    bytes_ += bytes;
    if (bytes_ > limits_.bytes) exhausted_ = true;
    return !exhausted_;
  }
  void ReturnBytes(size_t bytes) { bytes_ -= bytes; }
  void Exhaust() { exhausted_ = true; }
  bool exhausted() const { return exhausted_; }
  uint64_t work() const { return work_; }
  // grammar_too_complex, or cancelled.
  Status status() const {
    if (!exhausted_) return OkStatus();
    if (cancelled_ != nullptr && cancelled_->load()) return Cancelled();
    return InvalidArgument("grammar_too_complex",
                           "grammar is too complex to compile; simplify it or lower its counts");
  }

 private:
  const Limits limits_;
  const std::atomic<bool>* const cancelled_;
  uint64_t work_ = 0;
  size_t bytes_ = 0;
  bool exhausted_ = false;
};

}  // namespace tutti::grammar
