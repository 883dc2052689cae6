// Encoders in GGUF: which files hold one, what their keys say, and their tensors under the names of
// transformers, which encoder_weights.h reads.
//
// Pure but for the store, which keeps the file; any thread. Keys and names: as llama.cpp's
// converter writes them for the architecture bert (RoBERTa and XLM-R files among them, whose
// position table was cut so that positions begin at 0). A file has neither prompts nor a word on
// normalising: vectors have length 1, as the models published so ask for, and requests may say
// otherwise.
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

// "blk.3.attn_q.weight" -> "encoder.layer.3.attention.self.query.weight"; a name that is none of an
// encoder's stays as it is.
std::string TransformersName(std::string_view architecture, std::string_view name);
std::unique_ptr<TensorStore> MakeEncoderStore(const std::shared_ptr<const gguf::File>& file);

}  // namespace tutti::model
