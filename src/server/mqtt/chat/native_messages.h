// NativeMessages: messages of clients to their sessions, on `.../in`. Runs on the strand.
//
// The answer is sent to the reply topic, `accepted` first. A message with a known id is the same
// turn: its events are published again from the first one, with the correlation data of the new
// message.
#pragma once

#include <functional>

#include "mqtt/message_port.h"
#include "protocol/chat/native.h"
#include "server/mqtt/chat/answering.h"
#include "server/mqtt/chat/context.h"
#include "server/mqtt/chat/native_address.h"
#include "server/mqtt/chat/reply_to.h"
#include "services/sessions/owed.h"

namespace tutti::mqtt::chat {

class NativeMessages {
 public:
  explicit NativeMessages(Context& context) : context_(context), answering_(context) {}
  void Take(const Message& message, Receipt receipt);
  // Sends an answer that an earlier process owed. `place`: its place in the order of the dialog.
  // `again` is called if the answer cannot be sent now.
  void Restore(const sessions::OwedAnswer& owed, const ReplyTo& reply_to, ReplyOrder::Place place,
               std::function<void()> again);
  void Clear() { answering_.Clear(); }

 private:
  void Submit(const PendingPointer& pending, const NativeAddress& address,
              protocol::MqttMessage message, TimePoint expires);

  Context& context_;
  Answering answering_;
};

}  // namespace tutti::mqtt::chat
