// NativeMessages: what clients say to their sessions, `.../in`. Of the strand.
//
// Its answer follows on its reply topic, `accepted` first. The same id again is the same turn: its
// events are published again from the first, with the correlation data of the message that asked.
#pragma once

#include <functional>

#include "doors/mqtt/profile/answering.h"
#include "doors/mqtt/profile/context.h"
#include "doors/mqtt/profile/native_address.h"
#include "doors/mqtt/profile/reply_to.h"
#include "mqtt/message_port.h"
#include "services/sessions/owed.h"
#include "wire/mqtt_native.h"

namespace tutti::mqtt::profile {

class NativeMessages {
 public:
  explicit NativeMessages(Context& context) : context_(context), answering_(context) {}
  void Take(const Message& message, Receipt receipt);
  // An answer that an earlier process owed; `place`: among the dialog's. `again` is called where it
  // cannot be told now.
  void Restore(const sessions::OwedAnswer& owed, const ReplyTo& reply_to, ReplyOrder::Place place,
               std::function<void()> again);
  void Clear() { answering_.Clear(); }

 private:
  void Submit(const AskedPointer& asked, const NativeAddress& address, wire::MqttMessage message,
              TimePoint expires);

  Context& context_;
  Answering answering_;
};

}  // namespace tutti::mqtt::profile
