// A process starts responses as fast as it can and is killed at a random moment: each response
// whose first event was seen has the same answer in the next process.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <map>

#include "base/random.h"
#include "services/responses/testing/responses_fixture.h"

namespace tutti::responses {
namespace {

using support::Eventually;

class ResponsesKillTest : public testing::ResponsesFixture {
 protected:
  void SetUp() override {}  // the child forks before there is any thread
  void TearDown() override {
    if (store_ != nullptr) Stop();
  }

  // The seed is part of the answer.
  static testing::Script Seeded(const api::GenerateRequest& request) {
    const std::string seed = std::to_string(request.sampling.seed.value_or(-1));
    return {.pieces = {"seed ", seed.substr(0, 2), seed.substr(2), "."}};
  }
  void Begin() {
    Start();
    inference_->script = Seeded;
    inference_->Run();
  }
  [[noreturn]] void Child(int pipe) {
    options_.memory.per_owner = 100'000;
    Begin();
    for (int i = 0;; ++i) {
      Result<Attachment> attachment = responses_->Start(CallOf("hello", true, i % 2 == 0));
      if (!attachment.ok()) continue;
      const std::shared_ptr<Response>& response = attachment->response();
      if (!Eventually([&] { return response->log().next() > 0; })) _exit(1);
      const std::string line = response->id() + " [" + response->State().text + "]\n";
      if (write(pipe, line.data(), line.size()) < 0) _exit(1);
    }
  }
  // Ids, and as much of their texts as was seen.
  std::map<std::string, std::string> RunAndKill(int64_t milliseconds) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    const pid_t child = fork();
    if (child == 0) Child(ends[1]);
    close(ends[1]);
    std::map<std::string, std::string> seen;
    FILE* lines = fdopen(ends[0], "r");
    char id[64] = {}, text[64] = {};
    const auto begin = std::chrono::steady_clock::now();
    while (fscanf(lines, "%63s [%63[^]\n]", id, text) >= 1) {
      (void)fscanf(lines, "]");
      seen[id] = text;
      text[0] = '\0';
      if (std::chrono::steady_clock::now() - begin > std::chrono::milliseconds(milliseconds))
        kill(child, SIGKILL);
    }
    fclose(lines);
    waitpid(child, nullptr, 0);
    return seen;
  }
};

TEST_F(ResponsesKillTest, AfterSigkillWhatWasBegunIsAnsweredUnderItsIdWithItsSeed) {
  Random random(11);
  size_t all = 0;
  for (int round = 0; round < 5; ++round) {
    folder_ = std::make_unique<testing::TemporaryFolder>();
    const auto seen = RunAndKill(random.Between(1, 150));
    all += seen.size();
    Begin();
    responses_->Resume();
    for (const auto& [id, text] : seen) {
      ASSERT_TRUE(Eventually([&, id = id] {
        const auto found = Find(id);
        return found.ok() && (*found)->ended();
      })) << id;
      const protocol::ResponseState end = (*Find(id))->State();
      EXPECT_EQ(end.status, protocol::ResponseStatus::kCompleted);
      EXPECT_EQ(end.text.compare(0, text.size(), text), 0) << "it begins as it did before";
    }
    Stop();
  }
  EXPECT_GT(all, 5u);
}

}  // namespace
}  // namespace tutti::responses
