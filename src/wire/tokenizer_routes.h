// JSON of the tokenizer routes, in the dialects that clients use, and of the model list. Pure.
//
// POST /tokenize picks its dialect by the key present: prompt or messages (vLLM), content
// (llama-server), inputs (TEI). POST /detokenize answers under both names in use.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "api/inference.h"
#include "base/status.h"
#include "wire/json.h"
#include "wire/openai_request.h"

namespace tutti::wire {

enum class TokenizeDialect { kVllm, kLlama, kTei };

struct TokenizeCall {
  TokenizeDialect dialect = TokenizeDialect::kVllm;
  std::vector<api::TokenizeRequest> requests;  // one; TEI: one for each input
  bool pieces = false;                         // return_token_strs, with_pieces
  std::vector<std::string> ignored;
};
Result<TokenizeCall> ParseTokenize(const Json& body, const ParseOptions& options);
std::string TokenizeBody(const TokenizeCall& call, std::span<const api::TokenizeResult> results);

struct DetokenizeCall {
  std::string model;
  std::vector<TokenId> tokens;
  std::vector<std::string> ignored;
};
Result<DetokenizeCall> ParseDetokenize(const Json& body, const ParseOptions& options);
std::string DetokenizeBody(std::string_view text);

struct ApplyTemplateCall {
  api::TokenizeRequest request;
  std::vector<std::string> ignored;
};
Result<ApplyTemplateCall> ParseApplyTemplate(const Json& body, const ParseOptions& options);
std::string ApplyTemplateBody(const api::TokenizeResult& result);

std::string ModelListBody(std::span<const api::ModelInfo> models);
// Nothing when no model has that id or alias.
const api::ModelInfo* FindModel(std::span<const api::ModelInfo> models, std::string_view id);
std::string ModelBody(const api::ModelInfo& model, std::string_view id);

}  // namespace tutti::wire
