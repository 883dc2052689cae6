#include "bench/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tutti::bench {

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
