#include "bench/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "app/version.h"
#include "base/clock.h"

namespace tutti::bench {
namespace {

Status BadFigure(size_t index, const char* key) {
  return InvalidArgument("invalid_value",
                         fmt::format("figures[{}]: {} is missing or of a wrong type", index, key));
}

}  // namespace

std::string Figure::Name() const {
  std::string name = metric;
  if (!series.empty()) name += ", " + series;
  if (!axis.empty()) name += fmt::format(", {} {:g}", axis, at);
  return name;
}

Figure TokenRate(const std::string& metric, const std::string& series, const std::string& axis,
                 double at, std::vector<double> tokens_per_s) {
  Figure figure;
  figure.metric = metric;
  figure.unit = "tokens/s";
  figure.series = series;
  figure.axis = axis;
  figure.at = at;
  figure.samples = std::move(tokens_per_s);
  return figure;
}

boost::json::array FiguresJson(std::span<const Figure> figures) {
  boost::json::array out;
  for (const Figure& figure : figures) {
    const Spread spread = SpreadOf(figure.samples);
    boost::json::object json{
        {"metric", figure.metric},
        {"unit", figure.unit},
        {"better", figure.more_is_better ? "more" : "less"},
        {"series", figure.series},
        {"axis", figure.axis},
        {"at", figure.at},
        {"median", spread.median},
        {"min", spread.min},
        {"max", spread.max},
        {"samples", boost::json::array(figure.samples.begin(), figure.samples.end())}};
    if (figure.limit > 0) json["limit"] = figure.limit;
    if (figure.ops_per_byte > 0) json["ops_per_byte"] = figure.ops_per_byte;
    out.push_back(std::move(json));
  }
  return out;
}

Result<std::vector<Figure>> FiguresFromJson(const boost::json::object& report) {
  std::vector<Figure> figures;
  const boost::json::value* list = report.if_contains("figures");
  if (list == nullptr) return figures;
  if (!list->is_array()) return InvalidArgument("invalid_value", "figures is no array");
  for (const boost::json::value& item : list->get_array()) {
    const size_t index = figures.size();
    if (!item.is_object()) return BadFigure(index, "the object");
    const boost::json::object& json = item.get_object();
    Figure figure;
    std::string better;
    for (const auto& [key, text] : {std::pair{"metric", &figure.metric},
                                    {"unit", &figure.unit},
                                    {"better", &better},
                                    {"series", &figure.series},
                                    {"axis", &figure.axis}}) {
      const boost::json::value* value = json.if_contains(key);
      if (value == nullptr || !value->is_string()) return BadFigure(index, key);
      *text = std::string(value->get_string());
    }
    figure.more_is_better = better == "more";
    const auto number = [](const boost::json::value* value, double* out) {
      if (value == nullptr || !value->is_number()) return false;
      *out = value->to_number<double>();
      return true;
    };
    if (!number(json.if_contains("at"), &figure.at)) return BadFigure(index, "at");
    number(json.if_contains("limit"), &figure.limit);
    number(json.if_contains("ops_per_byte"), &figure.ops_per_byte);
    const boost::json::value* samples = json.if_contains("samples");
    if (samples == nullptr || !samples->is_array()) return BadFigure(index, "samples");
    for (const boost::json::value& sample : samples->get_array()) {
      if (!number(&sample, &figure.samples.emplace_back())) return BadFigure(index, "a sample");
    }
    figures.push_back(std::move(figure));
  }
  return figures;
}

boost::json::object ReportJson(const Report& report) {
  boost::json::object json = report.json;
  json["figures"] = FiguresJson(report.figures);
  json["failures"] = boost::json::array(report.failures.begin(), report.failures.end());
  json["passed"] = report.failures.empty();
  json["version"] = app::kVersion;
  json["created"] = UnixSeconds();
  return json;
}

double Percentile(std::span<const double> samples, double p) {
  if (samples.empty()) return 0;
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  const double rank = std::clamp(p, 0.0, 100.0) / 100.0 * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(std::floor(rank));
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (sorted[above] - sorted[below]) * (rank - static_cast<double>(below));
}

Spread SpreadOf(std::span<const double> samples) {
  return {Percentile(samples, 50), Percentile(samples, 0), Percentile(samples, 100)};
}

Percentiles PercentilesOf(std::span<const double> samples) {
  return {Percentile(samples, 50), Percentile(samples, 95), Percentile(samples, 99)};
}

boost::json::object MillisJson(const Percentiles& seconds) {
  return {{"p50", seconds.p50 * 1e3}, {"p95", seconds.p95 * 1e3}, {"p99", seconds.p99 * 1e3}};
}

boost::json::object MillisJson(std::span<const double> seconds) {
  return MillisJson(PercentilesOf(seconds));
}

std::string MillisText(const Percentiles& seconds, int decimals) {
  return fmt::format("{:.{}f}/{:.{}f}/{:.{}f}", seconds.p50 * 1e3, decimals, seconds.p95 * 1e3,
                     decimals, seconds.p99 * 1e3, decimals);
}

std::string MillisText(std::span<const double> seconds, int decimals) {
  return MillisText(PercentilesOf(seconds), decimals);
}

bool IsStable(std::span<const double> windows) {
  if (windows.size() < 3) return false;
  const auto [low, high] = std::minmax_element(windows.end() - 3, windows.end());
  return *low > 0 && *high <= 1.1 * *low;
}

std::vector<double> PartsOf(std::span<const double> values,
                            const std::function<double(std::span<const double>)>& value) {
  const size_t parts = std::min(kLevelParts, values.size());
  std::vector<double> out;
  size_t begin = 0;
  for (size_t part = 1; part <= parts; ++part) {
    const size_t end = values.size() * part / parts;
    out.push_back(value(values.subspan(begin, end - begin)));
    begin = end;
  }
  return out;
}

std::vector<double> WindowRates(std::span<const double> completions, int windows) {
  if (windows < 1 || completions.size() < static_cast<size_t>(windows)) return {};
  std::vector<double> sorted(completions.begin(), completions.end());
  std::sort(sorted.begin(), sorted.end());
  std::vector<double> rates;
  double from = 0;
  size_t begin = 0;
  for (int w = 1; w <= windows; ++w) {
    const size_t end = sorted.size() * static_cast<size_t>(w) / static_cast<size_t>(windows);
    const double to = sorted[end - 1];
    rates.push_back(to > from ? static_cast<double>(end - begin) / (to - from) : 0);
    from = to;
    begin = end;
  }
  return rates;
}

double RatioGate::required() const { return std::min(stated, 0.85 * allowed); }

}  // namespace tutti::bench
