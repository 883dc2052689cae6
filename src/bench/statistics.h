// Statistics of the benches' samples: percentiles, spreads, stability, gates. Pure functions over
// plain values; any thread. Definitions: serve_load.h.
#pragma once

#include <boost/json/object.hpp>
#include <span>
#include <vector>

namespace tutti::bench {

// Percentile `p` in [0, 100] by linear interpolation between closest ranks (rank p/100 * (n-1)). 0
// without samples.
double Percentile(std::span<const double> samples, double p);

// Middle and extremes of a few repeats.
struct Spread {
  double median = 0, min = 0, max = 0;
};
Spread SpreadOf(std::span<const double> samples);

struct Percentiles {
  double p50 = 0, p95 = 0, p99 = 0;
};
Percentiles PercentilesOf(std::span<const double> samples);
// {"p50", "p95", "p99"} in milliseconds, of seconds.
boost::json::object MillisJson(const Percentiles& seconds);
boost::json::object MillisJson(std::span<const double> seconds);

// Whether the last three values lie within 10 % of each other (largest <= 1.1 x smallest), so that
// more windows add nothing. False with fewer than three.
bool IsStable(std::span<const double> windows);

// Completion times (seconds since the start, any order) as rates over `windows` spans of equally
// many completions: each span lasts from the end of the one before it. Empty with fewer completions
// than windows.
std::vector<double> WindowRates(std::span<const double> completions, int windows);

// A ratio that must be reached, capped by what the machine allows: min(stated, 85 % of allowed).
struct RatioGate {
  double stated = 0, allowed = 0, measured = 0;
  double required() const;
  bool capped() const { return required() < stated; }
  bool met() const { return measured >= required(); }
};

}  // namespace tutti::bench
