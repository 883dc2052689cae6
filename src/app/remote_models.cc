#include "app/remote_models.h"

#include <utility>

namespace tutti::app {

Status RemoteModels::Open(const std::string& path) {
  ASSIGN_OR_RETURN(port_, cluster::FrontendPort::Open(path, pool_));
  return OkStatus();
}

Status RemoteModels::OpenBroker(const BrokerOptions& options, const std::string& folder) {
  ASSIGN_OR_RETURN(std::unique_ptr<cluster::ChannelPort> channel,
                   cluster::ChannelPort::Open(broker::MakeBroker(options.access),
                                              {.name = options.name,
                                               .id = FrontId(folder),
                                               .broker = broker::RedactedUrl(options.access.url)},
                                              pool_, clock_, log_));
  const MutexLock lock(mutex_);
  channel_ = std::move(channel);
  return OkStatus();
}

std::optional<cluster::ChannelPort::Figures> RemoteModels::broker() const {
  const MutexLock lock(mutex_);
  return channel_ == nullptr ? std::nullopt : std::optional(channel_->figures());
}

bool RemoteModels::Drain(Duration limit) {
  const bool clean = pool_.Drain(limit);
  port_.reset();  // the destructors end every request
  std::shared_ptr<cluster::ChannelPort> channel;
  {
    const MutexLock lock(mutex_);
    channel.swap(channel_);
  }
  channel.reset();
  return clean;
}

}  // namespace tutti::app
