// BufferedRequest: runs a call of a generating or embedding route to completion without a client
// connection; used by jobs and batches. It parses the body, submits the requests to api::Inference,
// and builds the answer that the route would give without `stream`.
//
// For use by one thread at a time; the destructor cancels running requests.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "api/caller.h"
#include "api/inference.h"
#include "base/clock.h"
#include "base/status.h"
#include "protocol/schema/checked_object.h"
#include "services/background/retry.h"
#include "services/calls/generation_call.h"

namespace tutti::calls {

// Inputs of a call that are not in its body.
struct CallContext {
  api::CallerRef caller = {};
  std::string request_id = {};
  protocol::ParseOptions parse = {};
  TimePoint deadline = TimePoint::max();
  int64_t unix_s = 0;  // for the answer's head
};

// Why a call ended with an error, for the retry decision.
background::Failure FailureOf(const Status& error);

// Checks that the caller may use the model; OK while models are still loading. `generates`: the
// call generates text. Errors: model_not_found.
Status CheckModel(const std::string& name, bool generates, const api::CallerRef& caller,
                  const api::Inference& inference);

class BufferedRequest {
 public:
  virtual ~BufferedRequest() = default;

  // Parses the body. Errors: those of the route; unsupported_parameter for `stream`;
  // model_not_found (once models are loaded).
  static Result<std::unique_ptr<BufferedRequest>> Parse(CallKind kind, std::string_view body,
                                                        CallContext context,
                                                        api::Inference& inference);

  // Submits the requests once, detached and with batch priority. Errors: those of api::Inference,
  // with the field of the call.
  virtual Status Begin(std::shared_ptr<Waker> waker) = 0;

  struct Answer {
    Status status = {};     // OK, or why there is no answer
    std::string body = {};  // JSON; cancelled: {"partial":[{"index":0,"text":"..."}]}
    int64_t output_tokens = 0;
    int64_t input_tokens = 0, cached_tokens = 0;  // 0 after an error; cached: part of the input
  };
  // Reads new events. Returns the answer once, when it is complete.
  virtual std::optional<Answer> Poll() = 0;
  // Output tokens so far.
  virtual int64_t progress() const = 0;
  // Cancels the call at the next step; Poll() still returns an answer.
  virtual void Cancel() = 0;
};

}  // namespace tutti::calls
