// In place of ../frontend_port.cc in builds without gRPC.
#include "cluster/grpc/frontend_port.h"

namespace tutti::cluster {

Status FrontendPort::CheckBuilt() {
  return BadValue("role",
                  "--role frontend needs gRPC, which this program was built without "
                  "(TUTTI_GRPC=OFF)");
}

Result<std::unique_ptr<FrontendPort>> FrontendPort::Open(const std::string&, WorkerPool&) {
  return CheckBuilt();
}

}  // namespace tutti::cluster
