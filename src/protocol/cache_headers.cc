#include "protocol/cache_headers.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <optional>

#include "base/ascii.h"

namespace tutti::protocol {
namespace {

using api::CacheOutcome;

constexpr int64_t kMaxSeconds = int64_t{1} << 31;  // RFC 9111, section 1.2.2

std::optional<Duration> Seconds(std::string_view digits) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (end != digits.data() + digits.size() || digits.empty() || digits[0] == '-')
    return std::nullopt;
  if (error == std::errc::result_out_of_range) value = kMaxSeconds;
  return std::chrono::seconds(std::min(value, kMaxSeconds));
}

// From what is most to what is least an answer of the cache.
constexpr std::array kRanks = {CacheOutcome::kHit, CacheOutcome::kJoin, CacheOutcome::kMiss,
                               CacheOutcome::kBypass, CacheOutcome::kNone};
auto Rank(CacheOutcome outcome) { return std::find(kRanks.begin(), kRanks.end(), outcome); }

}  // namespace

api::CacheControl ReadCacheControl(std::string_view field) {
  api::CacheControl control;
  for (const std::string_view part : SplitAt(field, ',')) {
    const std::string_view directive = Trimmed(part);
    const size_t equals = directive.find('=');
    const std::string name = AsciiLower(directive.substr(0, equals));
    if (name == "no-store") {
      control.no_store = true;
    } else if (name == "no-cache") {
      control.no_cache = true;
    } else if (name == "max-age" && equals != std::string_view::npos) {
      if (const auto age = Seconds(directive.substr(equals + 1))) control.max_age = age;
    }
  }
  return control;
}

double ReadSimilarity(std::string_view field) {
  const std::optional<double> value = ParseNumber<double>(Trimmed(field));
  const bool good = value.has_value() && *value >= 0;
  return good ? std::min(*value, 2.0) : 0;  // above 1: nothing is that near
}

void AppendCacheHeaders(std::span<const std::shared_ptr<api::CacheReport>> reports,
                        std::vector<std::pair<std::string, std::string>>* headers) {
  if (reports.empty()) return;
  CacheOutcome outcome = CacheOutcome::kHit;
  Duration age{0};
  for (const auto& report : reports) {
    if (Rank(report->outcome()) > Rank(outcome)) outcome = report->outcome();
    age = std::max(age, report->age());
  }
  static constexpr const char* kNames[] = {"", "miss", "hit", "join", "bypass"};
  if (outcome == CacheOutcome::kNone) return;
  headers->emplace_back("x-cache", kNames[static_cast<size_t>(outcome)]);
  if (outcome == CacheOutcome::kHit) {
    headers->emplace_back(
        "Age", std::to_string(std::chrono::duration_cast<std::chrono::seconds>(age).count()));
  }
  if (reports.size() != 1 || reports[0]->source().empty()) return;
  char similarity[16];
  std::snprintf(similarity, sizeof similarity, "%.4f", reports[0]->similarity());
  headers->emplace_back("x-cache-kind", "semantic");
  headers->emplace_back("x-cache-similarity", similarity);
  headers->emplace_back("x-cache-source", reports[0]->source());
}

}  // namespace tutti::protocol
