// SocketClients: the chat clients that are connected over WebSocket, for the live state. A place is
// held from authentication until the socket is gone. Any thread; must outlive its places.
#pragma once

#include <algorithm>
#include <list>
#include <optional>
#include <utility>

#include "api/live_state.h"
#include "base/mutex.h"

namespace tutti::http {

class SocketClients {
 public:
  class Place {
   public:
    Place() = default;
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    ~Place() {
      if (clients_ != nullptr) clients_->Remove(*entry_);
    }
    void Take(SocketClients* clients, api::LiveClient client) {
      entry_ = clients->Add(std::move(client));
      clients_ = clients;
    }

   private:
    SocketClients* clients_ = nullptr;
    std::optional<std::list<api::LiveClient>::iterator> entry_;
  };

  // Adds the newest kMaxClients clients, and the number of the others.
  void List(api::LiveState* state) const {
    const MutexLock lock(mutex_);
    const size_t listed = std::min(entries_.size(), api::LiveState::kMaxClients);
    auto entry = entries_.rbegin();
    for (size_t i = 0; i < listed; ++i) state->clients.push_back(*entry++);
    state->clients_left_out += static_cast<int>(entries_.size() - listed);
  }

 private:
  std::list<api::LiveClient>::iterator Add(api::LiveClient client) {
    const MutexLock lock(mutex_);
    return entries_.insert(entries_.end(), std::move(client));
  }
  void Remove(std::list<api::LiveClient>::iterator entry) {
    const MutexLock lock(mutex_);
    entries_.erase(entry);
  }

  mutable Mutex mutex_;
  std::list<api::LiveClient> entries_ GUARDED_BY(mutex_);  // in the order of their logins
};

}  // namespace tutti::http
