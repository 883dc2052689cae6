// JSON of the tokenizer routes in the dialects of vLLM, llama-server and TEI. Pure.
//
// The fields of POST /tokenize select the dialect: prompt or messages (vLLM), content
// (llama-server), inputs (TEI). POST /detokenize answers with the field names of both dialects;
// /decode is TEI's.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "api/inference.h"
#include "base/status.h"
#include "protocol/json/json.h"
#include "protocol/openai/request.h"

namespace tutti::protocol {

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

// POST /v1/responses/input_tokens: the body of /v1/responses -> its prompt. Errors: those of
// ParseResponses(); unsupported_parameter for a dialog that is kept, which is not read here.
struct InputTokensCall {
  api::TokenizeRequest request;
  std::vector<std::string> ignored;
};
Result<InputTokensCall> ParseInputTokens(const Json& body, const ParseOptions& options);
// {"object":"response.input_tokens","input_tokens":N}
std::string InputTokensBody(const api::TokenizeResult& result);

// TEI's /decode: one list of ids, or several.
struct DecodeCall {
  std::string model;
  std::vector<std::vector<TokenId>> ids;
  bool listed = false;  // errors name "ids[2]", else "ids"
  bool skip_special = true;
  std::vector<std::string> ignored;
};
Result<DecodeCall> ParseDecode(const Json& body, const ParseOptions& options);
std::string DecodeBody(std::span<const std::string> texts);

}  // namespace tutti::protocol
