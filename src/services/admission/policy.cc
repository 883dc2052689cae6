#include "services/admission/policy.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "api/validate.h"
#include "base/quote.h"

namespace tutti::admission {
namespace {

Status BadWeight(std::string_view entry) {
  return InvalidArgument(
      "invalid_value", "a weight is written TENANT=NUMBER, from 0.01 to 100, not " + Quote(entry));
}

}  // namespace

Result<std::map<std::string, double, std::less<>>> ReadWeights(std::string_view text) {
  std::map<std::string, double, std::less<>> weights;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::string_view entry = text.substr(0, comma);
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
    const size_t equals = entry.find('=');
    if (equals == std::string_view::npos || equals == 0) return BadWeight(entry);
    const std::string number(entry.substr(equals + 1));
    char* end = nullptr;
    const double weight = std::strtod(number.c_str(), &end);
    const bool whole = !number.empty() && *end == '\0' && std::isfinite(weight);
    if (!whole || !api::CheckTenantWeight(weight).ok()) return BadWeight(entry);
    if (!weights.emplace(entry.substr(0, equals), weight).second) {
      return InvalidArgument("invalid_value",
                             "two weights for the tenant " + Quote(entry.substr(0, equals)));
    }
  }
  return weights;
}

Result<std::map<std::string, std::string, std::less<>>> ReadScopes(std::string_view text) {
  std::map<std::string, std::string, std::less<>> scopes;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view entry = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    const size_t equals = entry.find('=');
    if (equals == std::string_view::npos || equals == 0 || equals + 1 == entry.size()) {
      return InvalidArgument("invalid_value",
                             "scopes are TENANT=SCOPE, separated by commas, not " + Quote(entry));
    }
    if (!scopes.emplace(entry.substr(0, equals), entry.substr(equals + 1)).second) {
      return InvalidArgument("invalid_value",
                             "two scopes for the tenant " + Quote(entry.substr(0, equals)));
    }
  }
  return scopes;
}

limits::Rules RulesOf(const api::CallerLimits& own, const limits::Rules& policy) {
  limits::Rules rules = policy;
  rules.requests_per_minute = own.requests_per_minute.value_or(rules.requests_per_minute);
  rules.tokens_per_minute = own.tokens_per_minute.value_or(rules.tokens_per_minute);
  rules.concurrency = own.concurrency.value_or(rules.concurrency);
  rules.queued_tokens = own.queued_tokens.value_or(rules.queued_tokens);
  rules.tokens_per_day = own.daily_tokens.value_or(rules.tokens_per_day);
  return rules;
}

}  // namespace tutti::admission
