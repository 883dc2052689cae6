// WorkInbox: hands work of other threads over to the thread that owns some state, such as an
// io_context's or a strand's. That thread is woken once for all work that has arrived. Work on
// behalf of clients is bounded in number and bytes.
//
// Any thread; never blocks. Held by shared pointers, because who posts may outlive the owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/core_wanted.h"
#include "base/mutex.h"
#include "base/status.h"

namespace tutti {

class WorkInbox : public std::enable_shared_from_this<WorkInbox> {
 public:
  using Work = std::function<void()>;
  struct Limits {  // for Offer()
    size_t items = SIZE_MAX;
    size_t bytes = SIZE_MAX;  // a single item always fits
  };

  // `post` runs its argument on the owner's thread, soon; false: it cannot. Called under a lock,
  // and not after Close(). `settle` runs there after each round of work; may be empty.
  WorkInbox(std::function<bool(Work)> post, const Limits& limits, Work settle = nullptr);

  // Runs `work` on the owner's thread, in order. False: it never runs, because of Seal() or
  // Close().
  bool Post(Work work);
  // Post() for a client; `bytes`: what the work holds. Errors: draining, after Seal() or Close();
  // overloaded.
  Status Offer(size_t bytes, Work work);
  void Wake();   // runs `settle`
  void Seal();   // refuses new work; earlier work still runs
  void Close();  // refuses new work, and drops what has not run

 private:
  struct Item {
    Work work;
    size_t bytes = 0;
    bool offered = false;
  };
  bool AddLocked(Item item) REQUIRES(mutex_);
  bool WakeLocked() REQUIRES(mutex_);
  void RunAll();

  const std::function<bool(Work)> post_;
  const Limits limits_;
  const Work settle_;
  CoreWanted wanted_;
  Mutex mutex_;
  std::vector<Item> waiting_ GUARDED_BY(mutex_);
  size_t items_ GUARDED_BY(mutex_) = 0;  // offered, and not yet begun
  size_t bytes_ GUARDED_BY(mutex_) = 0;  // that these hold
  bool woken_ GUARDED_BY(mutex_) = false;
  bool sealed_ GUARDED_BY(mutex_) = false;
  bool closed_ GUARDED_BY(mutex_) = false;
};

}  // namespace tutti
