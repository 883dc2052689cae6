// In place of ../worker_link.cc in builds without gRPC.
#include "cluster/grpc/worker_link.h"

namespace tutti::cluster {

Result<std::unique_ptr<WorkerLink>> WorkerLink::Open(const std::string&, v1::Hello, Relay::Ports,
                                                     Logger*) {
  return BadValue("role",
                  "--role worker needs a broker, or gRPC, which this program was built without "
                  "(TUTTI_GRPC=OFF)");
}

}  // namespace tutti::cluster
