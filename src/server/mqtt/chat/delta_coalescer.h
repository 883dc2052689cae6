// DeltaCoalescer: decides which deltas of a text are sent together, so that a stream of tokens does
// not need a message for each. Pure; one owner at a time.
//
// The first delta is sent at once, as is any delta after a pause. Later ones are held until `hold`
// has passed since the first held one, or until they have `bytes` bytes: 100 streams of 50 tokens a
// second are 2,500 messages.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/clock.h"
#include "protocol/responses/events.h"

namespace tutti::mqtt::chat {

// Deltas of one item with successive numbers, as one event with their texts one after the other.
struct Deltas {
  int64_t first = 0, last = 0;
  protocol::TextDeltaEvent event;
};

class DeltaCoalescer {
 public:
  struct Options {
    Duration hold = std::chrono::milliseconds(30);
    size_t bytes = 256;
  };
  explicit DeltaCoalescer(const Options& options) : options_(options) {}

  // `sequence` follows that of the delta before, and the item is the same.
  void Add(int64_t sequence, const protocol::TextDeltaEvent& delta, TimePoint now);
  const Deltas* held() const { return held_.has_value() ? &*held_ : nullptr; }
  // Time at which the held text must be sent; max(): no text is held.
  TimePoint due() const { return due_; }
  // The held text has been sent or dropped.
  void Sent(TimePoint now);

 private:
  const Options options_;
  std::optional<Deltas> held_;
  TimePoint due_ = TimePoint::max();
  std::optional<TimePoint> sent_;  // when the last was
};

}  // namespace tutti::mqtt::chat
