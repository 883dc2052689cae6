// OpenAI dialect, inbound: parses JSON bodies of chat, completions, /generate, /infill and
// decisions to api::GenerateRequest. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/types.h"
#include "base/clock.h"
#include "base/status.h"
#include "protocol/json/json.h"
#include "protocol/openai/decision_questions.h"
#include "protocol/schema/checked_object.h"

namespace tutti::protocol {

enum class Dialect { kChat, kText, kGenerate, kInfill, kDecisions, kSystemOne, kPrefix };

// One client call: the requests and the format of the answer. Completions with several prompts make
// several requests; choices are numbered prompt_index * n + choice.
struct GenerationCall {
  Dialect dialect = Dialect::kChat;
  std::vector<api::GenerateRequest> requests;  // at least one; equal except for the prompt
  std::string model;                           // as asked; empty = the default model
  std::string shown_model;  // name of the model in the answer, if it is not `model`
  // Ollama: "load" or "unload" for a call without a prompt, which has no requests.
  std::string load_reason;
  std::optional<Duration> keep_alive = {};  // as api::GenerateRequest; also without requests
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;
  bool obfuscation = false;  // random padding of deltas
  bool echo = false;         // completions: the prompt comes first
  // /infill with n_predict 0: only computes the prompt, to warm the prefix cache. One token is
  // generated and not returned.
  bool prompt_only = false;
  int logprobs = -1;  // shown per token; -1 = none
  bool prompt_logprobs = false;
  bool skip_special_tokens = true;
  bool timings = false;
  std::vector<DecisionQuestion> questions = {};  // kDecisions, kSystemOne
  std::string service_tier = "default";          // echoed
  std::vector<std::string> ignored;              // unknown fields, for x-tutti-ignored

  int choices() const { return static_cast<int>(requests.size()) * requests.front().n; }
};

Result<GenerationCall> ParseGeneration(Dialect dialect, const Json& body,
                                       const ParseOptions& options);

// Reads the fields of a completions request without model, prompt and response format, for
// protocols that carry these three elsewhere; the prompt of the result is empty. Unknown fields are
// added to `ignored` unless `options` is strict. Errors: unsupported_parameter for a field that
// sets one of the three, and for `suffix`.
Result<api::GenerateRequest> ParseSampling(const Json& fields, const ParseOptions& options,
                                           IgnoredFields* ignored);

// Parses and checks the messages of a chat request (roles, parts, last role). `object` has been
// checked against its scope and has `messages`.
Result<api::ChatPrompt> ParseChatPrompt(const CheckedObject& object, bool strict,
                                        IgnoredFields* ignored);

}  // namespace tutti::protocol
