#include "bench/mqtt_load.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <boost/json/array.hpp>
#include <numeric>
#include <thread>
#include <utility>

#include "base/threads.h"
#include "bench/machine.h"
#include "bench/mqtt_turns.h"
#include "bench/workload.h"
#include "client/mqtt/chat.h"
#include "kernels/kernels.h"
#include "mqtt/address.h"

namespace tutti::bench {
namespace {

// The answers of a level in the order in which they ended.
Result<std::vector<ChatAnswer>> RunMqttLevel(const MqttLoadOptions& options,
                                             const mqtt::Address& address, int clients,
                                             uint64_t seed, const std::string& run,
                                             double* seconds) {
  std::vector<std::unique_ptr<MqttChatUser>> users;
  for (int i = 0; i < clients; ++i) {
    ASSIGN_OR_RETURN(auto user, MqttChatUser::Connect(address, options.prefix,
                                                      fmt::format("{}-{}", options.user, i)));
    users.push_back(std::move(user));
  }
  std::vector<ChatAnswer> answers(static_cast<size_t>(options.requests));
  std::atomic<int> next{0};
  const SteadyClock clock;
  const TimePoint epoch = clock.Now();
  std::vector<std::thread> threads;
  for (int c = 0; c < clients; ++c) {
    threads.emplace_back([&, c] {
      for (int i = next++; i < options.requests; i = next++) {
        // A session for each message, so that every prompt is as long as the first.
        ChatTurn turn;
        turn.session = fmt::format("{}-{:x}-{}", run, seed, i);
        turn.text = PromptText(Workload::kRandom, options.prompt_tokens, seed, i);
        turn.max_tokens = options.tokens;
        turn.cache_salt = run;
        answers[static_cast<size_t>(i)] = users[static_cast<size_t>(c)]->RunTurn(turn, epoch);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  *seconds = ToSeconds(clock.Now() - epoch);
  std::sort(answers.begin(), answers.end(),
            [](const ChatAnswer& a, const ChatAnswer& b) { return a.ended_at_s < b.ended_at_s; });
  return answers;
}

}  // namespace

Result<Report> BenchMqttLoad(const MqttLoadOptions& options, const Progress& progress) {
  ASSIGN_OR_RETURN(const mqtt::Address address, mqtt::ParseAddress(options.url));
  ASSIGN_OR_RETURN(const kernels::KernelTable* kernels, kernels::SelectKernels());
  Calibration calibration(kernels->isa, UsableCores());
  Report report;
  const auto say = [&](const std::string& line) { report.Print(line, progress); };
  say(fmt::format("{}, users {}/{}-N, {} messages of about {} tokens a level, {} tokens out",
                  mqtt::UrlOf(address), options.prefix, options.user, options.requests,
                  options.prompt_tokens, options.tokens));
  say(fmt::format("{:>12} {:>11} {:>8} {:>9} {:>20} {:>22} {:>24}", "clients", "answered", "tok/s",
                  "events/s", "accepted p50/95/99", "first text p50/95/99", "reply p50/95/99 ms"));
  const std::string run = client::RandomName("bench-");
  {  // one message that is not counted
    MqttLoadOptions warm = options;
    warm.requests = 1;
    double seconds = 0;
    ASSIGN_OR_RETURN(const auto first,
                     RunMqttLevel(warm, address, 1, LevelSeed(options.seed, 0), run, &seconds));
    RETURN_IF_ERROR(first[0].status);
  }
  boost::json::array rows;
  int level = 0;
  for (const int clients : options.concurrency) {
    calibration.AtFullSpeed();  // for the report's "others_cpu"
    double seconds = 0;
    ASSIGN_OR_RETURN(
        const std::vector<ChatAnswer> answers,
        RunMqttLevel(options, address, clients, LevelSeed(options.seed, ++level), run, &seconds));
    const TransportSummary summary = Summarize(answers, seconds);
    say(SummaryLine(fmt::format("{}", clients), summary));
    for (const ChatAnswer& answer : answers) {
      if (answer.status.ok()) continue;
      report.failures.push_back(
          fmt::format("{} clients: {} of {} messages failed, the first with: {}", clients,
                      summary.failed, options.requests, answer.status.ToString()));
      break;
    }
    boost::json::object row = SummaryJson(summary);
    row["concurrency"] = clients;
    rows.push_back(std::move(row));
    const std::string series = fmt::format("{} + {}", options.prompt_tokens, options.tokens);
    // As in serve_load.cc: as many messages as clients are always in progress.
    const double busy = std::min(clients, options.requests);
    report.figures.push_back(TokenRate("output rate", series, "clients", clients,
                                       PartsOf(summary.end_s, [&](std::span<const double> part) {
                                         return busy * options.tokens *
                                                static_cast<double>(part.size()) /
                                                std::accumulate(part.begin(), part.end(), 0.0);
                                       })));
    for (const auto& [metric, samples] :
         {std::pair{"accepted", &summary.accepted_s}, {"first text", &summary.first_s}}) {
      Figure figure = TokenRate(metric, series, "clients", clients,
                                PartsOf(*samples, [](std::span<const double> part) {
                                  return 1e3 * Percentile(part, 50);
                                }));
      figure.unit = "ms";
      figure.more_is_better = false;
      report.figures.push_back(std::move(figure));
    }
  }
  report.json = {{"schema", "tutti.bench.mqttload.v1"},
                 {"machine", calibration.Json()},
                 {"url", mqtt::UrlOf(address)},
                 {"prompt_tokens", options.prompt_tokens},
                 {"max_tokens", options.tokens},
                 {"seed", options.seed},
                 {"rows", std::move(rows)}};
  return report;
}

}  // namespace tutti::bench
