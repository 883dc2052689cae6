// OneResponse: reduces an execution that may give several responses to the single non-empty
// response of a unary call, or to an error. Owned by one call; one thread.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "base/status.h"
#include "protocol/kserve/model.h"

namespace tutti::kserve {

class OneResponse {
 public:
  // Takes what there is. Nothing: not yet; not called again after a failure or a response. Errors:
  // the execution's; invalid_value with the text `several` for a second response. A request without
  // any response has an empty one.
  Result<std::optional<InferResponse>> Take(Execution& execution, const std::string& several) {
    while (true) {
      ASSIGN_OR_RETURN(std::optional<InferResponse> next, execution.Next());
      if (!next.has_value()) return std::optional<InferResponse>();
      const bool last = next->final;
      if (!next->empty) {
        if (held_.has_value()) return InvalidArgument("invalid_value", several);
        held_ = std::move(*next);
      }
      if (last) return std::optional(std::exchange(held_, std::nullopt).value_or(InferResponse()));
    }
  }

 private:
  std::optional<InferResponse> held_;  // until it is known to be the only one
};

}  // namespace tutti::kserve
