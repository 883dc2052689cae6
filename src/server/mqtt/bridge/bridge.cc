#include "server/mqtt/bridge/bridge.h"

#include <utility>

#include "mqtt/message_packet.h"
#include "server/mqtt/bridge/loop.h"

namespace tutti::mqtt::bridge {

Result<std::unique_ptr<Bridge>> Bridge::Create(BridgeOptions options,
                                               const Dependencies& dependencies) {
  ASSIGN_OR_RETURN(Address address, CheckOptions(options));
  ASSIGN_OR_RETURN(Credentials credentials, ReadCredentials(options));
  std::shared_ptr<boost::asio::ssl::context> tls;
  if (address.tls) {
    ASSIGN_OR_RETURN(tls, MakeTls(options));
  }
  return std::unique_ptr<Bridge>(
      new Bridge(std::make_unique<Loop>(std::move(options), std::move(address),
                                        std::move(credentials), std::move(tls), dependencies)));
}

Bridge::Bridge(std::unique_ptr<Loop> loop) : loop_(std::move(loop)) {}

Bridge::~Bridge() {
  if (Status status = Stop(Duration::zero()); !status.ok()) return;  // the Loop has logged it
}

Status Bridge::Publish(Message message, Published done) {
  RETURN_IF_ERROR(CheckMessage(message, loop_->options().publish_bytes));
  RETURN_IF_ERROR(loop_->outbox().Push(std::move(message), std::move(done)));
  loop_->Wake();
  return OkStatus();
}

Status Bridge::Subscribe(std::string filter, Sink sink) {
  return loop_->inbox().Subscribe(std::move(filter), std::move(sink));
}

void Bridge::OnConnected(std::function<void()> connected) {
  loop_->OnConnected(std::move(connected));
}

void Bridge::Start() { loop_->Start(); }
Status Bridge::Stop(Duration limit) { return loop_->Stop(limit); }
BridgeStatistics Bridge::Statistics() const { return loop_->Statistics(); }

}  // namespace tutti::mqtt::bridge
