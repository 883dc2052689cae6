// JSON of the served models: OpenAI's model list with llama.cpp's status, TEI's /info, vLLM's
// /tokenizer_info. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/types.h"
#include "base/status.h"
#include "protocol/json/json.h"
#include "protocol/schema/checked_object.h"

namespace tutti::protocol {

// The model for TEI's routes, which assume a single model: the first that embeds, else the first
// that scores, else the first. `models` must not be empty.
const api::ModelInfo& MainEncoder(std::span<const api::ModelInfo> models);

// Tasks of a model: generate, embed, classify, rerank, score.
std::vector<std::string_view> TasksOf(const api::ModelInfo& model);

std::string ModelListBody(std::span<const api::ModelInfo> models);
std::string ModelBody(const api::ModelInfo& model, std::string_view id);

// The model of a body of the routes that load and unload: {"model": "NAME"}. Errors:
// invalid_value, missing_required_parameter, unknown_parameter.
struct ModelCall {
  std::string model;
  std::vector<std::string> ignored;  // unknown fields, for x-tutti-ignored
};
Result<ModelCall> ParseModelCall(const Json& body, const ParseOptions& options);

struct InfoLimits {
  int connections = 0;
  int tokenizers = 0;   // threads that tokenise long inputs
  std::string version;  // of this server
};
// As vLLM's GET /tokenizer_info: members of a tokenizer_config.json. `model` has a tokenizer.
std::string TokenizerInfoBody(const api::ModelInfo& model);
// TEI's description of a model.
std::string InfoBody(const api::ModelInfo& model, const InfoLimits& limits);

}  // namespace tutti::protocol
