// JobFollow: reports the states of a durable job to one connection, for server-sent events and
// WebSockets.
//
// Owned by a handler, or by a part of one; used on its thread. Once it is destroyed, it reports
// nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "protocol/job.h"
#include "server/http/connection/connection.h"

namespace tutti::http {

class JobFollow : public std::enable_shared_from_this<JobFollow> {
 public:
  // `seen`: reports every version after this one; -1: the current version, and every later one.
  JobFollow(Connection& connection, std::string id, int64_t seen)
      : connection_(connection), id_(std::move(id)), seen_(seen) {}

  // `done` is called last: OK after the state in which the job has ended; errors: not_found,
  // not_implemented (no jobs here). It may destroy this object.
  using State = std::function<void(const protocol::JobView&)>;
  using Done = std::function<void(const Status&)>;
  void Run(State state, Done done);

 private:
  void Watch();
  void OnJob(const Result<protocol::JobView>& job);

  Connection& connection_;
  const std::string id_;
  int64_t seen_;
  State state_;
  Done done_;
};

}  // namespace tutti::http
