// The blocks "normalizer", "pre_tokenizer" and "decoder" of tokenizer.json as steps of a
// TokenizerSpec. Pure; any thread. For the reader of that file alone.
//
// Format: Hugging Face tokenizers 0.13 to 0.23. A block that is null or absent has no steps.
// Errors: tokenizer_invalid (not of the format), tokenizer_unsupported (a type that is not known,
// by name).
#pragma once

#include <boost/json/fwd.hpp>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tokenizer/tokenizer_spec.h"

namespace tutti::tokenizer {

Result<std::vector<NormalizerStep>> NormalizerSteps(const boost::json::object& root);
Result<std::vector<SplitStep>> SplitSteps(const boost::json::object& root);

// The parts of the block `key`: the block itself, or the parts of a Sequence, which are listed
// under `list`, and of Sequences in it, 32 at most. Empty if the block is absent.
Result<std::vector<const boost::json::object*>> PartsAt(const boost::json::object& root,
                                                        std::string_view key,
                                                        std::string_view list);

// Whether normalizer and pre-tokenizer are BERT's whole ones, which WordPiece runs in one pass.
bool HasBertSteps(const boost::json::object& root);

// Whether the decoder drops one space at the beginning of a text.
bool DecoderStripsSpace(const boost::json::object& root);

}  // namespace tutti::tokenizer
