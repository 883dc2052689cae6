// Broker: sends packets between processes on several machines, through RabbitMQ or Redis.
//
// A packet is sent to a mailbox. Each process has one mailbox of its own. A second mailbox may be
// shared; each of its packets goes to one of its readers. Delivery is unreliable: a broker that is
// killed, wiped or paused may lose, duplicate or delay packets. A user that needs reliable delivery
// adds numbers and repetition (cluster/channel/reliable_channel.h).
//
// A lost connection is opened again, with pauses that grow to kLongestPause, for the lifetime of
// the object. Packets sent meanwhile are dropped.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/status.h"

namespace tutti::broker {

// Receives packets and events. The broker's own thread makes all calls, one at a time; they must
// not block.
class Reader {
 public:
  virtual ~Reader() = default;
  virtual void OnConnected() = 0;
  // The connection was lost, or could not be opened; called once until the next OnConnected().
  virtual void OnDisconnected(const Status& why) = 0;
  virtual void OnPacket(std::string packet) = 0;
  // Called after Poke(), after packets, and at least about every kTick, connected or not.
  virtual void OnTurn() = 0;
};

struct Mailboxes {
  std::string own;     // read by this process only
  std::string shared;  // shared with other readers; empty: none
};

class Broker {
 public:
  static constexpr Duration kTick = std::chrono::milliseconds(100);
  static constexpr Duration kFirstPause = std::chrono::milliseconds(100);
  static constexpr Duration kLongestPause = std::chrono::seconds(2);
  // Time limit for connecting, and for a silent broker.
  static constexpr Duration kPatience = std::chrono::seconds(5);
  static constexpr Duration kGoodbye = std::chrono::milliseconds(500);
  // Limit of unsent bytes; beyond it, packets are dropped.
  static constexpr size_t kMaxWaitingBytes = size_t{64} << 20;
  // Lifetime of an unread packet. It is shorter in a shared mailbox if the broker supports that,
  // because such a packet only looks for a process that is present now.
  static constexpr Duration kPacketLife = std::chrono::seconds(60);
  static constexpr Duration kSharedLife = std::chrono::seconds(3);
  // Maximum size of a packet that is sent. Redis packets beyond it are not read either; librabbitmq
  // has no such limit.
  static constexpr size_t kMaxPacketBytes = size_t{16} << 20;

  virtual ~Broker() = default;

  // Starts connecting and reading. Called once; `reader` outlives Stop(). Error: overloaded (no
  // thread).
  virtual Status Start(Mailboxes mailboxes, Reader* reader) = 0;
  // Sends waiting packets, for at most kGoodbye, and stops. The reader is not called afterwards.
  // Idempotent; must not be called by the reader.
  virtual void Stop() = 0;

  // Called from within the reader's functions only.
  virtual void Send(const std::string& mailbox, std::string packet) = 0;
  // Makes the broker call OnTurn() soon. Any thread.
  virtual void Poke() noexcept = 0;
};

// --- the address of a broker: pure functions over plain values; any thread ---

enum class BrokerKind : uint8_t { kRabbitMq, kRedis };

struct BrokerUrl {
  BrokerKind kind = BrokerKind::kRabbitMq;
  bool tls = false;
  std::string user;  // empty: guest with RabbitMQ, none with Redis
  std::string host;  // a name, or an address in digits (IPv6 without brackets)
  int port = 5672;   // 1 to 65,535
  // The virtual host of RabbitMQ, or the database number of Redis.
  std::string space = "/";
  friend bool operator==(const BrokerUrl&, const BrokerUrl&) = default;
};

// Parses `amqp://[USER@]HOST[:PORT][/VHOST]` (default port 5672; RabbitMQ's URI specification,
// escapes decoded), `amqps://` (TLS, 5671), or a Redis URL as redis::ParseRedisUrl() does. A
// password in the URL is refused, because it would be visible in the process's arguments. Error:
// invalid_value; the message names the accepted form and never contains what may be a password.
Result<BrokerUrl> ParseBrokerUrl(std::string_view url);

// "amqp://HOST:PORT", for logs; without the user's name.
std::string RedactedUrl(const BrokerUrl& url);

// --- factories of the supported brokers; any thread ---

struct Access {
  BrokerUrl url;
  std::string password;  // empty: none with Redis; `guest` with RabbitMQ if no user is set
  std::string ca_file;   // PEM authorities of an amqps:// broker; empty: the system's
};

// Through queues that end with their process: RabbitMQ 3.10 and compatible AMQP 0-9-1 brokers. Only
// if this program was built with it.
std::unique_ptr<Broker> MakeRabbitMq(Access access);
bool RabbitMqIsBuilt();
// Through lists: Redis 6.2 and compatible servers.
std::unique_ptr<Broker> MakeRedis(Access access);

inline std::unique_ptr<Broker> MakeBroker(Access access) {
  return access.url.kind == BrokerKind::kRedis ? MakeRedis(std::move(access))
                                               : MakeRabbitMq(std::move(access));
}

}  // namespace tutti::broker
