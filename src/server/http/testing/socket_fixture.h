// For tests: an HTTP server with a model that answers "one two three" to each request at once or,
// while it is held, what the test provides.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "server/http/testing/server_fixture.h"

namespace tutti::http::testing {

class SocketFixture : public ServerTest {
 protected:
  void SetUp() override {
    inference_.on_generate = [this](const std::shared_ptr<FakeGeneration>& generation) {
      const std::lock_guard lock(mutex_);
      all_.push_back(generation);
      if (!holds_) generation->AppendAnswer({"one", " two", " three"});
      return OkStatus();
    };
  }
  void Open(HttpOptions options = {}) { StartServer(std::move(options)); }
  std::shared_ptr<FakeGeneration> Generation(size_t index) {
    EXPECT_TRUE(Eventually([&] { return Generations() > index; }));
    const std::lock_guard lock(mutex_);
    return all_.size() > index ? all_[index] : nullptr;
  }
  size_t Generations() {
    const std::lock_guard lock(mutex_);
    return all_.size();
  }
  static std::vector<std::string> Prompt(const FakeGeneration& generation) {
    std::vector<std::string> texts;
    for (const api::ChatMessage& message :
         std::get<api::ChatPrompt>(generation.request.prompt).messages)
      texts.push_back(message.content);
    return texts;
  }

  std::atomic<bool> holds_{false};

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<FakeGeneration>> all_;
};

}  // namespace tutti::http::testing
