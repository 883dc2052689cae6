// LetterPort: where workers of other machines come to the front: letters through a broker. What is
// said goes to the WorkerPool and comes from it.
//
// Opened and closed by one thread; all else happens on the broker's own. A broker that is away for
// a while ends nothing: both ends keep what the other has not acknowledged (letter_channel.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "broker/broker.h"
#include "remote/worker_pool.h"

namespace tutti::remote {

class LetterPort {
 public:
  struct Options {
    std::string name;    // of the queue: CheckQueueName()
    std::string id;      // of this front among all of that name, the same after a restart
    std::string broker;  // its address, for the log
  };
  struct Figures {
    bool connected = false;
    uint64_t repeated = 0;  // messages that were sent again
  };

  // `pool`, `clock` and `log` (may be null) outlive it. Errors: invalid_value, overloaded (no
  // thread).
  static Result<std::unique_ptr<LetterPort>> Open(std::unique_ptr<broker::Broker> broker,
                                                  Options options, WorkerPool& pool,
                                                  const Clock& clock, Logger* log);
  // Tells the workers, and ends what they had.
  virtual ~LetterPort() = default;
  virtual Figures figures() const = 0;  // any thread
};

}  // namespace tutti::remote
