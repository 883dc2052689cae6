// BlockingWaker: lets a thread block for the next event of a stream or for an encoding; used by the
// terminal programs and benchmarks. Servers with many streams have one waker per I/O thread
// instead; the library has JobWaker, which also reports text as consumed.
#pragma once

#include <chrono>

#include "api/encoding.h"
#include "api/token_stream.h"
#include "base/clock.h"
#include "base/mutex.h"

namespace tutti::app {

class BlockingWaker final : public Waker {
 public:
  void Wake() noexcept override { wakes_.Raise(); }

  // For waiting on several sources: read the count, check all sources, then wait for a different
  // count. Returns false at `deadline`.
  uint64_t count() { return wakes_.count(); }
  bool Wait(uint64_t seen, TimePoint deadline) { return wakes_.Wait(seen, deadline); }

  // Blocks for the next event of `generation`; nullptr after the terminal event or at the timeout.
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

  // Blocks for the end of `encoding`.
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
