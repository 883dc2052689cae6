// Waker: callback for "there is something new": a stream has grown, or a log. The writer's thread
// calls Wake() at most once per step for each distinct waker, even if it serves several streams.
// Wake() must be cheap and neither block nor throw.
#pragma once

namespace tutti {

class Waker {
 public:
  virtual ~Waker() = default;
  virtual void Wake() noexcept = 0;
};

}  // namespace tutti
