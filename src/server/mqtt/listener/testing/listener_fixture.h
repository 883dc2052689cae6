// A running Listener that answers messages to .../in on .../out, for tests over sockets.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/mutex.h"
#include "server/mqtt/listener/listener.h"
#include "server/mqtt/listener/testing/fake_authenticator.h"
#include "server/mqtt/listener/testing/socket_client.h"

namespace tutti::mqtt::listener::testing {

class LogLines final : public Logger::Sink {
 public:
  void Line(std::string_view line) override {
    const MutexLock lock(mutex_);
    lines_ += std::string(line) + "\n";
  }
  std::string Joined() {
    const MutexLock lock(mutex_);
    return lines_;
  }

 private:
  Mutex mutex_;
  std::string lines_ GUARDED_BY(mutex_);
};

class ListenerFixture : public ::testing::Test {
 protected:
  void StartListener(ListenerOptions options = {}) {
    options.port = 0;
    options.websocket_port = 0;
    listener_ = std::make_unique<Listener>(options,
                                           Listener::Dependencies{&authenticator_, &log_, &clock_});
    ASSERT_TRUE(listener_
                    ->Subscribe("llm/v1/+/+/in",
                                [this](Message message, Receipt receipt) {
                                  if (message.payload == "hold") {
                                    const MutexLock lock(mutex_);
                                    held_.push_back(std::move(receipt));
                                    return;
                                  }
                                  std::string topic = message.topic;
                                  topic.replace(topic.size() - 2, 2, "out");
                                  const Status sent = listener_->Publish(
                                      {.topic = topic,
                                       .payload = message.payload,
                                       .qos = 1,
                                       .correlation_data = message.correlation_data});
                                  sent.ok() ? receipt.Accept() : receipt.Refuse(sent);
                                })
                    .ok());
    const Status started = listener_->Start();
    ASSERT_TRUE(started.ok()) << started;
  }
  int port() const { return listener_->port(); }
  // Waits until other threads make `condition` true.
  template <typename Condition>
  static bool Eventually(const Condition& condition) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(kPatienceMs);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > until) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }
  std::vector<Receipt> TakeHeld() {
    const MutexLock lock(mutex_);
    return std::exchange(held_, {});
  }

  SteadyClock clock_;
  std::shared_ptr<LogLines> lines_ = std::make_shared<LogLines>();
  Logger log_{LogLevel::kInfo, lines_};
  FakeAuthenticator authenticator_;
  Mutex mutex_;
  std::vector<Receipt> held_ GUARDED_BY(mutex_);
  std::unique_ptr<Listener> listener_;  // stops first
};

}  // namespace tutti::mqtt::listener::testing
