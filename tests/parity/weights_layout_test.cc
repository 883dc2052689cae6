// The order of weights in memory, of layers that no checkpoint of the unit tests has: recurrences,
// experts, layers of one part, LayerNorm. WeightsLayoutTest (src/model/pack_model_test.cc) has the
// dense layout in every type.
#include <gtest/gtest.h>

#include <cstdint>
#include <ios>
#include <map>
#include <string>

#include "decoder_families.h"
#include "files/digest.h"
#include "model/weights.h"

namespace tutti::parity {
namespace {

// When this fails, weights lie otherwise in memory than they did: raise model::kWeightsLayout, so
// that files which were packed before are refused, and put the new numbers here.
TEST(WeightsLayoutOfFamiliesTest, IsTheOneThatPackedFilesHold) {
  EXPECT_EQ(model::kWeightsLayout, 3U);
  const std::map<std::string, uint64_t> sums = {
      {"apertus", 0x8ee9405c566a092b},
      {"cohere with biases", 0xade735bcfb7fa386},
      {"deepseek_v2 with groups", 0x877b52d5b367e941},
      {"falcon h1 with norms", 0x850f69c95d3d9be2},
      {"gemma3", 0x3d27d91d0afe0717},
      {"gemma3n", 0x001203618d404b54},
      {"gemma4 with experts", 0x211229d5552c7bf3},
      {"gemma4 with inputs of layers", 0x4d9288710ea8e386},
      {"glm4moe", 0x687558b849e3901a},
      {"gpt_oss", 0xfcf7ab55d6c39ffd},
      {"granite hybrid with experts", 0xcbf965ffaef5c19a},
      {"lfm2", 0x08cff461a5f43a22},
      {"llama4", 0x35784b33b408545c},
      {"nemotron_h with experts", 0x359d347c000c267a},
      {"qwen3next with experts", 0xec8159db41afa29f},
      {"starcoder2", 0xc9411e73ce4cb692},
  };
  size_t found = 0;
  for (const FamilyGolden& golden : FamilyGoldens()) {
    const auto expected = sums.find(golden.family);
    if (expected == sums.end()) continue;
    ++found;
    const auto weights = LoadGguf(golden, model::WeightMode::kInt8, tensor::DType::kQ8_0);
    ASSERT_TRUE(weights.ok()) << golden.family << ": " << weights.status();
    const uint64_t sum = files::Xxh64({(*weights)->data(), (*weights)->bytes()});
    EXPECT_EQ(sum, expected->second)
        << "{\"" << golden.family << "\", 0x" << std::hex << sum << "},";
  }
  EXPECT_EQ(found, sums.size());
}

}  // namespace
}  // namespace tutti::parity
