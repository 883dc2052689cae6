// Compares the figures of a report with those of a stored one, the baseline: which became slower by
// more than a threshold, and which cannot be judged. Pure functions over plain values; any thread.
//
// Two runs of the same program differ: other programs take the cores, hosts change their speed, and
// most such noise makes samples worse, none better than the program can be. A figure is therefore
// slower only if three tests agree (docs/decisions/0082):
//   1. its middle: the median of all ratios of a sample now to a sample of the baseline;
//   2. its best tenth (the 10th percentile of the times), which noise reaches last;
//   3. the exact rank test of Mann and Whitney, one-sided, p <= 0.05.
// 1 and 2 must exceed the threshold, after an allowance for a machine whose measured limits are
// below the baseline's, and 1 also half the width of the middle half of either side's samples.
// Nothing is judged if other programs used more than kBusyShare of the cores during one of the
// runs. Callers measure again while a figure is suspect, and judge all samples together.
#pragma once

#include <boost/json/object.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "bench/report.h"

namespace tutti::bench {

inline constexpr double kCompareThreshold = 0.05;
inline constexpr double kCompareSignificance = 0.05;
inline constexpr double kBusyShare = 0.1;   // largest share of the cores for other programs
inline constexpr size_t kLeastSamples = 3;  // on each side; the least that can reach p = 0.05

// The probability that samples of one distribution are as much in the order `after` above `before`
// as these are. Exact without ties; equal samples count as half, rounded so that p is not too
// small. 1 without samples.
double RankTest(std::span<const double> before, std::span<const double> after);

struct CompareOptions {
  double threshold = kCompareThreshold;  // a figure that is worse by more is slower
  bool any_machine = false;              // compare reports of machines with other processors
  bool allow_busy = false;               // judge although other programs used the cores
};

enum class Change {
  kSame,       // no change above the threshold
  kSlower,     // worse by more than the threshold
  kFaster,     // better by more than the threshold, by the same tests
  kUndecided,  // too few samples, or a spread in which the threshold could not be seen
};
const char* ChangeName(Change change);  // "same", "slower", "faster", "undecided"

struct ComparedFigure {
  Figure before, after;
  // Time for the same work, now / baseline: above 1 is slower, whether the figure is a rate or a
  // time. After the allowance for the machine.
  double middle = 1, best = 1;
  double p = 1;  // result of the rank test in the direction of `middle`
  Change change = Change::kUndecided;
};

struct Comparison {
  std::vector<ComparedFigure> figures;
  std::vector<std::string> only_before, only_after;  // names of figures that the other lacks
  std::vector<std::string> notes;  // settings that differ, and the allowance for the machine
  double threshold = kCompareThreshold;
  double machine = 1;  // speed of this machine / the baseline's, at most 1
  bool busy = false;   // other programs used the cores during a run: no figure is judged

  std::vector<std::string> Slower() const;  // names
  // Figures that are slower, or whose middle says so while the other tests cannot decide: what a
  // second measurement would settle. Names.
  std::vector<std::string> Suspect() const;
  size_t Count(Change change) const;
  std::string Text() const;  // lines for a terminal, with the verdict
  boost::json::object Json() const;
};

// Compares two reports in JSON. Errors: invalid_value if they are of different benches or machines,
// or have no figure in common.
Result<Comparison> CompareReports(const boost::json::object& before,
                                  const boost::json::object& after, const CompareOptions& options);

// Adds the samples of a second measurement of the same figures.
void AddSamples(const std::vector<Figure>& more, std::vector<Figure>* figures);

// Reads a stored report. Errors: invalid_value, naming the file.
Result<boost::json::object> ReadReport(const std::string& path);

}  // namespace tutti::bench
