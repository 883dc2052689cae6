// `tutti bench overload`: what a server does when more comes than it can serve. Row N51 of
// docs/checks.md.
//
// First, as closed loops: the time to first text of single requests on the idle server, and the
// peak, what so many clients at once get done. Then open loops at multiples of the peak, each for
// a given time in slices of at most a minute, and after each slice how long it takes until single
// requests are served as before, and the peak again: the mean of both peaks is what the slice
// between them is compared with, as a shared machine changes its speed from minute to minute.
//
// Definitions: those of serve_load.h. Goodput counts the answers that ended between the first one's
// end and that of the load, and met the target given for their first text. A refusal is 429 or 503
// with Retry-After, and takes from sending to the end of its answer; anything else that is no
// answer has failed. Back = from the end of the load until the median of single requests is within
// 10 % of the idle one's.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/report.h"
#include "bench/serve_load.h"

namespace tutti::bench {

struct OverloadOptions {
  static ServeOptions ShortRequests() {
    ServeOptions load;
    load.prompt_tokens = load.max_tokens = 32;
    load.keep_connections = true;
    return load;
  }
  // `requests`, `concurrency`, `rate` and `sweep` are not asked for.
  ServeOptions load = ShortRequests();
  int clients = 16;     // of the closed loop that measures the peak
  double seconds = 60;  // of each level
  double slice_s = 60;  // of a level, between two peaks
  std::vector<double> factors = {1.2, 3, 10};
  int connections = 256;  // that send in the open loops
  // What is asked for; a level that misses one of them fails.
  double least_goodput = 0.9;  // of the peak
  double refusal_p99_ms = 10;
  double back_s = 60, back_within = 1.1;  // of the idle server's median
};

// What became of the requests of one open loop of `seconds`. For tests.
struct OverloadFigures {
  int answered = 0, refused = 0, failed = 0;
  double goodput = 0;  // requests a second
  std::vector<double> refusal_s;
};
OverloadFigures FiguresOf(const LevelResult& level, double seconds, double target_ttft_ms);

// The equal parts, none longer than `slice_s`, that a level of `seconds` is run in. For tests.
struct Slices {
  int count = 1;
  double seconds = 0;  // of each
  double peak_s = 0;   // of the closed loop before and after each
};
Slices SlicesOf(double seconds, double slice_s);

Result<Report> BenchOverload(const OverloadOptions& options,
                             const std::function<void(const std::string&)>& progress);

}  // namespace tutti::bench
