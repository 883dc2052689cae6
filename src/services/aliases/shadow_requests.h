// ShadowRequests: copies of clients' requests that run at a shadow model. Their answers are read
// and discarded; what stays are counts.
//
// Owned by AliasInference. Any thread may call Start() and counts(). A thread of its own, which the
// first copy starts, reads the answers. The destructor cancels the copies that run.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "api/encoding.h"
#include "api/token_stream.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "base/waker.h"

namespace tutti::aliases {

// Copies that run at once. Each holds its prompt and a place in the shadow model's queue.
inline constexpr size_t kMaxShadows = 16;

class ShadowRequests {
 public:
  struct Counts {
    uint64_t completed = 0;
    uint64_t failed = 0;   // refused by the model, or ended with an error
    uint64_t dropped = 0;  // not started, because kMaxShadows ran
    uint64_t output_tokens = 0;
    Duration time{0};  // from the start to the end of the completed ones
  };

  // `clock` outlives it.
  explicit ShadowRequests(const Clock* clock) : clock_(*clock) {}
  ~ShadowRequests();
  ShadowRequests(const ShadowRequests&) = delete;
  ShadowRequests& operator=(const ShadowRequests&) = delete;

  // Calls `begin`, which starts the copy with the given waker, unless too many run. It is called on
  // this thread, without a lock.
  using BeginGeneration = std::function<Result<api::Generation>(std::shared_ptr<Waker>)>;
  using BeginEncoding = std::function<Result<api::Encoding>(std::shared_ptr<Waker>)>;
  template <typename Begin>
  void Start(const std::string& alias, Begin begin) {
    if (!TakePlace(alias)) return;
    auto begun = begin(waker_);
    if (!begun.ok()) return Refused(alias);
    Add(Shadow{alias, clock_.Now(), *std::move(begun)});
  }

  std::map<std::string, Counts> counts() const;  // by alias
  size_t running() const;

 private:
  // One copy; exactly one of the handles is set.
  struct Shadow {
    Shadow(std::string name, TimePoint now, api::Generation answer)
        : alias(std::move(name)), begun(now), generation(std::move(answer)) {}
    Shadow(std::string name, TimePoint now, api::Encoding answer)
        : alias(std::move(name)), begun(now), encoding(std::move(answer)) {}
    std::string alias;
    TimePoint begun;
    api::Generation generation;
    api::Encoding encoding;
  };
  class CountingWaker final : public Waker {
   public:
    void Wake() noexcept override { wakes.Raise(); }
    WakeCount wakes;
  };

  bool TakePlace(const std::string& alias);
  void Refused(const std::string& alias);
  void Add(Shadow shadow);
  // Reads what there is; true if the copy has ended, and is counted.
  bool Read(Shadow& shadow);
  void Main();

  const Clock& clock_;
  const std::shared_ptr<CountingWaker> waker_ = std::make_shared<CountingWaker>();
  mutable Mutex mutex_;
  std::map<std::string, Counts> counts_ GUARDED_BY(mutex_);
  size_t places_ GUARDED_BY(mutex_) = 0;  // taken
  std::vector<Shadow> arrived_ GUARDED_BY(mutex_);
  bool stop_ GUARDED_BY(mutex_) = false;
  std::thread thread_ GUARDED_BY(mutex_);  // not started before the first copy
};

}  // namespace tutti::aliases
