// TerminalSignals: while a line is edited the signals that would end, stop or disturb the program
// are noted, so that the terminal can be put back before they act.
//
// A handler only sets a bit and writes a byte, for it runs on any thread and within any call. Owner
// and thread: the line reader, which Begins before it changes the terminal and Ends when it has put
// it back. Handlers are the process's: one object at a time.
#pragma once

#include <signal.h>

#include <array>
#include <memory>

namespace tutti::cli {

class TerminalSignals {
 public:
  // Nothing where the system has no pipe left.
  static std::unique_ptr<TerminalSignals> Create();
  ~TerminalSignals();
  TerminalSignals(const TerminalSignals&) = delete;
  TerminalSignals& operator=(const TerminalSignals&) = delete;

  // A signal that is ignored, as SIGHUP below nohup, stays so.
  void Begin();
  // The actions from before; an ending signal that was not acted on ends the program here.
  void End();

  // Readable after a signal, until Drain().
  int fd() const { return wake_[0]; }
  void Drain();
  // Whether `number` came since it was last asked for.
  bool Take(int number);
  // Gives the first ending signal that came (SIGTERM, SIGHUP, SIGQUIT), or 0.
  int TakeEnding();
  // Lets the action from before have `number` now; returns where that does not end the program.
  void Act(int number);

 private:
  struct Noted {
    int number;
    struct sigaction before;
  };
  explicit TerminalSignals(std::array<int, 2> wake);
  static void Note(int number);
  static void Install(Noted& noted);

  const std::array<int, 2> wake_;
  std::array<Noted, 7> noted_{};
  bool begun_ = false;
};

}  // namespace tutti::cli
