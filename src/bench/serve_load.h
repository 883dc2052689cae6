// `tutti bench serve`: load on any OpenAI-compatible server over streaming chat or completions.
// Closed loop: each client sends its next request when the previous one has ended. Open loop:
// requests are due at given times, independent of the server. N55 and N56 of docs/checks.md.
//
// Definitions: TTFT = due time to first text; TPOT = (E2E - TTFT) / (n - 1); ITL = gaps between
// pieces of text; E2E = due time to the end of the answer. In a closed loop a request is due when
// it is sent. A request sent late counts from its due time. n is the server's own count (usage), or
// the pieces where it gives none. Goodput = requests a second that met every target given. A level
// is stable when the rates of three windows agree within 10 %.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "bench/report.h"
#include "bench/workload.h"
#include "client/http_client.h"

namespace tutti::bench {

struct ServeOptions {
  // Short prompts and outputs over connections that are kept.
  static ServeOptions ShortRequests();

  std::string url;
  std::string model;  // empty: the first of GET /v1/models that generates
  std::string api_key;
  bool chat = true;  // /v1/chat/completions, else /v1/completions
  bool ignore_eos = true;
  int requests = 100, prompt_tokens = 128, max_tokens = 64;
  std::vector<int> concurrency = {1, 4, 8};
  double rate = 0;     // > 0: open loop at this rate, in requests per second
  bool sweep = false;  // open loop at 0.5, 0.8, 1.0 and 1.2 x what the last closed level reached
  Arrivals arrivals = Arrivals::kPoisson;
  Workload workload = Workload::kRandom;
  uint64_t seed = 1;
  std::string cache_salt;  // sent with each request, so that no earlier run's prompts are in the
                           // server's prefix cache; empty: none is sent
  bool calibrate = true;   // false: levels on a slowed machine are not marked
  double target_ttft_ms = 0, target_tpot_ms = 0;  // 0 = no target
  std::chrono::milliseconds patience{60000};
  bool keep_connections = false;  // each sender keeps its own, else every request opens one
};

// Times of one request, in seconds since the level began.
struct RequestRecord {
  Status status;
  double due_s = 0, sent_s = 0, first_s = 0, end_s = 0;
  std::vector<double> gaps_s;  // between pieces of text
  int tokens = 0;
  // The server refused with 429 or 503 and Retry-After.
  bool refused() const;
};

struct LevelResult {
  double seconds = 0;  // from the start to the last answer's end
  std::vector<RequestRecord> records;

  int completed() const;
  std::vector<double> Ttft() const, Tpot() const, Itl() const, EndToEnd() const, Late() const;
  int64_t tokens() const;
  double sent_rate() const;  // gaps between sendings / time from the first to the last
  bool stable() const;
};

// Runs one level: `clients` in a closed loop, or at `due` times in an open one (then clients is the
// most requests that may be outstanding, 0 = as many as threads allow). In an open loop the number
// of requests is that of `due`.
LevelResult RunLoad(const ServeOptions& options, const client::Server& server,
                    const std::string& model, int clients, const std::vector<double>& due);

// Runs a closed loop of `requests` requests in all, with `seed` and `max_tokens` in place of those
// of `options`; an error if any request was not answered.
Result<LevelResult> RunClosedLoop(const ServeOptions& options, const client::Server& server,
                                  const std::string& model, int clients, int requests,
                                  int max_tokens, uint64_t seed);

Result<Report> BenchServe(const ServeOptions& options, const Progress& progress);

}  // namespace tutti::bench
