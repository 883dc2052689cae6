// Limits on the server's memory and threads that large bodies and long answers may use.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "api/validate.h"
#include "cpu_time.h"
#include "server/http/testing/server_fixture.h"

namespace tutti::http {
namespace {

using namespace testing;  // NOLINT
using ::testing::HasSubstr;

class MemoryTest : public ServerTest {
 protected:
  // Lets the first call of Tokenize() wait until Release().
  void HoldTokenizer() {
    inference_.on_tokenize = [this] {
      if (calls_.fetch_add(1) == 0) gate_.get_future().wait();
    };
  }
  bool TokenizerIsBusy() {
    return Eventually([&] { return calls_.load() == 1; });
  }
  void Release() { gate_.set_value(); }

  static std::string TokenizeBody(size_t bytes) {
    return R"({"model":"fake","prompt":")" + std::string(bytes, 'x') + "\"}";
  }

  std::promise<void> gate_;
  std::atomic<int> calls_{0};
};

TEST_F(MemoryTest, LongTokenisingHoldsUpNoLargeChat) {
  HoldTokenizer();
  StartServer();
  RawClient slow(port()), chat(port());
  slow.Send(Post("/tokenize", TokenizeBody(8 << 10)));
  ASSERT_TRUE(TokenizerIsBusy());
  chat.Send(
      Post("/v1/chat/completions", R"({"model":"fake","messages":[{"role":"user","content":")" +
                                       std::string(64 << 10, 'x') + R"("}]})"));
  EXPECT_NE(inference_.Generation(0), nullptr);
  Release();
  EXPECT_EQ(slow.Read().status, 200);
}

TEST_F(MemoryTest, WorkOfAClientThatLeftIsNotDone) {
  HoldTokenizer();
  StartServer();
  RawClient first(port());
  first.Send(Post("/tokenize", TokenizeBody(8 << 10)));
  ASSERT_TRUE(TokenizerIsBusy());
  {
    RawClient leaves(port());
    leaves.Send(Post("/tokenize", TokenizeBody(9 << 10)));
    ASSERT_TRUE(Eventually([&] { return server_->active_requests() == 2; }));
  }
  ASSERT_TRUE(Eventually([&] { return server_->active_requests() == 1; }));
  RawClient last(port());
  last.Send(Post("/tokenize", TokenizeBody(10 << 10)));
  Release();
  EXPECT_EQ(first.Read().status, 200);
  EXPECT_EQ(last.Read().status, 200);
  EXPECT_EQ(calls_.load(), 2) << "the one in between is not tokenised for nobody";
}

// Regression: bodies were counted only until their last byte arrived.
TEST_F(MemoryTest, BodiesThatWaitForAWorkerStillCount) {
  HoldTokenizer();
  HttpOptions options;
  options.limits.held_bytes = 100'000;
  StartServer(options);
  RawClient first(port()), second(port());
  first.Send(Post("/tokenize", TokenizeBody(60'000)));
  ASSERT_TRUE(TokenizerIsBusy());
  second.Send(Post("/tokenize", TokenizeBody(60'000)));
  const RawResponse refused = second.Read();
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(CodeOf(refused), "overloaded");
  Release();
  EXPECT_EQ(first.Read().status, 503) << "its answer, 60,000 ids, is longer than the memory";
  EXPECT_EQ(Ask(Post("/tokenize", TokenizeBody(10'000))).status, 200) << "all was given back";
}

TEST_F(MemoryTest, LongAnswersThatNobodyFetchesCount) {
  HttpOptions options;
  options.limits.held_bytes = 5 << 20;
  // Longer than a request takes.
  options.limits.reader_stall = std::chrono::seconds(support::kSlower > 1 ? 8 : 1);
  inference_.on_tokenize = [this] { ++calls_; };
  StartServer(options);
  RawClient stopped(port(), 4096);  // about 3 MB of ids, never read
  stopped.Send(Post("/tokenize", TokenizeBody(800'000)));
  ASSERT_TRUE(Eventually([&] { return calls_.load() == 1; }));
  EXPECT_TRUE(Eventually([&] {
    return Ask(Post("/tokenize", TokenizeBody(800'000))).status == 503;
  })) << "the first answer still lies here";
  EXPECT_TRUE(Eventually([&] {
    return Ask(Post("/tokenize", TokenizeBody(800'000))).status == 200;
  })) << "a reader that takes nothing is dropped, and its bytes with it";
}

TEST_F(MemoryTest, TextsOfTokensAreToldUpToALimit) {
  StartServer();
  const auto body = [](size_t bytes) {
    return R"({"model":"fake","return_token_strs":true,"prompt":")" + std::string(bytes, 'x') +
           "\"}";
  };
  EXPECT_EQ(Ask(Post("/tokenize", body(api::kMaxPieces))).status, 200);
  const RawResponse refused = Ask(Post("/tokenize", body(api::kMaxPieces + 1)));
  EXPECT_EQ(refused.status, 400);
  EXPECT_THAT(refused.body, HasSubstr("262145 tokens"));
  EXPECT_EQ(Ask(Post("/tokenize", TokenizeBody(api::kMaxPieces + 1))).status, 200) << "ids only";
}

}  // namespace
}  // namespace tutti::http
