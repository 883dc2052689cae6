// A worker's connection to a frontend on another machine, by packets through a broker: looks for a
// frontend, announces the models, and carries calls and answers; if the frontend is gone, it looks
// for one again.
#pragma once

#include <tutti/v1/worker.pb.h>

#include <memory>
#include <string>

#include "base/log.h"
#include "base/status.h"
#include "broker/broker.h"
#include "cluster/grpc/worker_link.h"
#include "cluster/relay.h"

namespace tutti::cluster {

struct ChannelLinkOptions {
  std::string name;    // name of the queue: CheckQueueName()
  std::string broker;  // its address, for the log
};

// As WorkerLink::Open(). Errors: invalid_value (the name), overloaded (no thread).
Result<std::unique_ptr<WorkerLink>> OpenChannelLink(std::shared_ptr<broker::Broker> broker,
                                                    ChannelLinkOptions options, v1::Hello hello,
                                                    Relay::Ports ports, Logger* log);

}  // namespace tutti::cluster
