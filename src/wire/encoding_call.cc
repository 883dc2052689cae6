#include "wire/encoding_call.h"

#include <charconv>
#include <string_view>

namespace tutti::wire {

std::string InputParam(const EncodingCall& call, size_t index) {
  if (call.kind == EncodingKind::kTeiSimilarity) {
    if (index == 0) return call.input_name + ".source_sentence";
    return call.input_name + ".sentences[" + std::to_string(index - 1) + "]";
  }
  return call.listed ? call.input_name + "[" + std::to_string(index) + "]" : call.input_name;
}

Status BlameInput(const EncodingCall& call, Status status) {
  constexpr std::string_view kOne = "input[";
  const std::string_view param = status.param();
  if (param == "input") return std::move(status).WithParam(call.input_name);
  if (!param.starts_with(kOne)) return status;
  size_t index = 0;
  const auto [end, fault] =
      std::from_chars(param.data() + kOne.size(), param.data() + param.size(), index);
  if (fault != std::errc()) return status;
  return std::move(status).WithParam(InputParam(call, index));
}

Status CheckModel(const EncodingCall& call, const api::ModelInfo& model) {
  if (!call.ranks() || !model.encoder.has_value()) return OkStatus();
  // A score of several labels is no measure of how well two texts fit.
  if (model.encoder->pairs && model.encoder->labels.size() == 1) return OkStatus();
  return InvalidArgument("invalid_value",
                         "model " + model.id + " does not rank: it is no cross-encoder")
      .WithParam("model");
}

}  // namespace tutti::wire
