// Values of the library's interface: prompts, sampling parameters, requests and completions. Plain
// values; any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace tutti {

using TokenId = int32_t;  // index into the vocabulary

// --- prompts ---

enum class Role { kSystem, kUser, kAssistant, kTool };

// A function that the model may call.
struct Tool {
  std::string name;              // 1 to 64 letters, digits, _ . -; unique within a chat
  std::string description = {};  // empty: none
  std::string parameters = {};   // JSON schema of the arguments, an object, as text; empty: none
  bool strict = false;           // refuse a schema that cannot be enforced in full
};

struct ToolChoice {
  enum class Kind {
    kAuto,      // the model decides
    kNone,      // no call
    kRequired,  // at least one call
    kNamed,     // a call of `name`
  };
  Kind kind = Kind::kAuto;
  std::string name = {};
};

// A call that a model made. Run the function and send its result back in a message of role kTool.
struct ToolCall {
  std::string id = {};
  std::string name = {};       // of the function
  std::string arguments = {};  // a JSON object as text
};

struct Message {
  Role role = Role::kUser;
  std::string content;
  std::string name = {};                  // optional participant name
  std::vector<ToolCall> tool_calls = {};  // kAssistant: the calls that it made
  std::string tool_call_id = {};          // kTool: the call whose result `content` is
  std::string reasoning = {};             // kAssistant: what it thought before its answer
};

// Rendered with the model's own chat template. User text never yields special tokens.
struct Chat {
  std::vector<Message> messages;
  bool add_generation_prompt = true;
  bool continue_final_message =
      false;                     // excludes add_generation_prompt; continues the last message
  std::vector<Tool> tools = {};  // at most 128
  ToolChoice tool_choice = {};
  bool parallel_tool_calls = true;  // one answer may hold several calls
  // Options of the chat template, such as {"enable_thinking": false}: a JSON object as text; empty:
  // none.
  std::string template_arguments = {};
};

// Raw text that the model continues; no chat template is applied.
struct Text {
  std::string text;
  bool add_special = true;    // begin-of-text where the model file says so
  bool parse_special = true;  // special tokens written in the text are taken as such
};

struct Tokens {
  std::vector<TokenId> ids;
};

using Prompt = std::variant<Chat, Text, Tokens>;

inline Prompt UserMessage(std::string content) { return Chat{{{Role::kUser, std::move(content)}}}; }

// --- sampling ---

// Order of the sampling chain: mask (allowed_token_ids, banned_token_ids, min_tokens), logit_bias,
// penalties, temperature, top_k, top_p, min_p, draw.
struct SamplingParams {
  double temperature = 1.0;  // 0..2; 0 = always the most probable token, no random number is used
  double top_p = 1.0;        // 0..1; 0 = the most probable
  int top_k = 0;             // 0 or -1 = off
  double min_p = 0.0;        // 0..1, relative to the most probable token
  double repetition_penalty = 1.0;                         // (0, 10]; prompt and output
  double presence_penalty = 0.0;                           // -2..2; output only
  double frequency_penalty = 0.0;                          // -2..2; output only
  std::vector<std::pair<TokenId, float>> logit_bias = {};  // at most 1,024; -100..100
  std::vector<TokenId> allowed_token_ids = {};             // empty = all
  std::vector<TokenId> banned_token_ids = {};              // never drawn
  std::optional<int64_t> seed =
      {};  // the same seed and prompt give the same tokens; absent: one is drawn
  std::optional<int> max_tokens =
      {};              // absent: the rest of the context. 0: only evaluates the prompt
  int min_tokens = 0;  // no end of text before this number of tokens
  std::vector<std::string> stop = {};  // at most 16 of 1-256 bytes; found across token borders
  std::vector<TokenId> stop_token_ids = {};
  bool ignore_eos = false;
  bool include_stop_in_output = false;
  bool skip_special_tokens = true;
  int logprobs = -1;         // -1 = none; k: the token's own and the k most probable, k <= 20
  int prompt_logprobs = -1;  // the same for the tokens of the prompt
};

// Scheduling class of a request, first to last. A waiting request rises by one class every 10 s, so
// that none waits forever.
enum class Priority {
  kInteractive,  // with the option sched.queue_age_s: refused (overloaded) after that many seconds
                 // in the queue
  kFlex,
  kBatch,  // the class of GenerateBatch
};

// Constrains all answers to a request. A constraint that cannot be enforced makes the request fail.
// Only an answer that was cut by its length (FinishReason::kLength) can violate the constraint.
struct Constraint {
  enum class Kind {
    kJsonObject,     // any JSON object
    kJsonSchema,     // `text`: a JSON schema
    kRegex,          // `text`: a regular expression that matches the whole answer
    kChoice,         // one of `choices`
    kGrammar,        // `text`: a grammar in GBNF
    kStructuralTag,  // `text`: {"triggers": [...], "structures": [...]}
  };
  Kind kind = Kind::kJsonObject;
  std::string text = {};
  std::vector<std::string> choices = {};

  static Constraint JsonSchema(std::string schema) {
    return {Kind::kJsonSchema, std::move(schema)};
  }
  static Constraint Regex(std::string pattern) { return {Kind::kRegex, std::move(pattern)}; }
  static Constraint Grammar(std::string gbnf) { return {Kind::kGrammar, std::move(gbnf)}; }
  static Constraint OneOf(std::vector<std::string> choices) {
    return {Kind::kChoice, {}, std::move(choices)};
  }
};

struct Request {
  Prompt prompt;
  SamplingParams sampling = {};
  int n = 1;  // 1..8 answers that share the prompt
  Priority priority = Priority::kInteractive;
  std::optional<std::chrono::milliseconds> timeout = {};  // from submission; then deadline_exceeded
  std::optional<int> truncate_prompt_tokens = {};  // keep only this many tokens, the last ones
  bool use_prefix_cache = true;
  std::string tenant = {};      // isolates the prefix cache; unit of fair share
  std::string cache_salt = {};  // further partition of the prefix cache
  std::optional<Constraint> constraint = {};
  // Maximum number of reasoning tokens before the answer; only for models that reason.
  std::optional<int> max_reasoning_tokens = {};
};

// --- results ---

struct Logprob {
  TokenId token = -1;
  float logprob = 0;       // natural logarithm, before bias, penalties and temperature
  std::string bytes = {};  // the token's own bytes, not always valid UTF-8
};

// One position: the token that stands there, and the most probable ones in order.
struct TokenLogprobs {
  Logprob chosen;
  std::vector<Logprob> top = {};
};

// The next part of a tool call while it is generated. The concatenated deltas of one index are the
// call; the first delta has its id and name.
struct ToolCallDelta {
  int index = 0;  // of the call within its answer, from 0
  std::string id = {};
  std::string name = {};
  std::string arguments = {};
};

// The next piece of an answer while it is generated.
struct Token {
  static constexpr TokenId kNone = -1;
  TokenId id = kNone;  // kNone: `text` is the text that was held back until the end of the answer
  std::string text =
      {};          // whole UTF-8 characters only; empty while a character or stop string is open
  int choice = 0;  // which of the n answers
  std::optional<TokenLogprobs> logprobs = {};
  std::string reasoning = {};  // with the option "reasoning" = "separate"
  std::vector<ToolCallDelta> tool_calls = {};
};

enum class FinishReason {
  kStop,       // end of text, stop token or stop string
  kLength,     // max_tokens, or the context is used up
  kCancelled,  // by the caller
  kToolCalls,  // end of text behind at least one call
};

struct Choice {
  std::string text = {};
  std::vector<TokenId> tokens = {};
  std::vector<TokenLogprobs> logprobs = {};  // one per token, if asked for
  FinishReason finish_reason = FinishReason::kLength;
  std::variant<std::monostate, TokenId, std::string> stop_reason =
      {};  // what matched; monostate = end of text
  std::string reasoning = {};
  std::vector<ToolCall> tool_calls = {};
};

struct Usage {
  int prompt_tokens = 0;
  int cached_tokens = 0;      // of those, taken from the prefix cache
  int completion_tokens = 0;  // over all choices
  int reasoning_tokens = 0;   // of completion_tokens
};

// Duration of each stage of a request; zero for stages that it did not reach.
struct Timings {
  std::chrono::nanoseconds prepare{0};  // template and tokenizer
  std::chrono::nanoseconds queue{0};    // from acceptance until it first ran
  std::chrono::nanoseconds prefill{0};  // from then until the first token
  std::chrono::nanoseconds decode{0};   // from the first token until the last
};

// The complete result of a request.
struct Completion {
  std::vector<Choice> choices = {};  // Request::n of them
  // With prompt_logprobs: one entry per token of the prompt; the first has no probability.
  std::vector<TokenLogprobs> prompt = {};
  Usage usage = {};
  Timings timings = {};

  // Accessors of the first choice, choices[0]; `choices` is never empty.
  const std::string& text() const& { return choices.front().text; }
  std::string text() && { return std::move(choices.front().text); }
  const std::vector<TokenId>& tokens() const& { return choices.front().tokens; }
  std::vector<TokenId> tokens() && { return std::move(choices.front().tokens); }
  FinishReason finish_reason() const { return choices.front().finish_reason; }
};

struct ModelInfo {
  std::string name, architecture, quantisation, digest;  // digest: of the model's files, hex
  int context = 0;                                       // tokens, prompt and output together
  int vocabulary = 0;
  std::string summary;  // one line: kernels, threads, sequences, KV blocks
};

// Current load of a model.
struct Stats {
  int running = 0;       // sequences that are running; a request with n = 4 has four
  int waiting = 0;       // sequences that are accepted and not running
  int max_num_seqs = 0;  // sequences that can run at once
  int kv_blocks_used = 0, kv_blocks_total = 0;  // of 32 tokens; used: without cached ones
};

}  // namespace tutti
