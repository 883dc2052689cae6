// What tokenizer.json says about a unigram model: its normaliser and how words are marked.
//
// Pure; any thread. Its pieces and scores are read with the other kinds' (huggingface.cc).
#pragma once

#include <boost/json/fwd.hpp>

#include "base/status.h"
#include "tokenizer/tokenizer_spec.h"

namespace tutti::tokenizer {

// "normalizer": Precompiled, Strip, Replace of two and more spaces, or a Sequence of these.
// "pre_tokenizer": Metaspace, or WhitespaceSplit and Metaspace. Errors: tokenizer_invalid,
// tokenizer_regex, tokenizer_unsupported.
Status ReadUnigramBlocks(const boost::json::object& root, UnigramSpec& spec);

}  // namespace tutti::tokenizer
