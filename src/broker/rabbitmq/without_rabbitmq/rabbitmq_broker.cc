// In place of ../rabbitmq_broker.cc in builds without RabbitMQ.
#include <memory>

#include "base/check.h"
#include "broker/broker.h"

namespace tutti::broker {

bool RabbitMqIsBuilt() { return false; }

std::unique_ptr<Broker> MakeRabbitMq(Access) {
  CHECK(false) << "asked for, and not built";
  __builtin_unreachable();
}

}  // namespace tutti::broker
