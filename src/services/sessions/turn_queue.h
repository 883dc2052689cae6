// TurnQueue: decides which message of a session is answered and which ones wait. Pure: no thread,
// clock, store or model; owned by its Session and used on the strand.
//
// Turns run one after the other: turn n + 1 begins after turn n has ended (committed or failed), so
// that the history is u1 a1 u2 a2 however fast messages come. Messages marked parallel begin while
// other parallel ones run. The policy of a message that arrives while a turn runs:
//
//   enqueue    waits its turn
//   reject     is refused: conversation_busy
//   interrupt  the running turn is cancelled and its output kept, marked incomplete; the message
//              runs next, before those that wait
//   rollback   the running turn is cancelled and leaves nothing; the message runs next, before
//              those that wait
//   steer      the running turn ends where it is, and the next prompt continues from its output;
//              the message runs next, before those that wait, but after other steering messages
//              that have not begun
//
// A message may have an id chosen by the client; a repeated id returns the existing turn, running
// or ended.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/status.h"

namespace tutti::sessions {

enum class BusyPolicy { kEnqueue, kReject, kInterrupt, kRollback, kSteer };

// The part of a turn cancelled for another one that stays in the history.
enum class CutShort {
  kKeep,    // the partial answer, marked incomplete
  kSteer,   // like kKeep, but no empty answer; the response ends as incomplete
  kForget,  // nothing
};

class TurnQueue {
 public:
  struct Limits {
    size_t waiting = 16;     // messages that wait
    size_t remembered = 64;  // ids of messages, the newest
    size_t parallel = 8;     // parallel messages that run at once
  };
  // `first` is the number of the first turn: one more than the history has.
  explicit TurnQueue(const Limits& limits, int64_t first = 1) : limits_(limits), next_(first) {}

  struct Offer {
    int64_t turn = 0;
    bool repeated = false;                // the id is known: nothing was added
    size_t position = 0;                  // turns that must end first
    std::optional<CutShort> cancel = {};  // cancel the running turns with this outcome
  };
  // Errors, after which nothing has changed: conversation_busy, session_queue_full (with how many
  // wait).
  Result<Offer> Add(const std::string& id, BusyPolicy policy, bool parallel = false);
  // The turn of an id that was added and is remembered.
  std::optional<int64_t> Find(const std::string& id) const;

  // Reserves turn numbers for items that are not messages, such as appended ones. Returns the
  // first of them.
  int64_t Skip(int64_t numbers);

  // Restore the state of the previous process. Call them in order of the turns: first Remember()
  // for ended turns, then Restore() for waiting ones.
  void Remember(const std::string& id, int64_t turn);
  void Restore(const std::string& id, int64_t turn, bool parallel);

  // Forgets the ids of ended turns, which can then be used again.
  void ForgetEnded();

  // The turn that Begin() would let begin.
  std::optional<int64_t> next() const;
  // Begins the next turn and returns it: a waiting one, if none is running or if it may run in
  // parallel with the running ones.
  std::optional<int64_t> Begin();
  // Called when a running turn has ended, in any way.
  void End(int64_t turn);
  // Removes a waiting turn. False if it is not waiting.
  bool Withdraw(int64_t turn);
  // Removes a waiting turn and forgets its id, because the message was not accepted.
  void TakeBack(const std::string& id, int64_t turn);

  size_t PositionOf(int64_t turn) const;  // turns that must end before it begins
  const std::vector<int64_t>& running() const { return running_; }
  size_t waiting() const { return waiting_.size(); }
  bool idle() const { return running_.empty() && waiting_.empty(); }

 private:
  struct Waiting {
    int64_t turn;
    bool parallel;
    bool steers = false;
  };
  std::deque<Waiting>::const_iterator Locate(int64_t turn) const;

  const Limits limits_;
  int64_t next_;
  std::vector<int64_t> running_;
  bool all_parallel_ = false;  // of those that run
  std::deque<Waiting> waiting_;
  std::unordered_map<std::string, int64_t> turns_;  // by id
  std::deque<std::string> ids_;                     // in the order of their turns
};

}  // namespace tutti::sessions
