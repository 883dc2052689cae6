// KnownModels: the names of models that workers have brought. One whose workers have all gone is
// waited for, and only later said to be unknown.
//
// Not thread-safe. A name that a worker has is kept; one that nobody has any more for kRemembered,
// and of those the last kMostGone.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "api/types.h"
#include "base/clock.h"

namespace tutti::remote {

class KnownModels {
 public:
  static constexpr Duration kRemembered = std::chrono::hours(1);
  static constexpr size_t kMostGone = 256;

  // What one worker has, by ids and aliases; Left() is given the same as Came().
  void Came(const std::vector<api::ModelInfo>& models, TimePoint now);
  void Left(const std::vector<api::ModelInfo>& models, TimePoint now);
  bool Knows(const std::string& name, TimePoint now) const;
  // Of the models, in the order in which they came: the first generator is the default one.
  const std::vector<std::string>& ids() const { return ids_; }

 private:
  struct Name {
    int holders = 0;  // workers
    TimePoint left;   // when the last went
  };
  void Hold(const std::string& name);
  void Release(const std::string& name, TimePoint now);
  void Forget(TimePoint now);

  std::map<std::string, Name> names_;
  std::set<std::pair<TimePoint, std::string>> gone_;  // those that nobody has, the oldest first
  std::vector<std::string> ids_;
};

}  // namespace tutti::remote
