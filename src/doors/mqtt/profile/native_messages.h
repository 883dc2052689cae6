// NativeMessages: what clients say to their sessions, `.../in`. Of the strand.
//
// A message is acknowledged once it is durable, or once its error has been published. Its answer
// follows on its reply topic, `accepted` first. The same id again is the same turn: its events are
// published again from the first, with the correlation data of the message that asked; but not for
// a message that the transport alone repeats (DUP) while its answer is on its way, or has arrived.
#pragma once

#include <functional>
#include <memory>
#include <set>

#include "doors/mqtt/profile/context.h"
#include "doors/mqtt/profile/native_address.h"
#include "doors/mqtt/profile/reply_to.h"
#include "mqtt/message_port.h"
#include "services/sessions/message.h"
#include "wire/mqtt_native.h"

namespace tutti::mqtt::profile {

class NativeMessages {
 public:
  explicit NativeMessages(Context& context) : context_(context) {}
  void Take(const Message& message, Receipt receipt);
  // An answer that an earlier process owed; `place`: among the dialog's. `again` is called where it
  // cannot be told now.
  void Restore(const sessions::OwedAnswer& owed, const ReplyTo& reply_to, ReplyOrder::Place place,
               std::function<void()> again);
  void Clear() { open_.clear(); }

 private:
  struct Asked;  // one message, until it is answered
  using AskedPointer = std::shared_ptr<Asked>;
  void Submit(const AskedPointer& asked, wire::MqttMessage message, TimePoint expires);
  void Accepted(const AskedPointer& asked, const Result<sessions::Acceptance>& acceptance);
  bool IsRepeatedInVain(const Asked& asked, const sessions::Acceptance& acceptance) const;
  void Answer(const AskedPointer& asked, std::shared_ptr<responses::Response> response);
  void Refuse(const AskedPointer& asked, const Status& error);

  Context& context_;
  std::set<AskedPointer> open_;  // not yet accepted: what they owe goes when this goes
};

}  // namespace tutti::mqtt::profile
