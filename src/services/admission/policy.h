// Policy: the operator's settings for all callers: default limits, fair-share weights of tenants
// and groups of tenants that share a cache. Plain values.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "api/caller.h"
#include "base/status.h"
#include "services/limits/rules.h"

namespace tutti::admission {

struct Policy {
  limits::Rules tenant;  // of each tenant, all its keys together
  limits::Rules key;     // of each key, user or token; limits in its grant take precedence
  limits::Rules model;   // of each tenant at each model
  std::map<std::string, double, std::less<>> weights;  // of tenants; others: 1

  // Tenant to cache scope. Tenants with the same scope share cached answers; others share nothing.
  std::map<std::string, std::string, std::less<>> cache_scopes;

  // Unknown model names select the generating model, if there is only one.
  bool any_model_name = false;

  std::string ScopeOf(std::string_view name) const {
    const auto found = cache_scopes.find(name);
    return found == cache_scopes.end() ? std::string() : found->second;
  }
  double WeightOf(std::string_view name) const {
    const auto found = weights.find(name);
    return found == weights.end() ? 1.0 : found->second;
  }
};

// "gold=4,trial=0.5". Errors: invalid_value.
Result<std::map<std::string, double, std::less<>>> ReadWeights(std::string_view text);

// "home=family,work=family". Errors: invalid_value.
Result<std::map<std::string, std::string, std::less<>>> ReadScopes(std::string_view text);

// The rules of `policy`, overridden by the caller's own limits.
limits::Rules RulesOf(const api::CallerLimits& own, const limits::Rules& policy);

}  // namespace tutti::admission
