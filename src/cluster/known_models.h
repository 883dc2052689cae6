// KnownModels: the names of all models that workers have brought. For some time after its last
// worker has gone, a model counts as temporarily unavailable; only then as unknown.
//
// Not thread-safe. The name of a model that a worker has is kept; a name without a worker is kept
// for kRemembered, and at most kMaxGone such names, the latest ones.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "api/types.h"
#include "base/clock.h"

namespace tutti::cluster {

class KnownModels {
 public:
  static constexpr Duration kRemembered = std::chrono::hours(1);
  static constexpr size_t kMaxGone = 256;

  // The models of one worker, by ids and aliases. Left() is called with the same models as Came().
  void Came(const std::vector<api::ModelInfo>& models, TimePoint now);
  void Left(const std::vector<api::ModelInfo>& models, TimePoint now);
  bool Contains(const std::string& name, TimePoint now) const;
  // Ids of the models, in the order in which they came: the first generator is the default model.
  const std::vector<std::string>& ids() const { return ids_; }

 private:
  struct Name {
    int holders = 0;  // workers that have it
    TimePoint left;   // when its last worker left
  };
  void Hold(const std::string& name);
  void Release(const std::string& name, TimePoint now);
  void Forget(TimePoint now);

  std::map<std::string, Name> names_;
  std::set<std::pair<TimePoint, std::string>> gone_;  // names without a worker, the oldest first
  std::vector<std::string> ids_;
};

}  // namespace tutti::cluster
