// Factories of the supported brokers. Any thread.
#pragma once

#include <memory>
#include <string>

#include "broker/broker.h"
#include "broker/broker_url.h"

namespace tutti::broker {

struct Access {
  BrokerUrl url;
  std::string password;  // empty: none with Redis; `guest` with RabbitMQ if no user is set
  std::string ca_file;   // PEM authorities of an amqps:// broker; empty: the system's
};

// Through queues that end with their process: RabbitMQ 3.10 and compatible AMQP 0-9-1 brokers.
std::unique_ptr<Broker> MakeRabbitMq(Access access);
// Through lists: Redis 6.2 and compatible servers.
std::unique_ptr<Broker> MakeRedis(Access access);

inline std::unique_ptr<Broker> MakeBroker(Access access) {
  return access.url.kind == BrokerKind::kRedis ? MakeRedis(std::move(access))
                                               : MakeRabbitMq(std::move(access));
}

}  // namespace tutti::broker
