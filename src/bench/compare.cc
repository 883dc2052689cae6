#include "bench/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cmath>

#include "base/quote.h"
#include "base/text_file.h"

namespace tutti::bench {
namespace {

constexpr uint64_t kMaxReportBytes = uint64_t{256} << 20;
constexpr size_t kMaxExact = 64;  // samples of a side; above, the ranks are nearly normal

// P(U >= at_least) of the Mann-Whitney statistic of n and m samples without ties: the share of the
// (n + m choose n) orders, counted by the recurrence of their paper (Annals of Mathematical
// Statistics 18, 1947).
double ExactTail(size_t n, size_t m, double at_least) {
  // ways[j][u]: orders of i samples of one side and j of the other with statistic u, as a share of
  // all orders, for the current i.
  std::vector<std::vector<double>> ways(m + 1, std::vector<double>(n * m + 1, 0));
  for (auto& of : ways) of[0] = 1;
  for (size_t i = 1; i <= n; ++i) {
    std::vector<std::vector<double>> next(m + 1, std::vector<double>(n * m + 1, 0));
    next[0][0] = 1;
    for (size_t j = 1; j <= m; ++j) {
      // The largest of all samples is one of the i, and above j others, or one of the j.
      const double share = static_cast<double>(i) / static_cast<double>(i + j);
      for (size_t u = 0; u <= i * j; ++u) {
        const double above = u >= j ? ways[j][u - j] : 0;
        next[j][u] = share * above + (1 - share) * next[j - 1][u];
      }
    }
    ways = std::move(next);
  }
  double tail = 0;
  for (size_t u = static_cast<size_t>(std::floor(at_least)); u <= n * m; ++u) tail += ways[m][u];
  return tail;
}

// Samples as times of the same work.
std::vector<double> Times(const Figure& figure) {
  std::vector<double> times;
  for (const double sample : figure.samples) {
    if (sample > 0) times.push_back(figure.more_is_better ? 1 / sample : sample);
  }
  return times;
}

// Near the least time, but of the same meaning for few and for many samples.
double Best(const std::vector<double>& times) { return Percentile(times, 10); }

// The width of the middle half of the samples, as a share of their median.
double MiddleHalf(const std::vector<double>& times) {
  return (Percentile(times, 75) - Percentile(times, 25)) / Percentile(times, 50);
}

// `machine`: speed of this machine / the baseline's, at most 1.
ComparedFigure Judge(const Figure& before, const Figure& after, double threshold, double machine) {
  ComparedFigure compared{before, after};
  const std::vector<double> old_times = Times(before);
  std::vector<double> new_times = Times(after);
  for (double& time : new_times) time *= machine;
  if (old_times.empty() || new_times.empty()) return compared;
  std::vector<double> ratios;
  for (const double a : new_times)
    for (const double b : old_times) ratios.push_back(a / b);
  compared.middle = Percentile(ratios, 50);
  compared.best = Best(new_times) / Best(old_times);
  compared.p =
      compared.middle >= 1 ? RankTest(old_times, new_times) : RankTest(new_times, old_times);
  if (old_times.size() < kLeastSamples || new_times.size() < kLeastSamples) return compared;
  const double spread = std::max(MiddleHalf(old_times), MiddleHalf(new_times));
  const double change = std::max(compared.middle, 1 / compared.middle) - 1;
  const bool clear = compared.p <= kCompareSignificance && change >= spread / 2;
  if (clear && std::min(compared.middle, compared.best) > 1 + threshold) {
    compared.change = Change::kSlower;
  } else if (clear && std::max(compared.middle, compared.best) < 1 / (1 + threshold)) {
    compared.change = Change::kFaster;
  } else if (spread <= 2 * threshold) {
    compared.change = Change::kSame;
  }
  return compared;
}

const boost::json::object* Member(const boost::json::object& json, const char* key) {
  const boost::json::value* value = json.if_contains(key);
  return value == nullptr ? nullptr : value->if_object();
}

std::string Printed(const boost::json::object& json, const char* key) {
  const boost::json::value* value = json.if_contains(key);
  if (value == nullptr) return "";
  return value->is_string() ? std::string(value->get_string()) : boost::json::serialize(*value);
}

double NumberIn(const boost::json::object& json, const char* key) {
  const boost::json::value* value = json.if_contains(key);
  return value != nullptr && value->is_number() ? value->to_number<double>() : 0;
}

// Checks the machines of both reports, and sets the allowance for one that is slower now.
Status CompareMachines(const boost::json::object& before, const boost::json::object& after,
                       const CompareOptions& options, Comparison* comparison) {
  const boost::json::object* old_one = Member(before, "machine");
  const boost::json::object* new_one = Member(after, "machine");
  if (old_one == nullptr || new_one == nullptr) return OkStatus();
  for (const char* key : {"cpu", "cores"}) {
    const std::string was = Printed(*old_one, key), is = Printed(*new_one, key);
    if (was == is) continue;
    if (!options.any_machine) {
      return InvalidArgument("invalid_value",
                             fmt::format("the baseline's machine has {} {}, this one {}; measure a "
                                         "baseline here, or give --any-machine",
                                         key, Quote(was), Quote(is)));
    }
    comparison->notes.push_back(fmt::format("machine, {}: {}, now {}", key, was, is));
  }
  for (const char* key : {"threads", "isa"}) {
    const std::string was = Printed(*old_one, key), is = Printed(*new_one, key);
    if (was != is) comparison->notes.push_back(fmt::format("{}: {}, now {}", key, was, is));
  }
  for (const auto& [machine, when] :
       {std::pair{old_one, "while the baseline was measured"}, {new_one, "during this run"}}) {
    const double others = NumberIn(*machine, "others_cpu");
    if (others <= kBusyShare) continue;
    comparison->busy = !options.allow_busy;
    comparison->notes.push_back(fmt::format("other programs used {:.0f} % of the cores {}{}",
                                            100 * others, when,
                                            options.allow_busy ? "" : ": no figure is judged"));
  }
  if (comparison->busy) return OkStatus();
  // Limits of other settings are no measure of the machine.
  if (options.any_machine || !comparison->notes.empty()) return OkStatus();
  for (const auto& [key, unit] :
       {std::pair{"read_gb_s", "GB/s read"}, {"int8_gops", "int8 GOPS"}}) {
    const double was = NumberIn(*old_one, key), is = NumberIn(*new_one, key);
    if (was <= 0 || is <= 0 || is >= was) continue;
    comparison->machine = std::min(comparison->machine, is / was);
    if (is < 0.95 * was) {
      comparison->notes.push_back(fmt::format(
          "the machine gives {:.0f} % of the baseline's {}; figures may be as much slower",
          100 * is / was, unit));
    }
  }
  return OkStatus();
}

std::string Value(double value) { return fmt::format("{:.{}f}", value, value < 100 ? 2 : 0); }

}  // namespace

double RankTest(std::span<const double> before, std::span<const double> after) {
  const size_t n = after.size(), m = before.size();
  if (n == 0 || m == 0) return 1;
  double u = 0;
  for (const double a : after)
    for (const double b : before) u += a > b ? 1 : a == b ? 0.5 : 0;
  if (n <= kMaxExact && m <= kMaxExact) return ExactTail(n, m, u);
  const double pairs = static_cast<double>(n) * static_cast<double>(m);
  const double deviation = std::sqrt(pairs * static_cast<double>(n + m + 1) / 12);
  return 0.5 * std::erfc((u - 0.5 - pairs / 2) / deviation / std::sqrt(2.0));
}

const char* ChangeName(Change change) {
  switch (change) {
    case Change::kSame:
      return "same";
    case Change::kSlower:
      return "slower";
    case Change::kFaster:
      return "faster";
    case Change::kUndecided:
      break;
  }
  return "undecided";
}

std::vector<std::string> Comparison::Slower() const {
  std::vector<std::string> names;
  for (const ComparedFigure& figure : figures) {
    if (figure.change == Change::kSlower) names.push_back(figure.after.Name());
  }
  return names;
}

std::vector<std::string> Comparison::Suspect() const {
  std::vector<std::string> names;
  for (const ComparedFigure& figure : figures) {
    const bool few =
        std::min(figure.before.samples.size(), figure.after.samples.size()) < kLeastSamples;
    const bool unclear = figure.change == Change::kUndecided && !few && !busy;
    if (figure.change == Change::kSlower || (unclear && figure.middle > 1 + threshold))
      names.push_back(figure.after.Name());
  }
  return names;
}

size_t Comparison::Count(Change change) const {
  return static_cast<size_t>(std::count_if(
      figures.begin(), figures.end(), [&](const ComparedFigure& f) { return f.change == change; }));
}

std::string Comparison::Text() const {
  size_t width = 6;
  for (const ComparedFigure& figure : figures) width = std::max(width, figure.after.Name().size());
  std::string text;
  for (const std::string& note : notes) text += note + "\n";
  text += fmt::format("{:<{}} {:>10} {:>10} {:<8} {:>7} {:>7} {:>6}  {}\n", "figure", width,
                      "baseline", "now", "unit", "time", "best", "p", "change");
  for (const ComparedFigure& figure : figures) {
    text += fmt::format("{:<{}} {:>10} {:>10} {:<8} {:>+6.1f}% {:>+6.1f}% {:>6.3f}  {}\n",
                        figure.after.Name(), width, Value(Percentile(figure.before.samples, 50)),
                        Value(Percentile(figure.after.samples, 50)), figure.after.unit,
                        100 * (figure.middle - 1), 100 * (figure.best - 1), figure.p,
                        ChangeName(figure.change));
  }
  for (const std::string& name : only_before) text += "only in the baseline: " + name + "\n";
  for (const std::string& name : only_after) text += "not in the baseline: " + name + "\n";
  text += fmt::format("{} slower, {} faster, {} same, {} undecided at a threshold of {:g} %\n",
                      Count(Change::kSlower), Count(Change::kFaster), Count(Change::kSame),
                      Count(Change::kUndecided), 100 * threshold);
  if (Count(Change::kUndecided) > 0) {
    text +=
        "undecided: too few samples, or a spread that hides such a change; measure both on an idle "
        "machine, with more repeats\n";
  }
  return text;
}

boost::json::object Comparison::Json() const {
  boost::json::array rows;
  for (const ComparedFigure& figure : figures) {
    rows.push_back(boost::json::object{{"figure", figure.after.Name()},
                                       {"unit", figure.after.unit},
                                       {"before", Percentile(figure.before.samples, 50)},
                                       {"after", Percentile(figure.after.samples, 50)},
                                       {"time_ratio", figure.middle},
                                       {"best_time_ratio", figure.best},
                                       {"p", figure.p},
                                       {"change", ChangeName(figure.change)}});
  }
  return {{"threshold", threshold},
          {"machine_speed", machine},
          {"slower", Count(Change::kSlower)},
          {"undecided", Count(Change::kUndecided)},
          {"notes", boost::json::array(notes.begin(), notes.end())},
          {"only_before", boost::json::array(only_before.begin(), only_before.end())},
          {"only_after", boost::json::array(only_after.begin(), only_after.end())},
          {"figures", std::move(rows)}};
}

Result<Comparison> CompareReports(const boost::json::object& before,
                                  const boost::json::object& after, const CompareOptions& options) {
  Comparison comparison;
  comparison.threshold = options.threshold;
  const std::string was = Printed(before, "schema"), is = Printed(after, "schema");
  if (was != is) {
    return InvalidArgument(
        "invalid_value", fmt::format("the baseline is a report of {}, not of {}", Quote(was), is));
  }
  RETURN_IF_ERROR(CompareMachines(before, after, options, &comparison));
  for (const char* key : {"model", "url", "target"}) {
    const std::string a = Printed(before, key), b = Printed(after, key);
    if (a != b) comparison.notes.push_back(fmt::format("{}: {}, now {}", key, a, b));
  }
  ASSIGN_OR_RETURN(const std::vector<Figure> old_figures, FiguresFromJson(before));
  ASSIGN_OR_RETURN(const std::vector<Figure> new_figures, FiguresFromJson(after));
  const auto named = [](const std::vector<Figure>& figures, const std::string& name) {
    return std::find_if(figures.begin(), figures.end(),
                        [&](const Figure& figure) { return figure.Name() == name; });
  };
  for (const Figure& figure : new_figures) {
    const auto found = named(old_figures, figure.Name());
    if (found == old_figures.end()) {
      comparison.only_after.push_back(figure.Name());
      continue;
    }
    comparison.figures.push_back(Judge(*found, figure, options.threshold, comparison.machine));
    if (comparison.busy) comparison.figures.back().change = Change::kUndecided;
  }
  for (const Figure& figure : old_figures) {
    if (named(new_figures, figure.Name()) == new_figures.end())
      comparison.only_before.push_back(figure.Name());
  }
  if (!comparison.figures.empty()) return comparison;
  if (old_figures.empty()) {
    return InvalidArgument("invalid_value",
                           "the baseline has no figures; write it with --json of this version");
  }
  if (new_figures.empty())
    return InvalidArgument("invalid_value", "the report has no figures to compare");
  return InvalidArgument("invalid_value",
                         fmt::format("no figure is in both reports: {} in the baseline, {} now",
                                     Quote(old_figures[0].Name()), Quote(new_figures[0].Name())));
}

void AddSamples(const std::vector<Figure>& more, std::vector<Figure>* figures) {
  for (const Figure& figure : more) {
    const auto same = std::find_if(figures->begin(), figures->end(), [&](const Figure& other) {
      return other.Name() == figure.Name();
    });
    if (same == figures->end()) {
      figures->push_back(figure);
    } else {
      same->samples.insert(same->samples.end(), figure.samples.begin(), figure.samples.end());
    }
  }
}

Result<boost::json::object> ReadReport(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, kMaxReportBytes, "invalid_value"));
  boost::system::error_code failed;
  const boost::json::value json = boost::json::parse(text, failed);
  const boost::json::object* object = failed ? nullptr : json.if_object();
  if (object == nullptr || !Printed(*object, "schema").starts_with("tutti.bench.")) {
    return InvalidArgument("invalid_value",
                           Quote(path, 255) + " is no report of tutti bench (--json FILE)");
  }
  return *object;
}

}  // namespace tutti::bench
