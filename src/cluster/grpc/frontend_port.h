// FrontendPort: the listener to which workers connect: a gRPC server on a Unix socket that only
// this user may open. Passes messages between the connections and the WorkerPool.
//
// Opened and closed by one thread. A thread of its own sends messages and calls WorkerPool::Look();
// messages of workers are read on the threads of the gRPC library. This header includes no header
// of that library.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "cluster/worker_pool.h"

namespace tutti::cluster {

class FrontendPort {
 public:
  // Error: invalid_value (role), if this program was built without it (TUTTI_GRPC).
  static Status CheckBuilt();
  // `path`: path of the socket; a file left there by an earlier process is deleted. `pool` outlives
  // the port. Errors: invalid_value (the path is too long), io_error, overloaded (no thread).
  static Result<std::unique_ptr<FrontendPort>> Open(const std::string& path, WorkerPool& pool);
  // Closes all connections and waits until they have ended.
  virtual ~FrontendPort() = default;
};

// Maximum length of the path of a Unix socket, in bytes.
inline constexpr size_t kMaxSocketPath = 107;

}  // namespace tutti::cluster
