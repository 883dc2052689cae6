// Requests and results of api::Inference, common to all servers. Plain values: no JSON, no threads,
// no model types. Defaults are those of the OpenAI API (docs/http.md).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/trace_context.h"
#include "base/types.h"

namespace tutti::api {

// Parameter: a number with a flag for "set by the request". A number that is not set may be
// replaced by the default of the model (api/models.h). Converts to the number;
// assignment sets it. A plain value.
template <typename T>
class Parameter {
 public:
  // A parameter that is not set; `value` is used if the model has no default.
  static constexpr Parameter Default(T value) {
    Parameter parameter(value);
    parameter.given_ = false;
    return parameter;
  }
  constexpr Parameter(T value) : value_(value) {}  // NOLINT: assigned like a number
  constexpr operator T() const { return value_; }  // NOLINT: read like a number

  constexpr T value() const { return value_; }
  constexpr bool given() const { return given_; }

 private:
  T value_;
  bool given_ = true;
};

class CacheReport;      // api/answer_cache.h
struct Caller;          // api/caller.h
struct RateLimits;      // api/caller.h
class RequestObserver;  // api/caller.h
class RequestTrace;     // api/request_trace.h

enum class Role { kSystem, kUser, kAssistant, kTool };

// A function that the model may call.
struct Tool {
  std::string name;              // 1 to 64 of [A-Za-z0-9_.-], unique within a request
  std::string description = {};  // empty: none
  std::string parameters = {};   // JSON schema of the arguments, an object, as text; empty: none
  bool strict = false;           // the client asked for arguments that satisfy the whole schema
  // For errors: the request's field that holds the tool, and its member that holds `parameters`.
  std::string param = {};
  std::string schema_field = "parameters";
  friend bool operator==(const Tool&, const Tool&) = default;
};

struct ToolChoice {
  enum class Kind : uint8_t {
    kAuto,      // the model decides
    kNone,      // no call
    kRequired,  // at least one call, of any tool
    kNamed,     // a call of `name`
  };
  Kind kind = Kind::kAuto;
  std::string name = {};  // kNamed: one of the request's tools
  friend bool operator==(const ToolChoice&, const ToolChoice&) = default;
};

// A call that a model made.
struct ToolCall {
  std::string id;         // the message with the call's result repeats it (tool_call_id)
  std::string name;       // of the function
  std::string arguments;  // a JSON object as text
  friend bool operator==(const ToolCall&, const ToolCall&) = default;
};

struct ChatMessage {
  Role role = Role::kUser;
  std::string content;  // text parts already joined with '\n'
  std::string name;     // optional participant name; kTool: of the function, where it is known
  // End offsets in `content` of the text parts of a message with several parts; empty: one text.
  // Chat templates that read lists of parts get them separately (gateway/prompt.h).
  std::vector<size_t> part_ends = {};
  std::vector<ToolCall> tool_calls = {};  // kAssistant
  std::string tool_call_id = {};          // kTool: the call that this answers
  std::string reasoning = {};             // kAssistant: what it thought before its answer
};

// Rendered with the model's own template; user text never yields special tokens.
struct ChatPrompt {
  std::vector<ChatMessage> messages = {};
  bool add_generation_prompt = true;
  bool continue_final_message =
      false;  // excludes add_generation_prompt; the last message is continued
  // Options of the chat template, such as enable_thinking: a JSON object as text; empty: none. The
  // model's template refuses those that it does not read.
  std::string template_arguments = {};
  std::vector<Tool> tools = {};  // at most kMaxTools
  ToolChoice tool_choice = {};
  bool parallel_tool_calls = true;  // an answer may hold several calls
};

// Another file of the same project, as context for fill-in-the-middle.
struct ContextFile {
  std::string name;  // may be empty
  std::string text;
  friend bool operator==(const ContextFile&, const ContextFile&) = default;
};

struct TextPrompt {
  std::string text;
  bool add_special = true;    // BOS / EOS if the model file requires them
  bool parse_special = true;  // special tokens written in the text are parsed as such
  // Fill-in-the-middle: the text after the gap that the model fills; `text` is the text before it.
  // Empty: nothing follows the gap. Absent: `text` is continued. If set, no special tokens are
  // parsed in any text. Models without fill-in-the-middle tokens refuse it
  // (ModelInfo::fills_middle).
  std::optional<std::string> suffix = {};
  std::vector<ContextFile> files = {};  // with `suffix`: at most kMaxContextFiles, before `text`
};

// Ids are used as given.
struct TokenPrompt {
  std::vector<TokenId> tokens;
};

using Prompt = std::variant<ChatPrompt, TextPrompt, TokenPrompt>;

// Order of the chain: allowed / banned / min_tokens mask, logit_bias, penalties, temperature,
// top_k, top_p, min_p, draw. Ranges are checked by ValidateRequest() (api/validate.h).
struct SamplingParams {
  // A model may have defaults for these five (SamplingDefaults).
  Parameter<double> temperature = Parameter<double>::Default(1.0);  // 0..2; 0 = argmax
  Parameter<double> top_p = Parameter<double>::Default(1.0);  // 0..1; 0 = the most probable token
  Parameter<int> top_k = Parameter<int>::Default(0);          // 0 or -1 = off
  Parameter<double> min_p = Parameter<double>::Default(0.0);  // 0..1, relative to the most probable
  // (0, 10]; prompt and output tokens
  Parameter<double> repetition_penalty = Parameter<double>::Default(1.0);
  double presence_penalty = 0.0;                      // -2..2; output tokens only
  double frequency_penalty = 0.0;                     // -2..2; output tokens only
  std::vector<std::pair<TokenId, float>> logit_bias;  // at most 1,024; -100..100
  std::vector<TokenId> allowed_token_ids;             // empty = all
  std::vector<TokenId> banned_token_ids;              // never drawn
  std::optional<int64_t> seed;  // absent: the server draws one. Choice i of n uses stream (seed, i)
  std::optional<int> max_tokens;  // absent: the rest of the context
  int min_tokens = 0;             // no end of text before this many output tokens
  std::vector<std::string>
      stop;  // at most 16, 1-256 bytes each; matched on text across token borders
  std::vector<TokenId> stop_token_ids;
  bool ignore_eos = false;
  bool include_stop_in_output = false;
  bool skip_special_tokens = true;
  int logprobs = -1;         // -1 = none; k >= 0: the chosen token and the k most probable, k <= 20
  int prompt_logprobs = -1;  // the same for the prompt's tokens (echo)
};

// Constrains all answers to a request. A constraint that cannot be enforced makes the request fail.
// Only an answer that was cut by its length can violate the constraint.
struct Constraint {
  enum class Kind : uint8_t {
    kJsonObject,  // any JSON object
    kJsonSchema,  // `text`: a JSON schema
    kRegex,       // `text`: a regular expression that matches the whole answer
    kChoice,      // one of `choices`
    kGrammar,     // `text`: a grammar in GBNF
    // `text`: {"triggers": [...], "structures": [{"begin", "schema", "end"}]}: free text, in which
    // a trigger begins a part under a schema
    kStructuralTag,
  };
  static constexpr Kind kLastKind = Kind::kStructuralTag;
  Kind kind = Kind::kJsonObject;
  std::string text = {};
  std::vector<std::string> choices = {};
  std::string param = {};  // the request's field that holds it, for errors
};

// Cache directives of a request (HTTP: Cache-Control).
struct CacheControl {
  bool no_store = false;                 // neither read nor write the cache
  bool no_cache = false;                 // write the cache, but do not read it
  std::optional<Duration> max_age = {};  // maximum age of a cached answer
  // Minimum cosine similarity for a semantic hit; only raises the operator's threshold.
  double least_similarity = 0;
};

enum class Priority { kInteractive, kFlex, kBatch };  // first to last; waiting lifts a request

// A text to score as the answer to a prompt, one of several labels of a question.
struct Continuation {
  std::string text;  // not empty; never yields special tokens
  // Other texts to score after the same prompt. Those of one token are scored along with `text`, as
  // TokenLogprobs::top of its first token, in this order.
  std::vector<std::string> others = {};
  // `text` is among `others` of another request with the same prompt. If it is one token, this
  // request computes nothing.
  bool covered = false;
  // What a classifier, which reads no question, needs to know of the question.
  struct Classes {
    size_t text_bytes = 0;   // the last message's part before the question
    bool yes_or_no = false;  // `text` is yes, and the one of `others` is no
    // The classes that `text` and `others` mean, in this order. Empty: they are the names.
    std::vector<std::string> names = {};
    friend bool operator==(const Classes&, const Classes&) = default;
  };
  Classes classes = {};
  friend bool operator==(const Continuation&, const Continuation&) = default;
};

// Asks for the prompt's blocks to stay in the prefix cache. Nothing is generated.
struct PinOrder {
  std::string id = {};  // chosen by the server
  Duration ttl{0};
  int64_t expires_unix_ms = 0;  // set by the gateway, and ...
  std::string model = {};       // ... this, for lists of pins
  friend bool operator==(const PinOrder&, const PinOrder&) = default;
};

// A prefix that stays in the cache.
struct PinnedPrefix {
  std::string id = {};
  std::string model = {};
  int tokens = 0;
  int64_t expires_unix_ms = 0;
};

struct GenerateRequest {
  std::string request_id;  // <= 128 of [A-Za-z0-9._-]; appears in logs
  std::string model;       // served name or alias
  Prompt prompt;
  SamplingParams sampling;
  std::optional<Constraint> constraint = {};
  // Maximum number of reasoning tokens; then the closing tag is forced and the model answers. No
  // effect on models that do not reason.
  std::optional<int> max_reasoning_tokens = {};
  int n = 1;  // 1..8 sequences that share the prompt's blocks
  Priority priority = Priority::kInteractive;
  TimePoint deadline = TimePoint::max();
  // The answer is stored and can be fetched later; the queue's age limit does not apply.
  bool detached = false;
  std::shared_ptr<const Caller> caller;  // null: no callers (library, benchmarks)
  std::string user;   // end user, as named by the caller; for the usage ledger; may be empty
  std::string route;  // for the usage ledger: "chat.completions"; may be empty
  std::shared_ptr<RateLimits> rate_limits;  // output, may be null; set before Generate returns
  CacheControl cache;
  std::shared_ptr<CacheReport> cache_report;  // output, may be null; set before the first event
  // How long the model stays loaded after its last request, from this request on; kForever: always.
  // Absent: as the operator configured. No effect on pinned models.
  std::optional<Duration> keep_alive = {};
  // The following are set by services/admission, not by servers:
  std::string tenant;  // unit of isolation: keys the prefix cache and fair share
  // Fair-share weight of the tenant, kMinTenantWeight to kMaxTenantWeight. The weight of the newest
  // request applies to all requests of the tenant.
  double tenant_weight = 1.0;
  std::shared_ptr<RequestObserver> observer;  // of this request only
  std::string cache_salt;                     // further partition of the prefix cache
  std::string cache_scope;  // tenants of one scope share cached answers; empty: tenant only
  bool use_prefix_cache = true;
  bool explain_prefix = false;  // set Usage::prefix
  // Predicted output: draft tokens for speculative decoding (SchedulerOptions::speculate). Makes a
  // correctly predicted answer faster and never changes the answer. May be empty.
  std::string prediction;
  std::optional<int> truncate_prompt_tokens;  // keep only this many tokens, the last ones
  // Bytes of all prompts of the client's call, if it holds several. They are prepared one after the
  // other, so their sum decides whether an I/O thread of a server may do it.
  size_t call_bytes = 0;
  bool score_only =
      false;  // max_tokens 0: prefill for prompt log-probabilities, no token is generated
  // With `score_only`, without prompt_logprobs: this text follows the prompt, and only its tokens
  // have log-probabilities. Unlike with prompt_logprobs, the prompt may come from the prefix cache.
  std::optional<Continuation> continuation = {};
  // With `score_only`: pin the prompt. Errors: pin_limit, invalid_value (shorter than a block).
  std::optional<PinOrder> pin = {};
  TraceContext trace_context = {};                // sent by the caller; may be invalid
  std::shared_ptr<RequestTrace> trace = nullptr;  // null: none has begun
};

enum class FinishReason {
  kStop,       // end of text, stop token or stop string
  kLength,     // max_tokens or the context is used up
  kToolCalls,  // end of text behind at least one tool call
};

struct Logprob {
  TokenId token = kNoToken;
  float logprob = 0;  // natural log, of the raw logits before bias, penalties and temperature
  std::string bytes;  // the token's own bytes, not necessarily valid UTF-8
  bool special = false;
};

// Log-probabilities at one position: of the token there, and of the most probable tokens in order.
struct TokenLogprobs {
  Logprob chosen;
  std::vector<Logprob> top;
};

// How much of a prompt the prefix cache had, and why not more.
struct PrefixReport {
  // Why the first token that was not found was not found. In this order: the first that holds.
  enum class Cause {
    kNone,             // all tokens were found that can be; the last one is always computed
    kOff,              // the prefix cache is off, for this request or the server
    kNotBlockAligned,  // it is cached, but a hit cannot end there
    kOnDiskFailed,     // its files were damaged, or were not read in time
    kEvicted,          // it was cached, and memory was short
    kDifferentSalt,    // the tenant has it under another cache_salt
    kNeverSeen,        // or evicted long ago, or another tenant's, which is never told apart
  };
  int memory_tokens = 0, disk_tokens = 0;  // found, by where they were when the request came
  Cause cause = Cause::kNone;
  // The first token of the prompt at which the longest cached beginning goes on otherwise, and the
  // prompt's text from there; -1 if nothing cached goes on there.
  int first_difference = -1;
  std::string text = {};
};

struct Usage {
  int prompt_tokens = 0;
  int cached_tokens = 0;      // of prompt_tokens, those whose KV came from the prefix cache
  int completion_tokens = 0;  // over all choices
  // True for an answer from the cache; the counts are those of its computation.
  bool cached_response = false;
  // Tokens of the prediction that the model generated, and tokens that it did not; over all
  // choices. Both are 0 without a prediction or when it was not used.
  int accepted_prediction_tokens = 0, rejected_prediction_tokens = 0;
  int reasoning_tokens = 0;  // of completion_tokens, where reasoning is separate from the text
  int pinned_tokens = 0;     // of the prompt, with GenerateRequest::pin
  std::shared_ptr<const PrefixReport> prefix = nullptr;  // null unless the request asked for it
};

// Duration of each stage of a request; zero for stages that it did not reach.
struct Timings {
  Duration prepare{0};  // template and tokeniser
  Duration queue{0};    // accepted until it first ran
  Duration prefill{0};  // first ran until the first token
  Duration decode{0};   // first token until the last
};

// The next part of a tool call while it is generated. The concatenated deltas of one index are the
// call.
struct ToolCallDelta {
  int index = 0;        // of the call within its choice, from 0
  std::string id = {};  // the first delta of a call has both; then they are empty
  std::string name = {};
  std::string arguments = {};
  friend bool operator==(const ToolCallDelta&, const ToolCallDelta&) = default;
};

// One entry of the append-only log of a generation.
struct StreamEvent {
  enum class Kind {
    kStarted,  // first event: the prompt is known (prompt_tokens in usage), nothing computed yet
    kPromptToken,  // echo / prompt_logprobs: one per prompt token, in order
    kToken,        // one sampled token; text may be empty while a character or stop string is open
    kChoiceEnd,    // a choice has ended; text holds what was still held back
    kEnd,          // the one terminal event: OK, or why the generation failed
  };
  Kind kind = Kind::kToken;
  int choice = 0;
  TokenId token = kNoToken;
  std::string text;                            // complete UTF-8 characters only
  std::string reasoning;                       // where reasoning is separate from the text
  std::vector<ToolCallDelta> tool_calls = {};  // behind `text`, where one event has both
  std::optional<TokenLogprobs> logprobs;
  // kChoiceEnd
  FinishReason finish_reason = FinishReason::kStop;
  std::variant<std::monostate, TokenId, std::string>
      stop_reason;  // what matched; monostate = end of text
  // kStarted, kEnd
  Usage usage;
  Timings timings;
};

// Properties of a model that supports Inference::Encode.
struct EncoderInfo {
  int width = 0;        // floats of a vector; 0: the model gives none
  int token_width = 0;  // floats of a token's vector; 0: as `width`
  bool sparse = false;  // vectors over the vocabulary, most of whose values are 0
  // Requests may set `dimensions`: the model was trained for Matryoshka embeddings, or the operator
  // allows it.
  bool cuts = false;
  bool pairs = false;                     // reads two texts together
  std::string pooling;                    // "mean", "cls", "last", "max"
  std::vector<std::string> labels;        // one for each score; empty: the model gives no scores
  std::vector<std::string> prompts;       // names of what can be put before a text
  int batch_items = 0, batch_tokens = 0;  // of one forward pass, at most
  Duration batch_window{0};  // longest that a busy device holds a batch back for more; 0: never

  int row_width() const { return token_width > 0 ? token_width : width; }  // of a token's vector
};

// Sampling parameters that the publisher of a model recommends; used if a request sets none.
struct SamplingDefaults {
  std::optional<double> temperature{}, top_p{};
  std::optional<int> top_k{};
  std::optional<double> min_p{}, repetition_penalty{};
  std::string source{};  // file that holds them: "generation_config.json"
  bool empty() const { return !temperature && !top_p && !top_k && !min_p && !repetition_penalty; }
};

// Tokenizer settings of a model's files, for clients that render templates themselves. An empty
// string: the model has no such token or template.
struct TokenizerInfo {
  std::string bos, eos, unk, pad;
  bool add_bos = false, add_eos = false;  // at the ends of a plain text
  std::string chat_template;
};

// A keep_alive that never ends.
inline constexpr Duration kForever = Duration::max();

// Whether a model is in memory.
enum class ModelState : uint8_t {
  kUnloaded,
  kLoading,
  kLoaded,
  kUnloading,  // takes no new requests; running ones end
  kFailed,     // the last load failed; the next request tries again
};
constexpr std::string_view ModelStateName(ModelState state) {
  constexpr std::string_view kNames[] = {"unloaded", "loading", "loaded", "unloading", "failed"};
  return kNames[static_cast<size_t>(state)];
}

// What changes while the process runs.
struct ModelStatus {
  ModelState state = ModelState::kLoaded;
  bool pinned = true;          // neither evicted nor unloaded after a keep_alive
  int64_t memory_bytes = 0;    // weights, KV cache and activations; 0: not known
  int64_t expires_unix_s = 0;  // unloaded then, unless it is used before; 0: never
  std::string failure = {};    // kFailed: the reason code
  friend bool operator==(const ModelStatus&, const ModelStatus&) = default;
};

// What a model's files are, for lists of models. Zeros and empty texts: not known.
struct ModelFileFacts {
  std::string format;           // "gguf", "safetensors", "tutti" (packed)
  std::string type;             // the weights' type by its common name: "Q4_K_M", "BF16"
  int64_t bytes = 0;            // size of the files with weights
  int64_t parameters = 0;       // elements of all tensors
  int64_t modified_unix_s = 0;  // when the newest of these files was changed
  friend bool operator==(const ModelFileFacts&, const ModelFileFacts&) = default;
};

struct ModelInfo {
  std::string id;
  std::string parent = {};  // of an adapter: the id of the model that it changes; else empty
  std::vector<std::string> aliases;
  int64_t created_unix_s = 0;
  int max_model_len = 0;  // tokens: prompt and output together, or of one text of an encoder
  int vocab_size = 0;
  std::string architecture, quantisation;
  std::string digest;  // identifies the contents of the model's files, hex
  ModelFileFacts files;
  bool generates = true;               // Inference::Generate
  std::optional<EncoderInfo> encoder;  // absent: the model gives neither vectors nor scores
  SamplingDefaults sampling;           // the gateway applies them to unset parameters
  // Divides the log-probabilities of continuations. 0: not known, as for an alias of several models
  // with different ones.
  double decision_temperature = 1;
  std::string tool_format;    // how it writes tool calls: "hermes"; empty: not at all
  bool fills_middle = false;  // takes TextPrompt::suffix
  std::shared_ptr<const TokenizerInfo> tokenizer;  // null: not known
  // Serves generate and tokenize requests with unknown model names; set by services/admission.
  bool answers_any_name = false;
  // The models that requests of an alias go to; set by services/aliases.
  std::vector<std::string> targets;
  // Models that are not managed at run time are loaded and pinned.
  ModelStatus status = {};
};

// An immutable list of models. Copies share it, because a folder may hold thousands of models and
// each request looks one up. Pointers and spans into the list are valid while a copy exists.
class ModelList {
 public:
  ModelList() = default;
  // Implicit: a list of models is one, however it was made.
  ModelList(std::vector<ModelInfo> models)
      : models_(std::make_shared<const std::vector<ModelInfo>>(std::move(models))) {}

  const ModelInfo* data() const { return models_ == nullptr ? nullptr : models_->data(); }
  size_t size() const { return models_ == nullptr ? 0 : models_->size(); }
  bool empty() const { return size() == 0; }
  const ModelInfo* begin() const { return data(); }
  const ModelInfo* end() const { return data() + size(); }
  const ModelInfo& front() const { return data()[0]; }
  const ModelInfo& operator[](size_t index) const { return data()[index]; }
  // A copy of the models, to be changed.
  std::vector<ModelInfo> Copy() const { return {begin(), end()}; }
  bool SharesWith(const ModelList& other) const { return models_ == other.models_; }

 private:
  std::shared_ptr<const std::vector<ModelInfo>> models_;
};

// Counts of a model's forward passes since it was loaded; read from atomics.
struct ModelStatistics {
  uint64_t executions = 0;  // forward passes
  uint64_t items = 0;       // texts in them, or rows that gave a token
  Duration busy{0};         // all of them together
};

// Load level: the highest usage among the queue's bounds (requests, prompt tokens, bytes) and the
// memory of the process. From yellow on (80 %) only interactive requests are accepted; at red
// (98 %) none are. The levels follow Envoy's overload manager.
enum class LoadLevel : uint8_t { kGreen, kYellow, kRed };
constexpr double kYellowLoad = 0.80, kRedLoad = 0.98;
constexpr LoadLevel LevelOf(double share) {
  return share >= kRedLoad      ? LoadLevel::kRed
         : share >= kYellowLoad ? LoadLevel::kYellow
                                : LoadLevel::kGreen;
}
constexpr std::string_view LoadLevelName(LoadLevel level) {
  return level == LoadLevel::kGreen ? "green" : level == LoadLevel::kYellow ? "yellow" : "red";
}

// Current load of the engine, in sequences and KV blocks; read from atomics.
struct LoadSnapshot {
  int running = 0, waiting = 0, max_num_seqs = 0;
  int kv_blocks_used = 0, kv_blocks_total = 0;
  LoadLevel level = LoadLevel::kGreen;  // the highest of all
};

}  // namespace tutti::api
