// Row N50 on the timing device: who gets how much of a busy engine.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "engine/policy/order.h"
#include "engine/testing/encoder_harness.h"
#include "engine/testing/engine_harness.h"

namespace tutti::engine {
namespace {

using std::chrono::seconds;
using testing::EncoderHarness;
using testing::EngineHarness;
using testing::FakeModelOptions;
using testing::HarnessClient;
using testing::TestEncoding;
using testing::TestPrompt;
using testing::TestRequest;

FakeModelOptions BigUnsampledPool() {
  FakeModelOptions model;
  model.limits.kv_blocks = 2048;
  model.limits.context = 8192;
  model.sample_rows = false;
  return model;
}

EngineOptions LongQueue(int max_num_seqs) {
  EngineOptions options;
  options.scheduler.max_num_seqs = max_num_seqs;
  options.queue.age = Duration::max();
  options.queue.requests = 100'000;
  options.queue.prompt_tokens_per_kv_token = 1000;
  return options;
}

// Tokens charged to a tenant by `end`: prompt tokens when the first token is out, and generated
// tokens twice.
double ServiceBy(EngineHarness& h, const std::string& tenant, TimePoint end) {
  double service = 0;
  for (size_t i = 0; i < h.size(); ++i) {
    const HarnessClient& c = h.client(i);
    if (c.request.tenant != tenant) continue;
    for (const testing::Received& choice : c.choices) {
      const auto drawn = std::count_if(choice.times.begin(), choice.times.end(),
                                       [&](TimePoint t) { return t <= end; });
      service += kOutputTokenCost * static_cast<double>(drawn);
      if (drawn > 0 && &choice == &c.choices.front())
        service += kPromptTokenCost * static_cast<double>(c.request.prompt.size());
    }
  }
  return service;
}

// Requests of `tenant` at times of their own, `per_second` of them for `span`.
void Offer(EngineHarness& h, Random& random, const std::string& tenant, double weight,
           double per_second, seconds span, int first) {
  const int count = static_cast<int>(per_second * static_cast<double>(span.count()));
  for (int i = 0; i < count; ++i) {
    const auto at = FromSeconds(random.Uniform() * static_cast<double>(span.count()));
    const int prompt = static_cast<int>(random.Between(10, 60));
    const int output = static_cast<int>(random.Between(5, 40));
    h.At(at, [&h, tenant, weight, prompt, output, id = first + i] {
      Request request = TestRequest(TestPrompt(id * 7, prompt), output);
      request.tenant = tenant;
      request.tenant_weight = weight;
      (void)h.MustSubmit(std::move(request));
    });
  }
}

void RunFor(EngineHarness& h, Duration time) {
  while (h.now() < time && h.RunOnce()) {
  }
}

// N50: offered 10 : 1, and the lesser alone more than half of what the engine can do.
TEST(FairShare, TwoTenantsThatOfferTenToOneGetHalfEach) {
  for (const int max_num_seqs : {1, 4, 8}) {
    EngineHarness h(LongQueue(max_num_seqs), BigUnsampledPool());
    Random random(static_cast<uint64_t>(max_num_seqs));
    const double small = 5.0 * max_num_seqs;
    Offer(h, random, "few", 1, small, seconds(20), 0);
    Offer(h, random, "many", 1, small * 10, seconds(20), 10'000);
    RunFor(h, seconds(20));
    const TimePoint end = h.start() + seconds(20);
    const double few = ServiceBy(h, "few", end), many = ServiceBy(h, "many", end);
    EXPECT_GT(few, 1000) << "sequences " << max_num_seqs;
    EXPECT_NEAR(few / (few + many), 0.5, 0.05) << "sequences " << max_num_seqs;
  }
}

TEST(FairShare, TenantsOfWeightsTwoToOneGetTwoToOne) {
  for (const int max_num_seqs : {1, 4, 8}) {
    EngineHarness h(LongQueue(max_num_seqs), BigUnsampledPool());
    Random random(static_cast<uint64_t>(10 + max_num_seqs));
    Offer(h, random, "two", 2, 12.0 * max_num_seqs, seconds(20), 0);
    Offer(h, random, "one", 1, 36.0 * max_num_seqs, seconds(20), 10'000);
    RunFor(h, seconds(20));
    const TimePoint end = h.start() + seconds(20);
    EXPECT_NEAR(ServiceBy(h, "two", end) / ServiceBy(h, "one", end), 2.0, 0.2)
        << "sequences " << max_num_seqs;
  }
}

// One that is busy all the time against one that comes after 10 s: from then on they share, and
// what the late one did not use before is gone.
TEST(FairShare, ATenantThatComesBackGetsItsShareAndNoBurst) {
  for (const bool was_there : {false, true}) {
    EngineHarness h(LongQueue(4), BigUnsampledPool());
    Random random(3);
    Offer(h, random, "steady", 1, 100, seconds(20), 0);
    if (was_there) {
      // A single long request keeps it known, and uses much less than its share.
      Request request = TestRequest(TestPrompt(1, 10), 2000);
      request.tenant = "returns";
      h.MustSubmit(std::move(request));
    }
    h.At(seconds(10), [&] {
      for (int i = 0; i < 400; ++i) {
        Request request = TestRequest(TestPrompt(50'000 + i * 7, 30), 20);
        request.tenant = "returns";
        h.MustSubmit(std::move(request));
      }
    });
    RunFor(h, seconds(14));
    const TimePoint back = h.start() + seconds(10);
    for (const int window_s : {1, 2, 4}) {
      const TimePoint end = back + seconds(window_s);
      const double mine = ServiceBy(h, "returns", end) - ServiceBy(h, "returns", back);
      const double theirs = ServiceBy(h, "steady", end) - ServiceBy(h, "steady", back);
      EXPECT_LE(mine / (mine + theirs), 0.6) << window_s << " s, known before: " << was_there;
      if (window_s == 4) {
        EXPECT_GE(mine / (mine + theirs), 0.4);
      }
    }
  }
}

// A tenant that sends long requests one after the other keeps its service between them: against
// another tenant's queue of short requests it gets half of the service, not nearly all.
TEST(FairShare, ATenantThatAsksOneByOneIsNotForgottenInBetween) {
  EngineHarness h(LongQueue(1), BigUnsampledPool());
  for (int i = 0; i < 3000; ++i) {
    Request request = TestRequest(TestPrompt(i * 7, 10), 5);
    request.tenant = "shorts";
    h.MustSubmit(std::move(request));
  }
  std::vector<size_t> longs;
  while (h.now() < seconds(60)) {
    if (longs.empty() || h.client(longs.back()).done()) {
      Request request = TestRequest(TestPrompt(90'000 + static_cast<int>(longs.size()), 10), 300);
      request.tenant = "longs";
      longs.push_back(h.MustSubmit(std::move(request)));
    }
    ASSERT_TRUE(h.RunOnce());
  }
  const TimePoint end = h.start() + seconds(60);
  const double mine = ServiceBy(h, "longs", end), theirs = ServiceBy(h, "shorts", end);
  EXPECT_NEAR(mine / (mine + theirs), 0.5, 0.05);
}

TEST(FairShare, CachedPromptsAreFree) {
  EngineHarness h(LongQueue(1), BigUnsampledPool());
  // One tenant sends requests with the same long prompt prefix, the other with a new one each time.
  const std::vector<TokenId> same = TestPrompt(1, 320);
  for (int i = 0; i < 200; ++i) {
    Request cached = TestRequest(same, 10);
    cached.tenant = "cached";
    h.MustSubmit(std::move(cached));
    Request fresh = TestRequest(TestPrompt(1000 + i * 7, 20), 10);
    fresh.tenant = "fresh";
    h.MustSubmit(std::move(fresh));
  }
  RunFor(h, seconds(5));
  int of_cached = 0, of_fresh = 0;
  for (size_t i = 0; i < h.size(); ++i) {
    const HarnessClient& c = h.client(i);
    if (!c.done()) continue;
    (c.request.tenant == "cached" ? of_cached : of_fresh)++;
    if (c.request.tenant == "cached" && i > 0) {
      EXPECT_GE(c.usage.cached_tokens, 288);
    }
  }
  // 20 + 2 x 10 tokens of each fresh one; 32 at most + 2 x 10 of the others, not 320 + 2 x 10.
  EXPECT_GT(of_cached, 20);
  EXPECT_GT(of_cached, of_fresh / 2);
}

TokenizedRequest Texts(const std::string& tenant, double weight, int from, int count) {
  TokenizedRequest request = TestEncoding(from, std::vector<int>(static_cast<size_t>(count), 20));
  request.tenant = tenant;
  request.tenant_weight = weight;
  return request;
}

TEST(FairShare, SmallRequestsToAnEncoderShareByWeight) {
  EncoderHarness h;
  constexpr int kEach = 500;
  for (int i = 0; i < kEach; ++i) {
    h.MustSubmit(Texts("two", 2, i * 1000, 4));
    h.MustSubmit(Texts("one", 1, i * 1000 + 500, 4));
  }
  const auto done = [&](size_t tenant) {
    int count = 0;
    for (size_t i = tenant; i < h.size(); i += 2) count += h.client(i).done();
    return count;
  };
  ASSERT_TRUE(h.RunUntil([&] { return done(0) == kEach; }));
  EXPECT_NEAR(done(1), kEach / 2, kEach / 20);
  ASSERT_TRUE(h.RunToEnd());
}

TEST(FairShare, BulkCallsToAnEncoderShareByWeight) {
  EncoderHarness h;
  const size_t one = h.MustSubmit(Texts("one", 1, 500'000, 1280));
  const size_t two = h.MustSubmit(Texts("two", 2, 100'000, 1280));
  ASSERT_TRUE(h.RunToEnd());
  // 40 batches of its own, and half as many of the other's.
  EXPECT_NEAR(h.BatchesBetween(h.start(), h.client(two).ended_at), 60, 3);
  EXPECT_EQ(h.BatchesBetween(h.start(), h.client(one).ended_at), 80);
}

}  // namespace
}  // namespace tutti::engine
