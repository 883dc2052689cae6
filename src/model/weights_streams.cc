// WeightsLoader: inputs of layers, and several residual streams.
#include <fmt/format.h>

#include <string>

#include "model/weights_loader.h"

namespace tutti::model {

Status WeightsLoader::PlanLayerInput(const std::string& prefix, LayerWeights& layer) {
  const ModelConfig& c = weights_->config_;
  if (c.layer_inputs != 0) {
    RETURN_IF_ERROR(
        PlanOne(prefix + "inp_gate", {c.width, c.layer_inputs}, false, &layer.input_gate));
    RETURN_IF_ERROR(
        PlanOne(prefix + "proj", {c.layer_inputs, c.width}, false, &layer.input_output));
    RETURN_IF_ERROR(PlanVector(prefix + "post_norm.weight", &layer.input_after_norm));
  }
  if (!c.layer_scales) return OkStatus();
  return PlanVector(prefix + "layer_output_scale.weight", &layer.output_scale, 1);
}

Status WeightsLoader::PlanStreamsOf(const std::string& prefix, StreamWeights& streams) {
  const ModelConfig& c = weights_->config_;
  const int count = c.streams;
  const auto matrix = [&](const char* name, int columns, int rows, const float** target,
                          float scale = 1) -> Status {
    ASSIGN_OR_RETURN(const StoredTensor* tensor,
                     arena_.Expect(fmt::format("{}{}.weight", prefix, name), {columns, rows}));
    arena_.PlanVector({tensor}, target, 0, scale);
    return OkStatus();
  };
  RETURN_IF_ERROR(PlanVector(prefix + "altup_router_norm.weight", &streams.router_norm));
  RETURN_IF_ERROR(
      matrix("altup_router", c.width, count, &streams.router, 1 / static_cast<float>(c.width)));
  RETURN_IF_ERROR(matrix("altup_predict_coef", count, count * count, &streams.predict));
  RETURN_IF_ERROR(matrix("altup_correct_coef", count, count, &streams.correct));
  RETURN_IF_ERROR(PlanVector(prefix + "altup_correct_scale.weight", &streams.output_scale));
  RETURN_IF_ERROR(
      PlanOne(prefix + "laurel_l", {c.width, c.laurel_rank}, false, &streams.laurel_left));
  RETURN_IF_ERROR(
      PlanOne(prefix + "laurel_r", {c.laurel_rank, c.width}, false, &streams.laurel_right));
  return PlanVector(prefix + "laurel_post_norm.weight", &streams.laurel_norm);
}

Status WeightsLoader::PlanStreamInputs() {
  const ModelConfig& c = weights_->config_;
  ASSIGN_OR_RETURN(const WeightArena::Tensors parts,
                   ExpectParts("altup_proj", c.streams - 1, c.width, c.width));
  return PlanProjection(parts, &weights_->stream_inputs_);
}

Status WeightsLoader::PlanStreamOutputs() {
  const ModelConfig& c = weights_->config_;
  ASSIGN_OR_RETURN(const WeightArena::Tensors parts,
                   ExpectParts("altup_unembd_proj", c.streams - 1, c.width, c.width));
  weights_->stream_outputs_.resize(parts.size());
  for (size_t i = 0; i < parts.size(); ++i)
    RETURN_IF_ERROR(PlanProjection({parts[i]}, &weights_->stream_outputs_[i]));
  return OkStatus();
}

Status WeightsLoader::PlanLayerInputs() {
  const ModelConfig& c = weights_->config_;
  const int64_t inputs = int64_t{c.layers} * c.layer_inputs;
  ASSIGN_OR_RETURN(const StoredTensor* embedding,
                   arena_.Expect("per_layer_token_embd.weight", {inputs, c.layer_vocab}));
  ASSIGN_OR_RETURN(layer_embedding_matrix_,
                   arena_.PlanMatrix({embedding}, FormatAmongOthers(*embedding)));
  RETURN_IF_ERROR(
      PlanOne("per_layer_model_proj", {c.width, inputs}, false, &weights_->layer_projection_));
  return PlanVector("per_layer_proj_norm.weight", &weights_->layer_projection_norm_,
                    c.layer_inputs);
}

}  // namespace tutti::model
