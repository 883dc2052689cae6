// Seeded simulation of an encoder in virtual time: requests of every size, tenant, priority and
// output arrive at random, are cancelled, time out and make batches fail, with or without a decoder
// on the same device. The accounting is checked after every round. A failure prints its seed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "amount.h"
#include "base/random.h"
#include "engine/encoder_instance.h"
#include "engine/testing/encoder_harness.h"

namespace tutti::engine {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using testing::EncodeClient;
using testing::EncoderHarness;
using testing::EncodeTimingModel;
using testing::TestPrompt;
using testing::TestRequest;

constexpr TokenId kPoison = 999'999;

// Describes an invariant that a slot violates between two steps; empty if there is none.
std::string FindViolation(const EncoderInstance& slot) {
  const AdmissionState& admission = *slot.admission();
  BatchShape waiting;
  int64_t waiting_tokens = 0, small_tokens = 0, items = 0, results = 0;
  size_t index = 0;
  for (const auto& work : slot.works()) {
    if (work->index != index++) return "a record's index";
    if (work->ended) return "an ended request among the living";
    int left = 0;
    for (const WorkItem& item : work->items) {
      if (item.state == ItemState::kRunning) return "an item in a batch that is over";
      left += item.state != ItemState::kDone;
      if (item.passed > slot.options().max_passed) return "an item passed over too often";
      if (item.state != ItemState::kWaiting) continue;
      waiting.Add(item.tokens);
      waiting_tokens += item.tokens;
      if (work->small) small_tokens += item.tokens;
    }
    if (left != work->left) return "the countdown of a request";
    if (left == 0) return "a request without items is alive";
    items += static_cast<int64_t>(work->items.size());
    results += static_cast<int64_t>(work->result.values.size() * sizeof(float));
  }
  const BatchShape& queue = slot.queue().waiting();
  if (queue.items != waiting.items || queue.tokens != waiting.tokens ||
      queue.squares != waiting.squares)
    return "what waits in line";
  if (!slot.mailbox()->empty()) return "";  // in the books, and not yet among the living
  if (admission.queued_tokens != waiting_tokens) return "the admission state's tokens";
  if (admission.small_tokens != small_tokens)
    return "the admission state's tokens of small requests";
  if (admission.items != items) return "the admission state's inputs";
  if (admission.result_bytes != results) return "the admission state's results";
  if (admission.unfinished != static_cast<int>(slot.works().size()))
    return "the admission state's requests";
  return "";
}

struct Totals {
  int requests = 0, answered = 0, cancelled = 0, expired = 0, poisoned = 0, faulted = 0,
      refused = 0, retried = 0, aged = 0, held = 0;
};

class Schedule {
 public:
  explicit Schedule(uint64_t seed) : random_(seed), harness_(Options(), Timing(), Limits()) {}

  std::string Run(Totals* totals) {
    EncoderHarness& h = harness_;
    h.runner().poison = kPoison;
    faults_ = random_.Chance(0.3) ? 0.1 * random_.Uniform() : 0.0;
    h.runner().fault = [this](const EncodeBatch&) {
      return random_.Chance(faults_) ? Unavailable("overloaded", "injected") : OkStatus();
    };
    if (random_.Chance(0.3)) {
      h.AddDecoder({.base = microseconds(random_.Between(2000, 20'000))});
      for (int64_t n = random_.Between(1, 4); n > 0; --n) {
        const int from = static_cast<int>(n);
        h.At(microseconds(random_.Between(0, 100'000)), [&h, this, from] {
          h.Generate(TestRequest(TestPrompt(from, 20), static_cast<int>(random_.Between(1, 60))));
        });
      }
    }
    const int64_t span = random_.Between(1, 300'000);
    const int64_t requests = random_.Between(1, 40);
    for (int64_t i = 0; i < requests; ++i)
      h.At(microseconds(random_.Between(0, span)), [this] { Send(); });
    // Clients that wait for their result before they send again.
    if (random_.Chance(0.2)) {
      for (int64_t n = random_.Between(2, 12); n > 0; --n)
        h.At(microseconds(random_.Between(0, 2000)), [this] { SendAgain(30); });
    }

    std::string violation;
    const bool over = h.RunUntil([&] {
      violation = FindViolation(h.engine().encoder_for_test());
      return !violation.empty() || (sent_ >= requests && chains_ == 0 && AllDone());
    });
    if (!violation.empty()) return violation;
    if (!over) return "nothing will ever happen again";
    return CheckEnd(totals);
  }

 private:
  EncoderOptions Options() {
    EncoderOptions options;
    options.batch_items = static_cast<int>(random_.Between(1, 40));
    options.batch_tokens = static_cast<int>(random_.Between(16, 1500));
    options.batch_time = microseconds(random_.Between(500, 60'000));
    options.window = microseconds(random_.Chance(0.2) ? 0 : random_.Between(0, 10'000));
    options.share = 0.05 + 0.9 * random_.Uniform();
    options.bulk_share = random_.Uniform();
    options.small_items = static_cast<int>(random_.Between(1, 20));
    options.max_passed = static_cast<int>(random_.Between(0, 4));
    options.priority_aging = milliseconds(random_.Between(0, 100));
    options.requests = static_cast<int>(random_.Between(5, 100));
    options.items = static_cast<int>(random_.Between(50, 2000));
    options.tokens = random_.Between(500, 100'000);
    options.age =
        random_.Chance(0.3) ? Duration(milliseconds(random_.Between(10, 200))) : Duration::max();
    return options;
  }
  EncodeTimingModel Timing() {
    return {.head = microseconds(random_.Between(0, 8000)),
            .per_token = microseconds(random_.Between(0, 50)),
            .per_square = Duration(random_.Between(0, 100))};
  }
  EncoderLimits Limits() {
    EncoderLimits limits = testing::FakeEncoderRunner::DefaultLimits();
    limits.max_item_tokens = static_cast<int>(random_.Between(4, 512));
    limits.max_tokens = static_cast<int>(random_.Between(limits.max_item_tokens, 2048));
    limits.max_items = static_cast<int>(random_.Between(1, 64));
    limits.width = static_cast<int>(random_.Between(1, 6));
    limits.labels = static_cast<int>(random_.Between(1, 3));
    return limits;
  }

  void SendAgain(int times) {
    EncoderHarness& h = harness_;
    Result<size_t> id =
        h.Submit(testing::TestEncoding(static_cast<int>(random_.Below(900'000)),
                                       {std::min(8, h.engine().limits().max_item_tokens)}));
    if (!id.ok() || times == 0) return;
    ++chains_;
    Await(*id, times - 1);
  }
  void Await(size_t id, int times) {
    EncoderHarness& h = harness_;
    h.At(h.now() + microseconds(random_.Between(50, 800)), [this, id, times] {
      if (!harness_.client(id).done()) return Await(id, times);
      --chains_;
      SendAgain(times);
    });
  }

  void Send() {
    EncoderHarness& h = harness_;
    const int number = static_cast<int>(sent_);
    const EncoderLimits& limits = h.engine().limits();
    ++sent_;
    TokenizedRequest request;
    const int64_t items = random_.Chance(0.7) ? random_.Between(1, 8) : random_.Between(9, 120);
    for (int64_t i = 0; i < items; ++i) {
      const auto length = static_cast<int32_t>(
          random_.Chance(0.8) ? random_.Between(1, std::min(30, limits.max_item_tokens))
                              : random_.Between(1, limits.max_item_tokens));
      request.lengths.push_back(length);
      for (int32_t t = 0; t < length; ++t)
        request.tokens.push_back(static_cast<TokenId>(random_.Below(900'000)));
    }
    if (random_.Chance(0.2)) {
      for (size_t t = 0; t < request.tokens.size(); ++t)
        request.types.push_back(static_cast<uint8_t>(random_.Below(2)));
    }
    const bool poisoned = random_.Chance(0.03);
    if (poisoned) request.tokens[random_.Below(request.tokens.size())] = kPoison;
    request.output = static_cast<api::EncodeOutput>(random_.Below(3));
    request.priority = static_cast<api::Priority>(random_.Chance(0.6) ? 0 : random_.Below(3));
    request.tenant = std::string(1, static_cast<char>('a' + random_.Below(3)));
    request.tenant_weight = request.tenant == "b" ? 3 : 1;
    if (random_.Chance(0.1))
      request.deadline = h.clock().Now() + microseconds(random_.Between(1, 100'000));
    Result<size_t> id = h.Submit(request);
    if (!id.ok()) {
      refusals_.insert(id.status().reason());
      ++refused_;
      return;
    }
    if (poisoned) poisoned_.insert(*id);
    if (random_.Chance(0.1)) {
      const size_t client = *id;
      h.At(h.now() + microseconds(random_.Between(0, 50'000)), [&h, client, number] {
        if (number % 2 == 0) h.client(client).encoding->Cancel();
        if (number % 2 == 1) h.client(client).encoding.reset();
      });
      left_.insert(client);
    }
  }

  bool AllDone() {
    for (size_t i = 0; i < harness_.size(); ++i) {
      if (!harness_.client(i).done()) return false;
    }
    return true;
  }

  std::string CheckEnd(Totals* totals) {
    EncoderHarness& h = harness_;
    h.loop().RunOnce();
    for (size_t i = 0; i < h.size(); ++i) {
      EncodeClient& c = h.client(i);
      const std::string name = "request " + std::to_string(i) + ": ";
      if (c.wakes != 1) return name + "woken " + std::to_string(c.wakes) + " times";
      if (!c.result.has_value()) {
        if (left_.count(i) == 0) return name + "no result";
        ++totals->cancelled;
        continue;
      }
      const Result<api::EncodeResult>& result = *c.result;
      if (result.ok()) {
        if (poisoned_.count(i) != 0) return name + "a poisoned request has an answer";
        if (result->values != h.runner().Answer(c.request)) return name + "another's answer";
        if (result->tokens != c.request.lengths) return name + "token counts";
        if (c.ended_at - std::chrono::seconds(1) > c.request.deadline)
          return name + "ended long after its deadline";
        ++totals->answered;
        continue;
      }
      const std::string reason = result.status().reason();
      const bool injected = result.status().message().find("injected") != std::string::npos;
      const bool waited = reason == "overloaded" && !injected;
      if (reason == "cancelled" && left_.count(i) != 0) {
        ++totals->cancelled;
      } else if (reason == "deadline_exceeded" && c.request.deadline <= c.ended_at) {
        ++totals->expired;
      } else if (reason == "internal_error" && poisoned_.count(i) != 0) {
        ++totals->poisoned;
      } else if (injected && faults_ > 0) {
        ++totals->faulted;
      } else if (waited && h.engine().encoder_for_test().options().age != Duration::max()) {
        ++totals->expired;
      } else {
        return name + result.status().ToString();
      }
    }
    const EncoderStats stats = h.engine().stats();
    const AdmissionState& admission = *h.engine().encoder_for_test().admission();
    if (admission.unfinished != 0 || admission.places != 0 || admission.preparing != 0 ||
        admission.items != 0 || admission.queued_bytes != 0 || admission.queued_tokens != 0 ||
        admission.small_tokens != 0 || admission.result_bytes != 0)
      return "the admission state does not balance";
    if (!h.runner().violations().empty()) return h.runner().violations()[0];
    if (stats.finished != h.size()) return "finished";
    if (stats.longest_passed > h.engine().encoder_for_test().options().max_passed)
      return "an item was passed over too often";
    for (const std::string& reason : refusals_) {
      if (reason != "queue_full" && reason != "overloaded" && reason != "request_exceeds_capacity")
        return "refused: " + reason;
    }
    totals->requests += static_cast<int>(h.size()) + refused_;
    totals->refused += refused_;
    totals->retried += static_cast<int>(stats.retried_items);
    totals->aged += static_cast<int>(stats.reasons[static_cast<size_t>(DispatchReason::kAge)]);
    totals->held += static_cast<int>(stats.reasons[static_cast<size_t>(DispatchReason::kDeadline)]);
    return "";
  }

  Random random_;
  EncoderHarness harness_;
  double faults_ = 0;
  int64_t sent_ = 0;
  int refused_ = 0, chains_ = 0;
  std::set<std::string> refusals_;
  std::set<size_t> poisoned_, left_;
};

TEST(EncoderSimulation, SeveralThousandSchedulesHoldEveryInvariant) {
  Totals totals;
  const auto schedules = static_cast<uint64_t>(support::Amount(3000, 300));
  for (uint64_t seed = 1; seed <= schedules; ++seed) {
    Schedule schedule(seed);
    const std::string failure = schedule.Run(&totals);
    ASSERT_EQ(failure, "") << "seed " << seed;
  }
  // A simulation in which the rare things never happen proves nothing about them.
  for (const int count :
       {totals.answered, totals.cancelled, totals.expired, totals.poisoned, totals.faulted,
        totals.refused, totals.retried, totals.aged, totals.held}) {
    EXPECT_GT(count, 0);
  }
  std::printf(
      "%llu schedules, %d requests: answered %d, cancelled %d, expired %d, poisoned %d, failed by "
      "faults %d, refused %d; retried items %d, batches by age %d, held back %d\n",
      static_cast<unsigned long long>(schedules), totals.requests, totals.answered,
      totals.cancelled, totals.expired, totals.poisoned, totals.faulted, totals.refused,
      totals.retried, totals.aged, totals.held);
}

}  // namespace
}  // namespace tutti::engine
