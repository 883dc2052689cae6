#include "server/http/routes.h"

#include <algorithm>
#include <array>

#include "server/http/connection/message_parser.h"
#include "server/http/handler.h"
#include "services/auth/grant.h"

namespace tutti::http {
namespace {

using telemetry::OpKind;

constexpr bool kOpen = true, kProbe = true;

using namespace auth::rules;  // NOLINT: the words of the table

// How the rows are answered.
namespace to {

constexpr RouteHandler kImmediate{MakeImmediateHandler};
constexpr RouteHandler kAdmin{MakeAdminHandler};
constexpr RouteHandler kLive{MakeLiveHandler};
constexpr RouteHandler kRoot{MakeRootHandler};
constexpr RouteHandler kWeb{MakeWebHandler};
constexpr RouteHandler kMe{MakeCallerHandler};
constexpr RouteHandler kOperator{MakeOperatorHandler, Needs::kOperate};
constexpr RouteHandler kModelControl{MakeModelsHandler};
constexpr RouteHandler kGeneration{MakeGenerationHandler};
constexpr RouteHandler kTokenizer{MakeTokenizerHandler};
constexpr RouteHandler kPrefixes{MakePrefixesHandler};
constexpr RouteHandler kEncoding{MakeEncodingHandler};
constexpr RouteHandler kResponse{MakeResponsesHandler, Needs::kDialogs};
constexpr RouteHandler kStored{MakeStoredResponseHandler, Needs::kDialogs};
constexpr RouteHandler kConversations{MakeConversationsHandler, Needs::kDialogs};
constexpr RouteHandler kSocket{MakeSocketHandler, Needs::kDialogs};
constexpr RouteHandler kChatSocket{MakeSocketHandler, Needs::kChat};
constexpr RouteHandler kJobs{MakeJobsHandler, Needs::kJobs};
constexpr RouteHandler kFiles{MakeFilesHandler, Needs::kFiles};
constexpr RouteHandler kUpload{MakeUploadHandler, Needs::kFiles};
constexpr RouteHandler kDownload{MakeFileContentHandler, Needs::kFiles};
constexpr RouteHandler kBatches{MakeBatchesHandler, Needs::kBatches};
constexpr RouteHandler kMessageBatches{MakeMessageBatchesHandler, Needs::kBatches};
constexpr RouteHandler kBatchResults{MakeMessageBatchResultsHandler, Needs::kBatches};
constexpr RouteHandler kAdapters{MakeAdaptersHandler, Needs::kAdapters};
constexpr RouteHandler kLibrary{MakeLibraryHandler, Needs::kLibrary};
constexpr RouteHandler kKserve{MakeKserveHandler};
constexpr RouteHandler kKserveInfer{MakeKserveInferHandler};
constexpr RouteHandler kKserveStream{MakeKserveStreamHandler};

}  // namespace to

constexpr Route TeiRoute(std::string_view pattern, RouteId id, RouteHandler handler,
                         auth::RouteClasses rule, OpKind op) {
  return {pattern, "POST", id, handler, rule, op, false, false, protocol::ErrorForm::kTei};
}

// A route of Anthropic's Messages API.
constexpr Route MessagesRoute(std::string_view pattern, std::string_view method, RouteId id,
                              RouteHandler handler, auth::RouteClasses rule,
                              OpKind op = OpKind::kOther) {
  return {pattern, method, id, handler, rule, op, false, false, protocol::ErrorForm::kAnthropic};
}

// A route of Ollama's API.
constexpr Route OllamaRoute(std::string_view pattern, std::string_view method, RouteId id,
                            RouteHandler handler, auth::RouteClasses rule,
                            OpKind op = OpKind::kOther) {
  const bool open = id == RouteId::kOllamaRoot;
  return {pattern, method, id, handler, rule, op, open, open, protocol::ErrorForm::kOllama};
}

// A route of KServe v2 (Open Inference Protocol), with Triton's additions.
constexpr Route KserveRoute(std::string_view pattern, std::string_view method, RouteId id,
                            RouteHandler handler, auth::RouteClasses rule,
                            OpKind op = OpKind::kOther) {
  constexpr std::string_view kOfModel = "/v2/models/{id}";
  return {.pattern = pattern,
          .method = method,
          .id = id,
          .handler = handler,
          .rule = rule,
          .op = op,
          .open = id == RouteId::kKserveLive || id == RouteId::kKserveReady,
          .errors = protocol::ErrorForm::kKserve,
          .body = BodyKind::kTensors,
          .versioned = pattern.starts_with(kOfModel)};
}

// A route of operators, for a control request.
constexpr Route OperatorRoute(std::string_view pattern, std::string_view method, RouteId id) {
  return {pattern, method, id, to::kOperator, kOperate};
}

// The first that fits counts.
constexpr auto kRoutes = std::to_array<Route>({
    {"/v1/chat/completions", "POST", RouteId::kChat, to::kGeneration, kGenerate, OpKind::kChat},
    {"/v1/completions", "POST", RouteId::kText, to::kGeneration, kGenerate, OpKind::kCompletion},
    {"/generate", "POST", RouteId::kGenerate, to::kGeneration, kGenerate, OpKind::kGenerate},
    {"/infill", "POST", RouteId::kInfill, to::kGeneration, kGenerate, OpKind::kCompletion},
    {"/v1/decisions", "POST", RouteId::kDecisions, to::kGeneration, kGenerate, OpKind::kScore},
    {"/v1/systemone", "POST", RouteId::kSystemOne, to::kGeneration, kGenerate, OpKind::kScore},
    {"/v1/prefixes", "GET", RouteId::kPrefixes, to::kPrefixes, kGenerate},
    {"/v1/prefixes", "POST", RouteId::kPrefixPin, to::kGeneration, kGenerate, OpKind::kCompletion},
    {"/v1/prefixes/{part}", "DELETE", RouteId::kPrefixDelete, to::kPrefixes, kGenerate},
    MessagesRoute("/v1/messages", "POST", RouteId::kMessages, to::kGeneration, kGenerate,
                  OpKind::kChat),
    MessagesRoute("/v1/messages/count_tokens", "POST", RouteId::kCountTokens, to::kTokenizer,
                  kTokenize, OpKind::kTokenize),
    MessagesRoute("/v1/messages/batches", "GET", RouteId::kMessageBatches, to::kMessageBatches,
                  kGenerate),
    MessagesRoute("/v1/messages/batches", "POST", RouteId::kMessageBatchCreate, to::kMessageBatches,
                  kGenerate),
    MessagesRoute("/v1/messages/batches/{part}", "GET", RouteId::kMessageBatch, to::kMessageBatches,
                  kGenerate),
    MessagesRoute("/v1/messages/batches/{part}", "DELETE", RouteId::kMessageBatchDelete,
                  to::kMessageBatches, kGenerate),
    MessagesRoute("/v1/messages/batches/{part}/cancel", "POST", RouteId::kMessageBatchCancel,
                  to::kMessageBatches, kGenerate),
    MessagesRoute("/v1/messages/batches/{part}/results", "GET", RouteId::kMessageBatchResults,
                  to::kBatchResults, kGenerate),
    OllamaRoute("/api/chat", "POST", RouteId::kOllamaChat, to::kGeneration, kGenerate,
                OpKind::kChat),
    OllamaRoute("/api/generate", "POST", RouteId::kOllamaGenerate, to::kGeneration, kGenerate,
                OpKind::kCompletion),
    OllamaRoute("/api/embed", "POST", RouteId::kOllamaEmbed, to::kEncoding, kEmbed, OpKind::kEmbed),
    OllamaRoute("/api/embeddings", "POST", RouteId::kOllamaEmbeddings, to::kEncoding, kEmbed,
                OpKind::kEmbed),
    OllamaRoute("/api/tags", "GET", RouteId::kOllamaTags, to::kImmediate, kModels),
    OllamaRoute("/api/show", "POST", RouteId::kOllamaShow, to::kImmediate, kModels),
    OllamaRoute("/api/ps", "GET", RouteId::kOllamaRunning, to::kImmediate, kModels),
    OllamaRoute("/api/version", "GET", RouteId::kOllamaVersion, to::kImmediate, kModels),
    OllamaRoute("/api/pull", "POST", RouteId::kOllamaPull, to::kLibrary, kOperate),
    OllamaRoute("/api/copy", "POST", RouteId::kOllamaCopy, to::kLibrary, kOperate),
    OllamaRoute("/api/delete", "DELETE", RouteId::kOllamaDelete, to::kLibrary, kOperate),
    OllamaRoute("/api/push", "POST", RouteId::kNotOffered, to::kImmediate, kKnown),
    OllamaRoute("/api/create", "POST", RouteId::kNotOffered, to::kImmediate, kKnown),
    {"/tokenize", "POST", RouteId::kTokenize, to::kTokenizer, kTokenize, OpKind::kTokenize},
    {"/v1/tokenize", "POST", RouteId::kTokenize, to::kTokenizer, kTokenize, OpKind::kTokenize},
    {"/detokenize", "POST", RouteId::kDetokenize, to::kTokenizer, kTokenize, OpKind::kTokenize},
    {"/v1/detokenize", "POST", RouteId::kDetokenize, to::kTokenizer, kTokenize, OpKind::kTokenize},
    {"/apply-template", "POST", RouteId::kApplyTemplate, to::kTokenizer, kTokenize,
     OpKind::kTokenize},
    {"/v1/responses", "POST", RouteId::kResponses, to::kResponse, kGenerate, OpKind::kResponse},
    {"/v1/responses", "GET", RouteId::kResponsesSocket, to::kSocket, kGenerate},
    {"/v1/ws", "GET", RouteId::kChatSocket, to::kChatSocket, kGenerate},
    {"/v1/responses/input_tokens", "POST", RouteId::kInputTokens, to::kTokenizer, kTokenize,
     OpKind::kTokenize},
    {"/v1/responses/compact", "POST", RouteId::kNotOffered, to::kImmediate, kKnown},
    {"/v1/responses/{part}", "GET", RouteId::kResponse, to::kStored, kGenerate},
    {"/v1/responses/{part}", "DELETE", RouteId::kResponseDelete, to::kStored, kGenerate},
    {"/v1/responses/{part}/cancel", "POST", RouteId::kResponseCancel, to::kStored, kGenerate},
    {"/v1/responses/{part}/input_items", "GET", RouteId::kResponseInput, to::kStored, kGenerate},
    {"/v1/jobs", "GET", RouteId::kJobs, to::kJobs, kWork},
    {"/v1/jobs/pause", "POST", RouteId::kJobsPause, to::kJobs, kWork},
    {"/v1/jobs/resume", "POST", RouteId::kJobsResume, to::kJobs, kWork},
    {"/v1/jobs/{part}", "GET", RouteId::kJob, to::kJobs, kWork},
    {"/v1/jobs/{part}/cancel", "POST", RouteId::kJobCancel, to::kJobs, kWork},
    {"/v1/jobs/{part}/replay", "POST", RouteId::kJobReplay, to::kJobs, kWork},
    {"/v1/jobs/{part}/events", "GET", RouteId::kJobEvents, to::kJobs, kWork},
    {"/v1/files", "GET", RouteId::kFiles, to::kFiles, kWork},
    {.pattern = "/v1/files",
     .method = "POST",
     .id = RouteId::kFileUpload,
     .handler = to::kUpload,
     .rule = kWork,
     .body = BodyKind::kUpload},
    {"/v1/files/{part}", "GET", RouteId::kFile, to::kFiles, kWork},
    {"/v1/files/{part}", "DELETE", RouteId::kFileDelete, to::kFiles, kWork},
    {"/v1/files/{part}/content", "GET", RouteId::kFileContent, to::kDownload, kWork},
    {"/v1/batches", "GET", RouteId::kBatches, to::kBatches, kWork},
    {"/v1/batches", "POST", RouteId::kBatchCreate, to::kBatches, kWork},
    {"/v1/batches/{part}", "GET", RouteId::kBatch, to::kBatches, kWork},
    {"/v1/batches/{part}/cancel", "POST", RouteId::kBatchCancel, to::kBatches, kWork},
    {"/v1/conversations", "GET", RouteId::kConversations, to::kConversations, kGenerate},
    {"/v1/conversations", "POST", RouteId::kConversationCreate, to::kConversations, kGenerate},
    {"/v1/conversations/{part}", "GET", RouteId::kConversation, to::kConversations, kGenerate},
    {"/v1/conversations/{part}", "POST", RouteId::kConversationUpdate, to::kConversations,
     kGenerate},
    {"/v1/conversations/{part}", "DELETE", RouteId::kConversationDelete, to::kConversations,
     kGenerate},
    {"/v1/conversations/{part}/fork", "POST", RouteId::kConversationFork, to::kConversations,
     kGenerate},
    {"/v1/conversations/{part}/items", "GET", RouteId::kItems, to::kConversations, kGenerate},
    {"/v1/conversations/{part}/items", "POST", RouteId::kItemsCreate, to::kConversations,
     kGenerate},
    {"/v1/conversations/{part}/items/{part}", "GET", RouteId::kItem, to::kConversations, kGenerate},
    {"/v1/conversations/{part}/items/{part}", "DELETE", RouteId::kItemDelete, to::kConversations,
     kGenerate},
    {"/v1/embeddings", "POST", RouteId::kEmbeddings, to::kEncoding, kEmbed, OpKind::kEmbed},
    {"/embeddings", "POST", RouteId::kEmbeddings, to::kEncoding, kEmbed, OpKind::kEmbed},
    {"/v1/rerank", "POST", RouteId::kRerank, to::kEncoding, kEmbed, OpKind::kScore},
    {"/v2/rerank", "POST", RouteId::kRerank, to::kEncoding, kEmbed, OpKind::kScore},
    {"/rerank", "POST", RouteId::kRerankOrTei, to::kEncoding, kEmbed, OpKind::kScore},
    {"/v1/score", "POST", RouteId::kScore, to::kEncoding, kEmbed, OpKind::kScore},
    {"/score", "POST", RouteId::kScore, to::kEncoding, kEmbed, OpKind::kScore},
    TeiRoute("/embed", RouteId::kTeiEmbed, to::kEncoding, kEmbed, OpKind::kEmbed),
    TeiRoute("/embed_all", RouteId::kTeiEmbedAll, to::kEncoding, kEmbed, OpKind::kEmbed),
    TeiRoute("/embed_sparse", RouteId::kTeiSparse, to::kEncoding, kEmbed, OpKind::kEmbed),
    TeiRoute("/predict", RouteId::kTeiPredict, to::kEncoding, kEmbed, OpKind::kScore),
    TeiRoute("/similarity", RouteId::kTeiSimilarity, to::kEncoding, kEmbed, OpKind::kEmbed),
    TeiRoute("/", RouteId::kTeiRoot, to::kEncoding, kWork, OpKind::kEmbed),
    OllamaRoute("/", "GET", RouteId::kOllamaRoot, to::kRoot, kAnybody),
    TeiRoute("/decode", RouteId::kDecode, to::kTokenizer, kTokenize, OpKind::kTokenize),
    {"/info", "GET", RouteId::kInfo, to::kImmediate, kModels, OpKind::kOther, false, false,
     protocol::ErrorForm::kTei},
    {"/tokenizer_info", "GET", RouteId::kTokenizerInfo, to::kImmediate, kTokenize},
    {"/v1/models", "GET", RouteId::kModels, to::kImmediate, kModels},
    {"/v1/models/load", "POST", RouteId::kModelLoad, to::kModelControl, kOperate},
    {"/v1/models/unload", "POST", RouteId::kModelUnload, to::kModelControl, kOperate},
    {"/v1/models/{id}", "GET", RouteId::kModel, to::kImmediate, kModels},
    {"/v1/load_lora_adapter", "POST", RouteId::kLoadAdapter, to::kAdapters, kOperate},
    {"/v1/unload_lora_adapter", "POST", RouteId::kUnloadAdapter, to::kAdapters, kOperate},
    {"/models", "GET", RouteId::kModelsReload, to::kModelControl, kModels},
    {"/models/load", "POST", RouteId::kModelLoadLater, to::kModelControl, kOperate},
    {"/models/unload", "POST", RouteId::kModelUnloadLater, to::kModelControl, kOperate},
    {"/version", "GET", RouteId::kVersion, to::kImmediate, kModels},
    {"/load", "GET", RouteId::kLoad, to::kImmediate, kMetrics},
    {"/metrics", "GET", RouteId::kMetrics, to::kImmediate, kMetrics},
    {"/openapi.json", "GET", RouteId::kOpenApi, to::kImmediate, kKnown},
    {"/v1/me", "GET", RouteId::kMe, to::kMe, kKnown},
    {"/admin/reload", "POST", RouteId::kReload, to::kAdmin, kOperate},
    {"/admin/state", "GET", RouteId::kLiveState, to::kLive, kOperate},
    {"/admin/events", "GET", RouteId::kLiveEvents, to::kLive, kOperate},
    {"/admin/requests/{id}/cancel", "POST", RouteId::kRequestCancel, to::kLive, kOperate},
    {"/admin/requests/{id}", "GET", RouteId::kRequestTrace, to::kLive, kOperate},
    {"/web/config", "GET", RouteId::kWebConfig, to::kWeb, kAnybody, OpKind::kOther, kOpen},
    {"/web/{id}", "GET", RouteId::kWebFile, to::kWeb, kAnybody, OpKind::kOther, kOpen},
    OperatorRoute("/admin/keys", "GET", RouteId::kAdminKeys),
    OperatorRoute("/admin/keys", "POST", RouteId::kAdminKeyCreate),
    OperatorRoute("/admin/keys/{part}", "POST", RouteId::kAdminKeyUpdate),
    OperatorRoute("/admin/keys/{part}", "DELETE", RouteId::kAdminKeyRevoke),
    OperatorRoute("/admin/keys/{part}/rotate", "POST", RouteId::kAdminKeyRotate),
    OperatorRoute("/admin/users", "GET", RouteId::kAdminUsers),
    OperatorRoute("/admin/users", "POST", RouteId::kAdminUserCreate),
    OperatorRoute("/admin/users/{part}", "DELETE", RouteId::kAdminUserDelete),
    OperatorRoute("/admin/users/{part}/password", "POST", RouteId::kAdminUserPassword),
    OperatorRoute("/admin/users/{part}/enable", "POST", RouteId::kAdminUserEnable),
    OperatorRoute("/admin/users/{part}/disable", "POST", RouteId::kAdminUserDisable),
    OperatorRoute("/admin/jobs", "GET", RouteId::kAdminJobs),
    OperatorRoute("/admin/jobs/pause", "POST", RouteId::kAdminJobsPause),
    OperatorRoute("/admin/jobs/resume", "POST", RouteId::kAdminJobsResume),
    OperatorRoute("/admin/jobs/{part}", "GET", RouteId::kAdminJob),
    OperatorRoute("/admin/jobs/{part}/cancel", "POST", RouteId::kAdminJobCancel),
    OperatorRoute("/admin/jobs/{part}/replay", "POST", RouteId::kAdminJobReplay),
    OperatorRoute("/admin/usage", "GET", RouteId::kAdminUsage),
    OperatorRoute("/admin/batches", "GET", RouteId::kAdminBatches),
    OperatorRoute("/admin/batches/{part}", "GET", RouteId::kAdminBatch),
    OperatorRoute("/admin/batches/{part}/cancel", "POST", RouteId::kAdminBatchCancel),
    {"/livez", "GET", RouteId::kLive, to::kImmediate, kAnybody, OpKind::kOther, kOpen, kProbe},
    {"/healthz", "GET", RouteId::kLive, to::kImmediate, kAnybody, OpKind::kOther, kOpen},
    {"/ping", "GET", RouteId::kLive, to::kImmediate, kAnybody, OpKind::kOther, kOpen},
    {"/readyz", "GET", RouteId::kReady, to::kImmediate, kAnybody, OpKind::kOther, kOpen, kProbe},
    {"/startupz", "GET", RouteId::kStarted, to::kImmediate, kAnybody, OpKind::kOther, kOpen},
    {"/health", "GET", RouteId::kHealth, to::kImmediate, kAnybody, OpKind::kOther, kOpen, kProbe},
    KserveRoute("/v2", "GET", RouteId::kKserveServer, to::kKserve, kModels),
    KserveRoute("/v2/health/live", "GET", RouteId::kKserveLive, to::kKserve, kAnybody),
    KserveRoute("/v2/health/ready", "GET", RouteId::kKserveReady, to::kKserve, kAnybody),
    KserveRoute("/v2/models/stats", "GET", RouteId::kKserveStatistics, to::kKserve, kModels),
    KserveRoute("/v2/models/{id}/infer", "POST", RouteId::kKserveInfer, to::kKserveInfer, kWork),
    KserveRoute("/v2/models/{id}/generate", "POST", RouteId::kKserveGenerate, to::kKserveInfer,
                kGenerate, OpKind::kGenerate),
    KserveRoute("/v2/models/{id}/generate_stream", "POST", RouteId::kKserveGenerateStream,
                to::kKserveStream, kGenerate, OpKind::kGenerate),
    KserveRoute("/v2/models/{id}/ready", "GET", RouteId::kKserveModelReady, to::kKserve, kModels),
    KserveRoute("/v2/models/{id}/config", "GET", RouteId::kKserveConfig, to::kKserve, kModels),
    KserveRoute("/v2/models/{id}/stats", "GET", RouteId::kKserveStatistics, to::kKserve, kModels),
    KserveRoute("/v2/models/{id}/trace/setting", "POST", RouteId::kNotOffered, to::kImmediate,
                kKnown),
    KserveRoute("/v2/models/{id}", "GET", RouteId::kKserveModel, to::kKserve, kModels),
    KserveRoute("/v2/repository/index", "POST", RouteId::kKserveIndex, to::kKserve, kModels),
    KserveRoute("/v2/repository/models/{id}/load", "POST", RouteId::kKserveLoad, to::kKserve,
                kOperate),
    KserveRoute("/v2/repository/models/{id}/unload", "POST", RouteId::kKserveUnload, to::kKserve,
                kOperate),
    KserveRoute("/v2/systemsharedmemory/unregister", "POST", RouteId::kKserveUnregister,
                to::kKserve, kModels),
    KserveRoute("/v2/cudasharedmemory/unregister", "POST", RouteId::kKserveUnregister, to::kKserve,
                kModels),
    KserveRoute("/v2/systemsharedmemory/{id}", "POST", RouteId::kNotOffered, to::kImmediate,
                kKnown),
    KserveRoute("/v2/cudasharedmemory/{id}", "POST", RouteId::kNotOffered, to::kImmediate, kKnown),
    KserveRoute("/v2/trace/setting", "POST", RouteId::kNotOffered, to::kImmediate, kKnown),
    KserveRoute("/v2/logging", "POST", RouteId::kNotOffered, to::kImmediate, kKnown),
});

// Default deny: a row without a complete access rule does not compile.
static_assert(std::all_of(kRoutes.begin(), kRoutes.end(), [](const Route& route) {
  return route.open == (route.rule == kAnybody);
}));

constexpr std::string_view kIdMark = "{id}", kPartMark = "{part}";

// Takes "/versions/V" from the end of `path`, if it stands there behind a name.
std::string_view TakeVersion(std::string_view* path) {
  constexpr std::string_view kVersions = "/versions/";
  const size_t at = path->rfind(kVersions);
  if (at == std::string_view::npos || at == 0) return {};
  const std::string_view version = path->substr(at + kVersions.size());
  if (version.empty() || version.find('/') != std::string_view::npos) return {};
  path->remove_suffix(path->size() - at);
  return version;
}

std::optional<FoundRoute> FitId(const Route& route, std::string_view path) {
  const size_t mark = route.pattern.find(kIdMark);
  const std::string_view before = route.pattern.substr(0, mark);
  const std::string_view after = route.pattern.substr(mark + kIdMark.size());
  if (path.size() <= before.size() + after.size() || !path.starts_with(before) ||
      !path.ends_with(after)) {
    return std::nullopt;
  }
  std::string_view id = path.substr(before.size(), path.size() - before.size() - after.size());
  const std::string_view version = route.versioned ? TakeVersion(&id) : std::string_view();
  return FoundRoute{{}, DecodedPath(id), DecodedPath(version), ""};
}

// Segment by segment; a pattern without parts is matched by itself alone.
std::optional<FoundRoute> FitParts(std::string_view pattern, std::string_view path) {
  FoundRoute found;
  std::string* part = &found.argument;
  while (true) {
    const size_t mark = pattern.find(kPartMark);
    const std::string_view before = pattern.substr(0, mark);
    if (mark == std::string_view::npos) {
      if (path != before) return std::nullopt;
      return found;
    }
    if (!path.starts_with(before)) return std::nullopt;
    path.remove_prefix(before.size());
    const size_t length = std::min(path.find('/'), path.size());
    if (length == 0) return std::nullopt;
    *part = DecodedPath(path.substr(0, length));
    part = &found.item;
    path.remove_prefix(length);
    pattern.remove_prefix(mark + kPartMark.size());
  }
}

// The rows that share the pattern of the one at `first`.
std::span<const Route> RowsFrom(size_t first) {
  size_t end = first + 1;
  while (end < kRoutes.size() && kRoutes[end].pattern == kRoutes[first].pattern) ++end;
  return std::span<const Route>(kRoutes).subspan(first, end - first);
}

}  // namespace

std::span<const Route> Routes() { return kRoutes; }

FoundRoute FindRoute(std::string_view path) {
  for (size_t i = 0; i < kRoutes.size(); ++i) {
    const Route& route = kRoutes[i];
    const bool whole = route.pattern.find(kIdMark) != std::string_view::npos;
    std::optional<FoundRoute> found = whole ? FitId(route, path) : FitParts(route.pattern, path);
    if (!found.has_value()) continue;
    found->methods = RowsFrom(i);
    return *std::move(found);
  }
  return {};
}

std::string UsageName(const Route& route) {
  switch (route.id) {
    case RouteId::kTeiRoot:
      return "tei";
    case RouteId::kKserveInfer:
      return "kserve.infer";
    case RouteId::kKserveGenerate:
    case RouteId::kKserveGenerateStream:
      return "kserve.generate";
    default:
      break;
  }
  std::string_view path = route.pattern;
  path.remove_prefix(path.starts_with("/v1/") ? 4 : 1);
  std::string name(path);
  std::replace(name.begin(), name.end(), '/', '.');
  return name;
}

const Route* FoundRoute::For(std::string_view method) const {
  for (const Route& route : methods) {
    if (Answers(route, method)) return &route;
  }
  return methods.empty() ? nullptr : &methods.front();
}

bool Answers(const Route& route, std::string_view method) {
  return method == route.method || (method == "HEAD" && route.method == "GET");
}

std::string AllowOf(std::span<const Route> methods) {
  std::string allow;
  for (const Route& route : methods) {
    allow += route.method == "GET" ? "GET, HEAD, " : std::string(route.method) + ", ";
  }
  return allow + "OPTIONS";
}

std::optional<calls::CallKind> CallKindOf(RouteId route) {
  switch (route) {
    case RouteId::kChat:
      return calls::CallKind::kChat;
    case RouteId::kText:
      return calls::CallKind::kText;
    case RouteId::kGenerate:
      return calls::CallKind::kGenerate;
    case RouteId::kInfill:
      return calls::CallKind::kInfill;
    case RouteId::kDecisions:
      return calls::CallKind::kDecisions;
    case RouteId::kSystemOne:
      return calls::CallKind::kSystemOne;
    case RouteId::kPrefixPin:
      return calls::CallKind::kPrefix;
    case RouteId::kMessages:
      return calls::CallKind::kMessages;
    case RouteId::kOllamaChat:
      return calls::CallKind::kOllamaChat;
    case RouteId::kOllamaGenerate:
      return calls::CallKind::kOllamaGenerate;
    case RouteId::kEmbeddings:
      return calls::CallKind::kEmbeddings;
    case RouteId::kRerank:
      return calls::CallKind::kRerank;
    case RouteId::kScore:
      return calls::CallKind::kScore;
    default:
      return std::nullopt;
  }
}

}  // namespace tutti::http
