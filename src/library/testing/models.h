// Models and helpers of the library's tests: the real model, loaded once per program, and small
// generated ones.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "amount.h"
#include "gguf/testing/checkpoint.h"
#include "gguf/testing/writer.h"
#include "test_paths.h"
#include "tutti/tutti.h"

namespace tutti::library::testing {

using support::Amount;

// A generated model of 1 layer and 64 columns with a byte vocabulary: steps of about 10 us, random
// text. Its file is deleted after loading.
inline Model TinyModel(ModelOptions options = ModelOptions()) {
  gguf::testing::CheckpointSpec spec;
  spec.layers = 1;
  spec.width = 64;
  spec.heads = 2;
  spec.kv_heads = 1;
  spec.head_width = 32;
  spec.feed_forward = 64;
  const gguf::testing::TempFile file(gguf::testing::MakeCheckpoint(spec).Build());
  return Model::Load(options.Path("tiny=" + file.path())).value();
}

inline ModelOptions TinyOptions() { return ModelOptions().Threads(1).KvCacheBytes(16 << 20); }

// Fails (throws) where the file is missing: `make models` fetches it.
inline const Model& RealModel() {
  static const Model model =
      Model::Load(ModelOptions(support::DefaultModelPath()).KvCacheBytes(size_t{256} << 20))
          .value();
  return model;
}

// Continues a text greedily to its full length.
inline Request Greedy(std::string text, int max_tokens) {
  return {.prompt = Text{std::move(text)},
          .sampling = {.temperature = 0, .max_tokens = max_tokens, .ignore_eos = true}};
}

inline Request Sampled(std::string text, int max_tokens, int64_t seed) {
  Request request = Greedy(std::move(text), max_tokens);
  request.sampling.temperature = 0.9;
  request.sampling.top_p = 0.95;
  request.sampling.seed = seed;
  return request;
}

// `count` prompts of different beginnings and lengths, some outside ASCII.
inline std::vector<std::string> Prompts(int count) {
  const char* const starts[] = {
      "Once upon a time", "The sea is",       "Im Anfang war", "Le petit chat", "1, 2, 3,",
      "\u6771\u4EAC",     "\U0001F600 hello", "def main():",   "Dear Sir,",     "x"};
  std::vector<std::string> prompts;
  for (int i = 0; i < count; ++i) {
    std::string text = starts[i % 10];
    for (int word = 0; word < i / 10; ++word) text += " and then";
    prompts.push_back(std::move(text));
  }
  return prompts;
}

}  // namespace tutti::library::testing
