// An encoder in the engine: what goes in comes back to whoever sent it, once, whatever happens.
#include "engine/encoder_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "engine/encoder_slot.h"
#include "engine/testing/fake_encoder_runner.h"

namespace tutti::engine {
namespace {

using testing::FakeEncoderRunner;
using testing::TestEncoding;

TEST(EncoderEngine, AnswersARequestWithOneRowForEachInputInOrder) {
  ManualClock clock;
  FakeEncoderRunner runner(FakeEncoderRunner::DefaultLimits(), &clock);
  EncoderEngine engine({}, {&runner, &clock});
  const EncoderRequest request = TestEncoding(100, {7, 300, 3, 90, 1});
  Result<api::Encoding> encoding = engine.Submit(request, nullptr);
  ASSERT_TRUE(encoding.ok()) << encoding.status();
  EXPECT_FALSE(encoding->done());
  EXPECT_TRUE(engine.RunOneStep());
  ASSERT_TRUE(encoding->done());
  const Result<api::EncodeResult> result = encoding->Take();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->width, 4);
  EXPECT_EQ(result->values, runner.Answer(request));
  EXPECT_THAT(result->tokens, ::testing::ElementsAre(7, 300, 3, 90, 1));
  EXPECT_TRUE(result->rows.empty());
  EXPECT_THAT(runner.violations(), ::testing::IsEmpty());
  EXPECT_EQ(engine.stats().batches, 1u);  // one forward pass for all inputs
  EXPECT_EQ(engine.stats().requests, 0);
  EXPECT_FALSE(engine.RunOneStep());
  EXPECT_EQ(engine.NextWork(), TimePoint::max());
}

}  // namespace
}  // namespace tutti::engine
