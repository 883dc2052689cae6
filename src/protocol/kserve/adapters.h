// Models of api::Inference as KServe models, chosen by fields of api::ModelInfo:
//
//   kind           field                 class            file               made by
//   decoder        generates             GenerationModel  generation_model   MakeGenerationModel
//   cross-encoder  encoder->labels,      ScoringModel     encoding_model     MakeScoringModel
//                  encoder->pairs
//   classifier     encoder->labels       ScoringModel     encoding_model     MakeScoringModel
//   encoder        encoder->width > 0    EmbeddingModel   encoding_model     MakeEmbeddingModel
//
// The first that fits counts. ScoringModel and EmbeddingModel are EncodingModels.
//
// - Encoders: text BYTES [-1] or token_ids INT32 [-1,-1] -> embedding FP32 [-1,D]. Negative ids at
//   the end of a row are padding. Also taken: text_input for text, [-1,1] for texts, INT64 for
//   token_ids, and input_ids, INT32 or INT64, with or without attention_mask INT64.
// - Cross-encoders: query BYTES [1], documents BYTES [-1] (also [-1,1]) -> score FP32 [-1], or
//   [-1,L] for L labels.
// - Classifiers: text BYTES [-1] (also [-1,1]) -> score FP32 [-1,L].
// - Decoders: text_input BYTES [1], stream BOOL [1], sampling_parameters BYTES [1] (a JSON object),
//   exclude_input_in_output BOOL [1] -> text_output, finish_reason BYTES [-1]. Decoupled: with
//   `stream` a response for what was sampled since the last one, else one response.
//
// Tensors of decoders are those of Triton's vLLM backend; like there, the prompt comes before the
// text of an answer that is not streamed unless exclude_input_in_output is true. Parameters of a
// request to a decoder are sampling parameters too.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "api/inference.h"
#include "base/clock.h"
#include "protocol/kserve/model.h"

namespace tutti::kserve {

// Returns null for a model of no kind above. The references must outlive the adapter.
std::shared_ptr<Model> MakeAdapter(const api::ModelInfo& info, api::Inference& inference,
                                   const Clock& clock);

// One factory for each kind of model.
std::shared_ptr<Model> MakeEmbeddingModel(const api::ModelInfo& info, api::Inference& inference,
                                          const Clock& clock);
std::shared_ptr<Model> MakeScoringModel(const api::ModelInfo& info, api::Inference& inference,
                                        const Clock& clock);
std::shared_ptr<Model> MakeGenerationModel(const api::ModelInfo& info, api::Inference& inference,
                                           const Clock& clock);

// The value of their Model::Executed().
std::optional<std::pair<uint64_t, uint64_t>> ExecutedOf(const api::Inference& inference,
                                                        const std::string& model);

}  // namespace tutti::kserve
