// NativeControl: commands of clients for their turns and sessions, on `.../ctl`. Runs on the
// strand. Each command is answered by one event or by an error, with the `id` of the command; a
// resume and a subscribe are answered by the requested events.
#pragma once

#include <string>

#include "mqtt/message_port.h"
#include "protocol/chat/native.h"
#include "server/mqtt/chat/context.h"
#include "server/mqtt/chat/job_follows.h"
#include "server/mqtt/chat/native_address.h"

namespace tutti::mqtt::chat {

class NativeControl {
 public:
  explicit NativeControl(Context& context) : context_(context), jobs_(context) {}
  void Take(const Message& message, Receipt receipt);
  // A client's status, which may be its Will: no client of that user listens any more.
  void TakeStatus(const Message& message, Receipt receipt);
  void Clear() { jobs_.Clear(); }  // sends no more events of jobs

 private:
  void Carry(const NativeAddress& address, const protocol::MqttControl& control);
  void Cancel(const NativeAddress& address, const protocol::MqttControl& control);
  void CancelOf(const NativeAddress& address, const std::string& id,
                const std::shared_ptr<responses::Response>& response);
  void Resume(const NativeAddress& address, const protocol::MqttControl& control);

  // Looks up the response of that id, if the user may see it.
  void Find(const NativeAddress& address, const protocol::MqttControl& control,
            std::function<void(std::shared_ptr<responses::Response>)> then);
  void Publish(const NativeAddress& address, std::string event);
  void Refuse(const NativeAddress& address, const std::string& id, const Status& error);

  Context& context_;
  JobFollows jobs_;
};

}  // namespace tutti::mqtt::chat
