// `tutti bench lora`: the rate of decoding with LoRA adapters against that without, in turn, in one
// engine.
//
// The adapters are copies of given files, each with memory of its own, and request i uses the i-th
// of them in turn. Every answer must be the one that its request gets alone, to the token, at any
// speed. Gated: decoding with adapters reaches `least_ratio` of the rate without.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/report.h"
#include "bench/session.h"

namespace tutti::bench {

struct LoraOptions {
  std::string model;
  Flags flags;
  std::vector<std::string> paths;  // of adapters
  int adapters = 4;
  int batch = 8;  // requests together
  int prompt_tokens = 128;
  int new_tokens = 64;
  int rounds = 5;
  uint64_t seed = 1;
  double least_ratio = 0.7;
};

Result<Report> BenchLora(const LoraOptions& options, const Progress& progress);

}  // namespace tutti::bench
