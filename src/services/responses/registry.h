// Registry: the responses in memory, by id and owner.
//
// Bounded per owner and in total. Without room, the owner's oldest ended response is evicted
// (readers keep it alive); if all responses of the owner are running, the new one is refused.
// Thread-safe; no call blocks for longer than a lookup.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>

#include "base/mutex.h"
#include "base/status.h"
#include "services/responses/response.h"

namespace tutti::responses {

class Registry {
 public:
  struct Limits {
    size_t per_owner = 1000;
    size_t all = 20'000;
  };
  explicit Registry(const Limits& limits) : limits_(limits) {}

  // Errors: tenant_concurrency, overloaded; store_conflict (the id is taken).
  Status Add(const std::shared_ptr<Response>& response);
  // nullptr if there is none, or if it has another owner.
  std::shared_ptr<Response> Find(const std::string& owner, const std::string& id) const;
  // Marks a response as ended, so that it can be evicted.
  void Ended(const Response& response);
  void Remove(const std::string& id);
  void RemoveEnded(const std::string& owner);  // all of them

  size_t size() const;

 private:
  struct Entry {
    std::shared_ptr<Response> response;
    bool ended = false;
    std::list<std::string>::iterator place = {};  // among its owner's that ended
  };
  struct Owner {
    size_t responses = 0;
    std::list<std::string> ended;  // ids, the oldest first
  };
  void RemoveLocked(const std::string& id) REQUIRES(mutex_);

  const Limits limits_;
  mutable Mutex mutex_;
  std::unordered_map<std::string, Entry> entries_ GUARDED_BY(mutex_);
  std::unordered_map<std::string, Owner> owners_ GUARDED_BY(mutex_);
};

}  // namespace tutti::responses
