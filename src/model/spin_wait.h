// SpinWait: how a worker waits for other workers that should be done within microseconds.
//
// It spins first: a kernel wake-up costs more than the difference between workers of a balanced
// phase. Then it yields its time slice, so that more workers than free cores make progress. When
// that has not helped, the other worker was preempted by another process, for milliseconds. Then
// the waiting worker sleeps in short turns: the kernel moves a preempted thread to an idle core,
// and a core with a spinning thread never looks idle. One object per wait; any thread.
#pragma once

namespace tutti::model {

class SpinWait {
 public:
  void Pause();  // call it between looks

 private:
  int turns_ = 0;
};

}  // namespace tutti::model
