// The table of routes, by path and method. Pure.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "protocol/error.h"
#include "services/auth/grant.h"
#include "services/calls/generation_call.h"
#include "telemetry/labels.h"

namespace tutti::http {

enum class RouteId {
  kChat,
  kText,
  kGenerate,
  kInfill,     // POST /infill
  kDecisions,  // POST /v1/decisions
  kSystemOne,  // POST /v1/systemone
  kPrefixPin,  // POST /v1/prefixes
  kPrefixes,
  kPrefixDelete,
  kMessages,  // POST /v1/messages
  // Ollama's API
  kOllamaChat,
  kOllamaGenerate,
  kOllamaEmbed,
  kOllamaEmbeddings,
  kOllamaTags,
  kOllamaShow,
  kOllamaRunning,  // GET /api/ps
  kOllamaVersion,
  kOllamaPull,
  kOllamaCopy,
  kOllamaDelete,
  kOllamaRoot,   // GET /: that a server is there; for browsers, the page
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
  kConversations,  // GET /v1/conversations
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
  kTeiSparse,
  kTeiPredict,
  kTeiSimilarity,
  kTeiRoot,  // POST /: the operation of the model
  kInfo,
  kTokenizerInfo,
  kDecode,
  kTokenize,
  kDetokenize,
  kApplyTemplate,
  kModels,
  kModel,
  kLoadAdapter,     // POST /v1/load_lora_adapter
  kUnloadAdapter,   // POST /v1/unload_lora_adapter
  kModelsReload,    // GET /models: also reads the folder of models again, with ?reload=1
  kModelLoad,       // answers when the model is loaded
  kModelUnload,     // answers when the model's memory is released
  kModelLoadLater,  // as llama.cpp's router: answer at once
  kModelUnloadLater,
  kVersion,
  kLoad,
  kMetrics,
  kOpenApi,       // GET /openapi.json
  kReload,        // POST /admin/reload
  kLiveState,     // GET /admin/state
  kLiveEvents,    // GET /admin/events
  kRequestTrace,  // GET /admin/requests/{id}
  kRequestCancel,
  kWebFile,  // of the page
  kWebConfig,
  kMe,  // GET /v1/me
  kAdminKeys,
  kAdminKeyCreate,
  kAdminKeyUpdate,
  kAdminKeyRevoke,
  kAdminKeyRotate,
  kAdminUsers,
  kAdminUserCreate,
  kAdminUserDelete,
  kAdminUserPassword,
  kAdminUserEnable,
  kAdminUserDisable,
  kAdminJobs,
  kAdminJob,
  kAdminJobCancel,
  kAdminJobReplay,
  kAdminJobsPause,
  kAdminJobsResume,
  kAdminUsage,
  kAdminBatches,
  kAdminBatch,
  kAdminBatchCancel,
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
  kNotOffered,        // known routes that are not implemented
};

// The accepted bodies of a route.
enum class BodyKind : uint8_t {
  kJson,     // application/json, not compressed
  kTensors,  // JSON, tensors or both, from Triton's clients: any Content-Type, also compressed
  kUpload,   // multipart/form-data, passed to the handler in pieces (Handler::OnBody)
};

class Connection;
class Handler;

// The services that a route needs. A server without them answers it with not_implemented.
enum class Needs : uint8_t {
  kNothing,
  kDialogs,  // stored responses and conversations
  kChat,     // these and the chat of users
  kJobs,
  kFiles,
  kBatches,
  kAdapters,  // loading adapters at run time
  kLibrary,   // fetching and naming models at run time
  kOperate,   // control requests of operators
};

// How a route is answered.
struct RouteHandler {
  std::unique_ptr<Handler> (*make)(RouteId route, Connection& connection);  // handler.h
  Needs needs = Needs::kNothing;
};

struct Route {
  // "/v1/models/{id}": also used in logs and metrics. {id} matches everything up to the end of the
  // path, or up to the text after it in the pattern; {part} matches one segment.
  std::string_view pattern;
  std::string_view method;  // GET (HEAD too), POST or DELETE; rows of one pattern stand together
  RouteId id;
  RouteHandler handler;
  auth::RouteClasses rule;  // required scopes, any of them; kPublic: no authentication
  telemetry::OpKind op = telemetry::OpKind::kOther;
  bool open = false;        // GET needs no key
  bool open_probe = false;  // HEAD and OPTIONS need no key
  protocol::ErrorForm errors = protocol::ErrorForm::kOpenAi;
  BodyKind body = BodyKind::kJson;
  bool versioned = false;  // "/versions/V" may follow {id}
};

std::span<const Route> Routes();

struct FoundRoute {
  std::span<const Route> methods;  // one row per method of the pattern; empty: no such route
  std::string argument, version;   // {id} or the first {part}, and V, decoded
  std::string item;                // the second {part}, decoded

  // The row of `method`, or the first row, whose format errors then have.
  const Route* For(std::string_view method) const;
};
// Finds the routes of a path in canonical form, for all methods.
FoundRoute FindRoute(std::string_view path);

// Name of the route in usage records: "chat.completions", "responses", "kserve.infer".
std::string UsageName(const Route& route);

bool Answers(const Route& route, std::string_view method);
// The field Allow: "GET, HEAD, OPTIONS".
std::string AllowOf(std::span<const Route> methods);

// The model call of a route; nullopt if it calls no model or needs a live connection.
std::optional<calls::CallKind> CallKindOf(RouteId route);

}  // namespace tutti::http
