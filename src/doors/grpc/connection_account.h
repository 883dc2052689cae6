// What one connection has sent, and what of it is explained by calls: the guard against clients
// that speak HTTP/2 which the gRPC library bears without end.
//
// The library of Debian 12 keeps a header field that never ends in memory, copying it with every
// frame, and answers any number of streams that are reset at once. It tells nobody; but the system
// counts the bytes of each connection, and calls know what they took. A connection whose bytes no
// call explains, or that resets calls too fast, is shut down. Bytes of a message count when it is
// whole: until then a call that reads one may owe as much as a message may have.
#pragma once

#include <atomic>
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

struct AbuseLimits {
  // Of one connection, beyond messages on their way: for `patience`, and for a moment. The library
  // tells of calls some time after it took the first window of their messages, 64 KiB each.
  int64_t unexplained_bytes = 512 << 10, most_unexplained_bytes = 16 << 20;
  Duration patience = std::chrono::milliseconds(100);
  int64_t all_bytes = 384 << 20;  // of all together, messages on their way included
  int64_t bytes_per_s = 1024;     // of frames that belong to no message: pings, windows
  int64_t calls = 1000;           // begun and not yet done with, however given up
  int resets = 250;               // calls that the client gives up quickly, at once
  double resets_per_s = 100;      // and for ever
  Duration quickly = std::chrono::milliseconds(100);
};

// Calls speak to it from any thread; one thread judges it.
class ConnectionAccount {
 public:
  // `judge_soon` is called from the thread of a call that made it abuse: the connection may send
  // nothing more, and would not be looked at again. May be null.
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
  // From the first read of a call to its end a message of it may be on its way.
  void ReadsBegin() { reading_.fetch_add(1); }
  void ReadsEnd() { reading_.fetch_sub(1); }
  void MessageCame(int64_t bytes) {
    Explain(bytes + bytes / 64 + kFrames);
    came_.fetch_add(1);
  }
  // A call ends (before ReadsEnd), and nobody will read the message that may be on its way.
  void MessageLost() { lost_.fetch_add(1); }
  // A reader answers what it is sent with frames that open its window further.
  void Written(int64_t bytes) { Explain(bytes / 512 + kFrames / 2); }
  // The client has given up a call that had lived for so long.
  void Reset(Duration lived, TimePoint now);

  // --- the thread that judges ---
  struct Verdict {
    int64_t debt = 0;      // bytes that no call has explained yet
    bool suspect = false;  // to be judged again soon, whether it sends or not
    bool abuse = false;
    std::string_view why = {};  // of abuse, a word: resets, calls, bytes
  };
  // Of a connection from which so many bytes were taken since it began.
  Verdict Judge(int64_t taken_bytes, TimePoint now);

 private:
  // Frames and fields that every call and message has, and what TLS adds.
  static constexpr int64_t kFrames = 512;
  // Explanations that may wait for their bytes. More would be credit for later abuse.
  static constexpr int64_t kMostCredit = 64 << 10;
  // A client learns that a call has ended a little later, and may send until then.
  static constexpr Duration kLate = std::chrono::seconds(2);
  static constexpr int64_t kMostLost = 8;  // messages

  // Calls that are given up before the library tells of them leave the beginning of their message.
  static constexpr int64_t kWindow = 64 << 10;
  // Looks, besides time: where threads wait for the processor, it is not only the judge who waits.
  static constexpr int kPatientLooks = 5;

  void Explain(int64_t bytes) { explained_.fetch_add(bytes); }

  const AbuseLimits limits_;
  const int64_t message_bytes_;
  const std::function<void()> judge_soon_;
  std::atomic<int64_t> explained_{0};
  std::atomic<int64_t> calls_{0}, reading_{0};  // calls
  std::atomic<int64_t> came_{0}, lost_{0};      // messages since the last judgement
  std::atomic<bool> too_many_resets_{false};
  TimePoint judged_, lost_until_{};  // of the thread that judges, as the next
  int64_t lost_bytes_ = 0;           // that may still come of lost messages
  TimePoint suspect_since_{};
  int suspect_looks_ = 0;
  Mutex mutex_;
  double resets_left_ GUARDED_BY(mutex_);
  TimePoint refilled_ GUARDED_BY(mutex_);
};

// The accounts of open connections, by the peer's name as calls know it ("ipv4:127.0.0.1:5000").
// Any thread.
class ConnectionAccounts {
 public:
  void Add(const std::string& peer, std::shared_ptr<ConnectionAccount> account);
  void Remove(const std::string& peer, const std::shared_ptr<ConnectionAccount>& account);
  std::shared_ptr<ConnectionAccount> Find(const std::string& peer);  // null when there is none

 private:
  Mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<ConnectionAccount>> accounts_ GUARDED_BY(mutex_);
};

}  // namespace tutti::rpc
