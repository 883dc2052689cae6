// What a bench returns: its report, and the statistics of its samples: percentiles, spreads,
// stability, gates. Pure functions over plain values; any thread. Definitions: serve_load.h.
#pragma once

#include <boost/json/object.hpp>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace tutti::bench {

using Progress = std::function<void(const std::string&)>;  // gets lines as they come; may be empty

// The result of a bench: figures for programs, a table for people, and the verdict.
struct Report {
  boost::json::object json;           // carries "schema"
  std::string text;                   // ends with a newline
  std::vector<std::string> failures;  // gates missed, answers that differ; empty = passed

  // Adds a line to `text`, and passes it to `progress`.
  void Print(const std::string& line, const Progress& progress) {
    text += line + "\n";
    if (progress) progress(line);
  }
};

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

// "p50/p95/p99" in milliseconds, of seconds, with so many decimals.
std::string MillisText(const Percentiles& seconds, int decimals = 1);
std::string MillisText(std::span<const double> seconds, int decimals = 1);

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
