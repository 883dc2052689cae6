// Answers of KServe v2 over HTTP: to inference requests, JSON, or JSON and behind it the raw bytes
// of those outputs that were asked for as binary data; about the server and its models. Pure; any
// thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "protocol/kserve/json/request.h"
#include "protocol/kserve/model.h"
#include "protocol/kserve/repository.h"

namespace tutti::kserve {

struct ResponseBody {
  std::string text;
  std::optional<size_t> json_bytes;  // of the text, where tensors follow; then it is no JSON
};

// `asked`: which outputs are binary. Errors: as WriteElements().
Result<ResponseBody> WriteInfer(const std::string& model, const RequestBody& asked,
                                const InferResponse& response);

// About what that takes.
size_t EstimateInfer(const RequestBody& asked, const InferResponse& response);

// The flat object that answers .../generate, or one of the stream of them: each output is a member,
// a scalar if it has one element, else a list. Errors: as WriteElements().
Result<std::string> GenerateBody(const std::string& id, const std::string& model,
                                 const InferResponse& response);

// --- the server and its models ---

std::string ServerMetadataBody(const ServerMetadata& metadata);
std::string ModelMetadataBody(const ModelConfig& config);
// The JSON form of Triton's message ModelConfig: names in snake_case, enumerations by name,
// integers as numbers.
std::string ModelConfigBody(const ModelConfig& config);
std::string StatisticsBody(const std::vector<StatisticsSnapshot>& models);
std::string IndexBody(const std::vector<IndexEntry>& index);
// {"live": true} and its like; of a model also its "name", unless that is empty.
std::string TruthBody(std::string_view model, const char* what, bool holds);

}  // namespace tutti::kserve
