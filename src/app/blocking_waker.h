// BlockingWaker: lets a thread of its own wait for one stream's next event, for an encoding, or for
// whatever else wakes it: the terminal programs and the benches. Doors with many streams use one
// waker per io thread instead, the library a JobWaker, which also reports text as taken.
#pragma once

#include <chrono>

#include "api/encoding.h"
#include "api/token_stream.h"
#include "base/clock.h"
#include "base/wake_count.h"

namespace tutti::app {

class BlockingWaker final : public api::StreamWaker {
 public:
  void Wake() noexcept override { wakes_.Raise(); }

  // For who waits for more than one thing: the count, then a look at them, then a wait for another
  // count. False when `deadline` passed first.
  uint64_t count() { return wakes_.count(); }
  bool Wait(uint64_t seen, TimePoint deadline) { return wakes_.Wait(seen, deadline); }

  // The next event of `generation`, waiting for it; nullptr after the terminal one, or when
  // `timeout` passed.
  const api::StreamEvent* Next(api::Generation& generation, std::chrono::milliseconds timeout =
                                                                std::chrono::milliseconds::max()) {
    const TimePoint deadline = After(std::chrono::steady_clock::now(), timeout);
    while (true) {
      const uint64_t seen = count();
      if (const api::StreamEvent* event = generation.Next()) {
        generation.Consumed(event->text.size());
        return event;
      }
      if (generation.stream().ended()) return generation.Next();  // ended between the two looks
      if (!wakes_.Wait(seen, deadline)) return nullptr;
    }
  }

  // The end of `encoding`, waiting for it.
  Result<api::EncodeResult> Await(api::Encoding& encoding) {
    while (true) {
      const uint64_t seen = count();
      if (encoding.done()) return encoding.Take();
      wakes_.Wait(seen, TimePoint::max());
    }
  }

 private:
  WakeCount wakes_;
};

}  // namespace tutti::app
