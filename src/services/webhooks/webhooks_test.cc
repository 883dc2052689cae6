// The sender with a receiver on this machine whose answers each test defines.
#include "services/webhooks/webhooks.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "services/post/post.h"
#include "services/post/testing/receiver.h"

namespace tutti::webhooks {
namespace {

using post::Answer;
using post::Field;
using post::Receiver;
using std::chrono::milliseconds;

int64_t NowMs() {
  return std::chrono::duration_cast<milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

class WebhooksTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::vector<store::Migration> tables = {kWebhookTables, kWebhookOwners};
    auto store = store::Store::Open({}, tables);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }
  static Webhooks::Options Quick() {
    Webhooks::Options options;
    options.secrets = {std::string(32, 'k')};
    options.trusted = {"127.0.0.1"};
    options.retries.assign(8, milliseconds(5));
    options.timeout = milliseconds(300);
    options.tick = milliseconds(5);
    return options;
  }
  std::string Happen(const std::string& url, const std::string& subject = "job_1",
                     const std::string& owner = "t") {
    const std::string id = "evt_" + subject;
    const Status status = store_->WriteNow([&](store::Database& rows) -> Status {
      RETURN_IF_ERROR(AddWish(rows, subject, url));
      return store::Run(
          rows,
          "INSERT INTO webhook_event(id, subject, type, url, created_ms, state, attempts, "
          "next_ms, ended_ms, error, owner) VALUES(?1, ?2, 'job.completed', ?3, 1700000000123, 0, "
          "0, 0, 0, '', ?4)",
          id, subject, url, owner);
    });
    EXPECT_TRUE(status.ok()) << status;
    return id;
  }
  Delivery Of(const std::string& subject = "job_1") {
    std::optional<Delivery> delivery;
    EXPECT_TRUE(store_
                    ->ReadNow([&](store::Database& rows) -> Status {
                      ASSIGN_OR_RETURN(delivery, DeliveryOf(rows, subject));
                      return OkStatus();
                    })
                    .ok());
    return delivery.value_or(Delivery{});
  }
  Delivery Ended(const std::string& subject = "job_1") {
    for (int i = 0; i < 2000; ++i) {
      const Delivery now = Of(subject);
      if (now.status != "pending") return now;
      std::this_thread::sleep_for(milliseconds(5));
    }
    return Of(subject);
  }

  std::unique_ptr<store::Store> store_;
};

TEST_F(WebhooksTest, AnEventIsPostedSignedAndOnce) {
  Receiver receiver([](size_t) { return Answer("204 No Content"); });
  Webhooks webhooks(
      Quick(), *store_, [] { return int64_t{1700000005000}; }, nullptr);
  const std::string id = Happen(receiver.url());
  const Delivery end = Ended();
  EXPECT_EQ(end.status, "delivered") << end.error;
  EXPECT_EQ(end.attempts, 1);
  std::this_thread::sleep_for(milliseconds(50));
  const std::vector<std::string> requests = receiver.requests();
  ASSERT_EQ(requests.size(), 1u);
  const std::string& request = requests[0];
  EXPECT_TRUE(request.starts_with("POST /hook?a=b HTTP/1.1\r\n")) << request;
  const std::string body = request.substr(request.find("\r\n\r\n") + 4);
  EXPECT_EQ(body,
            R"({"id":"evt_job_1","object":"event","type":"job.completed","created_at":1700000000,)"
            R"("data":{"id":"job_1"}})");
  EXPECT_EQ(Field(request, "webhook-id"), id);
  EXPECT_EQ(Field(request, "webhook-timestamp"), "1700000005");
  const std::vector<std::string> secrets = {std::string(32, 'k')};
  EXPECT_EQ(Field(request, "webhook-signature"), Sign(secrets, id, 1700000005, body));
}

TEST_F(WebhooksTest, AfterEightRetriesTheCallbackHasFailed) {
  Receiver receiver([](size_t) { return Answer("500 Internal Server Error"); });
  Webhooks webhooks(Quick(), *store_, &NowMs, nullptr);
  Happen(receiver.url());
  const Delivery end = Ended();
  EXPECT_EQ(end.status, "callback_failed");
  EXPECT_EQ(end.attempts, 9);
  EXPECT_EQ(end.error, "status 500");
  EXPECT_EQ(receiver.requests().size(), 9u);
  EXPECT_EQ(Field(receiver.requests()[0], "webhook-id"),
            Field(receiver.requests()[8], "webhook-id"));
  // Counted after the store has it.
  for (int i = 0; i < 10'000 && webhooks.stats().failed == 0; ++i)
    std::this_thread::sleep_for(milliseconds(1));
  EXPECT_EQ(webhooks.stats().failed, 1u);
}

TEST_F(WebhooksTest, WhoeverComesBackIsTold) {
  Receiver receiver([](size_t number) {
    return number == 0 ? std::string() : number == 1 ? "rubbish\r\n\r\n" : Answer("200 OK");
  });
  Webhooks webhooks(Quick(), *store_, &NowMs, nullptr);
  Happen(receiver.url());
  const Delivery end = Ended();
  EXPECT_EQ(end.status, "delivered");
  EXPECT_EQ(end.attempts, 3);
}

// Regression: clients saw source locations of a library.
TEST_F(WebhooksTest, WhyAnAttemptFailedIsSaidInOurOwnWords) {
  const std::pair<const char*, const char*> answers[] = {
      {"", " did not answer in time"}, {"rubbish\r\n\r\n", " answers something else than HTTP"}};
  for (const auto& [text, why] : answers) {
    SCOPED_TRACE(why);
    Receiver receiver([text = std::string(text)](size_t) { return text; });
    Webhooks webhooks(Quick(), *store_, &NowMs, nullptr);
    const std::string job = std::string("job_") + (*text == '\0' ? "1" : "2");
    Happen(receiver.url(), job);
    const Delivery end = Ended(job);
    EXPECT_EQ(end.status, "callback_failed");
    EXPECT_EQ(end.error, post::ParseTarget(receiver.url(), {"127.0.0.1"})->authority + why);
  }
}

TEST_F(WebhooksTest, ARedirectIsAFailureAndNobodyElseIsAsked) {
  Receiver inside([](size_t) { return Answer("200 OK"); });
  Receiver receiver(
      [&](size_t) { return Answer("302 Found", "Location: " + inside.url() + "\r\n"); });
  Webhooks webhooks(Quick(), *store_, &NowMs, nullptr);
  Happen(receiver.url());
  EXPECT_EQ(Ended().status, "callback_failed");
  EXPECT_EQ(inside.requests().size(), 0u);
}

TEST_F(WebhooksTest, WhoSaysGoneIsAskedNoMore) {
  Receiver receiver([](size_t) { return Answer("410 Gone"); });
  auto options = Quick();
  options.threads = 1;
  Happen(receiver.url(), "job_1");
  Happen(receiver.url(), "job_2");
  Webhooks webhooks(options, *store_, &NowMs, nullptr);
  EXPECT_EQ(Ended("job_1").status, "callback_failed");
  EXPECT_EQ(Ended("job_2").status, "callback_failed");
  EXPECT_EQ(receiver.requests().size(), 1u);
}

TEST_F(WebhooksTest, WhoAsksForTimeIsGivenIt) {
  Receiver receiver([](size_t number) {
    return number == 0 ? Answer("429 Too Many Requests", "Retry-After: 1\r\n") : Answer("200 OK");
  });
  Webhooks webhooks(Quick(), *store_, &NowMs, nullptr);
  const auto begin = std::chrono::steady_clock::now();
  Happen(receiver.url());
  EXPECT_EQ(Ended().status, "delivered");
  EXPECT_GE(std::chrono::steady_clock::now() - begin, milliseconds(950));
}

// Row N39: no connection is made to an internal address, even if the URL's name was accepted.
TEST_F(WebhooksTest, ANameThatLeadsInsideReachesNothing) {
  Receiver receiver([](size_t) { return Answer("200 OK"); });
  auto options = Quick();
  options.trusted.clear();
  std::string url = receiver.url();
  url.replace(url.find("http://127.0.0.1"), 16, "https://localhost");
  Webhooks webhooks(options, *store_, &NowMs, nullptr);
  EXPECT_TRUE(webhooks.Check(url).ok());  // a name like any other, until it is resolved
  EXPECT_FALSE(webhooks.Check(receiver.url()).ok());
  Happen(url, "job_1");
  Happen(receiver.url(), "job_2");  // as if it had been trusted once
  EXPECT_EQ(Ended("job_1").status, "callback_failed");
  EXPECT_EQ(Ended("job_2").status, "callback_failed");
  EXPECT_NE(Of("job_1").error.find("inside a network"), std::string::npos) << Of("job_1").error;
  EXPECT_EQ(receiver.requests().size(), 0u);
}

// The path and query are sent as they were given, and a proxy of the environment is not asked: it
// would look up the host again.
TEST_F(WebhooksTest, APostGoesStraightToTheAddressWithItsPath) {
  Receiver proxy([](size_t) { return Answer("200 OK"); });
  Receiver receiver(
      [](size_t) { return "HTTP/1.1 100 Continue\r\nRetry-After: 5\r\n\r\n" + Answer("200 OK"); });
  ASSERT_EQ(setenv("http_proxy", proxy.origin().c_str(), 1), 0);
  const post::Target target =
      *post::ParseTarget(receiver.origin() + "/a/../%2e/b?c=d", {"127.0.0.1"});
  post::Options options;
  options.trusted = true;
  options.look_up = [](const std::string&, milliseconds) { return post::Addresses{"127.0.0.1"}; };
  const auto answer = post::Post(target, {{"content-type", "text/plain"}}, "x", options);
  unsetenv("http_proxy");
  ASSERT_TRUE(answer.ok()) << answer.status().message();
  EXPECT_EQ(answer->status, 200);
  EXPECT_FALSE(answer->retry_after.has_value()) << "that of an answer before";
  EXPECT_TRUE(proxy.requests().empty());
  ASSERT_EQ(receiver.requests().size(), 1u);
  const std::string request = receiver.requests()[0];
  EXPECT_TRUE(request.starts_with("POST " + target.path + " HTTP/1.1\r\n")) << request;
  EXPECT_NE(target.path.find("/a/../%2e/b?c=d"), std::string::npos);
  EXPECT_EQ(Field(request, "accept"), "");
}

// Row N39: what connects is held to the addresses that were checked, not to what a host's name
// becomes: libcurl reads 0x7f.1 as 127.0.0.1.
TEST_F(WebhooksTest, NoOtherAddressIsConnectedToThanWasChecked) {
  Receiver receiver([](size_t) { return Answer("200 OK"); });
  post::Target target = *post::ParseTarget(receiver.url(), {"127.0.0.1"});
  target.host = "0x7f.1";
  target.authority = "0x7f.1:" + std::to_string(target.port);
  post::Options options;
  options.timeout = milliseconds(500);
  options.look_up = [](const std::string&, milliseconds) { return post::Addresses{"8.8.8.8"}; };
  EXPECT_FALSE(post::Post(target, {}, "x", options).ok());
  EXPECT_EQ(receiver.requests().size(), 0u);
  options.trusted = true;
  options.look_up = [](const std::string&, milliseconds) { return post::Addresses{"127.0.0.1"}; };
  EXPECT_TRUE(post::Post(target, {}, "x", options).ok());
}

// Accepts connections and never answers.
class SilentReceiver {
 public:
  SilentReceiver() : listener_(support::ListenOnLoopback(&port_, SOCK_NONBLOCK)) {}
  ~SilentReceiver() {
    for (const int peer : peers_) close(peer);
    close(listener_);
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_) + "/"; }
  size_t Connections() {
    for (int peer = 0; (peer = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC)) >= 0;)
      peers_.push_back(peer);
    return peers_.size();
  }

 private:
  uint16_t port_ = 0;  // before listener_, whose initializer sets it
  int listener_ = -1;
  std::vector<int> peers_;
};

// Regression: silent receivers blocked all threads for the whole time limit, and with them the
// events of other tenants.
TEST_F(WebhooksTest, TheSilentAddressesOfOneHoldUpNobodyElse) {
  SilentReceiver silent;
  Receiver receiver([](size_t) { return Answer("200 OK"); });
  auto options = Quick();
  options.timeout = std::chrono::seconds(3);
  options.threads = 4;
  for (int i = 0; i < 50; ++i) Happen(silent.url(), "job_dead_" + std::to_string(i), "dead");
  auto webhooks = std::make_unique<Webhooks>(options, *store_, &NowMs, nullptr);
  for (int i = 0; i < 1000 && silent.Connections() < 2; ++i)
    std::this_thread::sleep_for(milliseconds(5));
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 5; ++i) Happen(receiver.url(), "job_live_" + std::to_string(i), "live");
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Ended("job_live_" + std::to_string(i)).status, "delivered");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
  EXPECT_EQ(silent.Connections(), 2u) << "of one owner so many at once";
  const auto stopped = std::chrono::steady_clock::now();
  webhooks.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - stopped, options.timeout + std::chrono::seconds(2))
      << "a stop waits for the attempts under way alone";
}

TEST_F(WebhooksTest, OwnersAreToldInTurn) {
  Receiver receiver([](size_t) { return Answer("200 OK"); });
  auto options = Quick();
  options.threads = 1;
  for (int i = 0; i < 20; ++i) Happen(receiver.url(), "job_a" + std::to_string(i), "a");
  for (int i = 0; i < 2; ++i) Happen(receiver.url(), "job_b" + std::to_string(i), "b");
  Happen(receiver.url(), "job_c0", "");  // the owner is no longer known
  Webhooks webhooks(options, *store_, &NowMs, nullptr);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Ended("job_a" + std::to_string(i)).status, "delivered");
  const std::vector<std::string> requests = receiver.requests();
  ASSERT_EQ(requests.size(), 23u);
  size_t last = 0;  // of the others
  for (size_t i = 0; i < requests.size(); ++i) {
    if (!Field(requests[i], "webhook-id").starts_with("evt_job_a")) last = i;
  }
  EXPECT_LT(last, 6u);
}

TEST_F(WebhooksTest, ALookUpThatHangsHoldsItsOwnerAlone) {
  Receiver receiver([](size_t) { return Answer("200 OK"); });
  const auto released = std::make_shared<std::promise<void>>();
  const auto asked = std::make_shared<std::atomic<int>>(0);
  auto options = Quick();
  options.retries.assign(8, std::chrono::hours(1));
  options.threads = 3;
  options.look_ups.time = milliseconds(50);
  options.look_ups.ask = [asked, release = released->get_future().share()](
                             const std::string&) -> Result<post::Addresses> {
    ++*asked;
    release.wait();
    return Unavailable("unavailable", "there is no such host");
  };
  for (int i = 0; i < 10; ++i)
    Happen("https://slow.example/", "job_slow_" + std::to_string(i), "slow");
  {
    Webhooks webhooks(options, *store_, &NowMs, nullptr);
    // The second one may be written before the first.
    for (const char* job : {"job_slow_0", "job_slow_1"}) {
      for (int i = 0; i < 2000 && Of(job).attempts == 0; ++i)
        std::this_thread::sleep_for(milliseconds(5));
    }
    EXPECT_NE(Of("job_slow_0").error.find("in time"), std::string::npos) << Of("job_slow_0").error;
    for (int i = 0; i < 5; ++i) {
      Happen(receiver.url(), "job_live_" + std::to_string(i), "live");
      EXPECT_EQ(Ended("job_live_" + std::to_string(i)).status, "delivered");
    }
    EXPECT_EQ(*asked, 2) << "what hangs counts as under way";
    EXPECT_EQ(Of("job_slow_5").attempts, 0);
    released->set_value();
    for (int i = 0; i < 2000 && Of("job_slow_9").attempts == 0; ++i)
      std::this_thread::sleep_for(milliseconds(5));
    EXPECT_EQ(Of("job_slow_9").attempts, 1) << "then the others' turn comes";
  }
}

TEST_F(WebhooksTest, HeadsWithoutEndAreCutOff) {
  Receiver receiver([](size_t) { return "HTTP/1.1 200 OK\r\nX: " + std::string(100'000, 'x'); });
  Webhooks webhooks(Quick(), *store_, &NowMs, nullptr);
  Happen(receiver.url());
  EXPECT_EQ(Ended().status, "callback_failed");
}

}  // namespace
}  // namespace tutti::webhooks
