// Claimant: whose bound a message or an answer counts for, and how much there is of each.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <tuple>

#include "base/status.h"

namespace tutti::mqtt::profile {

// A user; or where a broker has let in a client of a project without telling whom, all of that
// project together. Both empty: nobody's bound.
struct Claimant {
  std::string user = {};
  std::string project = {};  // empty where the user is known

  bool empty() const { return user.empty() && project.empty(); }
  friend bool operator<(const Claimant& a, const Claimant& b) {
    return std::tie(a.user, a.project) < std::tie(b.user, b.project);
  }
};

struct ClaimantLimits {
  size_t per_user;
  size_t per_project;  // of those whose users are not known
};

// Not synchronised.
class ClaimantCounts {
 public:
  explicit ClaimantCounts(const ClaimantLimits& limits) : limits_(limits) {}

  // Whether there may be one more. `what`: the things counted, for people. Error:
  // tenant_concurrency.
  Status RoomFor(const Claimant& claimant, const char* what) const {
    const auto known = counts_.find(claimant);
    const bool user = !claimant.user.empty();
    if (known == counts_.end() || known->second < (user ? limits_.per_user : limits_.per_project))
      return OkStatus();
    return ResourceExhausted("tenant_concurrency", std::to_string(known->second) + " " + what +
                                                       " of this " + (user ? "user" : "project") +
                                                       " wait, which is the most");
  }
  void Add(const Claimant& claimant) {
    if (!claimant.empty()) ++counts_[claimant];
  }
  void Remove(const Claimant& claimant) {
    const auto known = counts_.find(claimant);
    if (known != counts_.end() && --known->second == 0) counts_.erase(known);
  }

 private:
  const ClaimantLimits limits_;
  std::map<Claimant, size_t> counts_;
};

}  // namespace tutti::mqtt::profile
