// `tutti bench overload`: behaviour of a server that receives more requests than it can serve. Row
// N51 of docs/checks.md.
//
// First, two closed loops: the TTFT of single requests on the idle server, and the peak throughput
// of `clients` clients. Then open loops at multiples of the peak, each in slices of at most a
// minute. After each slice, the bench measures how long it takes until single requests are as fast
// as before, and the peak again. A slice is compared with the mean of the peaks before and after
// it, because a shared machine changes its speed from minute to minute.
//
// Definitions: those of serve_load.h. Goodput counts the answers that ended between the end of the
// first answer and the end of the load, and met the TTFT target. A refusal is 429 or 503 with
// Retry-After; its time is from sending to the end of the response. Any other response that is no
// answer is a failure. Back = time from the end of the load until the median of single requests is
// within 10 % of that of the idle server.
#pragma once

#include <vector>

#include "bench/report.h"
#include "bench/serve_load.h"

namespace tutti::bench {

struct OverloadOptions {
  // `requests`, `concurrency`, `rate` and `sweep` are ignored.
  ServeOptions load = ServeOptions::ShortRequests();
  int clients = 16;     // clients of the closed loop that measures the peak
  double seconds = 60;  // of each level
  double slice_s = 60;  // of a level, between two peaks
  std::vector<double> factors = {1.2, 3, 10};
  int connections = 256;  // connections of the open loops
  // Gates of each level: minimum goodput and maximum times.
  double least_goodput = 0.9;  // of the peak
  double refusal_p99_ms = 10;
  double back_s = 60, back_within = 1.1;  // ratio to the idle server's median
};

// Outcomes of the requests of one open loop of `seconds`. For tests.
struct OverloadFigures {
  int answered = 0, refused = 0, failed = 0;
  double goodput = 0;  // requests a second
  std::vector<double> refusal_s;
};
OverloadFigures FiguresOf(const LevelResult& level, double seconds, double target_ttft_ms);

// Divides a level of `seconds` into equal slices of at most `slice_s`. For tests.
struct Slices {
  int count = 1;
  double seconds = 0;  // of each
  double peak_s = 0;   // of the closed loop before and after each
};
Slices SlicesOf(double seconds, double slice_s);

Result<Report> BenchOverload(const OverloadOptions& options, const Progress& progress);

}  // namespace tutti::bench
