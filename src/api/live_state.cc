#include "api/live_state.h"

namespace tutti::api {

std::string_view LivePhaseName(LiveSequence::Phase phase) {
  constexpr std::string_view kNames[] = {"waiting", "prefill", "decode", "paused"};
  return kNames[static_cast<size_t>(phase)];
}

}  // namespace tutti::api
