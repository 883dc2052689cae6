// `tutti bench jobs`: durable jobs of a server, and what a durable accept costs on this disk.
//
// Accepts, in this process: `at_once` concurrent accepts are given to a store, and each counts only
// when it is durable. They are compared with the simplest program of the same effect, one SQLite
// commit for each (WAL, synchronous=FULL), and with a Redis stream that flushes each entry
// (appendfsync always) if redis-server is installed.
//
// Over HTTP: jobs are submitted while a long answer is streamed. Then they run alone, and their
// rate is compared with the peak that interactive clients reach. A batch of equally short lines is
// measured in the same way, from its submission until its answers can be read. Finally, interactive
// clients in a closed loop are timed alone and while further jobs run.
//
// Rate of jobs = output tokens of all jobs / (time from the start of their queue until all have
// ended).
#pragma once

#include <string>
#include <vector>

#include "bench/report.h"
#include "bench/serve_load.h"

namespace tutti::bench {

struct JobsOptions {
  // `requests`, `concurrency`, `rate` and `sweep` are ignored.
  ServeOptions load = ServeOptions::ShortRequests();
  int jobs = 5000;     // jobs of the run alone, and of each run with interactive clients
  int lines = 5000;    // lines of the batch, which runs alone; 0: no batch
  int submitters = 8;  // connections
  int clients = 16;    // clients of the closed loop that measures the peak
  std::vector<int> interactive = {1, 8};  // clients to time, alone and while jobs run
  int probes = 200;                       // requests of each timed client
  std::string folder;  // folder of the local accepts; empty: the system's temporary folder
  std::vector<int> at_once = {1, 8, 64, 256};
  double seconds = 2;  // of each
  // Gates: p99 of a submission over HTTP in milliseconds; minimum ratio of the jobs' rate to the
  // peak; maximum ratio of TTFT with jobs to TTFT alone; minimum ratio of accepts to the simplest
  // program.
  double submit_p99_ms = 20, least_of_peak = 0.9, max_ttft = 1.1, least_of_plain = 10;
};

// Without a URL in `load`, measures the local accepts alone, which need no server.
Result<Report> BenchJobs(const JobsOptions& options, const Progress& progress);

}  // namespace tutti::bench
