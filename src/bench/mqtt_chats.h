// `tutti bench mqtt`: chats over MQTT compared with the same chats over HTTP, on a model that the
// bench loads and through listeners of this process: rows U24, U26, U28 and N32 of docs/checks.md.
//
// Independent of the speed, the bench asserts that every answer arrives, in order; that MQTT and
// HTTP give the same texts; and that no client's secret word appears in another client's answer.
// Ratios are gates at the default sizes only; times are printed next to their goals and never fail
// the bench. Blocking; one run at a time.
#pragma once

#include <string>
#include <vector>

#include "bench/report.h"
#include "bench/session.h"

namespace tutti::bench {

struct MqttBenchOptions {
  std::string model = "smollm2-135m-instruct";
  Flags flags;
  std::vector<int> concurrency = {1, 10, 100};  // clients, each with a connection
  int requests = 100;                           // of each level, transport and round
  int rounds = 2;
  int tokens = 32;                   // of each answer
  int pairs = 20, pair_tokens = 64;  // two projects concurrently, and each alone
  int bursts = 200;                  // of three messages within 0.3 s
  int dialog_turns = 60;
  int idle_sessions = 1000;
  bool gated = true;  // false where sizes differ from the defaults, for which the gates hold
};

Result<Report> BenchMqtt(const MqttBenchOptions& options, const Progress& progress);

}  // namespace tutti::bench
