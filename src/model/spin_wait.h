// SpinWait: how a worker waits for others that should be done within microseconds.
//
// It spins first: a kernel wake-up costs more than any balanced phase's difference. Then it gives
// its time slice away, so that more workers than free cores make progress. When that has not
// helped, whoever is waited for has been put aside for a task of another process, for milliseconds;
// then it sleeps in short turns: an idle core is where the system moves such a thread to, and a
// core with a spinning one never looks idle. One object per wait; any thread.
#pragma once

namespace tutti::model {

class SpinWait {
 public:
  void Pause();  // call it between looks

 private:
  int turns_ = 0;
};

}  // namespace tutti::model
