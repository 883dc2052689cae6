// Answers of KServe v2 over HTTP to inference requests: JSON, or JSON and behind it the raw bytes
// of those outputs that were asked for as binary data. Pure; any thread.
#pragma once

#include <optional>
#include <string>

#include "base/status.h"
#include "kserve/json/request.h"
#include "kserve/model.h"

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

}  // namespace tutti::kserve
