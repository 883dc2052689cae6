// TurnQueue: which message of a session's branch is answered, and which wait. Pure: no thread,
// clock, store or model; one owner at a time.
//
// Turns run one after the other: turn n + 1 begins after turn n has ended (committed or failed), so
// that history is u1 a1 u2 a2 however fast messages come. Messages that say that they are parallel
// begin while others that say so run. What happens to a message that comes while a turn runs is its
// policy:
//
//   enqueue    waits its turn
//   reject     is refused: conversation_busy
//   interrupt  the running turn is cancelled, what it has said is kept, marked incomplete; then it
//              runs, before those that wait
//   rollback   the running turn is cancelled and leaves nothing; then it runs, before those that
//              wait
//   steer      the running turn ends where it is, what it has said is kept as what the next prompt
//              goes on from; then it runs, before those that wait, but behind others that steer and
//              have not begun
//
// A message has an id of the client's; the same id again is the same turn, whatever became of it.
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

// How a turn that is cancelled for another is to end.
enum class CutShort {
  kKeep,    // what was said is kept, marked incomplete
  kSteer,   // likewise, and no empty answer where nothing was said; it ends as incomplete
  kForget,  // as if it had never been
};

class TurnQueue {
 public:
  struct Limits {
    size_t waiting = 16;     // messages that wait
    size_t remembered = 64;  // ids of messages, the newest
    size_t parallel = 8;     // that run at once, of those that say so
  };
  // `first` is the number of the first turn: one more than the history has.
  explicit TurnQueue(const Limits& limits, int64_t first = 1) : limits_(limits), next_(first) {}

  struct Offer {
    int64_t turn = 0;
    bool repeated = false;                // the id is known: nothing was added
    size_t position = 0;                  // turns that must end first
    std::optional<CutShort> cancel = {};  // of the running turns: to be cancelled, to end so
  };
  // Errors, after which nothing has changed: conversation_busy, mailbox_full (with how many wait).
  Result<Offer> Add(const std::string& id, BusyPolicy policy, bool parallel = false);
  // The turn of an id that was added and is remembered.
  std::optional<int64_t> Find(const std::string& id) const;

  // Numbers that no message gets, for what enters the dialog by other ways; the first of them.
  int64_t Skip(int64_t numbers);

  // As they were when the process before this ended. In the order of their turns, first those that
  // are only remembered.
  void Remember(const std::string& id, int64_t turn);
  void Restore(const std::string& id, int64_t turn, bool parallel);

  // Ids of turns that have ended: they may come again.
  void ForgetEnded();

  // The turn that Begin() would let begin.
  std::optional<int64_t> next() const;
  // The turn that may begin now: it waits, and none runs or it need not wait for those that do. It
  // runs from here on.
  std::optional<int64_t> Begin();
  // A running turn has ended, one way or the other.
  void End(int64_t turn);
  // A turn that waits is given up. False if it does not wait.
  bool Withdraw(int64_t turn);
  // Likewise, and its id with it: it was never accepted.
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
