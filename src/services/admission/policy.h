// What an operator says about all callers: limits of whoever has none of its own, and whose share
// of the device is greater. Plain values.
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
  limits::Rules key;     // of each key, user or token; what was given to it goes before
  limits::Rules model;   // of each tenant at each model
  std::map<std::string, double, std::less<>> weights;  // of tenants; others: 1

  // Of tenants that share kept answers: what they have in common; others share with nobody.
  std::map<std::string, std::string, std::less<>> cache_scopes;

  // A name that no model has means the only one that generates.
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

// Those of `policy`, but for what the caller was given of its own.
limits::Rules RulesOf(const api::CallerLimits& own, const limits::Rules& policy);

}  // namespace tutti::admission
