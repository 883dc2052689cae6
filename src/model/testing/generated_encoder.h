// Small generated encoders, from a seed, at test time: the tensors in the clear, to compute what
// should come out, and as a checkpoint, to be loaded.
//
// Two layers of width 64, 50 tokens, 80 positions. Values are uniform, from integers and exact
// divisions. Test code only; one thread.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/types.h"
#include "model/encoder_config.h"
#include "model/encoder_weights.h"
#include "safetensors/testing/writer.h"

namespace tutti::model::testing {

struct GeneratedEncoder {
  EncoderConfig config;
  std::map<std::string, std::vector<float>> tensors;  // by the names of transformers
  safetensors::testing::Writer writer;

  // Uniform in middle +- spread.
  void Add(const std::string& name, std::vector<uint64_t> shape, Random& random, float middle,
           float spread);
  void Add(const std::string& name, std::vector<uint64_t> shape, std::vector<float> values);
};

struct GeneratedEncoderSpec {
  std::string architecture = "bert";
  int labels = 0;     // of a classifier; 0: an encoder of vectors
  int poisoned = -1;  // id of a token that makes its text's row NaN; none if negative
  Pooling pooling = Pooling::kMean;
};

GeneratedEncoder GenerateEncoder(const GeneratedEncoderSpec& spec = {});

// Fails the running test where it cannot be loaded.
std::shared_ptr<const EncoderWeights> LoadGenerated(const GeneratedEncoder& generated,
                                                    EncoderDType dtype);

// A text of 1 to max_tokens tokens, none of them `poisoned`; the second half of it has type 1.
struct GeneratedText {
  std::vector<TokenId> tokens;
  std::vector<uint8_t> types;
};
std::vector<GeneratedText> GenerateTexts(const EncoderConfig& config, int count,
                                         TokenId poisoned = -1);

}  // namespace tutti::model::testing
