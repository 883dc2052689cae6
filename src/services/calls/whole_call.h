// WholeCall: a call of a route that generates or embeds, run to its whole answer by somebody whom
// no client's connection waits for. The body is read, the requests go to the waist, and the answer
// is the one the route would give without `stream`.
//
// Belongs to one thread at a time; destroying it cancels what it runs.
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
#include "services/calls/call_kind.h"
#include "wire/request_placement.h"

namespace tutti::calls {

// What the body does not say.
struct CallContext {
  api::CallerRef caller = {};
  std::string request_id = {};
  wire::ParseOptions parse = {};
  TimePoint deadline = TimePoint::max();
  int64_t unix_s = 0;  // for the answer's head
};

// What becomes of a call that ended with an error, for who can make it again.
enum class Verdict : uint8_t {
  kFinal,     // it would end so each time
  kLater,     // the refusal passes by itself
  kOurs,      // a failure of ours: it may have been its own doing
  kStopping,  // the process ends
};
Verdict VerdictOf(const Status& error);

// Whether the model is there for that caller, as far as it is known yet. `generates`: it is asked
// for text. Errors: model_not_found.
Status CheckModel(const std::string& name, bool generates, const api::CallerRef& caller,
                  const api::Inference& inference);

class WholeCall {
 public:
  virtual ~WholeCall() = default;

  // Reads the body. Errors: those of the route's; unsupported_parameter of `stream`;
  // model_not_found (once there are models).
  static Result<std::unique_ptr<WholeCall>> Parse(CallKind kind, std::string_view body,
                                                  CallContext context, api::Inference& inference);

  // Submits it, as detached work of the batch class. Once. Errors: those of the waist, with the
  // call's own field.
  virtual Status Begin(std::shared_ptr<api::StreamWaker> waker) = 0;

  struct Answer {
    Status status = {};     // OK, or why there is none
    std::string body = {};  // JSON; of what was cancelled {"partial":[{"index":0,"text":"..."}]}
    int64_t output_tokens = 0;
    int64_t input_tokens = 0,
            cached_tokens = 0;  // cached: of those of the input; of what ended well
  };
  // Reads what has come; the answer, once, when all of it is there.
  virtual std::optional<Answer> Poll() = 0;
  // Output tokens so far.
  virtual int64_t progress() const = 0;
  // Ends it at the next step; Poll() still gives an answer.
  virtual void Cancel() = 0;
};

}  // namespace tutti::calls
