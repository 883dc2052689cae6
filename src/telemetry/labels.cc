#include "telemetry/labels.h"

#include <array>
#include <cstddef>

namespace tutti::telemetry {

const char* LabelOf(ServerKind server) {
  constexpr std::array kNames = {"http", "grpc"};
  return kNames[static_cast<size_t>(server)];
}
const char* LabelOf(OpKind op) {
  constexpr std::array kNames = {"chat",     "completion", "generate", "response",
                                 "tokenize", "embed",      "score",    "other"};
  return kNames[static_cast<size_t>(op)];
}
const char* LabelOf(CancelCause cause) {
  constexpr std::array kNames = {"disconnect", "deadline", "drain"};
  return kNames[static_cast<size_t>(cause)];
}
const char* LabelOf(RequestPhase phase) {
  constexpr std::array kNames = {"queued", "prefill", "decode"};
  return kNames[static_cast<size_t>(phase)];
}
const char* LabelOf(StepKind kind) {
  constexpr std::array kNames = {"prefill", "decode", "mixed"};
  return kNames[static_cast<size_t>(kind)];
}
const char* LabelOf(FinishKind kind) {
  constexpr std::array kNames = {"stop", "length", "abort", "error"};
  return kNames[static_cast<size_t>(kind)];
}
const char* LabelOf(WasteCause cause) {
  constexpr std::array kNames = {"preemption", "cancelled"};
  return kNames[static_cast<size_t>(cause)];
}
const char* LabelOf(PreemptionCause cause) {
  constexpr std::array kNames = {"kv", "lane"};
  return kNames[static_cast<size_t>(cause)];
}
const char* LabelOf(DispatchCause cause) {
  constexpr std::array kNames = {"full", "idle", "deadline", "age"};
  return kNames[static_cast<size_t>(cause)];
}

}  // namespace tutti::telemetry
