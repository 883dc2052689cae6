#include "app/remote_models.h"

#include <utility>

namespace tutti::app {

Status RemoteModels::Open(const std::string& path) {
  ASSIGN_OR_RETURN(port_, remote::FrontPort::Open(path, pool_));
  return OkStatus();
}

Status RemoteModels::OpenBroker(const BrokerOptions& options, const std::string& folder) {
  ASSIGN_OR_RETURN(std::unique_ptr<remote::LetterPort> letters,
                   remote::LetterPort::Open(broker::MakeBroker(options.access),
                                            {.name = options.name,
                                             .id = FrontId(folder),
                                             .broker = broker::ShownUrl(options.access.url)},
                                            pool_, clock_, log_));
  const MutexLock lock(mutex_);
  letters_ = std::move(letters);
  return OkStatus();
}

std::optional<remote::LetterPort::Figures> RemoteModels::broker() const {
  const MutexLock lock(mutex_);
  return letters_ == nullptr ? std::nullopt : std::optional(letters_->figures());
}

bool RemoteModels::Drain(Duration limit) {
  const bool clean = pool_.Drain(limit);
  port_.reset();  // every request has ended when they are gone
  std::shared_ptr<remote::LetterPort> letters;
  {
    const MutexLock lock(mutex_);
    letters.swap(letters_);
  }
  letters.reset();
  return clean;
}

}  // namespace tutti::app
