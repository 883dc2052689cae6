#include "services/traces/exporter.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "services/post/testing/receiver.h"

namespace tutti::traces {
namespace {

using post::Answer;
using post::Field;
using post::Receiver;
using std::chrono::milliseconds;

bool Eventually(const std::function<bool()>& condition) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(milliseconds(2));
  }
  return true;
}

class ExporterTest : public ::testing::Test {
 protected:
  ExporterTest() { traces_->CollectForExport(1); }

  Exporter::Options Quick(const std::string& url) {
    Exporter::Options options;
    Result<post::Target> endpoint = ParseEndpoint(url.substr(0, url.find("/hook")));
    EXPECT_TRUE(endpoint.ok()) << endpoint.status();
    options.endpoint = *std::move(endpoint);
    options.interval = milliseconds(5);
    options.timeout = milliseconds(300);
    options.last_wait = milliseconds(300);
    options.backoff = {milliseconds(5)};
    options.resource = {{"service.name", "a service"}};
    return options;
  }
  void End(const std::string& id) {
    traces_->Begin({.id = id, .route = "chat"})
        ->server()
        .Append({.kind = api::TraceEvent::Kind::kWritten});
  }
  // The ids of the requests in a POST.
  static std::vector<std::string> IdsIn(const std::string& request) {
    otlp::ExportTraceServiceRequest message;
    EXPECT_TRUE(message.ParseFromString(request.substr(request.find("\r\n\r\n") + 4)));
    std::vector<std::string> ids;
    for (const otlp::Span& span : message.resource_spans(0).scope_spans(0).spans())
      ids.push_back(span.attributes(0).value().string_value());
    return ids;
  }

  const std::shared_ptr<api::RequestTraces> traces_ = std::make_shared<api::RequestTraces>();
};

TEST(ParseEndpointTest, FillsInWhatIsUsual) {
  const std::vector<std::pair<std::string, std::string>> urls = {
      {"http://collector", "http collector:4318/v1/traces"},
      {"collector:9", "http collector:9/v1/traces"},
      {"https://Collector/", "https collector:4318/v1/traces"},
      {"http://[::1]:4318/api/otlp/v1/traces", "http [::1]:4318/api/otlp/v1/traces"}};
  for (const auto& [url, expected] : urls) {
    const Result<post::Target> target = ParseEndpoint(url);
    ASSERT_TRUE(target.ok()) << target.status();
    EXPECT_EQ((target->tls ? "https " : "http ") + target->authority + target->path, expected);
  }
  for (const char* url : {"", "ftp://a", "http://", "http://a:0", "http://u:p@a", "http://a/b?c=d"})
    EXPECT_FALSE(ParseEndpoint(url).ok()) << url;
}

TEST(ParsePairsTest, ReadsVariablesOfOpenTelemetry) {
  const Result<Pairs> pairs = ParsePairs(" a=b, authorization=Bearer%20x%2Fy==,, c= ");
  ASSERT_TRUE(pairs.ok()) << pairs.status();
  EXPECT_EQ(*pairs, (Pairs{{"a", "b"}, {"authorization", "Bearer x/y=="}, {"c", ""}}));
  for (const char* text : {"a", "=b", "a=%0d%0ax:y", "a b=c", "a:=b", "a=%4"})
    EXPECT_FALSE(ParsePairs(text).ok()) << text;
}

TEST_F(ExporterTest, SendsRequestsThatHaveEnded) {
  Receiver receiver([](size_t) { return Answer("200 OK"); });
  Exporter::Options options = Quick(receiver.url());
  options.headers = {{"authorization", "Bearer secret"}};
  const Exporter exporter(options, traces_, nullptr);
  const auto running = traces_->Begin({.id = "running"});
  End("ended");
  ASSERT_TRUE(Eventually([&] { return exporter.stats().exported == 1; }));
  const std::vector<std::string> requests = receiver.requests();
  ASSERT_EQ(requests.size(), 1u);
  EXPECT_TRUE(requests[0].starts_with("POST /v1/traces HTTP/1.1")) << requests[0];
  EXPECT_EQ(Field(requests[0], "content-type"), "application/x-protobuf");
  EXPECT_EQ(Field(requests[0], "authorization"), "Bearer secret");
  EXPECT_EQ(IdsIn(requests[0]), std::vector<std::string>{"ended"});
}

TEST_F(ExporterTest, SendsAgainWhatTheCollectorCannotTakeNow) {
  Receiver receiver([](size_t number) {
    return number == 0   ? Answer("503 Service Unavailable")
           : number == 1 ? Answer("429 Too Many Requests", "Retry-After: 0\r\n")
           : number == 2 ? std::string()
                         : Answer("202 Accepted");
  });
  const Exporter exporter(Quick(receiver.url()), traces_, nullptr);
  End("a");
  ASSERT_TRUE(Eventually([&] { return exporter.stats().exported == 1; }));
  EXPECT_EQ(exporter.stats().failed, 0u);
  for (const std::string& request : receiver.requests())
    EXPECT_EQ(IdsIn(request), std::vector<std::string>{"a"});
}

TEST_F(ExporterTest, DropsWhatTheCollectorRefuses) {
  Receiver receiver([](size_t number) { return Answer(number == 0 ? "400 Bad" : "200 OK"); });
  const Exporter exporter(Quick(receiver.url()), traces_, nullptr);
  End("refused");
  ASSERT_TRUE(Eventually([&] { return exporter.stats().failed == 1; }));
  End("taken");
  ASSERT_TRUE(Eventually([&] { return exporter.stats().exported == 1; }));
  EXPECT_EQ(receiver.requests().size(), 2u) << "the refused batch was not sent again";
}

TEST_F(ExporterTest, GivesUpWithoutACollector) {
  std::string url;
  {
    url = Receiver([](size_t) { return Answer("200 OK"); }).url();
  }
  const Exporter exporter(Quick(url), traces_, nullptr);
  End("a");
  End("b");
  ASSERT_TRUE(Eventually([&] { return exporter.stats().failed == 2; }));
}

TEST_F(ExporterTest, SplitsManyRequests) {
  Receiver receiver([](size_t) { return Answer("200 OK"); });
  for (size_t i = 0; i < Exporter::kBatch + 1; ++i) End(std::to_string(i));
  const Exporter exporter(Quick(receiver.url()), traces_, nullptr);
  ASSERT_TRUE(Eventually([&] { return exporter.stats().exported == Exporter::kBatch + 1; }));
  ASSERT_EQ(receiver.requests().size(), 2u);
  EXPECT_EQ(IdsIn(receiver.requests()[1]).size(), 1u);
}

TEST_F(ExporterTest, SendsTheLastRequestsAtItsEnd) {
  Receiver receiver([](size_t) { return Answer("200 OK"); });
  {
    Exporter::Options options = Quick(receiver.url());
    options.interval = std::chrono::hours(1);
    const Exporter exporter(options, traces_, nullptr);
    End("last");
  }
  ASSERT_EQ(receiver.requests().size(), 1u);
  EXPECT_EQ(IdsIn(receiver.requests()[0]), std::vector<std::string>{"last"});
}

TEST_F(ExporterTest, ASilentCollectorDoesNotHoldUpTheEnd) {
  Receiver receiver([](size_t) { return std::string(); });
  const auto before = std::chrono::steady_clock::now();
  {
    Exporter::Options options = Quick(receiver.url());
    options.backoff = {std::chrono::hours(1)};
    const Exporter exporter(options, traces_, nullptr);
    End("a");
    ASSERT_TRUE(Eventually([&] { return !receiver.requests().empty(); }));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(10));
}

TEST_F(ExporterTest, ASilentCollectorHoldsUpTheEndOnceForAllThatIsLeft) {
  Receiver receiver([](size_t) { return std::string(); });
  Exporter::Options options = Quick(receiver.url());
  options.interval = std::chrono::hours(1);
  options.last_wait = std::chrono::milliseconds(1'000);
  for (size_t i = 0; i < 8 * Exporter::kBatch; ++i) End(std::to_string(i));
  const auto before = std::chrono::steady_clock::now();
  { const Exporter exporter(options, traces_, nullptr); }
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(6));
  EXPECT_LT(receiver.requests().size(), 8u) << "some batches were not tried";
}

}  // namespace
}  // namespace tutti::traces
