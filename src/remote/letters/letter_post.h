// What both ends of a way through a broker share: mailboxes, limits, and the telling of whether
// the broker is there.
#pragma once

#include <tutti/v1/letter.pb.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "broker/broker.h"

namespace tutti::remote {

// Without a broker both ends wait for it: a request may stand still for so long.
inline constexpr Duration kMostAway = std::chrono::seconds(60);
// A worker without a front asks for one that often.
inline constexpr Duration kAskEvery = std::chrono::milliseconds(500);

// Of fronts and workers of one name, who find each other whatever else the broker carries.
std::string SharedMailbox(const std::string& name);
std::string FrontMailbox(const std::string& name, const std::string& id);
std::string WorkerMailbox(const std::string& name, const std::string& id);
// Whether it may be the mailbox of such a worker, or front: nobody has us write elsewhere.
bool IsWorkerMailbox(const std::string& name, std::string_view mailbox);
bool IsFrontMailbox(const std::string& name, std::string_view mailbox);
// 1 to 64 of a-z, A-Z, 0-9, '_' and '-'. Error: invalid_value.
Status CheckQueueName(const std::string& name);

// 32 hexadecimal digits that nobody can guess.
std::string RandomMailboxId();
uint64_t RandomSession();

void Post(broker::Broker& broker, const std::string& mailbox, const v1::Letter& letter);

// Whether the broker is there, and since when not. Of the broker's thread.
class BrokerPresence {
 public:
  // `log` may be null; `broker`: its address, for the log.
  BrokerPresence(const Clock& clock, Logger* log, std::string broker)
      : clock_(clock), log_(log), broker_(std::move(broker)), since_(clock.Now()) {}
  void Connected();
  void Disconnected(const Status& why);
  bool connected() const { return connected_; }
  // For too long to wait any more.
  bool away_too_long(TimePoint now) const { return !connected_ && now - since_ > kMostAway; }

 private:
  const Clock& clock_;
  Logger* const log_;
  const std::string broker_;
  bool connected_ = false;
  TimePoint since_;
};

}  // namespace tutti::remote
