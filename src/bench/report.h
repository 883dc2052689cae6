// What a bench returns: its report with its figures, and the statistics of its samples:
// percentiles, spreads, stability, gates. Pure functions over plain values; any thread.
// Definitions: serve_load.h. What a report becomes: report_page.h; how two are compared: compare.h.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace tutti::bench {

using Progress = std::function<void(const std::string&)>;  // gets lines as they come; may be empty

// A measured value with its samples, one for each part of the run. The parts of a figure are alike
// (repeats of the same work, or equal shares of the requests of a level), so that their spread is
// the noise of the measurement. Comparisons and plots are made from figures alone.
struct Figure {
  std::string metric;  // "decode rate"; the figures of a metric share a plot
  std::string unit;    // "tokens/s", "ms"
  bool more_is_better = true;
  std::string series;  // a line of the plot: all settings of the work that are not on the axis
  std::string axis;    // what the plot's x axis counts: "sequences"
  double at = 0;       // the figure's place on that axis
  std::vector<double> samples;
  double limit = 0;         // at the limits of the machine; 0 if unknown
  double ops_per_byte = 0;  // kernels: operations for each byte read; else 0

  // "decode rate, prompts of 128, sequences 8"; names are unique in a report.
  std::string Name() const;
};

// A rate of tokens.
Figure TokenRate(const std::string& metric, const std::string& series, const std::string& axis,
                 double at, std::vector<double> tokens_per_s);

// Every figure with "median", "min" and "max" of its samples.
boost::json::array FiguresJson(std::span<const Figure> figures);
// The figures of a report's JSON; none if it has no "figures". Errors: invalid_value.
Result<std::vector<Figure>> FiguresFromJson(const boost::json::object& report);

// The result of a bench: figures for programs, a table for people, and the verdict.
struct Report {
  boost::json::object json;           // carries "schema"
  std::vector<Figure> figures;        // empty if the bench measures no speed
  std::string text;                   // ends with a newline
  std::vector<std::string> failures;  // gates missed, answers that differ; empty = passed

  // Adds a line to `text`, and passes it to `progress`.
  void Print(const std::string& line, const Progress& progress) {
    text += line + "\n";
    if (progress) progress(line);
  }
};

// The report as it is stored: `json` with "figures", "failures", "passed", the "version" of the
// program and the time as "created", in seconds since 1970.
boost::json::object ReportJson(const Report& report);

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

// The samples of a figure of a level of load: `value` of each of kLevelParts runs of `values`, of
// equal length but for one value. Fewer runs for fewer values.
inline constexpr size_t kLevelParts = 5;
std::vector<double> PartsOf(std::span<const double> values,
                            const std::function<double(std::span<const double>)>& value);

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
