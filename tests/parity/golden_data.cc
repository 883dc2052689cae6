#include "golden_data.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "gguf/file.h"
#include "test_paths.h"

namespace tutti::parity {
namespace {

std::ifstream OpenGolden(const std::string& name) {
  std::ifstream in(support::SourcePath("tests/golden/" + name));
  EXPECT_TRUE(in.is_open()) << "tests/golden/" << name
                            << " cannot be read; TUTTI_SOURCE_DIR names the sources";
  return in;
}

}  // namespace

std::shared_ptr<const model::Weights> TestWeights(model::WeightMode mode, kernels::Isa isa) {
  static std::shared_ptr<const model::Weights> loaded[2][2];
  const bool tiles = kernels::KernelsFor(isa).gemm.bf16_tiles;
  auto& weights = loaded[static_cast<size_t>(mode)][tiles];
  if (weights == nullptr) {
    const std::string path = support::DefaultModelPath();
    const auto file = gguf::File::Open(path);
    EXPECT_TRUE(file.ok()) << file.status() << " (" << path << "; `make models` fetches it)";
    if (!file.ok()) return nullptr;
    auto result = model::Weights::Load(**file, {.mode = mode, .threads = 2, .bf16_tiles = tiles});
    EXPECT_TRUE(result.ok()) << result.status();
    if (result.ok()) weights = *result;
  }
  return weights;
}

std::vector<GreedyReference> ReadGreedyReferences() {
  std::vector<GreedyReference> out;
  std::ifstream in = OpenGolden("greedy.txt");
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    if (line.rfind("prompt", 0) == 0) {
      out.emplace_back();
      std::string skip;
      words >> skip;
      for (TokenId id; words >> id;) out.back().prompt.push_back(id);
    } else if (!out.empty()) {
      TokenId id = kNoToken;
      float margin = 0;
      words >> id >> margin;
      out.back().tokens.push_back(id);
      out.back().margins.push_back(margin);
    }
  }
  return out;
}

std::vector<ScoredToken> ReadScoredText() {
  std::vector<ScoredToken> out;
  std::ifstream in = OpenGolden("logprobs.txt");
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    ScoredToken scored;
    std::string logprob;
    words >> scored.token >> logprob >> scored.top;
    scored.logprob = std::strtof(logprob.c_str(), nullptr);  // strtof reads "nan", streams do not
    out.push_back(scored);
  }
  return out;
}

LongReference ReadLongReference() {
  LongReference out;
  std::ifstream in = OpenGolden("long.txt");
  for (std::string first; in >> first;) {
    if (first == "perplexity") {
      in >> out.perplexity;
      break;
    }
    LongReference::Scored& scored = out.scored.emplace_back();
    scored.position = std::atoi(first.c_str());
    in >> scored.logprob >> scored.top;
  }
  EXPECT_GT(out.perplexity, 1);
  return out;
}

}  // namespace tutti::parity
