// GenerationDefaults: how a model's makers say that it is sampled from, and where its answers end:
// generation_config.json of a folder, the keys general.sampling.* of a GGUF.
//
// A plain value; any thread. Nothing here is required: a value that is absent, null, of another
// type or outside the range of the API's sampling parameters is left out, and the last two with a
// remark. Whether these defaults apply is decided by whoever serves the model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gguf/header.h"

namespace tutti::model {

class JsonFile;

struct GenerationDefaults {
  std::optional<bool> do_sample;      // false: the most probable token, whatever else is said
  std::optional<double> temperature;  // 0..2
  std::optional<int> top_k;           // 0 = off
  std::optional<double> top_p;        // (0, 1]
  std::optional<double> min_p;        // 0..1
  std::optional<double> repetition_penalty;  // (0, 10]
  // eos_token_id of a folder, each once and in the file's order. Not checked against the
  // vocabulary.
  std::vector<int64_t> ends;
  std::string source;  // "generation_config.json" or "general.sampling"; empty: nothing was said

  // Nothing is said of sampling.
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
