// Broker: letters between processes of several machines, through RabbitMQ or Redis.
//
// A letter goes into a mailbox. Each process has one of its own; one more may be shared, and then
// each of its letters comes to one of those who read it. A broker is no record of anything: it may
// lose a letter, bring it twice, or keep it for a while, as it is killed, wiped or paused. Who
// needs more has to number and repeat (remote/letters/letter_channel.h).
//
// A connection that is lost is made again, with pauses that grow to kLongestPause, for as long as
// this lives. What is sent meanwhile is dropped.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "base/clock.h"
#include "base/status.h"

namespace tutti::broker {

// All calls come from the broker's own thread, one at a time, and must not wait.
class Reader {
 public:
  virtual ~Reader() = default;
  virtual void OnConnected() = 0;
  // It was connected, or could not be: once until OnConnected().
  virtual void OnDisconnected(const Status& why) = 0;
  virtual void OnLetter(std::string letter) = 0;
  // After Poke(), after letters, and kTick apart or a little more at the latest, connected or not.
  virtual void OnTurn() = 0;
};

struct Mailboxes {
  std::string own;     // nobody else's
  std::string shared;  // read with others; empty: none
};

class Broker {
 public:
  static constexpr Duration kTick = std::chrono::milliseconds(100);
  static constexpr Duration kFirstPause = std::chrono::milliseconds(100);
  static constexpr Duration kLongestPause = std::chrono::seconds(2);
  // A try to connect, and a broker that says nothing, are given up after that.
  static constexpr Duration kPatience = std::chrono::seconds(5);
  static constexpr Duration kGoodbye = std::chrono::milliseconds(500);
  // What is sent and cannot leave is dropped beyond that.
  static constexpr size_t kMostWaitingBytes = size_t{64} << 20;
  // A letter that nobody reads is forgotten; one in a shared mailbox sooner,
  // where the broker can: it asks who is here.
  static constexpr Duration kLetterLife = std::chrono::seconds(60);
  static constexpr Duration kSharedLife = std::chrono::seconds(3);
  // Longest letter that is sent; Redis' are not read beyond it, and librabbitmq knows no such
  // bound.
  static constexpr size_t kMostLetterBytes = size_t{16} << 20;

  virtual ~Broker() = default;

  // Connects and reads, from now on. Once; `reader` outlives Stop(). Error: overloaded (no thread).
  virtual Status Start(Mailboxes mailboxes, Reader* reader) = 0;
  // What waits to be sent leaves first, if that takes no longer than kGoodbye. No call of the
  // reader is made after it. Idempotent; not from the reader.
  virtual void Stop() = 0;

  // From the reader's calls only.
  virtual void Send(const std::string& mailbox, std::string letter) = 0;
  // OnTurn() is called soon. Any thread.
  virtual void Poke() noexcept = 0;
};

}  // namespace tutti::broker
