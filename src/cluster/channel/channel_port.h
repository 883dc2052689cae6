// ChannelPort: the frontend's end for workers on other machines, by packets through a broker.
// Passes messages between the workers and the WorkerPool.
//
// Opened and closed by one thread; everything else runs on the broker's thread. A temporary loss of
// the broker ends no request: both ends keep unacknowledged messages (reliable_channel.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "broker/broker.h"
#include "cluster/worker_pool.h"

namespace tutti::cluster {

class ChannelPort {
 public:
  struct Options {
    std::string name;    // name of the queue: CheckQueueName()
    std::string id;      // unique among the frontends of that name; same after a restart
    std::string broker;  // its address, for the log
  };
  struct Figures {
    bool connected = false;
    uint64_t repeated = 0;  // messages that were sent again
  };

  // `pool`, `clock` and `log` (may be null) outlive the port. Errors: invalid_value, overloaded (no
  // thread).
  static Result<std::unique_ptr<ChannelPort>> Open(std::unique_ptr<broker::Broker> broker,
                                                   Options options, WorkerPool& pool,
                                                   const Clock& clock, Logger* log);
  // Notifies the workers that the frontend ends, and ends their requests.
  virtual ~ChannelPort() = default;
  virtual Figures figures() const = 0;  // any thread
};

}  // namespace tutti::cluster
