// Latency of an encoder's requests, in virtual time: batches across callers, single texts under
// bulk load, the batching window, the age guard, and decoders on the same device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "base/random.h"
#include "engine/encoder_instance.h"
#include "engine/testing/encoder_harness.h"

namespace tutti::engine {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::BatchTrace;
using testing::EncoderHarness;
using testing::EncodeTimingModel;
using testing::Percentile;
using testing::TestEncoding;
using testing::TestPrompt;
using testing::TestRequest;

void ExpectAllAnswered(EncoderHarness& h) {
  for (size_t i = 0; i < h.size(); ++i) {
    ASSERT_TRUE(h.client(i).ok()) << i;
    ASSERT_EQ((*h.client(i).result)->values, h.runner().Answer(h.client(i).request)) << i;
  }
  EXPECT_THAT(h.runner().violations(), ::testing::IsEmpty());
}

uint64_t Reasons(const EncoderStats& stats, DispatchReason reason) {
  return stats.reasons[static_cast<size_t>(reason)];
}

// --- U06, U10: batches across callers ---

TEST(EncoderLatency, ThirtyTwoTextsAreOneForwardPass) {
  EncoderHarness h;
  h.MustSubmit(TestEncoding(1000, std::vector<int>(32, 16)));
  ASSERT_TRUE(h.RunToEnd());
  EXPECT_EQ(h.engine().stats().batches, 1u);
  for (int i = 0; i < 32; ++i) h.MustSubmit(TestEncoding(2000 + i, {16}));
  ASSERT_TRUE(h.RunToEnd());
  EXPECT_EQ(h.engine().stats().batches, 2u);
  ExpectAllAnswered(h);
}

TEST(EncoderLatency, EightClientsOfFourTextsShareBatches) {
  EncoderHarness h;
  Random random(1);
  // Each client sends its next four texts when the last answer arrives.
  std::function<void(int, int)> send = [&](int client, int round) {
    const size_t id = h.MustSubmit(TestEncoding(client * 10'000 + round * 10, {12, 20, 8, 16}));
    if (round == 50) return;
    h.client(id).then = [&, client, round] { send(client, round + 1); };
  };
  for (int client = 0; client < 8; ++client) {
    h.At(microseconds(random.Between(0, 3000)), [&, client] { send(client, 0); });
  }
  ASSERT_TRUE(h.RunToEnd());
  ExpectAllAnswered(h);
  const EncoderStats stats = h.engine().stats();
  const double mean = static_cast<double>(stats.items) / static_cast<double>(stats.batches);
  RecordProperty("mean_batch", std::to_string(mean));
  EXPECT_GT(mean, 8);
}

TEST(EncoderLatency, SinglesPassABulkCallOfTwoThousandTexts) {
  for (const uint64_t seed : {1, 2, 3}) {
    EncoderHarness h;
    Random random(seed);
    std::vector<int> lengths;
    for (int i = 0; i < 2000; ++i) lengths.push_back(static_cast<int>(random.Between(4, 120)));
    const size_t bulk = h.MustSubmit(TestEncoding(100'000, lengths));
    std::vector<size_t> singles;
    for (int i = 0; i < 400; ++i) {
      h.At(microseconds(random.Between(0, 1'200'000)), [&, i] {
        singles.push_back(h.MustSubmit(TestEncoding(i * 4, {static_cast<int>(4 + i * 13 % 60)})));
      });
    }
    ASSERT_TRUE(h.RunToEnd());
    ExpectAllAnswered(h);
    Duration batches{0};
    for (const BatchTrace& b : h.runner().batches()) batches += b.end - b.begin;
    const Duration batch = batches / static_cast<int64_t>(h.runner().batches().size());
    std::vector<Duration> took;
    for (const size_t i : singles) {
      if (h.client(i).sent < h.client(bulk).ended_at) took.push_back(h.client(i).took());
    }
    ASSERT_GT(took.size(), 300u);
    EXPECT_LE(Percentile(took, 0.99), batch * 3);
    // And the bulk call loses no more than the singles' own work.
    EXPECT_LT(h.client(bulk).took(), milliseconds(3500));
  }
}

TEST(EncoderLatency, AFloodOfSinglesDoesNotStopABulkCall) {
  EncoderHarness h;
  const size_t bulk = h.MustSubmit(TestEncoding(100'000, std::vector<int>(320, 20)));
  // Twice what the device can do.
  for (int i = 0; i < 3000; ++i) {
    h.At(microseconds(250) * i, [&, i] { (void)h.Submit(TestEncoding(i * 2, {25})); });
  }
  ASSERT_TRUE(h.RunUntil([&] { return h.client(bulk).done(); }));
  // A quarter of each batch: 8 items of 32.
  EXPECT_LE(h.runner().batches().size(), 42u);
  EXPECT_GE(h.runner().batches().size(), 36u);
  h.runner().time = nullptr;
  ASSERT_TRUE(h.RunToEnd());
}

TEST(EncoderLatency, TwoBulkCallsShareTheDevice) {
  EncoderHarness h;
  const size_t one = h.MustSubmit(TestEncoding(100'000, std::vector<int>(1600, 20)));
  h.RunOnce();
  const size_t two = h.MustSubmit(TestEncoding(200'000, std::vector<int>(800, 20)));
  ASSERT_TRUE(h.RunToEnd());
  // The shorter gets half of each batch and is done after 50 more, not after the 50 of the other.
  EXPECT_LE(h.BatchesBetween(h.start(), h.client(two).ended_at), 53);
  EXPECT_EQ(h.BatchesBetween(h.start(), h.client(one).ended_at), 75);
}

TEST(EncoderLatency, AnotherTenantsBulkCallsDoNotDelayMine) {
  EncoderHarness h;
  for (int i = 0; i < 9; ++i) {
    TokenizedRequest theirs = TestEncoding(100'000 * (i + 1), std::vector<int>(640, 20));
    theirs.tenant = "flood";
    h.MustSubmit(std::move(theirs));
  }
  TokenizedRequest mine = TestEncoding(50'000, std::vector<int>(640, 20));
  mine.tenant = "quiet";
  const size_t id = h.MustSubmit(std::move(mine));
  ASSERT_TRUE(h.RunUntil([&] { return h.client(id).done(); }));
  EXPECT_LE(h.runner().batches().size(), 42u);  // half of each batch, not a tenth
}

TEST(EncoderLatency, PriorityGoesFirstAmongBulkCallsAndWaitingLifts) {
  EncoderHarness h;
  TokenizedRequest later = TestEncoding(100'000, std::vector<int>(320, 20));
  later.priority = api::Priority::kBatch;
  const size_t low = h.MustSubmit(later);
  const size_t high = h.MustSubmit(TestEncoding(200'000, std::vector<int>(320, 20)));
  ASSERT_TRUE(h.RunToEnd());
  EXPECT_EQ(h.BatchesBetween(h.start(), h.client(high).ended_at), 10);
  EXPECT_EQ(h.BatchesBetween(h.start(), h.client(low).ended_at), 20);
  // A stream of interactive bulk calls cannot keep it waiting beyond two liftings.
  EncoderOptions options;
  options.priority_aging = milliseconds(200);
  EncoderHarness aged(options);
  const size_t waits = aged.MustSubmit(later);
  for (int i = 0; i < 60; ++i) {
    aged.At(milliseconds(40) * i,
            [&, i] { aged.MustSubmit(TestEncoding(200'000 + 100 * i, std::vector<int>(80, 20))); });
  }
  ASSERT_TRUE(aged.RunUntil([&] { return aged.client(waits).done(); }));
  EXPECT_LT(aged.now(), seconds(1));
}

// --- U11: the length of items ---

TEST(EncoderLatency, AThousandMixedRequestsGiveTheSameResultsInBatchesAndAlone) {
  EncoderOptions off;
  off.batch_items = 1;
  EncoderHarness batched, alone(off);
  Random random(11);
  for (int i = 0; i < 1000; ++i) {
    std::vector<int> lengths;
    for (int64_t n = random.Between(1, 4); n > 0; --n)
      lengths.push_back(static_cast<int>(random.Between(1, random.Chance(0.1) ? 512 : 60)));
    const auto at = microseconds(random.Between(0, 2'000'000));
    for (EncoderHarness* h : {&batched, &alone})
      h->At(at, [=] { h->MustSubmit(TestEncoding(i * 10, lengths)); });
  }
  ASSERT_TRUE(batched.RunToEnd());
  ASSERT_TRUE(alone.RunToEnd());
  ExpectAllAnswered(batched);
  ExpectAllAnswered(alone);
  std::map<TokenId, std::vector<float>> by_name;
  for (size_t i = 0; i < alone.size(); ++i)
    by_name[alone.client(i).request.tokens[0]] = (*alone.client(i).result)->values;
  for (size_t i = 0; i < batched.size(); ++i) {
    EXPECT_EQ((*batched.client(i).result)->values, by_name[batched.client(i).request.tokens[0]]);
  }
  const EncoderStats stats = batched.engine().stats();
  EXPECT_LT(stats.batches * 2, alone.engine().stats().batches);
  EXPECT_LE(stats.longest_passed, 3);
  EXPECT_GT(stats.passed_over, 0u);
  EXPECT_GT(stats.padded_tokens, stats.tokens);  // what padding would have cost; packed: nothing
}

// Measured from outside: the number of batches that took a later item while this one waited.
TEST(EncoderLatency, NoItemSeesMoreThanThreeBatchesTakeOthersBeforeIt) {
  Random random(5);
  EncoderHarness h;
  std::map<TokenId, TimePoint> sent;
  for (int i = 0; i < 2000; ++i) {
    // Groups of like lengths, so that picking by length has something to pick.
    const int length = random.Chance(0.5) ? 10 : static_cast<int>(random.Between(100, 300));
    h.At(microseconds(random.Between(0, 4'000'000)), [&, i, length] {
      h.MustSubmit(TestEncoding(i, {length}));
      sent[i] = h.clock().Now();
    });
  }
  ASSERT_TRUE(h.RunToEnd());
  ExpectAllAnswered(h);
  std::map<TokenId, int> passed;
  std::set<TokenId> done;
  int most = 0;
  for (const BatchTrace& batch : h.runner().batches()) {
    TimePoint youngest = TimePoint::min();
    for (const TokenId name : batch.first) youngest = std::max(youngest, sent[name]);
    for (const TokenId name : batch.first) done.insert(name);
    for (const auto& [name, at] : sent) {
      if (at < youngest && done.count(name) == 0) most = std::max(most, ++passed[name]);
    }
  }
  EXPECT_GT(most, 0);
  EXPECT_LE(most, 3);
}

// --- U43: when a batch goes ---

TEST(EncoderLatency, ALoneRequestWaitsForNothing) {
  EncoderHarness h;
  for (int i = 0; i < 50; ++i) {
    h.At(milliseconds(7) * i, [&, i] { h.MustSubmit(TestEncoding(i * 10, {20})); });
  }
  ASSERT_TRUE(h.RunToEnd());
  for (size_t i = 0; i < h.size(); ++i) {
    EXPECT_EQ((*h.client(i).result)->timings.queue, Duration(0));
    EXPECT_EQ(h.client(i).took(), (*h.client(i).result)->timings.inference);
  }
  EXPECT_EQ(Reasons(h.engine().stats(), DispatchReason::kIdle), 50u);
}

// The fixed cost of a batch dominates, so merging two batches saves half.
EncodeTimingModel CostlyHead() {
  return {.head = milliseconds(8), .per_token = microseconds(1), .per_square = Duration(0)};
}

// No batch waited longer than the window once the device could have taken it, and none waited that
// found it free. Requests hold one text each, named by twice their number. Batches that waited.
int ExpectBatchesInTime(EncoderHarness& h) {
  const auto& batches = h.runner().batches();
  int held = 0;
  uint64_t all = 0;
  for (size_t b = 1; b < batches.size(); ++b) {
    TimePoint oldest = TimePoint::max();
    for (const TokenId name : batches[b].first)
      oldest = std::min(oldest, h.client(static_cast<size_t>(name / 2)).sent);
    const Duration waited = batches[b].begin - std::max(oldest, batches[b - 1].end);
    EXPECT_LE(waited, milliseconds(10));
    if (oldest >= batches[b - 1].end) {
      EXPECT_EQ(waited, Duration(0));
    }
    held += waited > Duration(0);
  }
  for (const uint64_t n : h.engine().stats().reasons) all += n;
  EXPECT_EQ(all, h.engine().stats().batches);
  return held;
}

TEST(EncoderLatency, ClientsThatDoNotWaitForEachOtherAreNeverHeldBack) {
  EncoderHarness h({}, CostlyHead());
  for (int i = 0; i < 4000; ++i) {
    // 300 a second, then more than full batches can take, then 300 again.
    const microseconds at = i < 500    ? microseconds(3300) * i
                            : i < 3500 ? microseconds(1'700'000) + microseconds(200) * (i - 500)
                                       : microseconds(2'400'000) + microseconds(3300) * (i - 3500);
    h.At(at, [&, i] { h.MustSubmit(TestEncoding(i * 2, {10})); });
  }
  ASSERT_TRUE(h.RunToEnd());
  ExpectAllAnswered(h);
  EXPECT_EQ(ExpectBatchesInTime(h), 0);
  const EncoderStats stats = h.engine().stats();
  EXPECT_GT(Reasons(stats, DispatchReason::kFull), 50u);
  EXPECT_GT(Reasons(stats, DispatchReason::kIdle), 50u);
  EXPECT_EQ(Reasons(stats, DispatchReason::kDeadline), 0u);
}

// Clients send their next text within a millisecond of a result: without the window, two groups of
// clients would alternate forever.
TEST(EncoderLatency, TheWindowBringsClientsInStepAndCanBeTurnedOff) {
  EncoderOptions off;
  off.window = Duration(0);
  EncoderHarness with({}, CostlyHead()), without(off, CostlyHead());
  int done[2] = {};
  for (EncoderHarness* h : {&with, &without}) {
    Random random(9);
    std::function<void()> send = [&, h] {
      const size_t id = h->MustSubmit(TestEncoding(static_cast<int>(h->size()) * 2, {10}));
      h->client(id).then = [&, h] {
        h->At(h->now() + microseconds(random.Between(100, 900)), send);
      };
    };
    for (int client = 0; client < 8; ++client) h->At(microseconds(random.Between(0, 900)), send);
    ASSERT_TRUE(h->RunUntil([&] { return h->now() > seconds(4); }));
    for (size_t i = 0; i < h->size(); ++i) done[h == &without] += h->client(i).done();
    const int held = ExpectBatchesInTime(*h);
    EXPECT_EQ(held > 0, h == &with);
    EXPECT_EQ(Reasons(h->engine().stats(), DispatchReason::kDeadline), static_cast<uint64_t>(held));
  }
  EXPECT_GT(done[0], done[1] * 1.2);
}

// --- deadlines and cancels, between batches ---

TEST(EncoderLatency, ACancelledBulkCallLeavesAtTheNextBatch) {
  EncoderHarness h;
  const size_t bulk = h.MustSubmit(TestEncoding(100'000, std::vector<int>(2000, 20)));
  for (int i = 0; i < 3; ++i) h.RunOnce();
  h.client(bulk).encoding->Cancel();
  h.RunOnce();
  ASSERT_TRUE(h.client(bulk).done());
  EXPECT_EQ(h.client(bulk).result->status().reason(), "cancelled");
  EXPECT_EQ(h.runner().batches().size(), 3u);
  EXPECT_EQ(h.engine().stats().waiting_items, 0);
  EXPECT_EQ(h.engine().stats().wasted_tokens, 3u * 32 * 20);
  EXPECT_EQ(h.client(bulk).wakes, 1);
}

TEST(EncoderLatency, ADeadlineEndsARequestInWhicheverPhase) {
  EncoderHarness h;
  TokenizedRequest bulk = TestEncoding(100'000, std::vector<int>(2000, 20));
  bulk.deadline = h.start() + milliseconds(100);
  h.MustSubmit(bulk);
  TokenizedRequest low = TestEncoding(200'000, std::vector<int>(20, 20));
  low.priority = api::Priority::kBatch;
  low.deadline = h.start() + milliseconds(50);  // never gets a turn
  h.MustSubmit(low);
  ASSERT_TRUE(h.RunToEnd());
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(h.client(i).result->status().reason(), "deadline_exceeded");
    EXPECT_LT(h.client(i).ended_at - h.client(i).request.deadline, milliseconds(20));
  }
  EXPECT_FALSE(h.RunOnce());
}

TEST(EncoderLatency, AnInteractiveRequestOfWhichNothingRanInTimeEnds) {
  EncoderOptions options;
  options.age = milliseconds(200);
  EncoderHarness h(options);
  const size_t started = h.MustSubmit(TestEncoding(100'000, std::vector<int>(2000, 100)));
  h.RunOnce();
  // Three times what the device can do.
  int refused = 0;
  for (int i = 0; i < 800; ++i)
    h.At(milliseconds(2) + milliseconds(1) * i,
         [&, i] { refused += !h.Submit(TestEncoding(i * 10, std::vector<int>(5, 100))).ok(); });
  ASSERT_TRUE(h.RunToEnd());
  int expired = 0;
  for (size_t i = 0; i < h.size(); ++i) {
    const Status status = h.client(i).result->status();
    if (status.ok()) continue;
    EXPECT_EQ(status.reason(), "overloaded");
    EXPECT_TRUE(status.retry_after().has_value());
    ++expired;
  }
  EXPECT_GT(expired, 50);
  EXPECT_TRUE(h.client(started).ok());  // a batch that had begun is finished
}

// --- N19: sharing the device with a decoder ---

struct Mix {
  Duration alone, with_texts;  // P99 between two tokens
  Duration encode_p99;
  double encode_share = 0;  // of the time
  double texts_per_second = 0;
};

// Eight streams for `length`, with `texts` short texts a second (0: as many as it can).
Mix RunMix(Duration length, int texts, const EncodeTimingModel& encode,
           const testing::TimingModel& decode, const std::vector<int>& lengths = {16}) {
  Mix mix;
  std::vector<Duration> gaps[2];
  for (const bool with_texts : {false, true}) {
    EncoderHarness h({}, encode);
    h.AddDecoder(decode);
    for (int i = 0; i < 8; ++i) h.Generate(TestRequest(TestPrompt(i, 30), 3500));
    Random random(3);
    int sent = 0;
    std::function<void()> next = [&] {
      if (h.now() > length) return;
      h.MustSubmit(TestEncoding(sent++ * 40, {lengths[random.Below(lengths.size())]}));
      h.At(h.now() + Duration(static_cast<int64_t>(-std::log(1 - random.Uniform()) * 1e9 / texts)),
           next);
    };
    if (with_texts && texts > 0) h.At(milliseconds(100), next);
    if (with_texts && texts == 0) {
      for (int i = 0; i < 6; ++i) h.MustSubmit(TestEncoding(i * 3000, std::vector<int>(2048, 16)));
    }
    h.RunUntil([&] { return h.now() >= length; });
    for (int i = 0; i < 8; ++i) {
      const auto own = testing::Gaps(h.decoder().streams[static_cast<size_t>(i)].received,
                                     h.start() + milliseconds(200));
      gaps[with_texts].insert(gaps[with_texts].end(), own.begin(), own.end());
    }
    if (!with_texts) continue;
    std::vector<Duration> took;
    for (size_t i = 0; i < h.size(); ++i) {
      if (h.client(i).done()) took.push_back(h.client(i).took());
    }
    mix.encode_p99 = Percentile(took, 0.99);
    mix.encode_share = ToSeconds(h.engine().stats().busy) / ToSeconds(h.now());
    mix.texts_per_second = static_cast<double>(h.engine().stats().items) / ToSeconds(h.now());
    EXPECT_THAT(h.runner().violations(), ::testing::IsEmpty());
  }
  mix.alone = Percentile(gaps[0], 0.99);
  mix.with_texts = Percentile(gaps[1], 0.99);
  return mix;
}

TEST(EncoderLatency, ShortTextsAndStreamsOnOneDeviceStarveNeither) {
  const EncodeTimingModel encode{.head = milliseconds(1), .per_token = microseconds(40)};
  const Mix mix = RunMix(seconds(30), 200, encode, {.base = milliseconds(12)});
  EXPECT_LE(ToMillis(mix.with_texts), 1.5 * ToMillis(mix.alone));
  EXPECT_LE(mix.encode_p99, milliseconds(50));
  EXPECT_NEAR(mix.texts_per_second, 200, 15);
}

// Texts once waited for whole prompts, which a device of its own computes in steps of 512 tokens,
// and behind a decoder that had been idle for a while, until it had used as much time as they.
TEST(EncoderLatency, ShortTextsDoNotWaitForWholePrompts) {
  EncoderHarness h({}, {.head = milliseconds(1), .per_token = microseconds(40)});
  h.AddDecoder({.base = milliseconds(5), .per_prefill_token = microseconds(500)});
  constexpr auto kLength = seconds(20);
  int prompts = 0, texts = 0;
  std::function<void()> prompt = [&] {
    if (h.now() > kLength) return;
    h.Generate(TestRequest(TestPrompt(prompts++, 400), 1));
    h.At(h.now() + milliseconds(500), prompt);
  };
  std::function<void()> text = [&] {
    if (h.now() > kLength) return;
    h.MustSubmit(TestEncoding(texts++ * 40, {16}));
    h.At(h.now() + milliseconds(7), text);
  };
  h.At(milliseconds(1), text);
  h.At(milliseconds(50), prompt);
  ASSERT_TRUE(h.RunToEnd());
  std::vector<Duration> took;
  for (size_t i = 0; i < h.size(); ++i) took.push_back(h.client(i).took());
  EXPECT_GT(prompts, 30);
  EXPECT_LE(Percentile(took, 0.99), milliseconds(30));
  ExpectAllAnswered(h);
}

// Median time to the first token of eight clients that each send one request after the other, while
// the encoder gets `texts` short texts a second.
Duration FirstTokenBeside(int texts, int prompt_tokens, const testing::TimingModel& decode) {
  EncoderHarness h({}, {.head = milliseconds(1), .per_token = microseconds(60)});
  h.AddDecoder(decode);
  struct Client {
    size_t stream = 0;
    size_t tokens = 0;
    TimePoint sent;
    int rounds = 0;
    bool open = false;
  };
  std::vector<Client> clients(8);
  std::vector<Duration> first;
  const auto ask = [&](size_t i) {
    Client& client = clients[i];
    client.tokens = 8 * (6 + (static_cast<size_t>(client.rounds++) * 5 + i * 3) % 5);
    client.stream = h.decoder().streams.size();
    client.sent = h.clock().Now();
    client.open = true;
    const int from = static_cast<int>(client.stream) * prompt_tokens;
    h.Generate(TestRequest(TestPrompt(from, prompt_tokens), static_cast<int>(client.tokens)));
  };
  for (size_t i = 0; i < clients.size(); ++i) h.At(milliseconds(1) * i, [&, i] { ask(i); });
  for (int i = 0; i < texts * 20; ++i) {
    h.At(milliseconds(100) + Duration(std::chrono::seconds(1)) * i / texts,
         [&, i] { (void)h.Submit(TestEncoding(i * 40, {16})); });
  }
  h.RunUntil([&] {
    for (size_t i = 0; i < clients.size(); ++i) {
      Client& client = clients[i];
      if (!client.open) continue;
      const testing::Received& received = h.decoder().streams[client.stream].received;
      if (received.tokens.size() < client.tokens) continue;
      client.open = false;
      first.push_back(received.times[0] - client.sent);
      h.At(h.now() + microseconds(150), [&, i] { ask(i); });
    }
    return h.now() >= seconds(20);
  });
  EXPECT_GT(first.size(), 40u);
  return Percentile(first, 0.5);
}

// If a step without prompts takes 14 ms, the limit of 20 ms under contention once left so little
// time for prompts that one of 100 tokens got its first token eight times later than alone.
TEST(EncoderLatency, PromptsOfASlowDecoderKeepTheirPaceBesideTexts) {
  const testing::TimingModel slow{.base = milliseconds(12),
                                  .per_decode_row = microseconds(240),
                                  .per_prefill_token = microseconds(600)};
  for (const int texts : {100, 400}) {  // fewer than its share allows, and more
    EXPECT_LE(ToMillis(FirstTokenBeside(texts, 14, slow)),
              ToMillis(FirstTokenBeside(0, 14, slow)) * 1.5);
    EXPECT_LE(ToMillis(FirstTokenBeside(texts, 100, slow)),
              ToMillis(FirstTokenBeside(0, 100, slow)) * 2);
  }
}

TEST(EncoderLatency, BulkCallsBesideStreamsTakeTheirShareAndNoMore) {
  const EncodeTimingModel encode{.head = microseconds(1500), .per_token = microseconds(25)};
  const Mix mix = RunMix(seconds(20), 0, encode, {.base = milliseconds(20)});
  EXPECT_LE(ToMillis(mix.with_texts), 1.5 * ToMillis(mix.alone));
  EXPECT_NEAR(mix.encode_share, 0.25, 0.03);
}

}  // namespace
}  // namespace tutti::engine
