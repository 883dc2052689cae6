#include "bench/encode_load.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <thread>
#include <utility>

#include "base/mutex.h"
#include "bench/workload.h"

namespace tutti::bench {
namespace {

constexpr int kChecked = 4;  // requests whose answers are compared

std::vector<std::string> TextsOf(const EncodeShape& shape, uint64_t seed, int request) {
  std::vector<std::string> texts;
  for (int i = 0; i < shape.texts; ++i) {
    texts.push_back(EncodeText(WordsOf(shape), seed, request * shape.texts + i));
  }
  return texts;
}

// The same texts, each alone, with nothing else running.
Result<std::vector<float>> Alone(EncodeClient& client, const std::vector<std::string>& texts) {
  std::vector<float> values;
  for (const std::string& text : texts) {
    ASSIGN_OR_RETURN(const EncodeReply reply, client.Encode({text}));
    values.insert(values.end(), reply.values.begin(), reply.values.end());
  }
  return values;
}

// State shared by all clients of a run.
class Loop {
 public:
  Loop(const EncodeShape& shape, int requests, uint64_t seed, Duration max_time)
      : shape_(shape), requests_(requests), seed_(seed), max_time_(max_time) {
    run_.shape = shape;
  }

  Status Reference(EncodeTarget& target) {
    ASSIGN_OR_RETURN(const auto client, target.Connect());
    for (int i = 0; i < std::min(kChecked, requests_); ++i) {
      ASSIGN_OR_RETURN(std::vector<float> values, Alone(*client, TextsOf(shape_, seed_, i)));
      expected_.push_back(std::move(values));
    }
    return OkStatus();
  }

  EncodeRun Run(EncodeTarget& target) {
    std::vector<std::unique_ptr<EncodeClient>> clients;
    for (int c = 0; c < shape_.clients; ++c) {
      Result<std::unique_ptr<EncodeClient>> client = target.Connect();
      if (!client.ok()) {
        const MutexLock lock(mutex_);
        FailLocked(client.status().ToString());
        return run_;
      }
      clients.push_back(*std::move(client));
    }
    const Result<api::ModelStatistics> before = target.Statistics();
    start_ = clock_.Now();
    std::vector<std::thread> threads;
    for (const auto& client : clients) threads.emplace_back([&] { Client(*client); });
    for (std::thread& thread : threads) thread.join();
    run_.seconds = ToSeconds(clock_.Now() - start_);
    const Result<api::ModelStatistics> after = target.Statistics();
    if (before.ok() && after.ok()) {
      run_.work.executions = after->executions - before->executions;
      run_.work.items = after->items - before->items;
      run_.work.busy = after->busy - before->busy;
    }
    run_.requests = static_cast<int>(run_.latency_s.size());
    run_.tokens_read /= std::max(1, run_.requests * shape_.texts);
    for (double* mean : {&run_.prepare_s, &run_.queue_s, &run_.inference_s})
      *mean /= std::max(1, run_.requests);
    return std::move(run_);
  }

 private:
  void Client(EncodeClient& client) {
    for (int i = next_++; i < requests_ && clock_.Now() - start_ < max_time_; i = next_++) {
      const std::vector<std::string> texts = TextsOf(shape_, seed_, i);
      const int in_flight = ++in_flight_;
      const TimePoint sent = clock_.Now();
      const Result<EncodeReply> reply = client.Encode(texts);
      const TimePoint end = clock_.Now();
      --in_flight_;
      const MutexLock lock(mutex_);
      run_.max_in_flight = std::max(run_.max_in_flight, in_flight);
      if (!reply.ok()) {
        const Status& status = reply.status();
        ++run_.errors[fmt::format("{} {}", StatusCodeName(status.code()), status.reason())];
        FailLocked(fmt::format("request {}: {}", i, status.ToString()));
        continue;
      }
      run_.latency_s.push_back(ToSeconds(end - sent));
      run_.ends_s.push_back(ToSeconds(end - start_));
      run_.tokens_read += static_cast<double>(reply->tokens);
      run_.prepare_s += ToSeconds(reply->timings.prepare);
      run_.queue_s += ToSeconds(reply->timings.queue);
      run_.inference_s += ToSeconds(reply->timings.inference);
      Check(i, *reply);
    }
  }

  void Check(int index, const EncodeReply& reply) REQUIRES(mutex_) {
    if (static_cast<size_t>(index) >= expected_.size()) return;
    const std::vector<float>& expected = expected_[static_cast<size_t>(index)];
    if (reply.values.size() == expected.size() &&
        std::memcmp(reply.values.data(), expected.data(), expected.size() * sizeof(float)) == 0)
      return;
    FailLocked(fmt::format("request {}: its vectors differ from those of its texts alone", index));
  }

  void FailLocked(std::string what) REQUIRES(mutex_) {
    if (run_.failures.size() < 10) run_.failures.push_back(std::move(what));
  }

  const EncodeShape shape_;
  const int requests_;
  const uint64_t seed_;
  const Duration max_time_;
  const SteadyClock clock_;
  TimePoint start_{};
  std::vector<std::vector<float>> expected_;
  std::atomic<int> next_{0}, in_flight_{0};
  Mutex mutex_;
  EncodeRun run_;  // guarded by mutex_ while clients run
};

// Tokens that the server counted for a text of `words` words, each of at least one token.
Result<int64_t> TokensOf(EncodeTarget& target, EncodeClient& client, int words) {
  Result<EncodeReply> reply = client.Encode({EncodeText(words, 1, 0)});
  if (!reply.ok()) return target.Explain(std::move(reply).status());
  return reply->tokens;
}

}  // namespace

int WordsOf(const EncodeShape& shape) { return std::max(1, shape.tokens - 2); }

std::string EncodeText(int words, uint64_t seed, int index) {
  return PromptText(Workload::kRandom, words, seed, index);
}

double EncodeRun::texts_per_s() const {
  return seconds > 0 ? static_cast<double>(requests) * shape.texts / seconds : 0;
}
double EncodeRun::in_flight() const {
  return seconds > 0 ? std::accumulate(latency_s.begin(), latency_s.end(), 0.0) / seconds : 0;
}
double EncodeRun::mean_latency_s() const {
  return latency_s.empty() ? 0
                           : std::accumulate(latency_s.begin(), latency_s.end(), 0.0) /
                                 static_cast<double>(latency_s.size());
}
double EncodeRun::busy_share() const { return seconds > 0 ? ToSeconds(work.busy) / seconds : 0; }
double EncodeRun::batch() const {
  return work.executions == 0
             ? 0
             : static_cast<double>(work.items) / static_cast<double>(work.executions);
}
bool EncodeRun::stable() const { return IsStable(WindowRates(ends_s, 3)); }

EncodeRun RunEncodeLoad(EncodeTarget& target, const EncodeShape& shape, int requests, int warmup,
                        uint64_t seed, Duration max_time) {
  if (warmup > 0) Loop(shape, warmup, seed + 1, max_time).Run(target);
  Loop loop(shape, requests, seed, max_time);
  if (const Status status = loop.Reference(target); !status.ok()) {
    EncodeRun failed;
    failed.shape = shape;
    failed.failures.push_back(status.ToString());
    return failed;
  }
  return loop.Run(target);
}

namespace {

boost::json::object PartsJson(const EncodeRun& run) {
  // The clients are always waiting for an answer, so the rate of a part follows from its latencies.
  const double texts = 1.0 * std::min(run.shape.clients, run.requests) * run.shape.texts;
  const auto rate = [&](std::span<const double> part) {
    return texts * static_cast<double>(part.size()) /
           std::accumulate(part.begin(), part.end(), 0.0);
  };
  const auto latency = [](std::span<const double> part) { return Percentile(part, 50) * 1e3; };
  const auto rates = PartsOf(run.latency_s, rate), latencies = PartsOf(run.latency_s, latency);
  return {{"texts_s", boost::json::array(rates.begin(), rates.end())},
          {"latency_ms", boost::json::array(latencies.begin(), latencies.end())}};
}

}  // namespace

boost::json::object EncodeRunJson(const EncodeRun& run) {
  const Percentiles p = PercentilesOf(run.latency_s);
  return {{"concurrency", run.shape.clients},
          {"batch", run.shape.texts},
          {"tokens", run.shape.tokens},
          {"tokens_read", run.tokens_read},
          {"requests", run.requests},
          {"seconds", run.seconds},
          {"texts_s", run.texts_per_s()},
          {"latency_ms",
           {{"mean", run.mean_latency_s() * 1e3},
            {"p50", p.p50 * 1e3},
            {"p95", p.p95 * 1e3},
            {"p99", p.p99 * 1e3}}},
          {"in_flight", run.in_flight()},
          {"max_in_flight", run.max_in_flight},
          {"stages_ms",
           {{"tokenize", run.prepare_s * 1e3},
            {"queue", run.queue_s * 1e3},
            {"inference", run.inference_s * 1e3}}},
          {"forward_batch", run.batch()},
          {"busy", run.busy_share()},
          {"stable", run.stable()},
          {"parts", PartsJson(run)},
          {"failures", run.failures.size()}};
}

std::vector<Figure> EncodeFigures(const boost::json::object& row, const std::string& series) {
  const auto figure = [&](const char* metric, const char* unit, bool more, const char* part) {
    Figure out;
    out.metric = metric;
    out.unit = unit;
    out.more_is_better = more;
    out.series = fmt::format("batch {}, {} tokens{}{}", row.at("batch").as_int64(),
                             row.at("tokens").as_int64(), series.empty() ? "" : ", ", series);
    out.axis = "clients";
    out.at = row.at("concurrency").to_number<double>();
    for (const boost::json::value& sample : row.at("parts").at(part).as_array())
      out.samples.push_back(sample.to_number<double>());
    return out;
  };
  return {figure("text rate", "texts/s", true, "texts_s"),
          figure("latency", "ms", false, "latency_ms")};
}

std::string EncodeTableHead() {
  return fmt::format("{:>7} {:>6} {:>6} {:>9} {:>24} {:>9} {:>7} {:>6} {:>24}", "clients", "texts",
                     "tokens", "texts/s", "latency ms p50/p95/p99", "in flight", "batch", "busy",
                     "ms queue/inference");
}

std::string EncodeTableRow(const EncodeRun& run) {
  return fmt::format("{:>7} {:>6} {:>6} {:>9.0f} {:>24} {:>9.2f} {:>7.1f} {:>5.0f}% {:>24}{}{}",
                     run.shape.clients, run.shape.texts, run.shape.tokens, run.texts_per_s(),
                     MillisText(run.latency_s, 2), run.in_flight(), run.batch(),
                     run.busy_share() * 100,
                     fmt::format("{:.2f}/{:.2f}", run.queue_s * 1e3, run.inference_s * 1e3),
                     run.stable() ? "" : "  (unstable)", run.failures.empty() ? "" : "  FAILED");
}

Result<std::string> Greet(EncodeTarget& target, const EncodeShape& shape) {
  Result<std::unique_ptr<EncodeClient>> client = target.Connect();
  if (!client.ok()) return target.Explain(std::move(client).status());
  const int words = WordsOf(shape);
  ASSIGN_OR_RETURN(const int64_t read, TokensOf(target, **client, words));
  if (read == 0 || read >= shape.tokens) return std::string();
  // The model's special tokens are those that a single word comes with.
  ASSIGN_OR_RETURN(const int64_t one, TokensOf(target, **client, 1));
  if (read >= words + one - 1) return std::string();
  return fmt::format(
      "texts of about {} tokens are asked for, and the model reads {} of each: the rest is cut",
      shape.tokens, read);
}

}  // namespace tutti::bench
