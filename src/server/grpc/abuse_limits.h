// Limits on clients that abuse connections: the account of what a connection sends
// (ConnectionAccount), and the delay of an address whose connection was shut down
// (AddressPenalties).
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/clock.h"
#include "base/mutex.h"

namespace tutti::rpc {

// --- the account of a connection ---
//
// It compares the bytes that a connection has sent with the bytes that its calls explain, and
// guards against HTTP/2 clients that the gRPC library tolerates without limit.
//
// The gRPC library of Debian 12 keeps an endless header field in memory, copies it with every
// frame, and answers any number of streams that are reset at once, all without notifying the
// application. But the system counts the bytes of each connection, and the calls know which bytes
// they took. A connection whose bytes no call explains, or that resets calls too fast, is shut
// down. The bytes of a message are explained once it is complete; until then, a call that reads a
// message may owe as many bytes as a message may have.

struct AbuseLimits {
  // Limits of the unexplained bytes of one connection, in addition to incomplete messages: the
  // first may be exceeded for `patience`, the second never. The library reports a call some time
  // after it has read the first window of its messages, 64 KiB each.
  int64_t unexplained_bytes = 512 << 10, max_unexplained_bytes = 16 << 20;
  Duration patience = std::chrono::milliseconds(100);
  int64_t all_bytes = 384 << 20;  // of all connections together, incomplete messages included
  int64_t bytes_per_s = 1024;     // allowed for frames outside messages: pings, window updates
  int64_t calls = 1000;           // unfinished calls, including cancelled ones
  int resets = 250;               // burst of calls that the client cancels quickly
  double resets_per_s = 100;      // sustained rate of such calls
  Duration quickly = std::chrono::milliseconds(100);
};

// Calls report from any thread; one thread judges.
class ConnectionAccount {
 public:
  // `judge_soon` is called on the thread of a call that exceeds the limit of calls, because the
  // connection may send nothing more and would then not be judged again. May be null.
  ConnectionAccount(const AbuseLimits& limits, int64_t message_bytes, TimePoint now,
                    std::function<void()> judge_soon = nullptr)
      : limits_(limits),
        message_bytes_(message_bytes),
        judge_soon_(std::move(judge_soon)),
        judged_(now),
        refilled_(now) {
    resets_left_ = limits.resets;
  }

  // --- calls ---
  void CallBegins(int64_t metadata_bytes) {
    Explain(metadata_bytes + kFrames);
    if (calls_.fetch_add(1) == limits_.calls && judge_soon_) judge_soon_();
  }
  void CallEnds() { calls_.fetch_sub(1); }
  // Between the first read of a call and its end, a message of the call may be incomplete.
  void ReadsBegin() { reading_.fetch_add(1); }
  void ReadsEnd() { reading_.fetch_sub(1); }
  void MessageCame(int64_t bytes) {
    Explain(bytes + bytes / 64 + kFrames);
    came_.fetch_add(1);
  }
  // The call ends (before ReadsEnd) while an incomplete message may be left unread.
  void MessageLost() { lost_.fetch_add(1); }
  // The peer answers sent bytes with window updates.
  void Written(int64_t bytes) { Explain(bytes / 512 + kFrames / 2); }
  // The client has cancelled a call after `lived`.
  void Reset(Duration lived, TimePoint now);

  // --- the thread that judges ---
  struct Verdict {
    int64_t debt = 0;      // bytes that no call has explained
    bool suspect = false;  // judge it again soon, even if it sends nothing
    bool abuse = false;
    std::string_view why = {};  // kind of abuse: resets, calls, bytes
  };
  // Judges the connection. `taken_bytes`: bytes received from it since it began.
  Verdict Judge(int64_t taken_bytes, TimePoint now);

 private:
  // Allowance for the frames and fields of every call and message, and for TLS.
  static constexpr int64_t kFrames = 512;
  // Maximum of explanations ahead of their bytes. More would be credit for later abuse.
  static constexpr int64_t kMaxCredit = 64 << 10;
  // A client learns late that a call has ended, and may send for this time.
  static constexpr Duration kLate = std::chrono::seconds(2);
  static constexpr int64_t kMaxLost = 8;  // messages

  // A call that is cancelled before the library reports it leaves the beginning of its message.
  static constexpr int64_t kWindow = 64 << 10;
  // Minimum number of judgements, in addition to time: if the machine is overloaded, the calls are
  // delayed as well as the judge.
  static constexpr int kPatientLooks = 5;

  void Explain(int64_t bytes) { explained_.fetch_add(bytes); }

  const AbuseLimits limits_;
  const int64_t message_bytes_;
  const std::function<void()> judge_soon_;
  std::atomic<int64_t> explained_{0};
  std::atomic<int64_t> calls_{0}, reading_{0};  // calls
  std::atomic<int64_t> came_{0}, lost_{0};      // messages since the last judgement
  std::atomic<bool> too_many_resets_{false};
  TimePoint judged_, lost_until_{};  // used by the judging thread, as are the next three
  int64_t lost_bytes_ = 0;           // bytes of lost messages that may still arrive
  TimePoint suspect_since_{};
  int suspect_looks_ = 0;
  Mutex mutex_;
  double resets_left_ GUARDED_BY(mutex_);
  TimePoint refilled_ GUARDED_BY(mutex_);
};

// The accounts of open connections, by the peer's name as calls see it ("ipv4:127.0.0.1:5000"). Any
// thread.
class ConnectionAccounts {
 public:
  void Add(const std::string& peer, std::shared_ptr<ConnectionAccount> account);
  void Remove(const std::string& peer, const std::shared_ptr<ConnectionAccount>& account);
  std::shared_ptr<ConnectionAccount> Find(const std::string& peer);  // null when there is none

 private:
  Mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<ConnectionAccount>> accounts_ GUARDED_BY(mutex_);
};

// --- the delay of an address ---

struct PenaltyLimits {
  Duration first = std::chrono::milliseconds(125);  // after one abuse; doubled with each more
  Duration most = std::chrono::seconds(2);
  Duration forgotten = std::chrono::minutes(1);  // without further abuse
  size_t addresses = 1024;                       // remembered at once
};

// Delays new connections from an address after earlier connections from it were shut down for
// abuse, so that repeated abuse costs the server little time. Open connections are not affected.
// One thread at a time.
class AddressPenalties {
 public:
  explicit AddressPenalties(const PenaltyLimits& limits) : limits_(limits) {}

  // Records that a connection from `address` was shut down for abuse.
  void Add(const std::string& address, TimePoint now);

  // When to serve a connection from `address` that arrives now: `now`, or later.
  TimePoint ServedAt(const std::string& address, TimePoint now) const;

 private:
  struct Penalty {
    Duration pause;
    TimePoint noted;
  };
  void MakeRoom(TimePoint now);

  const PenaltyLimits limits_;
  std::unordered_map<std::string, Penalty> penalties_;
};

}  // namespace tutti::rpc
