// `tutti bench mqtt`: chats over MQTT, on a model that it loads, through a listener of this
// machine, beside the same over HTTP: rows U24, U26, U28 and N32 of docs/checks.md.
//
// What it asserts, whatever the speed: every answer comes, in its order; both ways give the same
// texts; no client's secret word stands in another's answer. Its ratios are gates at the sizes they
// were stated for; times are shown beside their goals and fail nothing. Blocking; one at a time.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/report.h"
#include "bench/session.h"

namespace tutti::bench {

struct MqttBenchOptions {
  std::string model = "smollm2-135m-instruct";
  Flags flags;
  std::vector<int> concurrency = {1, 10, 100};  // clients, each with a connection
  int requests = 100;                           // of each level and way in, and round
  int rounds = 2;
  int tokens = 32;                   // of each answer
  int pairs = 20, pair_tokens = 64;  // two projects together, and each alone
  int bursts = 200;                  // of three messages within 0.3 s
  int dialog_turns = 60;
  int idle_sessions = 1000;
  bool gated = true;  // these are the sizes that gates were stated for
};

Result<Report> BenchMqtt(const MqttBenchOptions& options,
                         const std::function<void(const std::string&)>& progress);

}  // namespace tutti::bench
