// The terminal of a command that changes its modes: the signals meanwhile, and typed passwords.
#pragma once

#include <signal.h>
#include <termios.h>

#include <array>
#include <memory>
#include <string>

#include "base/status.h"

namespace tutti::cli {

// TerminalSignals: while a line is edited, signals that would end the program put the terminal back
// first, and those that would stop or disturb it are noted for the line reader.
//
// A handler runs on any thread and within any call: it notes a signal by a bit and a byte, and an
// ending one it acts on itself, for the line reader may be held in a write to a terminal that is
// stopped. Owner and thread: the line reader, which Begins before it changes the terminal and Ends
// when it has put it back. Handlers are the process's: one object at a time.
class TerminalSignals {
 public:
  // Returns null if the system has no pipe left.
  static std::unique_ptr<TerminalSignals> Create();
  ~TerminalSignals();
  TerminalSignals(const TerminalSignals&) = delete;
  TerminalSignals& operator=(const TerminalSignals&) = delete;

  // A signal that is ignored, as SIGHUP below nohup, stays so.
  void Begin();
  // The actions from before.
  void End();

  // From now on until Leave() an ending signal gives the terminal on standard input these modes.
  void PutBackAtEnd(const termios& modes);
  void Leave();

  // Readable after a signal, until Drain().
  int fd() const { return wake_[0]; }
  void Drain();
  // Whether `number` came since it was last asked for.
  bool Take(int number);
  // Lets the action from before have `number` now; returns when it has acted.
  void Act(int number);

 private:
  struct Noted {
    int number;
    struct sigaction before;
  };
  explicit TerminalSignals(std::array<int, 2> wake);
  static void Note(int number);
  static void PutBackAndEnd(int number);
  static void Install(Noted& noted);

  const std::array<int, 2> wake_;
  std::array<Noted, 7> noted_{};
  bool begun_ = false;
};

// --- passwords from the user of a command: typed without echo, or a line of standard input; never
// from an argument, which every process of the machine can read. These use the standard streams and
// the process's signals; one call at a time. ---

// Asks for a new password twice at a terminal. Errors: no_terminal, cancelled, invalid_value (the
// two differ).
Result<std::string> TypedPassword();

// Asks once for an existing password at a terminal. Errors: no_terminal, cancelled.
Result<std::string> AskedPassword();

// Reads the only line of descriptor `fd`, without its end. Errors: invalid_value (no line, several
// lines, or one that is too long), io_error. `source`: name of the input in messages.
Result<std::string> PipedPassword(int fd, const std::string& source = "standard input");

// Reads the password from a file that only its owner may read. Errors: those of PipedPassword().
Result<std::string> PasswordOfFile(const std::string& path);

}  // namespace tutti::cli
