// Session: in-memory state of one dialog. Turn: one accepted message that has not ended. Both are
// plain data; session_actor.h has the code. Residency: which sessions are in memory. All are used
// on the strand only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "services/responses/response.h"
#include "services/sessions/history.h"
#include "services/sessions/message.h"
#include "services/sessions/turn_queue.h"

namespace tutti::sessions {

struct Turn {
  int64_t number = 0;
  Message message;
  std::shared_ptr<responses::Response> response;
  size_t position = 0;
  bool durable = false;                   // its acceptance is in the store
  bool running = false;                   // in the queue's sense
  bool generating = false;                // its inference was taken; shown when it is durable
  Status refused;                         // why it could not begin before it was durable
  Status unreadable;                      // the error of a corrupt record
  bool ending = false;                    // without one: it is on its way to its end
  int64_t place = 0;                      // of its items; given when it begins
  int64_t first_place = 1;                // of its prompt
  std::optional<CutShort> cut;            // it was cancelled, to end so
  std::vector<int> input_tokens;          // of each message of its input
  std::optional<int> tool_tokens;         // of the functions that it lists
  TimePoint patience = TimePoint::max();  // tries to run until then
  Admitted admitted;                      // to be called when it is durable
  // Others that end for it, and how, when it is durable.
  std::vector<int64_t> cuts;
  CutShort cuts_how = CutShort::kForget;
  // Callbacks of the sender, one for each time it sent the message before the message was durable.
  std::vector<std::function<void(Result<Acceptance>)>> senders;
};

// An operation on a dialog that must run between turns.
struct Barrier {
  int64_t after = 0;            // the turn that must have ended; 0: as soon as none runs
  std::function<void()> begin;  // it ends with SessionActor::BarrierEnded()
};

// Data of an ended turn, kept in case its message is repeated.
struct KnownTurn {
  std::string response_id;
  int64_t fingerprint = 0;  // of the message (message.h)
};

struct Session {
  explicit Session(SessionKey k) : key(std::move(k)) {}

  const SessionKey key;
  bool loaded = false;
  std::vector<std::function<void(Status)>> when_loaded;

  // State of the dialog in the store.
  int64_t dialog = 0;  // its id; 0: it has no row
  int64_t version = 0;
  int64_t first_place = 1;  // of the last prompt
  int64_t next_place = 1;
  std::string system_prompt;
  Profile profile;
  std::vector<Item> items;  // from first_place on, in order of place
  int64_t used_s = 0;

  // The last system prompt whose tokens were counted, and the model whose tokenizer counted them.
  std::string counted_system, counted_model;
  int system_tokens = 0;

  std::unique_ptr<TurnQueue> queue;
  std::map<int64_t, Turn> turns;       // that wait or run
  std::map<int64_t, KnownTurn> known;  // those that are remembered
  std::deque<Barrier> barriers;
  bool barrier_runs = false;
  int pending = 0;       // what comes back here: the session stays
  int new_prompts = 0;   // system prompts on their way to the disk
  int new_metadata = 0;  // metadata on its way to the disk; each stored change raises the version

  bool in_idle = false;  // Residency's: in its list of idle ones, here
  std::list<SessionKey>::iterator idle_place = {};

  bool idle() const {
    return loaded && turns.empty() && barriers.empty() && !barrier_runs && pending == 0;
  }
};

// Residency: the sessions in memory. Active sessions stay; idle ones beyond a limit are evicted,
// least recently used first, because the store has all of them. The number of active sessions is
// bounded, per tenant and in total.
class Residency {
 public:
  struct Limits {
    size_t idle = 100;
    size_t active = 4096;
    size_t active_per_tenant = 1000;
  };
  explicit Residency(const Limits& limits) : limits_(limits) {}

  // Returns the session and makes it, not yet loaded, if it is not in memory. It is active until
  // Settle(). Errors: tenant_concurrency, overloaded (too many active sessions).
  Result<std::shared_ptr<Session>> Use(const SessionKey& key);
  std::shared_ptr<Session> Find(const SessionKey& key) const;
  // If the session is idle now, makes it the most recently used idle session and evicts the oldest
  // ones beyond the limit. A session without a row in the store is dropped at once.
  void Settle(const std::shared_ptr<Session>& session);
  void Remove(const std::shared_ptr<Session>& session);
  // Drops idle sessions that have not been used since `before_s`.
  void RemoveUnused(int64_t before_s, int64_t conversations_before_s);

  template <typename F>
  void ForEach(F&& f) const {
    for (const auto& [key, session] : sessions_) f(session);
  }
  size_t size() const { return sessions_.size(); }
  size_t idle() const { return idle_.size(); }

 private:
  void Awake(Session& session);

  const Limits limits_;
  std::map<SessionKey, std::shared_ptr<Session>> sessions_;
  std::list<SessionKey> idle_;            // the least recently used first
  std::map<std::string, size_t> active_;  // by tenant
};

}  // namespace tutti::sessions
