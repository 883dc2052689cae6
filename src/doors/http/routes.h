// The table of routes: what there is to ask for, by path and method. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "services/auth/scopes.h"
#include "telemetry/labels.h"
#include "wire/error.h"

namespace tutti::http {

enum class RouteId {
  kChat,
  kText,
  kGenerate,
  kInfill,       // POST /infill
  kMessages,     // POST /v1/messages
  kCountTokens,  // POST /v1/messages/count_tokens
  kResponses,    // POST /v1/responses
  kResponsesSocket,
  kChatSocket,  // GET /v1/ws
  kResponse,
  kResponseCancel,
  kResponseDelete,
  kResponseInput,
  kInputTokens,
  kJobs,
  kJobsPause,
  kJobsResume,
  kJob,
  kJobCancel,
  kJobReplay,
  kJobEvents,
  kFiles,
  kFileUpload,
  kFile,
  kFileContent,
  kFileDelete,
  kBatches,
  kBatchCreate,
  kBatch,
  kBatchCancel,
  kMessageBatches,
  kMessageBatchCreate,
  kMessageBatch,
  kMessageBatchDelete,
  kMessageBatchCancel,
  kMessageBatchResults,
  kConversationCreate,
  kConversation,
  kConversationUpdate,
  kConversationDelete,
  kConversationFork,
  kItems,
  kItemsCreate,
  kItem,
  kItemDelete,
  kEmbeddings,
  kRerank,
  kRerankOrTei,  // /rerank: Jina's form or TEI's
  kScore,
  kTeiEmbed,
  kTeiEmbedAll,
  kTeiPredict,
  kTeiSimilarity,
  kTeiRoot,  // POST /: whatever the model does
  kInfo,
  kTokenizerInfo,
  kDecode,
  kTokenize,
  kDetokenize,
  kApplyTemplate,
  kModels,
  kModel,
  kVersion,
  kLoad,
  kMetrics,
  kLive,
  kReady,
  kStarted,
  kHealth,
  // KServe v2
  kKserveServer,
  kKserveLive,
  kKserveReady,
  kKserveModel,
  kKserveModelReady,
  kKserveConfig,
  kKserveStatistics,
  kKserveInfer,
  kKserveGenerate,
  kKserveGenerateStream,
  kKserveIndex,
  kKserveLoad,
  kKserveUnload,
  kKserveUnregister,  // all regions of shared memory
  kNotOffered,        // known, and refused as not implemented
};

// What a route's body may be.
enum class BodyKind : uint8_t {
  kJson,     // application/json, as it is
  kTensors,  // JSON, tensors or both, by Triton's clients: whatever they say it is, also compressed
  kUpload,   // multipart/form-data, given to the exchange as it comes (Exchange::OnBody)
};

struct Route {
  // "/v1/models/{id}": also what logs and metrics show. {id} takes all there is to the end of the
  // path, or to what follows it in the pattern; {part} takes one segment.
  std::string_view pattern;
  std::string_view method;  // GET (HEAD too), POST or DELETE; rows of one pattern stand together
  RouteId id;
  auth::RouteClasses rule;  // who may ask has one of these scopes; kPublic: nobody is asked
  telemetry::OpKind op = telemetry::OpKind::kOther;
  bool open = false;        // GET needs no key
  bool open_probe = false;  // HEAD and OPTIONS need no key
  wire::ErrorForm errors = wire::ErrorForm::kOpenAi;
  BodyKind body = BodyKind::kJson;
  bool versioned = false;  // "/versions/V" may stand after {id}
};

std::span<const Route> Routes();

struct FoundRoute {
  std::span<const Route> methods;  // of the path's pattern, one row each; empty: there is no route
  std::string argument, version;   // {id} or the first {part}, and V, decoded
  std::string item;                // the second {part}, decoded

  // The row that answers `method`, or the first: errors take its form.
  const Route* For(std::string_view method) const;
};
// Of a path in canonical form, whatever the method.
FoundRoute FindRoute(std::string_view path);

// The route in the ledger of usage: "chat.completions", "responses", "kserve.infer".
std::string UsageName(const Route& route);

bool Answers(const Route& route, std::string_view method);
// The field Allow: "GET, HEAD, OPTIONS".
std::string AllowOf(std::span<const Route> methods);

}  // namespace tutti::http
