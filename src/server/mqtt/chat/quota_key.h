// QuotaKey: the user or project for whose limits a message or an answer counts, and the counts of
// each.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <tuple>

#include "base/status.h"

namespace tutti::mqtt::chat {

// A user; or, behind a broker that does not identify the users of a project, all users of that
// project together. Both empty: not limited.
struct QuotaKey {
  std::string user = {};
  std::string project = {};  // empty if the user is known

  bool empty() const { return user.empty() && project.empty(); }
  friend bool operator<(const QuotaKey& a, const QuotaKey& b) {
    return std::tie(a.user, a.project) < std::tie(b.user, b.project);
  }
};

struct QuotaKeyLimits {
  size_t per_user;
  size_t per_project;  // for projects with unknown users
};

// Not synchronised.
class QuotaKeyCounts {
 public:
  explicit QuotaKeyCounts(const QuotaKeyLimits& limits) : limits_(limits) {}

  // Checks whether one more is allowed. `what`: name of the counted things, for messages. Error:
  // tenant_concurrency.
  Status RoomFor(const QuotaKey& quota_key, const char* what) const {
    const auto known = counts_.find(quota_key);
    const bool user = !quota_key.user.empty();
    if (known == counts_.end() || known->second < (user ? limits_.per_user : limits_.per_project))
      return OkStatus();
    return ResourceExhausted("tenant_concurrency", std::to_string(known->second) + " " + what +
                                                       " of this " + (user ? "user" : "project") +
                                                       " wait, which is the most");
  }
  void Add(const QuotaKey& quota_key) {
    if (!quota_key.empty()) ++counts_[quota_key];
  }
  void Remove(const QuotaKey& quota_key) {
    const auto known = counts_.find(quota_key);
    if (known != counts_.end() && --known->second == 0) counts_.erase(known);
  }

 private:
  const QuotaKeyLimits limits_;
  std::map<QuotaKey, size_t> counts_;
};

}  // namespace tutti::mqtt::chat
