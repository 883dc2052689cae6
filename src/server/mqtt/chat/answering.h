// Answering: handles a message of either profile from its arrival to its answer: the caller, a
// place in the admission queue, the acceptance by the session, the response, and the stream of its
// events. Runs on the strand.
//
// A message is acknowledged once it is durable, or once its error was given to the port. A
// repetition by the transport (DUP), or an answer owed by an earlier process, is not answered again
// while its answer is on its way to the same topic, or after that answer has arrived.
//
// Also here: ReplyTo, the destination of an answer, which is stored with the message as JSON so
// that a later process can send the answer (EncodeReplyTo, DecodeReplyTo). The JSON has correlation
// data in hex.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "mqtt/message_port.h"
#include "server/mqtt/chat/context.h"
#include "server/mqtt/chat/reply_publisher.h"
#include "services/sessions/message.h"

namespace tutti::mqtt::chat {

// One message, until it is answered.
struct PendingMessage {
  std::shared_ptr<ReplyFormatter> formatter;
  sessions::SessionKey key;
  QuotaKey quota_key;       // user or project for whose limits the message counts
  std::string credential;   // credential of the publisher
  std::string reply_topic;  // topic of the answer
  bool redelivered = false;
  bool once_there = false;  // no second answer while one is on its way
  Receipt receipt;
  // Set for an answer owed by an earlier process; called if the answer cannot be sent now.
  std::function<void()> again;
  ReplyOrder::Place place;  // place in the order of the dialog, until the answer is on its way

  // --- Answering's ---
  AdmissionQueue::Permit permit;
  int64_t turn = 0;  // set once it is accepted
  bool parallel = false;
};
using PendingPointer = std::shared_ptr<PendingMessage>;

class Answering {
 public:
  explicit Answering(Context& context) : context_(context) {}

  // Adds the caller to `message`, and submits it to its session.
  void Submit(const PendingPointer& pending, sessions::Message message);
  // Sends an answer that an earlier process owed. `place`: its place in the order of the dialog.
  // `again` is called if the answer cannot be sent now.
  void Restore(const PendingPointer& pending, const sessions::OwedAnswer& owed,
               ReplyOrder::Place place, std::function<void()> again);
  void Refuse(const PendingPointer& pending, const Status& error);
  void Clear() { open_.clear(); }

 private:
  std::function<void(const Result<sessions::Acceptance>&)> WhenAccepted(
      const PendingPointer& pending);
  void OnAccepted(const PendingPointer& pending, const Result<sessions::Acceptance>& acceptance);
  bool NeedsNoAnswer(const PendingMessage& pending, const sessions::Acceptance& acceptance) const;
  void Answer(const PendingPointer& pending, std::shared_ptr<responses::Response> response);

  Context& context_;
  std::set<PendingPointer> open_;  // not yet accepted; their receipts end with this object
};

// ReplyTo: the destination of an answer, stored with the message (sessions::Message::reply_to) for
// a later process. Pure.
struct ReplyTo {
  std::string server;  // ProfileOptions::server of the profile that accepted the message
  bool native = false;
  std::string topic;
  std::optional<std::string> correlation = {};  // not stored beyond kMaxCorrelationBytes
  std::string client = {}, request_id = {};     // of the project profile
};

std::string EncodeReplyTo(const ReplyTo& reply_to);
// Returns nullopt if `text` has another format.
std::optional<ReplyTo> DecodeReplyTo(std::string_view text);

}  // namespace tutti::mqtt::chat
