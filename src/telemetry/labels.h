// Label values of the metrics: closed sets as enums, and their names in the exposition.
#pragma once

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

const char* LabelOf(ServerKind server);
const char* LabelOf(OpKind op);
const char* LabelOf(CancelCause cause);
const char* LabelOf(RequestPhase phase);
const char* LabelOf(StepKind kind);
const char* LabelOf(FinishKind kind);
const char* LabelOf(WasteCause cause);
const char* LabelOf(PreemptionCause cause);
const char* LabelOf(DispatchCause cause);

}  // namespace tutti::telemetry
