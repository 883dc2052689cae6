#include "api/encoding.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "api/testing/counting_control.h"

namespace tutti::api {
namespace {

EncodeResult OneRow(float value) {
  EncodeResult result;
  result.width = 1;
  result.values = {value};
  return result;
}

TEST(Encoding, DestroyingTheHandleCancelsWhatHasNotEnded) {
  auto control = std::make_shared<CountingControl>();
  { Encoding encoding(std::make_shared<EncodingState>(nullptr), control); }
  EXPECT_EQ(control->cancels, 1);
}

TEST(Encoding, NothingIsCancelledOnceItHasEnded) {
  auto control = std::make_shared<CountingControl>();
  auto state = std::make_shared<EncodingState>(nullptr);
  {
    Encoding encoding(state, control);
    state->Finish(OneRow(1));
    EXPECT_TRUE(encoding.done());
  }
  EXPECT_EQ(control->cancels, 0);
}

TEST(Encoding, AssigningOverAHandleCancelsTheOneItHeld) {
  auto first = std::make_shared<CountingControl>(), second = std::make_shared<CountingControl>();
  Encoding encoding(std::make_shared<EncodingState>(nullptr), first);
  encoding = Encoding(std::make_shared<EncodingState>(nullptr), second);
  EXPECT_EQ(first->cancels, 1);
  EXPECT_EQ(second->cancels, 0);
}

TEST(Encoding, TheReaderDoesWhatIsLeftOfAGoodResult) {
  const auto doubled = [](EncodeResult& result) { result.values[0] *= 2; };
  EncodingState good(nullptr, doubled), bad(nullptr, doubled);
  good.Finish(OneRow(21));
  bad.Finish(Internal("no result"));
  EXPECT_EQ(good.Take()->values, std::vector<float>{42});
  EXPECT_FALSE(bad.Take().ok());
}

TEST(Encoding, WhoeverSeesTheEndReadsTheWholeResult) {
  constexpr int kStates = 20'000;
  std::vector<std::unique_ptr<EncodingState>> states;
  for (int i = 0; i < kStates; ++i) states.push_back(std::make_unique<EncodingState>(nullptr));
  std::thread writer([&] {
    for (int i = 0; i < kStates; ++i) states[static_cast<size_t>(i)]->Finish(OneRow(float(i)));
  });
  for (int i = 0; i < kStates; ++i) {
    EncodingState& state = *states[static_cast<size_t>(i)];
    while (!state.done()) std::this_thread::yield();
    Result<EncodeResult> result = state.Take();
    ASSERT_TRUE(result.ok());
    ASSERT_EQ(result->values, std::vector<float>{float(i)});
  }
  writer.join();
}

}  // namespace
}  // namespace tutti::api
