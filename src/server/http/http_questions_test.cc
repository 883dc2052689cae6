// Tokenizer requests to an inference API that answers later, as a frontend's does: however long an
// answer takes, and even without one, no other request waits for it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "server/http/testing/server_fixture.h"

namespace tutti::http {
namespace {

using namespace testing;  // NOLINT
using ::testing::HasSubstr;

class QuestionsTest : public ServerTest {
 protected:
  void SetUp() override {
    inference_.on_question = [this](std::function<void()> answer) {
      const std::lock_guard lock(mutex_);
      asked_.push_back(std::move(answer));
    };
    HttpOptions options;
    options.io_threads = 1;
    StartServer(options);
  }
  void TearDown() override {
    server_.reset();
    asked_.clear();
  }
  size_t asked() {
    const std::lock_guard lock(mutex_);
    return asked_.size();
  }
  bool WaitForQuestions(size_t count) {
    return Eventually([&] { return asked() >= count; });
  }
  // On a thread of its own, as a worker's connection would.
  void AnswerFrom(size_t first) {
    std::thread([&] {
      for (size_t i = first; i < asked(); ++i) {
        std::function<void()> answer;
        {
          const std::lock_guard lock(mutex_);
          answer = asked_[i];
        }
        answer();
      }
    }).join();
  }
  std::vector<std::unique_ptr<RawClient>> SendAll(const std::vector<std::string>& requests) {
    std::vector<std::unique_ptr<RawClient>> clients;
    for (const std::string& request : requests) {
      clients.push_back(std::make_unique<RawClient>(port()));
      EXPECT_TRUE(clients.back()->Send(request));
    }
    return clients;
  }

  std::mutex mutex_;
  std::vector<std::function<void()>> asked_;
};

// A worker that was stopped held up all connections of the thread that read a short /tokenize, and
// on a helper every longer one.
TEST_F(QuestionsTest, WhileNobodyAnswersOthersAreAnsweredAtOnce) {
  const std::string long_text(6000, 'x');
  std::vector<std::string> requests;
  for (int i = 0; i < 4; ++i) {
    requests.push_back(Post("/tokenize", R"({"model":"fake","prompt":"hi"})"));
    requests.push_back(Post("/tokenize", R"({"model":"fake","prompt":")" + long_text + R"("})"));
    requests.push_back(Post("/detokenize", R"({"model":"fake","tokens":[72,105]})"));
    requests.push_back(Post("/apply-template", kChatBody));
    requests.push_back(
        Post("/v1/completions", R"({"model":"fake","prompt":[72,105],"echo":true})"));
  }
  auto clients = SendAll(requests);
  ASSERT_TRUE(WaitForQuestions(requests.size())) << "all of them, though none has been answered";
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(Ask(Get("/livez")).status, 200);
  inference_.on_generate = [](const auto& generation) {
    generation->Answer({"!"});
    return OkStatus();
  };
  EXPECT_EQ(Ask(Post("/v1/chat/completions", kChatBody)).status, 200);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
  AnswerFrom(0);
  for (size_t i = 0; i < clients.size(); ++i) {
    const RawResponse response = clients[i]->Read();
    ASSERT_EQ(response.status, 200) << i << " " << response.body;
    const char* const said[] = {R"("count":2)", R"("count":6000)", "Hi", "<hi>", R"("text":"Hi!")"};
    EXPECT_THAT(response.body, HasSubstr(said[i % 5])) << i;
  }
}

TEST_F(QuestionsTest, OfAClientThatHasLeftNothingMoreIsAsked) {
  {
    const auto clients = SendAll({Post("/decode", R"({"ids":[[72],[105],[33]]})")});
    ASSERT_TRUE(WaitForQuestions(1));
  }
  EXPECT_TRUE(Eventually([&] {  // the connection, and so the caller, has gone
    return lines_->Joined().find("/decode") != std::string::npos;
  }));
  AnswerFrom(0);
  EXPECT_EQ(asked(), 1u);
}

TEST_F(QuestionsTest, SeveralTextsOfOneRequestAreAskedOneByOneAndAnsweredTogether) {
  auto clients = SendAll({Post("/decode", R"({"ids":[[72],[105],[33]]})")});
  for (size_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(WaitForQuestions(i + 1));
    EXPECT_EQ(asked(), i + 1);
    std::function<void()> answer;
    {
      const std::lock_guard lock(mutex_);
      answer = asked_[i];
    }
    answer();
  }
  EXPECT_EQ(clients[0]->Read().body, R"(["H","i","!"])");
}

TEST_F(QuestionsTest, AFailureThatComesLaterIsTheRequestsOwn) {
  auto clients = SendAll({Post("/decode", R"({"ids":[[72],[300]]})")});
  ASSERT_TRUE(WaitForQuestions(1));
  AnswerFrom(0);
  ASSERT_TRUE(WaitForQuestions(2));
  const RawResponse response = clients[0]->Read();
  EXPECT_EQ(response.status, 422) << response.body;
  EXPECT_THAT(response.body, HasSubstr(R"("param":"ids[1]","code":"token_out_of_range")"));
}

TEST_F(QuestionsTest, WhatIsAnsweredLaterAsAJobAsksNothingOnTheThreadThatReadsIt) {
  const RawResponse response =
      Ask(Post("/v1/completions", R"({"model":"fake","prompt":[72,105],"echo":true})",
               "Prefer: respond-async\r\n"));
  EXPECT_EQ(response.status, 202) << response.body;
  ASSERT_TRUE(WaitForQuestions(1)) << "by the job";
}

}  // namespace
}  // namespace tutti::http
