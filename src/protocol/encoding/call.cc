#include "protocol/encoding/call.h"

#include <optional>
#include <utility>

#include "api/models.h"
#include "protocol/encoding/input_blame.h"

namespace tutti::protocol {

std::string InputParam(const EncodingCall& call, size_t index) {
  if (call.kind == EncodingKind::kTeiSimilarity) {
    if (index == 0) return call.input_name + ".source_sentence";
    return call.input_name + ".sentences[" + std::to_string(index - 1) + "]";
  }
  return call.listed ? call.input_name + "[" + std::to_string(index) + "]" : call.input_name;
}

Status BlameInput(const EncodingCall& call, Status status) {
  if (status.param() == "input") return std::move(status).WithParam(call.input_name);
  const std::optional<size_t> index = BlamedInput(status.param());
  if (!index.has_value()) return status;
  return std::move(status).WithParam(InputParam(call, *index));
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

}  // namespace tutti::protocol
