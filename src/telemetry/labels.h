// Label values of the metrics: closed sets as enums, and their names in the exposition.
#pragma once

#include <cstddef>
#include <initializer_list>

namespace tutti::telemetry {

enum class ServerKind { kHttp, kGrpc };  // the next server adds itself
enum class OpKind { kChat, kCompletion, kGenerate, kResponse, kTokenize, kEmbed, kScore, kOther };
enum class CancelCause { kDisconnect, kDeadline, kDrain };
enum class RequestPhase { kQueued, kPrefill, kDecode };
enum class StepKind { kPrefill, kDecode, kMixed };
enum class FinishKind { kStop, kLength, kAbort, kError };
enum class PromptSource { kComputed, kPrefix };
enum class WasteCause { kPreemption, kCancelled };
enum class PreemptionCause { kBlocks, kPriority };           // resource that was scarce
enum class DispatchCause { kFull, kIdle, kDeadline, kAge };  // of a batch of texts

// The name of `label`, given those of all values of its enum in their order.
template <typename Label>
constexpr const char* NameOf(Label label, std::initializer_list<const char*> names) {
  return names.begin()[static_cast<size_t>(label)];
}

inline const char* LabelOf(ServerKind server) { return NameOf(server, {"http", "grpc"}); }
inline const char* LabelOf(OpKind op) {
  return NameOf(
      op, {"chat", "completion", "generate", "response", "tokenize", "embed", "score", "other"});
}
inline const char* LabelOf(CancelCause cause) {
  return NameOf(cause, {"disconnect", "deadline", "drain"});
}
inline const char* LabelOf(RequestPhase phase) {
  return NameOf(phase, {"queued", "prefill", "decode"});
}
inline const char* LabelOf(StepKind kind) { return NameOf(kind, {"prefill", "decode", "mixed"}); }
inline const char* LabelOf(FinishKind kind) {
  return NameOf(kind, {"stop", "length", "abort", "error"});
}
inline const char* LabelOf(WasteCause cause) { return NameOf(cause, {"preemption", "cancelled"}); }
inline const char* LabelOf(PreemptionCause cause) { return NameOf(cause, {"kv", "lane"}); }
inline const char* LabelOf(DispatchCause cause) {
  return NameOf(cause, {"full", "idle", "deadline", "age"});
}

}  // namespace tutti::telemetry
