// Claimant: the user or project for whose limits a message or an answer counts, and the counts of
// each.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <tuple>

#include "base/status.h"

namespace tutti::mqtt::profile {

// A user; or, behind a broker that does not identify the users of a project, all users of that
// project together. Both empty: not limited.
struct Claimant {
  std::string user = {};
  std::string project = {};  // empty if the user is known

  bool empty() const { return user.empty() && project.empty(); }
  friend bool operator<(const Claimant& a, const Claimant& b) {
    return std::tie(a.user, a.project) < std::tie(b.user, b.project);
  }
};

struct ClaimantLimits {
  size_t per_user;
  size_t per_project;  // for projects with unknown users
};

// Not synchronised.
class ClaimantCounts {
 public:
  explicit ClaimantCounts(const ClaimantLimits& limits) : limits_(limits) {}

  // Checks whether one more is allowed. `what`: name of the counted things, for messages. Error:
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
