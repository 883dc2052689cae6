#include "app/loading/device.h"

namespace tutti::app {

const std::shared_ptr<runner::ComputePool>& Device::pool() {
  if (pool_ == nullptr) {
    pool_ = std::make_shared<runner::ComputePool>(runner::ComputePoolOptions{.workers = threads_});
  }
  return pool_;
}

void Device::Start() {
  if (!loop_.started()) loop_.Start();
}

}  // namespace tutti::app
