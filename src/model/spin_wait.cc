#include "model/spin_wait.h"

#include <sched.h>
#include <time.h>

#include "base/spin_pause.h"

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

}  // namespace tutti::model
