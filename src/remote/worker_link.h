// WorkerLink: a worker's way to its front: it connects, says what it serves, and carries calls and
// answers. Where the front goes away it connects again, for as long as it lives: the models stay
// loaded.
//
// Made, drained and destroyed by one thread; its own thread connects and sends, what the front says
// is read on the gRPC library's. No header of that library is included here.
#pragma once

#include <tutti/v1/worker.pb.h>

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "remote/relay.h"

namespace tutti::remote {

class WorkerLink {
 public:
  // `path`: of the front's socket. `log` may be null. `ports`, `clock` and `log` outlive it.
  // Errors: invalid_value (the path), overloaded (no thread).
  static Result<std::unique_ptr<WorkerLink>> Open(const std::string& path, v1::Hello hello,
                                                  Relay::Ports ports, Logger* log);
  virtual ~WorkerLink() = default;

  // Whether the front has taken the worker, now.
  virtual bool attached() const = 0;
  // The front sends nothing new; waits for what runs, and leaves. True when all had finished.
  virtual bool Drain(Duration limit) = 0;
};

}  // namespace tutti::remote
