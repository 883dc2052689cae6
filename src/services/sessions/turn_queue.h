// TurnQueue: which message of a session's branch is answered, and which wait. Pure: no thread,
// clock, store or model; one owner at a time.
//
// Turns run one after the other: turn n + 1 begins after turn n has ended (committed or failed), so
// that history is u1 a1 u2 a2 however fast messages come. What happens to a message that comes
// while a turn runs is its policy:
//
//   enqueue    waits its turn
//   reject     is refused: conversation_busy
//   interrupt  the running turn is cancelled, what it has said is kept, marked incomplete; then it
//              runs, before those that wait
//   rollback   the running turn is cancelled and leaves nothing; then it runs, before those that
//              wait
//   steer      needs a model whose template can take words in the middle of an answer: refused with
//              steer_unsupported
//
// A message has an id of the client's; the same id again is the same turn, whatever became of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/status.h"

namespace tutti::sessions {

enum class BusyPolicy { kEnqueue, kReject, kInterrupt, kRollback, kSteer };

// How a turn that is cancelled for another is to end.
enum class CutShort {
  kKeep,    // what was said is kept, marked incomplete
  kForget,  // as if it had never been
};

class TurnQueue {
 public:
  struct Limits {
    size_t waiting = 16;     // messages that wait
    size_t remembered = 64;  // ids of messages, the newest
  };
  // `first` is the number of the first turn: one more than the history has.
  explicit TurnQueue(const Limits& limits, int64_t first = 1) : limits_(limits), next_(first) {}

  struct Offer {
    int64_t turn = 0;
    bool repeated = false;                // the id is known: nothing was added
    size_t position = 0;                  // turns that must end first
    std::optional<CutShort> cancel = {};  // of the running turn: to be cancelled, to end so
  };
  // Errors, after which nothing has changed: conversation_busy, mailbox_full (with how many wait),
  // steer_unsupported.
  Result<Offer> Add(const std::string& id, BusyPolicy policy);

  // The turn that may begin now: none runs and one waits. It runs from here on.
  std::optional<int64_t> Begin();
  // The running turn has ended, one way or the other.
  void End();
  // A turn that waits is given up. False if it does not wait.
  bool Withdraw(int64_t turn);

  std::optional<int64_t> running() const { return running_; }
  size_t waiting() const { return waiting_.size(); }
  bool idle() const { return !running_.has_value() && waiting_.empty(); }

 private:
  void Remember(const std::string& id, int64_t turn);
  size_t PositionOf(int64_t turn) const;

  const Limits limits_;
  int64_t next_;
  std::optional<int64_t> running_;
  std::deque<int64_t> waiting_;
  std::unordered_map<std::string, int64_t> turns_;  // by id
  std::deque<std::string> ids_;                     // in the order of their turns
};

}  // namespace tutti::sessions
