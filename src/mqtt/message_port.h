// MessagePort: sends and receives messages for the profiles (chat over MQTT). One implementation is
// Tutti's own listener, to which clients connect; the other is the connection to a broker.
//
// A message goes to every client that subscribed to its topic. An incoming message is given to the
// sinks whose filters match, each with a Receipt. The publisher of a message of QoS 1 is
// acknowledged only after the receipt is given, so that an acknowledged message is one that the
// sink has made durable.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "mqtt/topics.h"

namespace tutti::mqtt {

struct Message {
  std::string topic;
  std::string payload;
  uint8_t qos = 0;  // 0 or 1
  // The last message is kept for later subscribers; an empty payload deletes the kept one. On an
  // incoming message: it is a kept one, sent because this process subscribed.
  bool retain = false;
  bool payload_is_text = false;
  std::string content_type;                     // empty = unknown
  std::string response_topic;                   // empty = none
  std::optional<std::string> correlation_data;  // bytes, copied into the answer
  // Expiry time. On an incoming message: its publisher's deadline.
  std::optional<TimePoint> expires;
  std::vector<std::pair<std::string, std::string>> user_properties;
  // The publisher as authenticated by this process; empty behind a broker, where only the topic
  // identifies the publisher.
  std::string user, tenant, client_id;
  std::string credential;  // the publisher's, for requests on its behalf
  // Possibly a repetition (DUP). A sink must accept duplicates in any case.
  bool redelivered = false;
};

// A sink's answer for one message, given exactly once, at the latest by the destructor, which
// refuses: a forgotten message is not acknowledged. Move-only; any thread.
class Receipt {
 public:
  using Callback = std::function<void(const Status&)>;  // any thread; must not block

  Receipt() = default;
  explicit Receipt(Callback callback) : callback_(std::move(callback)) {}
  ~Receipt() {
    if (callback_) Give(Unavailable("overloaded", "the message was not taken care of"));
  }
  Receipt(Receipt&& other) noexcept : callback_(std::exchange(other.callback_, nullptr)) {}
  Receipt& operator=(Receipt&& other) noexcept {
    std::swap(callback_, other.callback_);
    return *this;
  }

  // The message is taken care of. A client's own error is reported to it in a message, not here.
  void Accept() { Give(OkStatus()); }
  // The message is not taken care of, and the publisher may try again: a message of QoS 1 is
  // refused (5.0) or not acknowledged (3.1.1).
  void Refuse(const Status& status) { Give(status); }

 private:
  void Give(const Status& status) {
    if (Callback callback = std::exchange(callback_, nullptr)) callback(status);
  }
  Callback callback_;
};

class MessagePort {
 public:
  // Called on the port's thread, one message at a time; must not block.
  using Sink = std::function<void(Message message, Receipt receipt)>;
  // Result of an outgoing message: OK once it is with the broker, or queued for all subscribers;
  // not_found if there is no subscriber; else the reason of the failure. Called on the port's
  // thread; must not block.
  using Published = std::function<void(const Status&)>;

  virtual ~MessagePort() = default;

  // Any thread; never blocks. Errors, and then `done` is not called: invalid_value (a topic that is
  // no topic name, or a field that MQTT cannot express), overloaded (more waits than may).
  virtual Status Publish(Message message, Published done = nullptr) = 0;

  // Gives all incoming messages that `filter` matches to `sink`. Before the port is started.
  // Error: invalid_value, for what is no filter.
  virtual Status Subscribe(std::string filter, Sink sink) = 0;
};

// The sinks of a port. Filled before the port is started; not synchronised.
class SinkTable {
 public:
  void Add(std::string filter, MessagePort::Sink sink) {
    rows_.push_back({std::move(filter), std::move(sink)});
  }
  // Those whose filter matches `topic`.
  std::vector<const MessagePort::Sink*> Match(std::string_view topic) const {
    std::vector<const MessagePort::Sink*> found;
    for (const Row& row : rows_) {
      if (TopicMatches(row.filter, topic)) found.push_back(&row.sink);
    }
    return found;
  }

 private:
  struct Row {
    std::string filter;  // not shared
    MessagePort::Sink sink;
  };
  std::vector<Row> rows_;
};

}  // namespace tutti::mqtt
