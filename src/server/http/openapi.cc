#include "server/http/openapi.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "protocol/json/json_writer.h"
#include "protocol/ollama/request.h"
#include "protocol/schema/json_schema.h"
#include "server/http/openapi_answers.h"
#include "server/http/routes.h"

namespace tutti::http {
namespace openapi {
namespace {

using protocol::JsonWriter;
using protocol::SchemaName;

// What a body or an answer may be, besides one of the named schemas.
constexpr std::string_view kNoBody = "", kAnyObject = "{}", kUploadBody = "upload";
constexpr std::string_view kText = "text", kEvents = "events", kBytes = "bytes", kLines = "lines";
constexpr std::string_view kUpgrade = "upgrade", kEmpty = "empty";

// Queries of lists, by name; see protocol/schema/query_parameters.h.
enum class Query : uint8_t {
  kNone,
  kPage,
  kMessageBatches,
  kItems,
  kConversations,
  kRetrieve,
  kCancel,
  kJobs,
  kJob,
  kChat,
  kLive,
  kAdminJobs,
  kAdminBatches,
  kAdminUsage,
  kReload,
  kFiles,
};

struct OperationRow {
  RouteId id;
  std::string_view tag, summary;
  std::string_view body = kNoBody;       // name of its schema, or one of the words above
  std::string_view answer = kAnyObject;  // the same
  bool streams = false;                  // the answer may also be a stream of events, if asked for
  Query query = Query::kNone;
};

constexpr std::string_view kGenerating = "Generation", kVectors = "Embeddings and scores",
                           kTokens = "Tokens", kDialogs = "Responses and conversations",
                           kJobsTag = "Jobs, files and batches", kModelsTag = "Models",
                           kHealth = "Health and metrics", kAdmin = "Administration",
                           kOllama = "Ollama", kAnthropicTag = "Anthropic Messages",
                           kKserve = "KServe v2", kTei = "Text Embeddings Inference",
                           kPage = "Page";

constexpr auto kOperations = std::to_array<OperationRow>({
    {RouteId::kChat, kGenerating, "Chat completion", "ChatCompletionRequest", "ChatCompletion",
     true},
    {RouteId::kText, kGenerating, "Completion of text or token ids", "CompletionRequest",
     "Completion", true},
    {RouteId::kGenerate, kGenerating, "One answer to a prompt or messages, as events by default",
     "GenerateRequest", "Generated", true},
    {RouteId::kInfill, kGenerating, "Fill-in-the-middle, as in llama.cpp's server", "InfillRequest",
     "Infilled", true},
    {RouteId::kDecisions, kGenerating, "Questions with given answers, and their probabilities",
     kAnyObject, "Decisions"},
    {RouteId::kSystemOne, kGenerating, "As /v1/decisions", kAnyObject, "Decisions"},
    {RouteId::kPrefixes, kGenerating, "Pinned prefixes", kNoBody, "List"},
    {RouteId::kPrefixPin, kGenerating, "Pins the beginning of prompts", kAnyObject},
    {RouteId::kPrefixDelete, kGenerating, "Releases a pinned prefix"},
    {RouteId::kMessages, kAnthropicTag, "Message", "MessagesRequest", "Message", true},
    {RouteId::kCountTokens, kAnthropicTag, "Tokens of a message", "CountTokensRequest",
     "InputTokens"},
    {RouteId::kMessageBatches, kAnthropicTag, "Message batches", kNoBody, kAnyObject, false,
     Query::kMessageBatches},
    {RouteId::kMessageBatchCreate, kAnthropicTag, "Creates a message batch", "MessageBatchRequest"},
    {RouteId::kMessageBatch, kAnthropicTag, "A message batch"},
    {RouteId::kMessageBatchDelete, kAnthropicTag, "Deletes a message batch"},
    {RouteId::kMessageBatchCancel, kAnthropicTag, "Cancels a message batch"},
    {RouteId::kMessageBatchResults, kAnthropicTag, "Results of a message batch", kNoBody, kLines},
    {RouteId::kOllamaChat, kOllama, "Chat, as lines of JSON by default", "OllamaChatRequest",
     kLines},
    {RouteId::kOllamaGenerate, kOllama, "Completion, as lines of JSON by default",
     "OllamaGenerateRequest", kLines},
    {RouteId::kOllamaEmbed, kOllama, "Embeddings", "OllamaEmbedRequest", kAnyObject},
    {RouteId::kOllamaEmbeddings, kOllama, "Embedding of one text", "OllamaEmbeddingsRequest"},
    {RouteId::kOllamaTags, kOllama, "Models", kNoBody, "OllamaModels"},
    {RouteId::kOllamaShow, kOllama, "A model", "OllamaShowRequest"},
    {RouteId::kOllamaRunning, kOllama, "Loaded models", kNoBody, "OllamaModels"},
    {RouteId::kOllamaVersion, kOllama, "Version", kNoBody, "Version"},
    {RouteId::kOllamaPull, kOllama, "Fetches a model", "OllamaPullRequest", kLines},
    {RouteId::kOllamaCopy, kOllama, "A second name of a model", "OllamaCopyRequest", kText},
    {RouteId::kOllamaDelete, kOllama, "Deletes a model or a name", "OllamaDeleteRequest", kText},
    {RouteId::kOllamaRoot, kPage, "The page for browsers; others get a line of text", kNoBody,
     kText},
    {RouteId::kTokenize, kTokens, "Token ids of a text or messages", "TokenizeRequest",
     "Tokenized"},
    {RouteId::kDetokenize, kTokens, "Text of token ids", "DetokenizeRequest", "Detokenized"},
    {RouteId::kApplyTemplate, kTokens, "Messages rendered by the chat template",
     "ApplyTemplateRequest"},
    {RouteId::kTokenizerInfo, kTokens, "Special tokens and chat template"},
    {RouteId::kResponses, kDialogs, "Response", "ResponseRequest", "Response", true},
    {RouteId::kResponsesSocket, kDialogs, "Responses over a WebSocket", kNoBody, kUpgrade},
    {RouteId::kChatSocket, kDialogs, "Chat of sessions over a WebSocket", kNoBody, kUpgrade, false,
     Query::kChat},
    {RouteId::kInputTokens, kDialogs, "Tokens of a response's input", kAnyObject, "InputTokens"},
    {RouteId::kResponse, kDialogs, "A stored response", kNoBody, "Response", true,
     Query::kRetrieve},
    {RouteId::kResponseDelete, kDialogs, "Deletes a stored response", kNoBody, "Deleted"},
    {RouteId::kResponseCancel, kDialogs, "Cancels a response", kNoBody, "Response", false,
     Query::kCancel},
    {RouteId::kResponseInput, kDialogs, "Input items of a response", kNoBody, "List", false,
     Query::kItems},
    {RouteId::kConversations, kDialogs, "Conversations", kNoBody, "List", false,
     Query::kConversations},
    {RouteId::kConversationCreate, kDialogs, "Creates a conversation", "ConversationRequest",
     "Conversation"},
    {RouteId::kConversation, kDialogs, "A conversation", kNoBody, "Conversation"},
    {RouteId::kConversationUpdate, kDialogs, "Changes a conversation", "ConversationUpdateRequest",
     "Conversation"},
    {RouteId::kConversationDelete, kDialogs, "Deletes a conversation", kNoBody, "Deleted"},
    {RouteId::kConversationFork, kDialogs, "Copies a conversation", "ConversationForkRequest",
     "Conversation"},
    {RouteId::kItems, kDialogs, "Items of a conversation", kNoBody, "List", false, Query::kItems},
    {RouteId::kItemsCreate, kDialogs, "Appends items", "ConversationItemsRequest", "List"},
    {RouteId::kItem, kDialogs, "An item"},
    {RouteId::kItemDelete, kDialogs, "Deletes an item", kNoBody, "Conversation"},
    {RouteId::kJobs, kJobsTag, "Jobs", kNoBody, "List", false, Query::kJobs},
    {RouteId::kJobsPause, kJobsTag, "Pauses the caller's jobs"},
    {RouteId::kJobsResume, kJobsTag, "Resumes the caller's jobs"},
    {RouteId::kJob, kJobsTag, "A job", kNoBody, "Job", false, Query::kJob},
    {RouteId::kJobCancel, kJobsTag, "Cancels a job", kNoBody, "Job"},
    {RouteId::kJobReplay, kJobsTag, "Runs a job again", kNoBody, "Job"},
    {RouteId::kJobEvents, kJobsTag, "Events of a job", kNoBody, kEvents, false, Query::kJob},
    {RouteId::kFiles, kJobsTag, "Files", kNoBody, "List", false, Query::kFiles},
    {RouteId::kFileUpload, kJobsTag, "Uploads a file", kUploadBody, "File"},
    {RouteId::kFile, kJobsTag, "A file", kNoBody, "File"},
    {RouteId::kFileDelete, kJobsTag, "Deletes a file", kNoBody, "Deleted"},
    {RouteId::kFileContent, kJobsTag, "Content of a file", kNoBody, kBytes},
    {RouteId::kBatches, kJobsTag, "Batches", kNoBody, "List", false, Query::kPage},
    {RouteId::kBatchCreate, kJobsTag, "Creates a batch", "BatchRequest", "Batch"},
    {RouteId::kBatch, kJobsTag, "A batch", kNoBody, "Batch"},
    {RouteId::kBatchCancel, kJobsTag, "Cancels a batch", kNoBody, "Batch"},
    {RouteId::kEmbeddings, kVectors, "Embeddings", "EmbeddingsRequest", "Embeddings"},
    {RouteId::kRerank, kVectors, "Documents ranked against a query", "RerankRequest", "Ranking"},
    {RouteId::kRerankOrTei, kVectors, "Documents (or TEI's texts) ranked against a query",
     "RerankOrTeiRequest", "RankingOrList"},
    {RouteId::kScore, kVectors, "Scores of text pairs", "ScoreRequest", "Scores"},
    {RouteId::kTeiEmbed, kTei, "Embeddings", "TeiEmbedRequest", "Numbers"},
    {RouteId::kTeiEmbedAll, kTei, "Vectors of all tokens", "TeiEmbedAllRequest", "Numbers"},
    {RouteId::kTeiSparse, kTei, "Sparse embeddings, which no model here has", kAnyObject},
    {RouteId::kTeiPredict, kTei, "Classes of texts", "TeiPredictRequest", "Numbers"},
    {RouteId::kTeiSimilarity, kTei, "Similarity of texts", "TeiSimilarityRequest", "Numbers"},
    {RouteId::kTeiRoot, kTei, "The operation of the model", kAnyObject, "AnyJson"},
    {RouteId::kInfo, kTei, "The model"},
    {RouteId::kDecode, kTei, "Texts of token ids", "TeiDecodeRequest", "Numbers"},
    {RouteId::kModels, kModelsTag, "Models", kNoBody, "Models"},
    {RouteId::kModel, kModelsTag, "A model", kNoBody, "Model"},
    {RouteId::kLoadAdapter, kModelsTag, "Loads a LoRA adapter", "LoadAdapterRequest", kText},
    {RouteId::kUnloadAdapter, kModelsTag, "Unloads a LoRA adapter", "UnloadAdapterRequest", kText},
    {RouteId::kModelsReload, kModelsTag, "Models, as llama.cpp's router has them", kNoBody,
     "Models", false, Query::kReload},
    {RouteId::kModelLoad, kModelsTag, "Loads a model and waits", "ModelRequest"},
    {RouteId::kModelUnload, kModelsTag, "Unloads a model and waits", "ModelRequest"},
    {RouteId::kModelLoadLater, kModelsTag, "Loads a model, without waiting", "ModelRequest"},
    {RouteId::kModelUnloadLater, kModelsTag, "Unloads a model, without waiting", "ModelRequest"},
    {RouteId::kVersion, kHealth, "Version", kNoBody, "Version"},
    {RouteId::kLoad, kHealth, "Load", kNoBody, "Load"},
    {RouteId::kMetrics, kHealth, "Prometheus metrics", kNoBody, kText},
    {RouteId::kOpenApi, kHealth, "This document"},
    {RouteId::kReload, kAdmin, "Reads the configuration again"},
    {RouteId::kLiveState, kAdmin, "Live state"},
    {RouteId::kLiveEvents, kAdmin, "Live state as events", kNoBody, kEvents, false, Query::kLive},
    {RouteId::kRequestTrace, kAdmin, "Stages of a request"},
    {RouteId::kRequestCancel, kAdmin, "Cancels a request"},
    {RouteId::kWebFile, kPage, "A file of the page", kNoBody, kBytes},
    {RouteId::kWebConfig, kPage, "What the page needs to know", kNoBody},
    {RouteId::kMe, kHealth, "The caller, its limits, and what the server offers"},
    {RouteId::kAdminKeys, kAdmin, "Keys", kNoBody},
    {RouteId::kAdminKeyCreate, kAdmin, "Creates a key", kAnyObject},
    {RouteId::kAdminKeyUpdate, kAdmin, "Changes a key", kAnyObject},
    {RouteId::kAdminKeyRevoke, kAdmin, "Revokes a key"},
    {RouteId::kAdminKeyRotate, kAdmin, "Replaces a key", kAnyObject},
    {RouteId::kAdminUsers, kAdmin, "Users"},
    {RouteId::kAdminUserCreate, kAdmin, "Creates a user", kAnyObject},
    {RouteId::kAdminUserDelete, kAdmin, "Deletes a user"},
    {RouteId::kAdminUserPassword, kAdmin, "Sets a password", kAnyObject},
    {RouteId::kAdminUserEnable, kAdmin, "Enables a user"},
    {RouteId::kAdminUserDisable, kAdmin, "Disables a user"},
    {RouteId::kAdminJobs, kAdmin, "Jobs of all tenants", kNoBody, kAnyObject, false,
     Query::kAdminJobs},
    {RouteId::kAdminJob, kAdmin, "A job of any tenant"},
    {RouteId::kAdminJobCancel, kAdmin, "Cancels a job of any tenant"},
    {RouteId::kAdminJobReplay, kAdmin, "Runs a job of any tenant again"},
    {RouteId::kAdminJobsPause, kAdmin, "Pauses the jobs of a tenant or all", kAnyObject},
    {RouteId::kAdminJobsResume, kAdmin, "Resumes the jobs of a tenant or all", kAnyObject},
    {RouteId::kAdminUsage, kAdmin, "Usage", kNoBody, kAnyObject, false, Query::kAdminUsage},
    {RouteId::kAdminBatches, kAdmin, "Batches of all tenants", kNoBody, kAnyObject, false,
     Query::kAdminBatches},
    {RouteId::kAdminBatch, kAdmin, "A batch of any tenant"},
    {RouteId::kAdminBatchCancel, kAdmin, "Cancels a batch of any tenant"},
    {RouteId::kLive, kHealth, "Whether the step loop runs", kNoBody, "Status"},
    {RouteId::kReady, kHealth, "Whether requests are accepted", kNoBody, "Status"},
    {RouteId::kStarted, kHealth, "Whether the models are loaded", kNoBody, "Status"},
    {RouteId::kHealth, kHealth, "Whether the server lives and is ready", kNoBody, "Status"},
    {RouteId::kKserveServer, kKserve, "The server and its extensions"},
    {RouteId::kKserveLive, kKserve, "Whether the step loop runs"},
    {RouteId::kKserveReady, kKserve, "Whether requests are accepted"},
    {RouteId::kKserveModel, kKserve, "Tensors of a model"},
    {RouteId::kKserveModelReady, kKserve, "Whether a model is ready"},
    {RouteId::kKserveConfig, kKserve, "Configuration of a model"},
    {RouteId::kKserveStatistics, kKserve, "Statistics"},
    {RouteId::kKserveInfer, kKserve, "Inference on tensors", "InferRequest", "InferResponse"},
    {RouteId::kKserveGenerate, kKserve, "Generation, as Triton has it", "KserveGenerateRequest"},
    {RouteId::kKserveGenerateStream, kKserve, "Generation as events", "KserveGenerateRequest",
     kEvents},
    {RouteId::kKserveIndex, kKserve, "Models of the repository", kAnyObject, "Numbers"},
    {RouteId::kKserveLoad, kKserve, "Loads a model", kAnyObject, kEmpty},
    {RouteId::kKserveUnload, kKserve, "Unloads a model", kAnyObject, kEmpty},
    {RouteId::kKserveUnregister, kKserve, "Forgets regions of shared memory", kAnyObject, kEmpty},
    {RouteId::kNotOffered, kGenerating, "Known, and not offered: not_implemented", kAnyObject},
});

const OperationRow& RowOf(RouteId id) {
  const auto found = std::find_if(kOperations.begin(), kOperations.end(),
                                  [id](const OperationRow& row) { return row.id == id; });
  CHECK(found != kOperations.end()) << "route without a row in the OpenAPI document";
  return *found;
}

struct Parameter {
  std::string_view name, schema, description;
};
constexpr std::string_view kWhole = R"({"type":"integer","minimum":0})";
constexpr std::string_view kString = R"({"type":"string"})";
constexpr Parameter kLimit = {"limit", R"({"type":"integer","minimum":1,"maximum":100})",
                              "entries of a page"};
constexpr Parameter kOrder = {"order", R"({"enum":["asc","desc"]})", "oldest or newest first"};
constexpr Parameter kAfter = {"after", kString, "the id that the page follows"};

std::vector<Parameter> ParametersOf(Query query) {
  constexpr Parameter kSeen = {"starting_after", kWhole, "the last event that was seen"};
  switch (query) {
    case Query::kNone:
      return {};
    case Query::kPage:
      return {kLimit, kOrder, kAfter};
    case Query::kMessageBatches:
      return {{"limit", R"({"type":"integer","minimum":1,"maximum":1000})", "entries of a page"},
              {"after_id", kString, "the id that the page follows"}};
    case Query::kItems:
      return {kLimit,
              kOrder,
              kAfter,
              {"include", R"({"const":"message.output_text.logprobs"})",
               "accepted only for items without log-probabilities"}};
    case Query::kConversations:
      return {kLimit, kOrder, kAfter, {"before", kString, "the id that the page precedes"}};
    case Query::kRetrieve:
      return {{"stream", R"({"type":"boolean"})", "its events instead of the object"},
              kSeen,
              {"include_obfuscation", R"({"type":"boolean"})", "padding of events"}};
    case Query::kCancel:
      return {{"keep_output", R"({"type":"boolean"})", "its conversation keeps the text so far"}};
    case Query::kJobs:
      return {
          kLimit,
          kOrder,
          kAfter,
          {"status", R"({"enum":["queued","running","completed","failed","cancelled","expired"]})",
           "jobs in this state"}};
    case Query::kJob:
      return {
          {"wait", R"({"type":"integer","minimum":0,"maximum":60})", "seconds to wait for its end"},
          kSeen};
    case Query::kChat:
      return {{"job", kString, "a job to follow"},
              kSeen,
              {"user", kString, "the user, if authentication is off"}};
    case Query::kLive:
      return {{"interval_ms", R"({"type":"integer","minimum":100,"maximum":10000})",
               "between two events"}};
    case Query::kAdminJobs:
      return {kLimit, kAfter, {"status", kString, "state"}, {"tenant", kString, "owner"}};
    case Query::kAdminBatches:
      return {kLimit, kAfter, {"tenant", kString, "owner"}};
    case Query::kAdminUsage:
      return {{"by", kString, "sums by tenant, key, user, model or day"},
              {"from_ms", kWhole, "Unix time in milliseconds"},
              {"to_ms", kWhole, "Unix time in milliseconds"}};
    case Query::kReload:
      return {{"reload", R"({"enum":["1"]})", "reads the folder of models again"}};
    case Query::kFiles:
      return {kLimit, kOrder, kAfter, {"purpose", kString, "files of this purpose"}};
  }
  return {};
}

// The path with the names of its parameters in braces, as OpenAPI has it.
struct Path {
  std::string text;
  std::vector<std::string> parameters;
};
Path PathOf(const Route& route, bool versioned) {
  Path path;
  std::string_view rest = route.pattern;
  while (!rest.empty()) {
    const size_t open = rest.find('{');
    path.text += rest.substr(0, open);
    if (open == std::string_view::npos) break;
    rest.remove_prefix(rest.find('}', open) + 1);
    path.parameters.push_back(path.parameters.empty() ? "id" : "item_id");
    path.text += "{" + path.parameters.back() + "}";
    if (versioned) {
      path.parameters.push_back("version");
      path.text += "/versions/{version}";
    }
  }
  return path;
}

std::string OperationId(const Route& route, const Path& path) {
  std::string id(route.method);
  id += path.text;
  for (char& c : id) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return id;
}

void WriteReference(std::string_view schema, JsonWriter* json) {
  if (schema == kAnyObject) {
    json->Raw(R"({"type":"object"})");
  } else {
    json->BeginObject().Member("$ref", "#/components/schemas/" + std::string(schema)).EndObject();
  }
}

// An empty `schema`: text, or events, which have their own format.
void WriteContent(std::string_view type, std::string_view schema, JsonWriter* json) {
  json->Key(type).BeginObject();
  if (!schema.empty()) {
    json->Key("schema");
    WriteReference(schema, json);
  }
  json->EndObject();
}

// A path that no route can have, such as one with bytes that are not UTF-8, is refused before its
// route is known, in the form of OpenAI.
void WriteErrorSchema(const Route& route, const Path& path, JsonWriter* json) {
  std::vector<std::string_view> forms = {ErrorSchemaOf(route.errors)};
  if (route.id == RouteId::kRerankOrTei) forms.emplace_back("TeiError");
  if (route.id == RouteId::kKserveModelReady) forms.emplace_back("ModelReady");
  if (!path.parameters.empty() && forms.front() != "Error") forms.emplace_back("Error");
  json->Key("content").BeginObject().Key("application/json").BeginObject().Key("schema");
  if (forms.size() > 1) json->BeginObject().Key("anyOf").BeginArray();
  for (const std::string_view form : forms) WriteReference(form, json);
  if (forms.size() > 1) json->EndArray().EndObject();
  json->EndObject().EndObject();
}

void WriteBody(const OperationRow& row, JsonWriter* json) {
  if (row.body == kNoBody) return;
  json->Key("requestBody").BeginObject().Member("required", row.body != kAnyObject);
  json->Key("content").BeginObject();
  if (row.body == kUploadBody) {
    json->Key("multipart/form-data").BeginObject().Key("schema").Raw(kUploadSchema).EndObject();
  } else {
    WriteContent("application/json", row.body, json);
  }
  json->EndObject().EndObject();
}

void WriteAnswerContent(const OperationRow& row, JsonWriter* json) {
  json->Key("content").BeginObject();
  if (row.answer == kText) {
    WriteContent("text/plain", "", json);
  } else if (row.answer == kEvents) {
    WriteContent("text/event-stream", "", json);
  } else if (row.answer == kBytes) {
    WriteContent("*/*", "", json);
  } else if (row.answer == kLines) {
    WriteContent("application/x-ndjson", "", json);
    WriteContent("application/json", kAnyObject, json);
  } else {
    WriteContent("application/json", row.answer, json);
  }
  if (row.streams) WriteContent("text/event-stream", "", json);
  json->EndObject();
}

void WriteAnswers(const Route& route, const Path& path, const OperationRow& row, JsonWriter* json) {
  json->Key("responses").BeginObject();
  if (row.answer == kUpgrade) {
    json->Key("101").BeginObject().Member("description", "The connection is a WebSocket now.");
    json->EndObject();
  } else if (route.id != RouteId::kNotOffered) {
    json->Key("200").BeginObject().Member("description", "The answer.");
    if (row.answer != kEmpty) WriteAnswerContent(row, json);
    json->EndObject();
    if (CallKindOf(route.id).has_value() && route.errors == protocol::ErrorForm::kOpenAi) {
      json->Key("202").BeginObject().Member(
          "description", "Accepted as a durable job, for a request with Prefer: respond-async.");
      json->Key("content").BeginObject();
      WriteContent("application/json", "Job", json);
      json->EndObject().EndObject();
    }
  }
  json->Key("default").BeginObject().Member("description", "The error, with its code.");
  WriteErrorSchema(route, path, json);
  json->EndObject().EndObject();
}

void WriteOperation(const Route& route, const Path& path, JsonWriter* json) {
  const OperationRow& row = RowOf(route.id);
  std::string method(route.method);
  for (char& c : method) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  json->Key(method).BeginObject();
  json->Member("operationId", OperationId(route, path)).Member("summary", row.summary);
  json->Key("tags").BeginArray().String(row.tag).EndArray();
  if (route.id == RouteId::kNotOffered) json->Member("deprecated", true);
  if (route.open) json->Key("security").BeginArray().EndArray();
  const std::vector<Parameter> query = ParametersOf(row.query);
  if (!path.parameters.empty() || !query.empty()) {
    json->Key("parameters").BeginArray();
    for (const std::string& name : path.parameters) {
      json->BeginObject().Member("name", name).Member("in", "path").Member("required", true);
      json->Key("schema").Raw(R"({"type":"string","minLength":1})").EndObject();
    }
    for (const Parameter& parameter : query) {
      json->BeginObject().Member("name", parameter.name).Member("in", "query");
      json->Member("description", parameter.description);
      json->Key("schema").Raw(parameter.schema).EndObject();
    }
    json->EndArray();
  }
  WriteBody(row, json);
  WriteAnswers(route, path, row, json);
  json->EndObject();
}

void WritePaths(JsonWriter* json) {
  const std::span<const Route> routes = Routes();
  json->Key("paths").BeginObject();
  for (size_t first = 0; first < routes.size();) {
    size_t end = first + 1;
    while (end < routes.size() && routes[end].pattern == routes[first].pattern) ++end;
    for (const bool versioned : {false, true}) {
      if (versioned && !routes[first].versioned) continue;
      const Path path = PathOf(routes[first], versioned);
      json->Key(path.text).BeginObject();
      for (size_t i = first; i < end; ++i) WriteOperation(routes[i], path, json);
      json->EndObject();
    }
    first = end;
  }
  json->EndObject();
}

}  // namespace
}  // namespace openapi

std::string OpenApiDocument(std::string_view version) {
  protocol::JsonWriter json;
  json.BeginObject().Member("openapi", "3.1.0");
  json.Key("info").BeginObject().Member("title", "Tutti").Member("version", version);
  json.Member("description",
              "Serves language and embedding models to many clients at once. Fields of requests "
              "that are refused are named in x-refused of their objects.");
  json.EndObject();
  json.Key("security").Raw(R"([{"bearer":[]},{"apiKey":[]},{}])");
  openapi::WritePaths(&json);
  json.Key("components").BeginObject();
  json.Key("securitySchemes")
      .Raw(R"({"bearer":{"type":"http","scheme":"bearer"},)"
           R"("apiKey":{"type":"apiKey","in":"header","name":"x-api-key"}})");
  json.Key("schemas").BeginObject();
  protocol::WriteSchemas(&json);
  protocol::ollama::WriteSchemas(&json);
  for (const AnswerSchema& answer : kAnswerSchemas) json.Key(answer.name).Raw(answer.schema);
  json.EndObject().EndObject().EndObject();
  return json.Take();
}

}  // namespace tutti::http
