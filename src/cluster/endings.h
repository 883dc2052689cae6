// Errors, for clients, of requests that end without a worker's reply.
#pragma once

#include "base/status.h"

namespace tutti::cluster {

inline Status WorkerLost() {
  return Unavailable("worker_lost", "the process that computed this ended; ask again");
}
inline Status WorkerUnreachable() {
  return Unavailable("worker_unreachable",
                     "there is no way any more to the process that computed this; ask again");
}
inline Status Nonsense() {
  return Unavailable("worker_lost", "the worker answered something else than was asked");
}
inline Status Quarantined() {
  return Status(StatusCode::kFailedPrecondition, "request_quarantined",
                "workers ended while they computed this request; it is refused for an hour");
}
inline Status CancelledByCaller() {
  return Status(StatusCode::kCancelled, "cancelled", "the caller cancelled the request");
}
inline Status Draining() { return Unavailable("draining", "the server is shutting down"); }

}  // namespace tutti::cluster
