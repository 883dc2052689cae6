// JobFollow: the states of a durable job as they come, for who watches it from one connection: by
// server-sent events and over WebSockets alike.
//
// Its exchange's own, or of a part of it; its thread. While nobody holds it, it tells nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "doors/http/connection.h"
#include "wire/job.h"

namespace tutti::http {

class JobFollow : public std::enable_shared_from_this<JobFollow> {
 public:
  // `seen`: the version that is known, each one behind it is told; -1: the one there is, and each
  // behind that.
  JobFollow(Connection& connection, std::string id, int64_t seen)
      : connection_(connection), id_(std::move(id)), seen_(seen) {}

  // `done` is the last word: OK behind the state in
  // which the job has ended; errors: not_found, not_implemented (no jobs here). It may destroy
  // this.
  using State = std::function<void(const wire::JobView&)>;
  using Done = std::function<void(const Status&)>;
  void Run(State state, Done done);

 private:
  void Watch();
  void OnJob(const Result<wire::JobView>& job);

  Connection& connection_;
  const std::string id_;
  int64_t seen_;
  State state_;
  Done done_;
};

}  // namespace tutti::http
