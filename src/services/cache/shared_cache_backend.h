// SharedCacheBackend: interface of a response cache that several servers share; RedisTier
// implements it.
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

// Where a computed answer will be stored, as determined at its lookup: if the tier is flushed
// during the computation, the old era makes the stored answer unreadable. Immutable.
struct TierPlace {
  std::string tenant;
  std::string key;    // of the tier
  std::string words;  // all that can change the answer (answer_key.h)
  std::string era;    // random; replaced by each flush
};

// Any thread.
class SharedCacheBackend {
 public:
  virtual ~SharedCacheBackend() = default;
  // Whether Look() would query the shared cache now, and so may block.
  virtual bool asks() const = 0;

  struct Found {
    std::vector<api::StreamEvent> events;  // of a whole answer; the last is kEnd
    Duration age{0};
  };
  struct Looked {
    std::optional<Found> found;
    std::shared_ptr<const TierPlace> place;  // null: do not store the computed answer
  };
  // Looks up the answer of an equal request, unless the request disables caching. Blocks for at
  // most 5 ms.
  virtual Looked Look(const api::RenderedRequest& rendered) = 0;
  // Queues a complete answer, whose place is not null, for storage; may drop it. Does not block.
  virtual void Keep(std::shared_ptr<const SharedAnswer> answer) = 0;
  // Invalidates the answers of a tenant, or of all tenants (nullopt), for this server at once.
  // Blocks for at most a second; if Redis cannot be reached by then, it is updated later.
  virtual void Flush(std::optional<std::string_view> tenant) = 0;
};

}  // namespace tutti::cache
