// FrontPort: where workers come to the front: a Unix socket that only this user may open, and gRPC
// over it. What is said goes to the WorkerPool and comes from it.
//
// Opened and closed by one thread. Its own thread sends, and looks after the pool; what workers say
// is read on the gRPC library's threads. No header of that library is included here.
#pragma once

#include <memory>
#include <string>

#include "base/log.h"
#include "base/status.h"
#include "remote/worker_pool.h"

namespace tutti::remote {

class FrontPort {
 public:
  // `path`: of the socket; a file that was left there goes. All else outlives it. Errors:
  // invalid_value (a path that no socket can have), io_error, overloaded (no thread).
  static Result<std::unique_ptr<FrontPort>> Open(const std::string& path, WorkerPool& pool);
  // Closes all connections and waits for their end.
  virtual ~FrontPort() = default;
};

// The longest path that a Unix socket can have, in bytes.
inline constexpr size_t kMaxSocketPath = 107;

}  // namespace tutti::remote
