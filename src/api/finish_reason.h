// Names of finish reasons, as in the OpenAI API.
#pragma once

#include <string_view>

#include "api/types.h"

namespace tutti::api {

constexpr std::string_view FinishReasonName(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kToolCalls:
      return "tool_calls";
  }
  return "stop";
}

}  // namespace tutti::api
