#include "model/team.h"

#include <sched.h>
#include <time.h>

#include "base/threads.h"

namespace tutti::model {

void SpinWait::Pause() {
  constexpr int kPauses = 2000;  // about 50 us: longer than any balanced phase's difference
  constexpr int kYields = 64;
  constexpr timespec kSleep{.tv_sec = 0, .tv_nsec = 20'000};
  if (turns_ < kPauses) {
    ++turns_;
    SpinPause();
  } else if (turns_ < kPauses + kYields) {
    ++turns_;
    sched_yield();
  } else {
    nanosleep(&kSleep, nullptr);
  }
}

PhaseBoard::PhaseBoard(int workers)
    : workers_(workers), claims_(new Claims[static_cast<size_t>(workers)]) {
  CHECK_GE(workers, 1);
}

int Team::Claim(int owner, int pieces) {
  CHECK_LT(pieces, 1 << kPieceBits);
  std::atomic<uint64_t>& word = board_->claims_[static_cast<size_t>(owner)].word;
  const uint64_t phase = position_.phase << kPieceBits;
  uint64_t seen = word.load(std::memory_order_relaxed);
  for (;;) {
    // A word of a later phase means that this phase is over; a word of an earlier phase means that
    // no piece was claimed yet.
    if (seen >= phase + (uint64_t{1} << kPieceBits)) return -1;
    const uint64_t taken = seen < phase ? 0 : seen - phase;
    if (taken >= static_cast<uint64_t>(pieces)) return -1;
    // Acquire: makes visible what earlier phases wrote, which happened before some worker's
    // Complete(), and that before its claim here.
    if (word.compare_exchange_weak(seen, phase + taken + 1, std::memory_order_acq_rel,
                                   std::memory_order_relaxed)) {
      return static_cast<int>(taken);
    }
  }
}

void Team::AwaitComplete() const {
  for (SpinWait wait; !Complete();) wait.Pause();
}

}  // namespace tutti::model
