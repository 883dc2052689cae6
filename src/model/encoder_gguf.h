// Encoders in GGUF files: detects them, reads their configuration, and presents their tensors under
// the names of transformers, which encoder_weights.h reads.
//
// Pure, except for the store, which keeps the file open; any thread. Keys and names are those of
// llama.cpp's converter; names follow from those of the family (encoder_families/family.h). RoBERTa
// and XLM-R are of the architecture bert: their position table is cut so that positions begin at 0.
// These files have no prompts and no setting for normalisation: embeddings have length 1, as the
// models published in this form require, unless a request overrides it.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "gguf/file.h"
#include "model/encoder_config.h"
#include "model/tensor_store.h"

namespace tutti::model {

// Whether general.architecture is one that EncoderCheckpoint::FromGguf opens.
bool HoldsEncoder(const gguf::Header& header);

// Errors: model_hparam, model_tensor_missing, gguf_key, gguf_type.
Result<EncoderConfig> ReadGgufEncoderConfig(const gguf::File& file);

// "blk.3.attn_q.weight" -> "encoder.layer.3.attention.self.query.weight"; a name that belongs to no
// encoder is returned unchanged. `gate_apart`: the file has a tensor of the gate alone.
std::string TransformersName(std::string_view architecture, std::string_view name,
                             bool gate_apart = false);
std::unique_ptr<TensorStore> MakeEncoderStore(const std::shared_ptr<const gguf::File>& file);

}  // namespace tutti::model
