// Maps the names in tokenizer.ggml.pre to pre-tokenizers: a GGUF has the name of a pre-tokenizer,
// not its steps.
//
// Pure functions over constants; any thread. Source of names and expressions: llama.cpp's
// llama-vocab.cpp and the published tokenizer.json of the models.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer_spec.h"

namespace tutti::tokenizer {

struct NamedPreTokenizer {
  std::vector<NormalizerStep> normalizer;
  std::vector<SplitStep> split;
  bool ignore_merges = false;  // a word that is a token is not merged
  bool add_bos = false;        // default if the file has no setting
};

// Nothing for a name that is not known.
std::optional<NamedPreTokenizer> FindPreTokenizer(std::string_view name);

// A name whose split is `steps` and whose merging is as given, for writing a GGUF. Empty: none.
std::string_view NameOfPreTokenizer(std::span<const SplitStep> steps, bool ignore_merges);

}  // namespace tutti::tokenizer
