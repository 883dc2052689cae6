// WakeList: readers of token streams to wake at the end of a step, each once however many requests
// it reads. Engine thread. Wakers are not owned and must live until WakeAll().
#pragma once

#include <algorithm>
#include <vector>

#include "api/token_stream.h"

namespace tutti::engine {

class WakeList {
 public:
  void Add(Waker* waker) {
    if (waker != nullptr) wakers_.push_back(waker);
  }
  void WakeAll() {
    if (wakers_.empty()) return;
    std::sort(wakers_.begin(), wakers_.end());
    wakers_.erase(std::unique(wakers_.begin(), wakers_.end()), wakers_.end());
    for (Waker* waker : wakers_) waker->Wake();
    wakers_.clear();
  }

 private:
  std::vector<Waker*> wakers_;
};

}  // namespace tutti::engine
