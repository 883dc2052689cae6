// GenerationDefaults: the sampling parameters that a model's authors recommend, and the tokens that
// end its answers: generation_config.json of a folder, the keys general.sampling.* of a GGUF.
//
// A plain value; any thread. Every value is optional. One that is absent or null is left out; one
// of another type, or outside the range stated at the field, is left out with a remark. The server
// of the model decides whether the defaults apply.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gguf/header.h"

namespace tutti::model {

class JsonFile;

struct GenerationDefaults {
  std::optional<bool> do_sample;             // false: greedy, whichever other values are set
  std::optional<double> temperature;         // 0..2
  std::optional<int> top_k;                  // 0 = off
  std::optional<double> top_p;               // (0, 1]
  std::optional<double> min_p;               // 0..1
  std::optional<double> repetition_penalty;  // (0, 10]
  // eos_token_id of a folder: ids of at least 0, each once, in the file's order, at most 1,024. Not
  // checked against the vocabulary.
  std::vector<int64_t> ends;
  std::string source;  // "generation_config.json" or "general.sampling"; empty: neither was found

  // No sampling parameter is set; `ends` may be.
  bool empty() const {
    return !do_sample && !temperature && !top_k && !top_p && !min_p && !repetition_penalty;
  }
  // "temperature 0.6, top_k 20, top_p 0.95" in the order of the fields; "" where empty().
  std::string Text() const;

  // `file`: generation_config.json, or a config.json that holds the same keys.
  static GenerationDefaults FromJson(const JsonFile& file, std::vector<std::string>& remarks);
  static GenerationDefaults FromGguf(const gguf::Header& header, std::vector<std::string>& remarks);
};

}  // namespace tutti::model
