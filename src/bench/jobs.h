// `tutti bench jobs`: durable jobs of a server, and what a durable accept costs on this disk.
//
// Accepts, in this process: so many at once are handed to a store, each durable before it counts,
// beside the plainest program that does the same, one SQLite commit for each (WAL,
// synchronous=FULL), and beside a Redis stream that flushes each (appendfsync always), where there
// is a redis-server. Over HTTP: jobs are submitted while a long answer is streamed; then they run
// alone, beside the peak that interactive clients reach, as does a batch of as short lines, from
// when it is asked for until its answers can be read; then others run while interactive clients are
// timed in a closed loop, beside the same clients alone.
//
// Rate of jobs = output tokens of all / (from when their queue is let go until none has not ended).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/report.h"
#include "bench/serve_load.h"

namespace tutti::bench {

struct JobsOptions {
  static ServeOptions ShortRequests() {
    ServeOptions load;
    load.prompt_tokens = load.max_tokens = 32;
    load.keep_connections = true;
    return load;
  }
  // `requests`, `concurrency`, `rate` and `sweep` are not asked for.
  ServeOptions load = ShortRequests();
  int jobs = 5000;     // that run alone; as many beside each number of interactive clients
  int lines = 5000;    // of a batch, which runs alone; 0: none
  int submitters = 8;  // connections
  int clients = 16;    // of the closed loop that measures the peak
  std::vector<int> interactive = {1, 8};  // clients whose requests are timed, alone and beside jobs
  int probes = 200;                       // requests of each of them
  std::string folder;  // of the accepts in this process; empty: the system's for temporary files
  std::vector<int> at_once = {1, 8, 64, 256};
  double seconds = 2;  // of each
  // What is asked for.
  double submit_p99_ms = 20, least_of_peak = 0.9, most_ttft = 1.1, least_of_plain = 10;
};

// Without a URL in `load` only the accepts, which need no server.
Result<Report> BenchJobs(const JobsOptions& options,
                         const std::function<void(const std::string&)>& progress);

}  // namespace tutti::bench
