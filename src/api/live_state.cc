#include "api/live_state.h"

namespace tutti::api {

std::string_view LivePhaseName(LiveSequence::Phase phase) {
  constexpr std::string_view kNames[] = {"waiting", "prefill", "decode", "paused"};
  return kNames[static_cast<size_t>(phase)];
}

std::string_view LiveProtocolName(LiveClient::Protocol protocol) {
  constexpr std::string_view kNames[] = {"mqtt3.1.1", "mqtt5", "websocket"};
  return kNames[static_cast<size_t>(protocol)];
}

}  // namespace tutti::api
