// Registry: the responses that are in memory, by id and owner.
//
// Bounded for each owner and in all: where there is no room, the owner's oldest that has ended goes
// (those that look at it keep it); if all of them run, the new one is refused. Thread-safe; nothing
// blocks for longer than a look-up.
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
  // nullptr where there is none, or it is another's.
  std::shared_ptr<Response> Find(const std::string& owner, const std::string& id) const;
  // It has ended: it may go when there is no room.
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
