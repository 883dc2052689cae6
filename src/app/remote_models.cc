#include "app/remote_models.h"

namespace tutti::app {

Status RemoteModels::Open(const std::string& path) {
  ASSIGN_OR_RETURN(port_, remote::FrontPort::Open(path, pool_));
  return OkStatus();
}

bool RemoteModels::Drain(Duration limit) {
  const bool clean = pool_.Drain(limit);
  port_.reset();  // every request has ended when it is gone
  return clean;
}

}  // namespace tutti::app
