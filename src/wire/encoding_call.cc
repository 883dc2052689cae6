#include "wire/encoding_call.h"

#include <charconv>
#include <string_view>
#include <utility>

#include "api/models.h"

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

Result<const api::ModelInfo*> ChooseModel(const EncodingCall& call,
                                          std::span<const api::ModelInfo> models) {
  const auto refuse = [](std::string message) {
    return InvalidArgument("invalid_value", std::move(message)).WithParam("model");
  };
  const bool named = !call.request.model.empty();
  const api::ModelInfo* model = api::EncoderFor(models, call.request);
  // A score of several labels is no measure of how well two texts fit.
  if (model != nullptr && (!call.ranks() || api::Ranks(*model))) return model;
  if (named && model != nullptr)
    return refuse("model " + model->id + " ranks nothing: it is no cross-encoder with one label");
  if (named || models.empty()) return model;
  const bool scores = call.request.output == api::EncodeOutput::kScores;
  return refuse(std::string("none of the models served here gives ") +
                (scores ? "such scores" : "vectors"));
}

}  // namespace tutti::wire
