// The pairs of the GGUF that folder_gguf presents: the architecture's, the tokenizer's and the
// authors' sampling defaults. Those of vectors and scores: vector_head.h.
//
// Pure functions; any thread. Each key is the reverse of its reader: config.h,
// tokenizer_metadata.h, generation_defaults.h.
#pragma once

#include "base/status.h"
#include "gguf/header_writer.h"
#include "model/config.h"
#include "model/generation_defaults.h"
#include "model/hyper_parameters.h"
#include "tokenizer/tokenizer_spec.h"

namespace tutti::model {

// `keys`: the folder's, for those that `config` does not hold as they are. Errors: model_hparam.
Status PutArchitecture(const ModelConfig& config, const HyperParameters& keys,
                       gguf::HeaderWriter& out);

// Errors: tokenizer_unsupported for a kind that no decoder's GGUF has, and of
// tokenizer::ScoresFromMerges().
Status PutTokenizer(const tokenizer::TokenizerSpec& spec, gguf::HeaderWriter& out);

void PutSampling(const GenerationDefaults& defaults, gguf::HeaderWriter& out);

}  // namespace tutti::model
