// WaitingRequests: requests that wait until their model is loaded, in order of arrival. Bounded in
// number and bytes.
//
// Owned by the Gateway and guarded by its mutex. An entry leaves once: with its model, with the
// error of the load, or when it was cancelled, expired, or has waited too long.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/live_state.h"
#include "api/token_stream.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "gateway/served_model.h"

namespace tutti::gateway {

// Cancels a request that waits for its model, and later the request in the engine. Any thread.
class WaitControl final : public api::Cancellable {
 public:
  void Cancel() noexcept override;
  bool cancelled() const { return cancelled_.load(std::memory_order_acquire); }
  // Passes cancels on to `control` from now on; one that came earlier, too.
  void Attach(std::shared_ptr<api::Cancellable> control);

 private:
  std::atomic<bool> cancelled_{false};
  Mutex mutex_;
  std::shared_ptr<api::Cancellable> control_ GUARDED_BY(mutex_);
};

struct WaitLimits {
  size_t requests = 1024;
  size_t bytes = size_t{64} << 20;
  Duration time = std::chrono::seconds(120);
};

class WaitingRequests {
 public:
  using Found = Result<std::shared_ptr<const ServedModel>>;
  struct Entry {
    std::string model;
    std::string request_id = {};  // empty: not known
    TimePoint since = {}, deadline = TimePoint::max();
    size_t bytes = 0;
    std::shared_ptr<WaitControl> control = nullptr;  // null: the request cannot be cancelled
    std::function<void(Found)> resume = nullptr;     // called once, without the gateway's mutex
  };
  // An entry and the reason why it waits no longer.
  using Ended = std::pair<Entry, Status>;

  void SetLimits(const WaitLimits& limits) { limits_ = limits; }
  // Error: queue_full.
  Status Add(Entry entry);
  // Removes and returns the requests for `model`, in order.
  std::vector<Entry> Take(std::string_view model);
  std::vector<Entry> TakeAll();
  // Removes and returns the entries that were cancelled, whose deadline has passed, or that have
  // waited for the longest time allowed.
  std::vector<Ended> TakeEnded(TimePoint now);
  size_t size() const { return entries_.size(); }
  // Appends the first ones, for operators.
  void List(TimePoint now, api::LiveState* out) const;

 private:
  template <typename Leaves>
  std::vector<Entry> TakeIf(const Leaves& leaves);

  WaitLimits limits_;
  std::deque<Entry> entries_;
  size_t bytes_ = 0;
};

}  // namespace tutti::gateway
