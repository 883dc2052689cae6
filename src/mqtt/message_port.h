// MessagePort: how the profiles (chat over MQTT) send and receive messages, whether clients connect
// to Tutti's own listener or all of them meet at a broker.
//
// A message goes to every client that subscribed to its topic. Incoming messages are given to the
// sinks whose filters match, each with a Receipt: what the publisher is told of a message of QoS 1
// waits for it, so that an acknowledged message is one that the sink has made durable.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"

namespace tutti::mqtt {

struct Message {
  std::string topic;
  std::string payload;
  uint8_t qos = 0;  // 0 or 1
  // The last one is kept for later subscribers; empty: none is. Of an incoming one: it was kept,
  // and comes because this process has subscribed.
  bool retain = false;
  bool payload_is_text = false;
  std::string content_type;                     // empty = not told
  std::string response_topic;                   // empty = none
  std::optional<std::string> correlation_data;  // bytes, for the answer to carry
  // When it is of no more use. Of an incoming one: its publisher's deadline.
  std::optional<TimePoint> expires;
  std::vector<std::pair<std::string, std::string>> user_properties;
  // --- incoming only ---
  // Who published, as this process has authenticated; empty behind a broker, where the topic tells.
  std::string user, tenant, client_id;
  std::string credential;  // what this process knows them by; for whoever asks on their behalf
  // Sent before, perhaps (DUP): a sink must bear the same message twice in any case.
  bool redelivered = false;
};

// What a sink owes for one message: exactly one word, at the latest by its destructor (which
// refuses: a message that was forgotten is not acknowledged). Move-only; any thread.
class Receipt {
 public:
  using Tell = std::function<void(const Status&)>;  // any thread; must not block

  Receipt() = default;
  explicit Receipt(Tell tell) : tell_(std::move(tell)) {}
  ~Receipt() {
    if (tell_) Give(Unavailable("overloaded", "the message was not taken care of"));
  }
  Receipt(Receipt&& other) noexcept : tell_(std::exchange(other.tell_, nullptr)) {}
  Receipt& operator=(Receipt&& other) noexcept {
    std::swap(tell_, other.tell_);
    return *this;
  }

  // The message is taken care of. A client's own fault is told in a message, not here.
  void Accept() { Give(OkStatus()); }
  // It is not, and the publisher may try again: its QoS 1 is refused (5.0) or not acknowledged.
  void Refuse(const Status& status) { Give(status); }

 private:
  void Give(const Status& status) {
    if (Tell tell = std::exchange(tell_, nullptr)) tell(status);
  }
  Tell tell_;
};

class MessagePort {
 public:
  // Called on the port's thread, one message at a time; must not block.
  using Sink = std::function<void(Message message, Receipt receipt)>;
  // What became of an outgoing message: OK once it is with the broker, or queued for everybody who
  // subscribed; not_found when nobody has; else why not. On the port's thread; must not block.
  using Published = std::function<void(const Status&)>;

  virtual ~MessagePort() = default;

  // Any thread; never blocks. Errors, and then `done` is not called: invalid_value (a topic that is
  // no topic name, or a field that MQTT cannot express), overloaded (more waits than may).
  virtual Status Publish(Message message, Published done = nullptr) = 0;

  // Gives all incoming messages that `filter` matches to `sink`. Before the port is started.
  // Error: invalid_value, for what is no filter.
  virtual Status Subscribe(std::string filter, Sink sink) = 0;
};

}  // namespace tutti::mqtt
