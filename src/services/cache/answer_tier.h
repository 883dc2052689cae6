// AnswerTier: the port to kept answers that several servers have in common (redis_tier.h).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/answer_cache.h"
#include "api/types.h"
#include "base/clock.h"

namespace tutti::cache {

class SharedAnswer;

// Where an answer that is being computed will be kept, as it was known when it was asked for: what
// is flushed meanwhile is then nobody's. Immutable.
struct TierPlace {
  std::string tenant;
  std::string key;    // of the tier
  std::string words;  // all that can change the answer (answer_key.h)
  std::string era;    // between two flushes
};

// Any thread.
class AnswerTier {
 public:
  virtual ~AnswerTier() = default;
  // Whether Look() would ask somebody now, and so wait.
  virtual bool asks() const = 0;

  struct Found {
    std::vector<api::StreamEvent> events;  // of a whole answer; the last is kEnd
    Duration age{0};
  };
  struct Looked {
    std::optional<Found> found;
    std::shared_ptr<const TierPlace> place;  // null: what is computed is not kept there
  };
  // What is kept for an equal request, unless it wants none. Waits 5 ms at most.
  virtual Looked Look(const api::RenderedRequest& rendered) = 0;
  // Keeps an answer that is whole, later and if there is room; nobody waits. Its place is not null.
  virtual void Keep(std::shared_ptr<const SharedAnswer> answer) = 0;
  // What is kept there of a tenant (of all: nothing given) is nobody's any more, from now on for
  // this server. Waits a second at most; what could not be told by then is told when it can be.
  virtual void Flush(std::optional<std::string_view> tenant) = 0;
};

}  // namespace tutti::cache
