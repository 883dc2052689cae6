#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "app/loading/model_plan.h"

namespace tutti::app {
namespace {

Result<int> Slots(const std::string& budget, const std::string& sequences, size_t state_bytes,
                  size_t block_bytes) {
  Settings::Inputs inputs;
  inputs.flags = {{"kv-cache-bytes", budget}, {"max-num-seqs", sequences}};
  return StateSlots(Settings::Resolve(inputs).value(), state_bytes, block_bytes);
}

TEST(StateSlots, ModelsWithoutStatesHaveNone) { EXPECT_EQ(Slots("8MiB", "8", 0, 4096).value(), 0); }

TEST(StateSlots, TakeAQuarterOfTheMemoryForCheckpoints) {
  EXPECT_EQ(Slots("8MiB", "8", 65536, 4096).value(), 32);
}

TEST(StateSlots, AreNoMoreThanBlocks) { EXPECT_EQ(Slots("8MiB", "8", 64, 262144).value(), 32); }

TEST(StateSlots, AreBoundedForSmallStates) {
  EXPECT_EQ(Slots("16TiB", "8", 64, 64).value(), 1 << 20);
}

TEST(StateSlots, AreOneMoreThanSequencesAtLeast) {
  EXPECT_EQ(Slots("8MiB", "16", 262144, 4096).value(), 17);
}

TEST(StateSlots, RefusesMemoryThatLeavesNoBlock) {
  const Status why = Slots("1MiB", "8", 262144, 4096).status();
  EXPECT_EQ(why.param(), "kv-cache-bytes");
  EXPECT_THAT(why.message(),
              ::testing::HasSubstr("states of 9 sequences and one block need 2363392 bytes; "
                                   "--kv-cache-bytes is 1048576"));
  EXPECT_EQ(Slots("2363392", "8", 262144, 4096).value(), 9) << "as the message says";
}

}  // namespace
}  // namespace tutti::app
